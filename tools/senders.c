/* See senders.h. A bucket a sender: it fills with his rate, and each profile takes one out. */
#include "senders.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More senders than that at once, and all are forgotten: their buckets are full again. */
enum { SENDERS_MAX = 65536, BURST_SECONDS = 10 };

struct bucket {
    double left;
    int64_t filled_ms;
    bool used;
};

struct et_senders {
    pthread_mutex_t lock;
    uint64_t rate;
    struct et_map places; /* key -> bucket + 1 */
    struct bucket *buckets;
    size_t count, capacity;
    struct et_map open; /* key -> connections */
};

struct et_senders *et_senders_new(uint64_t rate)
{
    struct et_senders *senders = et_alloc(1, sizeof *senders);
    pthread_mutex_init(&senders->lock, NULL);
    senders->rate = rate;
    return senders;
}

void et_senders_free(struct et_senders *senders)
{
    if (senders) {
        pthread_mutex_destroy(&senders->lock);
        et_map_free(&senders->places);
        et_map_free(&senders->open);
        free(senders->buckets);
        free(senders);
    }
}

/* IPv4 within IPv6 is IPv4. */
static uint64_t key_of(const struct sockaddr *address)
{
    uint64_t key = 0;
    if (address->sa_family == AF_INET) {
        return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    }
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(six);
        memcpy(&key, six->s6_addr + (mapped ? 12 : 0), mapped ? 4 : 8);
    }
    return key;
}

static struct bucket *bucket_of(struct et_senders *senders, const struct sockaddr *address)
{
    if (senders->count >= SENDERS_MAX) {
        et_map_free(&senders->places);
        senders->count = 0;
    }
    uint64_t *place = et_map_at(&senders->places, key_of(address));
    if (!*place) {
        senders->buckets =
            et_reserve(senders->buckets, &senders->capacity, senders->count + 1, sizeof *senders->buckets);
        senders->buckets[senders->count] = (struct bucket){.left = (double)senders->rate * BURST_SECONDS};
        *place = ++senders->count;
    }
    return &senders->buckets[*place - 1];
}

bool et_senders_take(struct et_senders *senders, const struct sockaddr *address, int64_t now_ms)
{
    if (!senders->rate) {
        return true;
    }
    pthread_mutex_lock(&senders->lock);
    struct bucket *bucket = bucket_of(senders, address);
    double most = (double)senders->rate * BURST_SECONDS;
    if (bucket->used && now_ms > bucket->filled_ms) {
        bucket->left += (double)(now_ms - bucket->filled_ms) * (double)senders->rate / 1000;
        bucket->left = bucket->left < most ? bucket->left : most;
    }
    bucket->used = true;
    bucket->filled_ms = now_ms;
    bool ok = bucket->left >= 1;
    bucket->left -= ok;
    pthread_mutex_unlock(&senders->lock);
    return ok;
}

void et_senders_charge(struct et_senders *senders, const struct sockaddr *address, uint64_t count)
{
    if (senders->rate) {
        pthread_mutex_lock(&senders->lock);
        bucket_of(senders, address)->left -= (double)count;
        pthread_mutex_unlock(&senders->lock);
    }
}

/* Without the senders that have no connection, when there are many. */
static void forget_closed(struct et_senders *senders)
{
    struct et_map kept = {0};
    for (size_t i = 0; senders->open.count > SENDERS_MAX && i < senders->open.capacity; i++) {
        const struct et_map_entry *entry = &senders->open.entries[i];
        if (entry->used && entry->value) {
            *et_map_at(&kept, entry->key) = entry->value;
        }
    }
    if (senders->open.count > SENDERS_MAX) {
        et_map_free(&senders->open);
        senders->open = kept;
    }
}

uint64_t et_senders_open(struct et_senders *senders, const struct sockaddr *address, int change)
{
    pthread_mutex_lock(&senders->lock);
    forget_closed(senders);
    uint64_t *open = et_map_at(&senders->open, key_of(address));
    *open += (uint64_t)(int64_t)change;
    uint64_t now = *open;
    pthread_mutex_unlock(&senders->lock);
    return now;
}

void et_sender_text(const struct sockaddr *address, char text[64])
{
    const void *bytes = address->sa_family == AF_INET6
                            ? (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;
    if (!inet_ntop(address->sa_family, bytes, text, 64)) {
        snprintf(text, 64, "?");
    }
}

bool et_sender_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    }
    if (address->sa_family != AF_INET6) {
        return false;
    }
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}
