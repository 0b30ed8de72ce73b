/*
 * What the files that make up a push share. Not for users: they get it as ep_push_pyroscope.
 *
 *   push_pyroscope.c  the request
 *   push_pprof.c      the profile in it: names, and strings that are UTF-8
 */
#ifndef EP_PUSH_H
#define EP_PUSH_H

#include "transport.h"

/* Head of a length-delimited protobuf field. Context: deliver. */
void ep_put_head(struct ep_sink *sink, unsigned field, uint64_t size);

/* The bytes, with '?' in place of each that belongs to no UTF-8 character: servers refuse what is not UTF-8.
 * Context: deliver. */
void ep_put_utf8(struct ep_sink *sink, const char *bytes, size_t size);

/* Finds the message's names, when there is who knows some. Context: deliver. */
void ep_pprof_prepare(const struct ep_names *names, const struct ep_message *message,
                      const struct ep_deadline *deadline);

/* Writes the message as it is to be sent, as often as you like the same. Context: deliver. */
void ep_pprof_write(const struct ep_names *names, const struct ep_message *message, struct ep_sink *sink);

#endif
