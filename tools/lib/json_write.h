/*
 * Writing JSON.
 */
#ifndef ET_JSON_WRITE_H
#define ET_JSON_WRITE_H

#include "tools/lib/util.h"
#include "tools/lib/json_write.h"

/* A quoted string; safe inside an HTML script element, too. */
void et_json_string(struct et_buf *out, const char *text);
/* The title of a kind, as a string. */
void et_json_title(struct et_buf *out, const char *kind);

/* ,"name":"text", the text cleaned. */
void et_json_clean_field(struct et_buf *out, const char *name, const char *text);

/* Seconds since 1970 with milliseconds. */
void et_json_seconds(struct et_buf *out, int64_t ns);

#endif
