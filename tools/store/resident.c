/* See resident.h. */
#include "tools/store/resident.h"

#include <stdlib.h>

/* 600,000 nodes with frames of their own. */
enum { BYTES_MOST = 32 << 20 };

struct et_residents {
    pthread_mutex_t lock;
    struct et_resident *current;
};

static struct et_resident *new_resident(void)
{
    struct et_resident *resident = et_alloc(1, sizeof *resident);
    pthread_mutex_init(&resident->lock, NULL);
    et_intern(&resident->strings, "");
    resident->users = 1;
    return resident;
}

static void free_resident(struct et_resident *resident)
{
    et_pages_free(&resident->nodes);
    et_pages_free(&resident->frames);
    et_pages_free(&resident->modules);
    et_strings_free(&resident->strings);
    pthread_mutex_destroy(&resident->lock);
    free(resident);
}

struct et_residents *et_residents_new(void)
{
    struct et_residents *residents = et_alloc(1, sizeof *residents);
    pthread_mutex_init(&residents->lock, NULL);
    residents->current = new_resident();
    return residents;
}

void et_residents_free(struct et_residents *residents)
{
    if (residents) {
        free_resident(residents->current);
        pthread_mutex_destroy(&residents->lock);
        free(residents);
    }
}

static bool is_large(struct et_resident *resident)
{
    pthread_mutex_lock(&resident->lock);
    size_t bytes = resident->nodes.bytes + resident->frames.bytes + resident->modules.bytes +
                   et_strings_memory(&resident->strings);
    pthread_mutex_unlock(&resident->lock);
    return bytes > BYTES_MOST;
}

static void drop_user(struct et_resident *resident)
{
    if (--resident->users == 0) {
        free_resident(resident);
    }
}

struct et_resident *et_resident_take(struct et_residents *residents)
{
    if (!residents) {
        return new_resident();
    }
    pthread_mutex_lock(&residents->lock);
    struct et_resident *taken = residents->current;
    taken->users++;
    pthread_mutex_unlock(&residents->lock);
    return taken;
}

void et_resident_release(struct et_residents *residents, struct et_resident *resident)
{
    if (!residents) {
        free_resident(resident);
        return;
    }
    pthread_mutex_lock(&residents->lock);
    if (resident == residents->current && is_large(resident)) {
        drop_user(resident);
        residents->current = new_resident();
    }
    drop_user(resident);
    pthread_mutex_unlock(&residents->lock);
}
