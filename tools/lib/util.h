/*
 * Basics for every file of the host tool: memory, growing buffers, a map of numbers, interned strings, messages.
 *
 * Out of memory ends the program with a message. The database stays consistent because it writes in transactions.
 */
#ifndef ET_UTIL_H
#define ET_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes of every command. `run` passes on the program's own code. */
enum et_exit {
    ET_OK = 0,
    ET_FAILED = 1,
    ET_USAGE = 2,
    ET_NO_DATA = 3,
    /* only from diff, verdict and leaks: */
    ET_REGRESSION = 4,
    ET_NO_BASELINE = 5,
    ET_TOO_FEW_SAMPLES = 6,
};

/* One line on stderr, "edgeprof: ...". Context: any thread. */
void et_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Redirects all later et_error() lines to the buffer; NULL: back to stderr. Context: no other thread runs. */
struct et_buf;
void et_error_to(struct et_buf *buf);
/* Called before et_error() writes a line; may be NULL. */
extern void (*et_before_error)(void);

/* Zeroed memory; free() it. Ends the program when out of memory. */
void *et_alloc(size_t count, size_t size);
char *et_strdup(const char *text);

/* Grows the array to at least `need` items of `size` bytes; *capacity counts items. New items are zero. Returns the
 * array. */
void *et_reserve(void *array, size_t *capacity, size_t need, size_t size);
/* Gives back what is beyond `count` items. Returns the array, which may have moved. */
void *et_trim(void *array, size_t *capacity, size_t count, size_t size);

/* A growing byte buffer, always followed by a NUL that `size` does not count. Zeroed: empty. */
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

/* The value of the key; inserts a new key with value 0. Valid until the next call. */
uint64_t *et_map_at(struct et_map *map, uint64_t key);
/* As et_map_at(), but NULL when the key is absent. */
uint64_t *et_map_find(const struct et_map *map, uint64_t key);
/* Removes the key, if it is there. */
void et_map_remove(struct et_map *map, uint64_t key);
void et_map_free(struct et_map *map);

/* Interned strings: equal strings have one number. Number 0 is "". */
struct et_strings {
    char **text;
    size_t count, capacity;
    uint32_t *slots, *hashes; /* hashes: 32 bits of each text's */
    size_t slot_count, hash_capacity;
    size_t bytes; /* of the texts, with their NULs */
};

uint32_t et_intern(struct et_strings *strings, const char *text);
const char *et_text(const struct et_strings *strings, uint32_t number);
/* Whether the string is interned. */
bool et_known(const struct et_strings *strings, const char *text);
void et_strings_free(struct et_strings *strings);
/* Gives back memory beyond these strings. More can still be added. */
void et_strings_trim(struct et_strings *strings);
/* Bytes of memory that they take, about. */
size_t et_strings_memory(const struct et_strings *strings);

/* A printable UTF-8 copy of size bytes: control characters, line separators, characters that change the direction of
 * text or that nobody sees, and invalid bytes become '?'. free() it. */
char *et_clean(const char *text, size_t size);
/* True: et_clean() would change nothing, because all bytes are printable ASCII. */
bool et_is_plain(const char *text, size_t size);

/* Little-endian base 128 numbers, as in protobuf. et_varint_get() returns false at the end, or after more than ten
 * bytes. */
void et_varint_put(struct et_buf *buf, uint64_t value);
bool et_varint_get(const uint8_t **at, const uint8_t *end, uint64_t *value);

/* Reads or writes a whole file. limit: largest accepted size in bytes (-EFBIG). Returns 0 or a negative errno value. */
int et_read_file(const char *path, size_t limit, struct et_buf *out);
int et_write_file(const char *path, const void *bytes, size_t size);
/* The path behind its last slash. */
const char *et_base_name(const char *path);

/* Makes a folder, and those above it that are missing. Returns 0, also when it exists, or a negative errno value. */
int et_make_folders(const char *path);

/*
 * Standard output. Names come from devices, files and servers, so what a person reads is always cleaned: a terminal
 * would obey escape sequences in it. et_error() cleans its line, too.
 *
 * et_print_output  writes lines of text and frees the buffer. Returns an exit code
 * et_print_json    the same for JSON, in which unprintable characters become \uXXXX
 * et_print_as      one of these two
 * et_print_bytes   the same for other formats that a program reads, unchanged
 * et_printf        writes text; '\n' is allowed at its end only
 */
int et_print_output(struct et_buf *out);
int et_print_json(struct et_buf *out);
int et_print_as(bool json, struct et_buf *out);
int et_print_bytes(struct et_buf *out);
void et_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether the text is exactly `size` lower-case hexadecimal digits. */
bool et_is_hex(const char *text, size_t size);

#endif
