/* Limits per sender, by address: profiles per second and simultaneous connections. An IPv6 sender is a /64 network. */
#ifndef ET_RATE_LIMIT_H
#define ET_RATE_LIMIT_H

#include "tools/lib/util.h"

#include <sys/socket.h>

struct et_rate_limit;

/* rate: profiles per second, with bursts of ten seconds' worth; 0: unlimited. */
struct et_rate_limit *et_rate_limit_new(uint64_t rate);
void et_rate_limit_free(struct et_rate_limit *rate_limit);

/* Whether the sender may send one more profile now; charges it. Context: any thread. */
bool et_rate_limit_allows(struct et_rate_limit *rate_limit, const struct sockaddr *address, int64_t now_ms);
/* Charges further profiles of a request; the balance may become negative. Context: any thread. */
void et_rate_limit_charge(struct et_rate_limit *rate_limit, const struct sockaddr *address, uint64_t count);

/* Adds `change` to a sender's open connections and returns their number. Context: any thread. */
uint64_t et_rate_limit_connections(struct et_rate_limit *rate_limit, const struct sockaddr *address, int change);

/* The address without its port, "10.0.0.7". */
void et_sender_text(const struct sockaddr *address, char text[64]);
bool et_sender_is_loopback(const struct sockaddr *address);

#endif
