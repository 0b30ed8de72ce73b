/* See rate_limit.h. Each sender has a token bucket: it fills at the rate, and each profile takes one token. */
#include "tools/serve/http/rate_limit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With more senders all buckets are dropped, so each sender starts with a full one. */
enum { SENDERS_MAX = 65536, BURST_SECONDS = 10 };

struct token_bucket {
    double left;
    int64_t filled_ms;
    bool used;
};

struct et_rate_limit {
    pthread_mutex_t lock;
    uint64_t rate;
    struct et_map places; /* key -> bucket + 1 */
    struct token_bucket *buckets;
    size_t count, capacity;
    struct et_map open; /* key -> connections */
};

struct et_rate_limit *et_rate_limit_new(uint64_t rate)
{
    struct et_rate_limit *rate_limit = et_alloc(1, sizeof *rate_limit);
    pthread_mutex_init(&rate_limit->lock, NULL);
    rate_limit->rate = rate;
    return rate_limit;
}

void et_rate_limit_free(struct et_rate_limit *rate_limit)
{
    if (rate_limit) {
        pthread_mutex_destroy(&rate_limit->lock);
        et_map_free(&rate_limit->places);
        et_map_free(&rate_limit->open);
        free(rate_limit->buckets);
        free(rate_limit);
    }
}

/* An IPv4 address mapped to IPv6 counts as IPv4. */
static uint64_t sender_key(const struct sockaddr *address)
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

static struct token_bucket *find_bucket(struct et_rate_limit *rate_limit, const struct sockaddr *address)
{
    if (rate_limit->count >= SENDERS_MAX) {
        et_map_free(&rate_limit->places);
        rate_limit->count = 0;
    }
    uint64_t *place = et_map_at(&rate_limit->places, sender_key(address));
    if (!*place) {
        rate_limit->buckets =
            et_reserve(rate_limit->buckets, &rate_limit->capacity, rate_limit->count + 1, sizeof *rate_limit->buckets);
        rate_limit->buckets[rate_limit->count] =
            (struct token_bucket){.left = (double)rate_limit->rate * BURST_SECONDS};
        *place = ++rate_limit->count;
    }
    return &rate_limit->buckets[*place - 1];
}

bool et_rate_limit_allows(struct et_rate_limit *rate_limit, const struct sockaddr *address, int64_t now_ms)
{
    if (!rate_limit->rate) {
        return true;
    }
    pthread_mutex_lock(&rate_limit->lock);
    struct token_bucket *bucket = find_bucket(rate_limit, address);
    double most = (double)rate_limit->rate * BURST_SECONDS;
    if (bucket->used && now_ms > bucket->filled_ms) {
        bucket->left += (double)(now_ms - bucket->filled_ms) * (double)rate_limit->rate / 1000;
        bucket->left = bucket->left < most ? bucket->left : most;
    }
    bucket->used = true;
    bucket->filled_ms = now_ms;
    bool ok = bucket->left >= 1;
    bucket->left -= ok;
    pthread_mutex_unlock(&rate_limit->lock);
    return ok;
}

void et_rate_limit_charge(struct et_rate_limit *rate_limit, const struct sockaddr *address, uint64_t count)
{
    if (rate_limit->rate) {
        pthread_mutex_lock(&rate_limit->lock);
        find_bucket(rate_limit, address)->left -= (double)count;
        pthread_mutex_unlock(&rate_limit->lock);
    }
}

/* Drops senders without a connection when there are too many entries. */
static void drop_senders_without_connection(struct et_rate_limit *rate_limit)
{
    struct et_map kept = {0};
    for (size_t i = 0; rate_limit->open.count > SENDERS_MAX && i < rate_limit->open.capacity; i++) {
        const struct et_map_entry *entry = &rate_limit->open.entries[i];
        if (entry->used && entry->value) {
            *et_map_at(&kept, entry->key) = entry->value;
        }
    }
    if (rate_limit->open.count > SENDERS_MAX) {
        et_map_free(&rate_limit->open);
        rate_limit->open = kept;
    }
}

uint64_t et_rate_limit_connections(struct et_rate_limit *rate_limit, const struct sockaddr *address, int change)
{
    pthread_mutex_lock(&rate_limit->lock);
    drop_senders_without_connection(rate_limit);
    uint64_t *open = et_map_at(&rate_limit->open, sender_key(address));
    *open += (uint64_t)(int64_t)change;
    uint64_t now = *open;
    pthread_mutex_unlock(&rate_limit->lock);
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
