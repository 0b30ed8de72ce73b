/*
 * See bounds.h. Known names are a set of strings: "s" and a service, "t" and a service with its tags, "k" and a label,
 * "v" and a label with its value. Beside each service and label is its number of tag sets or values; "K" has the number
 * of labels.
 */
#include "tools/store/bounds.h"
#include "tools/lib/labels.h"
#include "tools/lib/time_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum line { SERVICES, SERIES, VALUES, LABELS, NAME, VALUE, FUTURE, PAST, LINES };

struct et_bounds {
    struct et_bounds_config limit;
    struct et_strings known;
    struct et_map counts; /* string -> number of tag sets or values */
    uint64_t services;
    char lines[LINES][128];
};

struct et_bounds *et_bounds_new(const struct et_bounds_config *config)
{
    static const char *const forms[LINES] = {
        [SERVICES] = "too many services: more than %llu, see services in [limits]",
        [SERIES] = "too many tag sets: more than %llu per service, see series in [limits]",
        [VALUES] = "too many values of one label, or labels: more than %llu, see label-values in [limits]",
        [LABELS] = "more than %llu labels at once, see labels in [limits]",
        [NAME] = "a label's name is longer than %llu bytes, see label-name in [limits]",
        [VALUE] = "a label's value or a service's name is longer than %llu bytes, see label-value in [limits]",
        [FUTURE] = "more than %llu s in the future, see future in [limits]; is the sender's clock right?",
        [PAST] = "more than %llu s old, see past in [limits]",
    };
    struct et_bounds *bounds = et_alloc(1, sizeof *bounds);
    bounds->limit = *config;
    const uint64_t numbers[LINES] = {
        [SERVICES] = config->services,
        [SERIES] = config->series,
        [VALUES] = config->label_values,
        [LABELS] = config->labels,
        [NAME] = config->name_bytes,
        [VALUE] = config->value_bytes,
        [FUTURE] = (uint64_t)config->future_ns / 1000000000,
        [PAST] = (uint64_t)config->past_ns / 1000000000,
    };
    for (size_t i = 0; i < LINES; i++) {
        struct et_buf line = {0};
        const char *number = strstr(forms[i], "%llu");
        et_buf_add(&line, forms[i], (size_t)(number - forms[i]));
        et_buf_printf(&line, "%llu%s", (unsigned long long)numbers[i], number + strlen("%llu"));
        snprintf(bounds->lines[i], sizeof bounds->lines[i], "%s", line.data);
        et_buf_free(&line);
    }
    return bounds;
}

void et_bounds_free(struct et_bounds *bounds)
{
    if (bounds) {
        et_strings_free(&bounds->known);
        et_map_free(&bounds->counts);
        free(bounds);
    }
}

enum et_outcome et_bounds_outcome(const char *refused)
{
    return strncmp(refused, "too many ", strlen("too many ")) == 0 ? ET_LIMITED : ET_MALFORMED;
}

/* ---- series ---- */

/* Adds the name. Returns whether it was new. */
static bool add_known(struct et_bounds *bounds, char type, const char *text, const char *more, uint32_t *number)
{
    struct et_buf key = {0};
    et_buf_printf(&key, "%c%s\n%s", type, text, more);
    size_t before = bounds->known.count;
    *number = et_intern(&bounds->known, key.data);
    et_buf_free(&key);
    return bounds->known.count > before;
}

static bool is_known(const struct et_bounds *bounds, char type, const char *text, const char *more)
{
    struct et_buf key = {0};
    et_buf_printf(&key, "%c%s\n%s", type, text, more);
    bool known = et_known(&bounds->known, key.data);
    et_buf_free(&key);
    return known;
}

/* The number of known tag sets of a service, or values of a label. */
static uint64_t *known_count(struct et_bounds *bounds, char type, const char *text)
{
    uint32_t number;
    add_known(bounds, type, text, "", &number);
    return et_map_at(&bounds->counts, number);
}

static void note_series(struct et_bounds *bounds, const char *service, const char *tags)
{
    uint32_t number;
    bounds->services += add_known(bounds, 's', service, "", &number);
    *known_count(bounds, 's', service) += add_known(bounds, 't', service, tags, &number);
}

struct label_check {
    struct et_bounds *bounds;
    uint64_t labels;
    const char *wrong;
    bool values;
};

static void check_label(void *context, const char *key, const char *value)
{
    struct label_check *check = context;
    struct et_bounds *bounds = check->bounds;
    const struct et_bounds_config *limit = &bounds->limit;
    check->labels++;
    if (limit->labels && check->labels > limit->labels) {
        check->wrong = bounds->lines[LABELS];
    } else if (limit->name_bytes && strlen(key) > limit->name_bytes) {
        check->wrong = bounds->lines[NAME];
    } else if (limit->value_bytes && strlen(value) > limit->value_bytes) {
        check->wrong = bounds->lines[VALUE];
    } else if (check->values && limit->label_values && !is_known(bounds, 'v', key, value)) {
        uint64_t there =
            is_known(bounds, 'k', key, "") ? *known_count(bounds, 'k', key) : *known_count(bounds, 'K', "");
        check->wrong = there >= limit->label_values ? bounds->lines[VALUES] : check->wrong;
    }
}

const char *et_bounds_series(struct et_bounds *bounds, const char *service, const char *tags)
{
    struct label_check check = {.bounds = bounds};
    if (!bounds || is_known(bounds, 't', service, tags)) {
        return NULL;
    }
    et_labels_each(tags, check_label, &check);
    if (check.wrong) {
        return check.wrong;
    }
    if (bounds->limit.value_bytes && strlen(service) > bounds->limit.value_bytes) {
        return bounds->lines[VALUE];
    }
    bool known = is_known(bounds, 's', service, "");
    if (bounds->limit.services && !known && bounds->services >= bounds->limit.services) {
        return bounds->lines[SERVICES];
    }
    if (bounds->limit.series && known && *known_count(bounds, 's', service) >= bounds->limit.series) {
        return bounds->lines[SERIES];
    }
    note_series(bounds, service, tags);
    return NULL;
}

/* ---- labels of stacks ---- */

static void note_label(void *context, const char *key, const char *value)
{
    struct et_bounds *bounds = context;
    uint32_t number;
    *known_count(bounds, 'K', "") += add_known(bounds, 'k', key, "", &number);
    *known_count(bounds, 'k', key) += add_known(bounds, 'v', key, value, &number);
}

const char *et_bounds_labels(struct et_bounds *bounds, const char *lines)
{
    struct label_check check = {.bounds = bounds, .values = true};
    if (!bounds) {
        return NULL;
    }
    et_labels_each(lines, check_label, &check);
    if (!check.wrong) {
        et_labels_each(lines, note_label, bounds);
    }
    return check.wrong;
}

/* ---- time ---- */

const char *et_bounds_time(struct et_bounds *bounds, int64_t from_ns, int64_t until_ns)
{
    int64_t now = et_now();
    if (bounds && bounds->limit.future_ns &&
        (from_ns > now + bounds->limit.future_ns || until_ns > now + bounds->limit.future_ns)) {
        return bounds->lines[FUTURE];
    }
    return bounds && bounds->limit.past_ns && until_ns < now - bounds->limit.past_ns ? bounds->lines[PAST] : NULL;
}

/* ---- existing names ---- */

static void add_known_series(void *context, const char *service, const char *tags)
{
    note_series(context, service, tags);
}

static void add_known_labels(void *context, const char *lines)
{
    et_labels_each(lines, note_label, context);
}

int et_bounds_load(struct et_bounds *bounds, struct et_store *store)
{
    int err = et_store_all_tags(store, add_known_series, bounds);
    return err ? err : et_store_all_labels(store, add_known_labels, bounds);
}
