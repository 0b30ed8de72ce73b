/* See json_read.h. Jansson limits depth (2,048), but not the number of values. */
#include "tools/lib/json_read.h"

#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

/* Checks depth and number of values by counting brackets and commas. The parser finds all other errors. False: *why
 * says which is exceeded. */
static bool is_within_bounds(const char *text, size_t size, size_t most, struct et_buf *why)
{
    size_t depth = 0, values = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c == '"') {
            quoted = !quoted;
        } else if (quoted) {
            i += c == '\\';
        } else if (c == '[' || c == '{') {
            depth++;
            values++;
        } else if (c == ']' || c == '}') {
            depth -= depth > 0;
        } else if (c == ',') {
            values++;
        }
        if (depth > ET_JSON_DEPTH) {
            et_buf_printf(why, "JSON nested deeper than %d", ET_JSON_DEPTH);
            return false;
        }
        if (values > most) {
            et_buf_printf(why, "JSON has more than %zu values", most);
            return false;
        }
    }
    return true;
}

json_t *et_json_read_most(const char *text, size_t size, size_t values, struct et_buf *why)
{
    json_error_t error;
    if (!is_within_bounds(text, size, values, why)) {
        return NULL;
    }
    json_t *value = json_loadb(text, size, JSON_DECODE_ANY, &error);
    if (!value) {
        char *clean = et_clean(error.text, strlen(error.text));
        et_buf_printf(why, "not JSON: line %d, column %d: %s", error.line, error.column, clean);
        free(clean);
    }
    return value;
}

json_t *et_json_read(const char *text, size_t size, struct et_buf *why)
{
    return et_json_read_most(text, size, ET_JSON_VALUES, why);
}

/* The reader bounds the depth of a value. */
static void clean_value(json_t *value, size_t depth)
{
    const char *name;
    json_t *member;
    size_t i;
    if (json_is_string(value)) {
        char *clean = et_clean(json_string_value(value), json_string_length(value));
        json_string_set(value, clean);
        free(clean);
    } else if (json_is_array(value) && depth > 0) {
        json_array_foreach(value, i, member)
        {
            clean_value(member, depth - 1);
        }
    } else if (depth > 0) {
        json_object_foreach(value, name, member)
        {
            clean_value(member, depth - 1);
        }
    }
}

void et_json_clean(json_t *value)
{
    clean_value(value, ET_JSON_DEPTH);
}

const char *et_json_text(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

const char *et_json_words(const json_t *object, const char *name)
{
    const char *text = et_json_text(object, name);
    return text ? text : "";
}

/* Converts both alphabets to the standard one, padded: nettle accepts nothing else. Rejects blanks, which nettle would
 * skip. */
static char *to_padded_base64(const char *text, size_t *size)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_";
    char *plain = et_alloc(*size + 4, 1);
    size_t padding = 0;
    while (padding < 2 && *size > padding && text[*size - padding - 1] == '=') {
        padding++;
    }
    bool whole = *size % 4 == 0;
    *size -= padding;
    if ((padding && !whole) || *size % 4 == 1) { /* six bits are less than a byte */
        free(plain);
        return NULL;
    }
    for (size_t i = 0; i < *size; i++) {
        if (!text[i] || !strchr(alphabet, text[i])) {
            free(plain);
            return NULL;
        }
        plain[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
    }
    while (*size % 4) {
        plain[(*size)++] = '=';
    }
    return plain;
}

bool et_base64(const char *text, size_t size, struct et_buf *out)
{
    struct base64_decode_ctx context;
    char *plain = to_padded_base64(text, &size);
    uint8_t *bytes = et_alloc(BASE64_DECODE_LENGTH(size), 1);
    size_t written = 0;
    base64_decode_init(&context);
    bool ok = plain && base64_decode_update(&context, &written, bytes, size, plain) && base64_decode_final(&context);
    if (ok) {
        et_buf_add(out, bytes, written);
    }
    free(plain);
    free(bytes);
    return ok;
}

void et_base64_put(struct et_buf *out, const void *bytes, size_t size)
{
    char *text = et_alloc(BASE64_ENCODE_RAW_LENGTH(size), 1);
    base64_encode_raw(text, size, bytes);
    et_buf_add(out, text, BASE64_ENCODE_RAW_LENGTH(size));
    free(text);
}
