/*
 * Room in memory that many threads share: each takes what it may need at most, gives back what it does not, and waits
 * or goes away when there is none. A hundred senders whose few KiB inflate to 32 MiB each come one after the other.
 */
#ifndef ET_ROOM_H
#define ET_ROOM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct et_room {
    pthread_mutex_t lock;
    pthread_cond_t given_back;
    size_t left, size;
};

/* What one has taken. All 0: nothing. */
struct et_share {
    struct et_room *room;
    size_t bytes;
};

void et_room_init(struct et_room *room, size_t size);
void et_room_destroy(struct et_room *room);

/* Takes more, or nothing: false when it is not there. */
bool et_room_try(struct et_room *room, struct et_share *share, size_t more);
/* Takes so much at once, waiting for it; more than there is altogether is all of it. The share must be empty: who
 * holds some while he waits could wait forever. */
void et_room_take(struct et_room *room, struct et_share *share, size_t bytes);
/* Gives back all but so much. */
void et_room_keep(struct et_share *share, size_t bytes);

#endif
