/*
 * The interface of core/environment: what its files share with each other and with the readers of features.
 */
#ifndef EP_ENVIRONMENT_H
#define EP_ENVIRONMENT_H

#include <edgeprof/edgeprof.h>
#include "core/sample/profiler.h"

/* Value of a hexadecimal digit, -1: c is none. Context: init. */
static inline int ep_hex_digit(int c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Fills config->headers from the environment if it is NULL, and rejects headers that are not allowed. pyroscope:
 * Pyroscope's variable gave the endpoint. Returns 0 or -EINVAL. Context: init. */
int ep_environment_headers(struct ep_config *config, bool pyroscope);

/* Reads a variable that must be one of the words, each with its '\0', the last with two. *place is the word's place
 * from 1 on, 0: the variable is not set. `must` is the error's text. Returns 0 or -EINVAL. Context: init. */
int ep_environment_word(const char *name, const char *words, const char *must, int *place);

/* Reads a switch into *on; *set: the variable is set. Accepts the same words as Pyroscope. Returns 0 or -EINVAL.
 * Context: init. */
int ep_environment_switch(const char *name, bool *set, bool *on);

/* Fills service, tags and kinds, where they are empty, from Pyroscope's and OpenTelemetry's variables. The texts stay
 * until the next call. Returns 0 or -EINVAL. Context: init. */
int ep_environment_others(struct ep_config *config);

#endif
