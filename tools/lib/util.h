/*
 * What every file of the host tool needs: memory, growing buffers, a map of numbers, interned strings, messages.
 *
 * The tool may allocate. Where there is no memory left it says so and ends: nothing half-done is left behind,
 * because the store writes in transactions.
 */
#ifndef ET_UTIL_H
#define ET_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes of every command; `run` passes on the command's own. */
enum et_exit {
    ET_OK = 0,
    ET_FAILED = 1,
    ET_USAGE = 2,
    ET_NO_DATA = 3,
    /* of diff */
    ET_REGRESSION = 4,
    ET_NO_BASELINE = 5,
    ET_TOO_FEW_SAMPLES = 6,
};

/* One line on stderr, "edgeprof: ...". Context: any thread. */
void et_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Lines go to the buffer instead, one after the other, from now on; NULL: to stderr. Context: no other thread runs. */
struct et_buf;
void et_error_to(struct et_buf *buf);
/* Called before such a line is written; NULL: nothing is. */
extern void (*et_before_error)(void);

/* Zeroed memory; ends the program when there is none. free() gives it back. */
void *et_alloc(size_t count, size_t size);
char *et_strdup(const char *text);

/* Room for at least `need` items of `size` bytes at *array, whose capacity in items is *capacity; what is new is zero.
 */
void *et_reserve(void *array, size_t *capacity, size_t need, size_t size);

/* A growing run of bytes; always followed by a NUL that `size` does not count. Zeroed: empty. */
struct et_buf {
    char *data;
    size_t size, capacity;
};

void et_buf_add(struct et_buf *buf, const void *bytes, size_t size);
void et_buf_text(struct et_buf *buf, const char *text);
void et_buf_char(struct et_buf *buf, char c);
void et_buf_printf(struct et_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void et_buf_free(struct et_buf *buf);

/* Map of 64-bit numbers, open addressing. Zeroed: empty. */
struct et_map {
    struct et_map_entry {
        uint64_t key, value;
        bool used;
    } * entries;
    size_t count, capacity;
};

/* Where the key's value stands; a new key starts with 0. Valid until the next call. */
uint64_t *et_map_at(struct et_map *map, uint64_t key);
/* The same, NULL when the key is not there. */
uint64_t *et_map_find(const struct et_map *map, uint64_t key);
void et_map_free(struct et_map *map);

/* Interned strings: equal strings have one number. Number 0 is "". */
struct et_strings {
    char **text;
    size_t count, capacity;
    uint32_t *slots;
    size_t slot_count;
};

uint32_t et_intern(struct et_strings *strings, const char *text);
const char *et_text(const struct et_strings *strings, uint32_t number);
/* Whether it has been interned. */
bool et_known(const struct et_strings *strings, const char *text);
void et_strings_free(struct et_strings *strings);

/* A copy of size bytes in which all is printable UTF-8: control characters and what is no UTF-8 became '?'. */
char *et_clean(const char *text, size_t size);

/* Little-endian base 128 numbers, as in protobuf. get returns false at the end or on more than ten bytes. */
void et_varint_put(struct et_buf *buf, uint64_t value);
bool et_varint_get(const uint8_t **at, const uint8_t *end, uint64_t *value);

/* The file's bytes, or a negative errno value. limit: largest size taken (-EFBIG). */
int et_read_file(const char *path, size_t limit, struct et_buf *out);
int et_write_file(const char *path, const void *bytes, size_t size);

/* To standard output; frees the buffer. An exit code. */
int et_print_output(struct et_buf *out);

/* Whether the text is that many hexadecimal digits in lower case. */
bool et_is_hex(const char *text, size_t size);

#endif
