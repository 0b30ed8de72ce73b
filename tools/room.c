/* See room.h. */
#include "room.h"

void et_room_init(struct et_room *room, size_t size)
{
    *room = (struct et_room){.left = size, .size = size};
    pthread_mutex_init(&room->lock, NULL);
    pthread_cond_init(&room->given_back, NULL);
}

void et_room_destroy(struct et_room *room)
{
    pthread_mutex_destroy(&room->lock);
    pthread_cond_destroy(&room->given_back);
}

bool et_room_try(struct et_room *room, struct et_share *share, size_t more)
{
    pthread_mutex_lock(&room->lock);
    bool there = room->left >= more;
    if (there) {
        room->left -= more;
        share->room = room;
        share->bytes += more;
    }
    pthread_mutex_unlock(&room->lock);
    return there;
}

void et_room_take(struct et_room *room, struct et_share *share, size_t bytes)
{
    bytes = bytes < room->size ? bytes : room->size;
    pthread_mutex_lock(&room->lock);
    while (room->left < bytes) {
        pthread_cond_wait(&room->given_back, &room->lock);
    }
    room->left -= bytes;
    *share = (struct et_share){room, bytes};
    pthread_mutex_unlock(&room->lock);
}

void et_room_keep(struct et_share *share, size_t bytes)
{
    struct et_room *room = share->room;
    if (room && bytes < share->bytes) {
        pthread_mutex_lock(&room->lock);
        room->left += share->bytes - bytes;
        share->bytes = bytes;
        pthread_cond_broadcast(&room->given_back);
        pthread_mutex_unlock(&room->lock);
    }
}
