/*
 * Limits of one sender, by address: profiles a second and connections at once. An IPv6 sender is a network of 64 bits.
 */
#ifndef ET_RATE_LIMIT_H
#define ET_RATE_LIMIT_H

#include "tools/lib/util.h"

#include <sys/socket.h>

struct et_rate_limit;

/* rate: profiles a second, ten seconds' worth at once; 0: any. */
struct et_rate_limit *et_rate_limit_new(uint64_t rate);
void et_rate_limit_free(struct et_rate_limit *rate_limit);

/* Whether this sender may send one more now; takes it off what he has. Context: any thread. */
bool et_rate_limit_allows(struct et_rate_limit *rate_limit, const struct sockaddr *address, int64_t now_ms);
/* Takes off more, which he may owe: what a request turned out to hold. Context: any thread. */
void et_rate_limit_charge(struct et_rate_limit *rate_limit, const struct sockaddr *address, uint64_t count);

/* Adds to a sender's open connections, or takes off; returns how many there are. Context: any thread. */
uint64_t et_rate_limit_connections(struct et_rate_limit *rate_limit, const struct sockaddr *address, int change);

/* An address without its port, "10.0.0.7". */
void et_sender_text(const struct sockaddr *address, char text[64]);
bool et_sender_is_loopback(const struct sockaddr *address);

#endif
