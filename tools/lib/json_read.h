/*
 * Reading JSON from outside with jansson; base64 in both directions.
 *
 * A few bytes of JSON can require much memory (empty arrays) or much stack (nested arrays). Limits on depth and number
 * of values protect the server.
 */
#ifndef ET_JSON_READ_H
#define ET_JSON_READ_H

#include "tools/lib/util.h"

#include <jansson.h>

enum { ET_JSON_DEPTH = 32, ET_JSON_VALUES = 200000 };

/* Parses the text; json_decref() the result. NULL: not JSON, nested deeper than ET_JSON_DEPTH, or more than
 * ET_JSON_VALUES values; *why says which, and where. The last of several equal keys wins. */
json_t *et_json_read(const char *text, size_t size, struct et_buf *why);

/* The same with at most `values` values, for a text whose writer bounds it. */
json_t *et_json_read_most(const char *text, size_t size, size_t values, struct et_buf *why);

/* Cleans all strings of a value that was read (et_clean), for text that a person reads. */
void et_json_clean(json_t *value);

/* A member that is a string. NULL: absent, null or of another type. */
const char *et_json_text(const json_t *object, const char *name);
/* The same, but "" instead of NULL. */
const char *et_json_words(const json_t *object, const char *name);

/* Appends the decoded bytes. Accepts both alphabets, with or without '=' at the end, as protobuf's JSON mapping does.
 * False: not base64. */
bool et_base64(const char *text, size_t size, struct et_buf *out);
/* Appends the bytes as base64, padded. */
void et_base64_put(struct et_buf *out, const void *bytes, size_t size);

#endif
