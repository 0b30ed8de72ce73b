/* See crowd.h. A list in the order in which waiting began: the first that is not busy goes. */
#include "crowd.h"
#include "util.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

struct et_place {
    struct et_place *before, *after;
    int fd;
    bool busy, gone;
};

struct et_crowd {
    pthread_mutex_t lock;
    struct et_place ends; /* of a ring */
    unsigned count, limit;
};

struct et_crowd *et_crowd_new(unsigned limit)
{
    struct et_crowd *crowd = et_alloc(1, sizeof *crowd);
    pthread_mutex_init(&crowd->lock, NULL);
    crowd->ends.before = crowd->ends.after = &crowd->ends;
    crowd->limit = limit;
    return crowd;
}

void et_crowd_free(struct et_crowd *crowd)
{
    if (crowd) {
        pthread_mutex_destroy(&crowd->lock);
        free(crowd);
    }
}

static void take_out(struct et_place *place)
{
    place->before->after = place->after;
    place->after->before = place->before;
}

static void put_last(struct et_crowd *crowd, struct et_place *place)
{
    place->before = crowd->ends.before;
    place->after = &crowd->ends;
    place->before->after = place->after->before = place;
}

static void send_one_away(struct et_crowd *crowd)
{
    for (struct et_place *place = crowd->ends.after; place != &crowd->ends; place = place->after) {
        if (!place->busy && !place->gone) {
            place->gone = true;
            crowd->count--;
            shutdown(place->fd, SHUT_RDWR);
            return;
        }
    }
}

struct et_place *et_crowd_enter(struct et_crowd *crowd, int fd)
{
    struct et_place *place = et_alloc(1, sizeof *place);
    place->fd = fd;
    pthread_mutex_lock(&crowd->lock);
    if (crowd->count >= crowd->limit) {
        send_one_away(crowd);
    }
    put_last(crowd, place);
    crowd->count++;
    pthread_mutex_unlock(&crowd->lock);
    return place;
}

void et_crowd_leave(struct et_crowd *crowd, struct et_place *place)
{
    pthread_mutex_lock(&crowd->lock);
    crowd->count -= !place->gone;
    take_out(place);
    pthread_mutex_unlock(&crowd->lock);
    free(place);
}

void et_crowd_busy(struct et_crowd *crowd, struct et_place *place, bool busy)
{
    pthread_mutex_lock(&crowd->lock);
    place->busy = busy;
    take_out(place);
    put_last(crowd, place);
    pthread_mutex_unlock(&crowd->lock);
}
