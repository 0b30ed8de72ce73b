/* See evict.h. The list is ordered by the time when waiting began; the first place that is not busy is evicted. */
#include "tools/serve/http/evict.h"
#include "tools/lib/util.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

struct et_place {
    struct et_place *before, *after;
    int fd;
    bool busy, gone;
};

struct et_evictor {
    pthread_mutex_t lock;
    struct et_place ends; /* a ring */
    unsigned count, limit;
};

struct et_evictor *et_evictor_new(unsigned limit)
{
    struct et_evictor *evictor = et_alloc(1, sizeof *evictor);
    pthread_mutex_init(&evictor->lock, NULL);
    evictor->ends.before = evictor->ends.after = &evictor->ends;
    evictor->limit = limit;
    return evictor;
}

void et_evictor_free(struct et_evictor *evictor)
{
    if (evictor) {
        pthread_mutex_destroy(&evictor->lock);
        free(evictor);
    }
}

static void unlink_place(struct et_place *place)
{
    place->before->after = place->after;
    place->after->before = place->before;
}

static void append_place(struct et_evictor *evictor, struct et_place *place)
{
    place->before = evictor->ends.before;
    place->after = &evictor->ends;
    place->before->after = place->after->before = place;
}

static void shut_down_first_waiting(struct et_evictor *evictor)
{
    for (struct et_place *place = evictor->ends.after; place != &evictor->ends; place = place->after) {
        if (!place->busy && !place->gone) {
            place->gone = true;
            evictor->count--;
            shutdown(place->fd, SHUT_RDWR);
            return;
        }
    }
}

struct et_place *et_evictor_enter(struct et_evictor *evictor, int fd)
{
    struct et_place *place = et_alloc(1, sizeof *place);
    place->fd = fd;
    pthread_mutex_lock(&evictor->lock);
    if (evictor->count >= evictor->limit) {
        shut_down_first_waiting(evictor);
    }
    append_place(evictor, place);
    evictor->count++;
    pthread_mutex_unlock(&evictor->lock);
    return place;
}

void et_evictor_leave(struct et_evictor *evictor, struct et_place *place)
{
    pthread_mutex_lock(&evictor->lock);
    evictor->count -= !place->gone;
    unlink_place(place);
    pthread_mutex_unlock(&evictor->lock);
    free(place);
}

void et_evictor_busy(struct et_evictor *evictor, struct et_place *place, bool busy)
{
    pthread_mutex_lock(&evictor->lock);
    place->busy = busy;
    unlink_place(place);
    append_place(evictor, place);
    pthread_mutex_unlock(&evictor->lock);
}
