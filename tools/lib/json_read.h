/*
 * Reading JSON that others have sent, with jansson, and base64 both ways. JSON is read within bounds: a few bytes on
 * the wire can ask for much memory (empty arrays) and for much of the stack (nested ones), and a server must survive
 * both.
 */
#ifndef ET_JSON_READ_H
#define ET_JSON_READ_H

#include "tools/lib/util.h"

#include <jansson.h>

enum { ET_JSON_DEPTH = 32, ET_JSON_VALUES = 200000 };

/* The value that the text is, to be given back by json_decref(). NULL: no JSON, nested deeper than ET_JSON_DEPTH, or of
 * more than ET_JSON_VALUES values; *why says so, and where. Keys that come twice have their last value. */
json_t *et_json_read(const char *text, size_t size, struct et_buf *why);

/* A member that is a string; NULL when it is absent, null or something else. */
const char *et_json_text(const json_t *object, const char *name);

/* Appends what base64 stands for; both alphabets, with '=' at the end or without, as protobuf's JSON has it. False: it
 * is none. */
bool et_base64(const char *text, size_t size, struct et_buf *out);
/* Appends the bytes as base64, padded. */
void et_base64_put(struct et_buf *out, const void *bytes, size_t size);

#endif
