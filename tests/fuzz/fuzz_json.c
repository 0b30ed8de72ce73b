/*
 * Any bytes as JSON and as base64: tools/lib/json_read.c.
 *
 * Checked: what is refused has a reason; what is read has at most ET_JSON_DEPTH levels and, written and read again, is
 * equal; base64 that is decoded is the same after encoding and decoding; memory is bounded by the input's size and
 * given back; CPU time is bounded.
 */
#include "spend.h"
#include "tools/lib/json_read.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_FIXED = 262144, MEMORY_PER_BYTE = 4096 };

static int depth_of(const json_t *value)
{
    int deepest = 0;
    size_t i;
    const char *key;
    json_t *item;
    if (json_is_array(value)) {
        json_array_foreach(value, i, item)
        {
            int depth = depth_of(item);
            deepest = depth > deepest ? depth : deepest;
        }
        return deepest + 1;
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        int depth = depth_of(item);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + json_is_object(value);
}

static void json(const char *text, size_t size)
{
    struct et_buf why = {0};
    json_t *value = et_json_read(text, size, &why);
    REQUIRE(value || why.size > 0);
    if (value) {
        REQUIRE(depth_of(value) <= ET_JSON_DEPTH);
        char *again = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        REQUIRE(again);
        json_t *other = et_json_read(again, strlen(again), &why);
        REQUIRE(other && json_equal(value, other));
        json_decref(other);
        free(again);
    }
    json_decref(value);
    et_buf_free(&why);
}

static void base64(const char *text, size_t size)
{
    struct et_buf bytes = {0}, written = {0}, again = {0};
    if (et_base64(text, size, &bytes)) {
        REQUIRE(bytes.size <= size);
        et_base64_put(&written, bytes.data, bytes.size);
        REQUIRE(et_base64(written.data, written.size, &again) && again.size == bytes.size);
        REQUIRE(again.size == 0 || memcmp(again.data, bytes.data, bytes.size) == 0);
    }
    et_buf_free(&bytes);
    et_buf_free(&written);
    et_buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool seeded;
    if (!seeded) {
        json_object_seed(1); /* jansson reads /dev/urandom otherwise, at the first object */
        seeded = true;
    }
    const long long began = fuzz_begin();
    json((const char *)data, size);
    base64((const char *)data, size);
    return fuzz_end(began, size, MEMORY_FIXED + MEMORY_PER_BYTE * size);
}
