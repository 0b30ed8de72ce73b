/*
 * The list of features. A place is written once and emptied only by ep_feature_remove(), so a thread that walks through
 * the list sees each feature at most once. `used` covers all places that were ever taken.
 */
#include "core/sample/feature.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

static struct {
    atomic_uint used;
    _Atomic(const struct ep_feature *) place[EP_FEATURES];
} list;

static void used_raise(unsigned used)
{
    unsigned was = atomic_load(&list.used);

    while (was < used && !atomic_compare_exchange_weak(&list.used, &was, used))
        ;
}

static bool is_listed(const struct ep_feature *feature)
{
    unsigned i = 0;

    while (i < EP_FEATURES && atomic_load(&list.place[i]) != feature)
        i++;
    return i < EP_FEATURES;
}

int ep_feature_add(const struct ep_feature *feature)
{
    if (is_listed(feature)) /* perhaps behind a free place */
        return 0;
    for (unsigned i = 0; i < EP_FEATURES; i++) {
        const struct ep_feature *there = NULL;
        if (!atomic_compare_exchange_strong(&list.place[i], &there, feature) && there != feature)
            continue;
        used_raise(i + 1);
        return 0;
    }
    return -ENOSPC;
}

void ep_feature_remove(const struct ep_feature *feature)
{
    for (unsigned i = 0; i < EP_FEATURES; i++) {
        const struct ep_feature *there = feature;
        (void)atomic_compare_exchange_strong(&list.place[i], &there, NULL);
    }
}

void ep_features_aside(const struct ep_feature *aside[EP_FEATURES])
{
    for (unsigned i = 0; i < EP_FEATURES; i++) {
        aside[i] = atomic_load(&list.place[i]);
        if (aside[i] && !aside[i]->deliver)
            atomic_store(&list.place[i], NULL);
    }
}

void ep_features_back(const struct ep_feature *const aside[EP_FEATURES])
{
    for (unsigned i = 0; i < EP_FEATURES; i++)
        atomic_store(&list.place[i], aside[i]);
}

bool ep_feature_next(struct ep_feature_walk *walk, size_t offset)
{
    const unsigned used = atomic_load_explicit(&list.used, memory_order_acquire);

    while (walk->next < used) {
        void (*moment)(void) = NULL;
        walk->feature = atomic_load_explicit(&list.place[walk->next++], memory_order_acquire);
        if (walk->feature)
            memcpy(&moment, (const char *)walk->feature + offset, sizeof moment);
        if (moment)
            return true;
    }
    return false;
}

const struct ep_feature *ep_feature_with(size_t offset)
{
    struct ep_feature_walk walk = {0};

    return ep_feature_next(&walk, offset) ? walk.feature : NULL;
}
