/*
 * Private to the files of a push. Users have it as ep_push_pyroscope.
 *
 *   push_pyroscope.c  the request
 *   push_pprof.c      the profile in it: names, and valid UTF-8
 */
#ifndef EP_PUSH_H
#define EP_PUSH_H

#include "transport.h"

/* Writes the head of a length-delimited protobuf field. Context: deliver. */
void ep_put_head(struct ep_sink *sink, unsigned field, uint64_t size);

/* Writes the bytes, with '?' for each byte that is not part of valid UTF-8: servers reject other strings.
 * Context: deliver. */
void ep_put_utf8(struct ep_sink *sink, const char *bytes, size_t size);

/* Finds the names for a message, if names is not NULL. Context: deliver. */
void ep_pprof_prepare(const struct ep_names *names, const struct ep_message *message,
                      const struct ep_deadline *deadline);

/* Writes the message as it is sent. May be called repeatedly, with the same result. Context: deliver. */
void ep_pprof_write(const struct ep_names *names, const struct ep_message *message, struct ep_sink *sink);

#endif
