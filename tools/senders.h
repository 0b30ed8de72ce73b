/*
 * Senders by address: how many profiles a second, how many connections at once. An IPv6 sender is his network of 64
 * bits.
 */
#ifndef ET_SENDERS_H
#define ET_SENDERS_H

#include "util.h"

#include <sys/socket.h>

struct et_senders;

/* rate: profiles a second, ten seconds' worth at once; 0: any. */
struct et_senders *et_senders_new(uint64_t rate);
void et_senders_free(struct et_senders *senders);

/* Whether this sender may send one more now; takes it off what he has. Context: any thread. */
bool et_senders_take(struct et_senders *senders, const struct sockaddr *address, int64_t now_ms);
/* Takes off more, which he may owe: what a request turned out to hold. Context: any thread. */
void et_senders_charge(struct et_senders *senders, const struct sockaddr *address, uint64_t count);

/* Adds to a sender's open connections, or takes off; returns how many there are. Context: any thread. */
uint64_t et_senders_open(struct et_senders *senders, const struct sockaddr *address, int change);

/* An address without its port, "10.0.0.7". */
void et_sender_text(const struct sockaddr *address, char text[64]);
bool et_sender_is_loopback(const struct sockaddr *address);

#endif
