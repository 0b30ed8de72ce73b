/*
 * The layouts that OTLP profiles had: their messages have no version, and fields changed their numbers. otlp.proto has
 * the newest; for otlp_read.c.
 */
#ifndef ET_OTLP_LAYOUT_H
#define ET_OTLP_LAYOUT_H

#include "tools/lib/util.h"

/* Gives an encoded request of an earlier layout (opentelemetry-proto 1.8 or 1.9) today's field numbers, in *out; of
 * today's, *out stays empty. False: a layout that is not read, or one that cannot be told from another; *why names it
 * in one line. */
bool et_otlp_renumber(const void *bytes, size_t size, struct et_buf *out, struct et_buf *why);

/* The same for JSON, whose names say more: false for layouts that are not read. */
bool et_otlp_known_names(const char *text, size_t size, struct et_buf *why);

#endif
