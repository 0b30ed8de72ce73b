/* See util.h. */
#include "tools/lib/util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void (*et_before_error)(void);
static struct et_buf *error_buffer;

void et_error_to(struct et_buf *buf)
{
    error_buffer = buf;
}

void et_error(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (error_buffer) {
        et_buf_printf(error_buffer, "%s%s", error_buffer->size ? "; " : "", line);
        return;
    }
    if (et_before_error) {
        et_before_error();
    }
    char *clean = et_clean(line, strlen(line));
    fprintf(stderr, "edgeprof: %s\n", clean);
    free(clean);
}

static void *abort_if_null(void *memory)
{
    if (!memory) {
        et_error("out of memory");
        exit(ET_FAILED);
    }
    return memory;
}

void *et_alloc(size_t count, size_t size)
{
    return abort_if_null(calloc(count ? count : 1, size ? size : 1));
}

char *et_strdup(const char *text)
{
    return abort_if_null(strdup(text));
}

void *et_reserve(void *array, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) {
        return array;
    }
    size_t wanted = *capacity ? *capacity : 16;
    while (wanted < need) {
        wanted *= 2;
    }
    char *grown = abort_if_null(reallocarray(array, wanted, size));
    memset(grown + *capacity * size, 0, (wanted - *capacity) * size);
    *capacity = wanted;
    return grown;
}

void *et_trim(void *array, size_t *capacity, size_t count, size_t size)
{
    if (count == 0) {
        free(array);
        array = NULL;
    } else if (count < *capacity) {
        array = abort_if_null(reallocarray(array, count, size));
    }
    *capacity = count;
    return array;
}

/* ---- buffers ---- */

/* The end of a large buffer takes no memory until it is used, so it is not zeroed. */
static void buf_grow(struct et_buf *buf, size_t need)
{
    size_t wanted = buf->capacity ? buf->capacity : 16;
    while (wanted < need) {
        wanted *= 2;
    }
    buf->data = abort_if_null(realloc(buf->data, wanted));
    buf->capacity = wanted;
}

void et_buf_add(struct et_buf *buf, const void *bytes, size_t size)
{
    if (buf->size + size >= buf->capacity) {
        buf_grow(buf, buf->size + size + 1);
    }
    if (size) {
        memcpy(buf->data + buf->size, bytes, size);
    }
    buf->size += size;
    buf->data[buf->size] = '\0';
}

void et_buf_text(struct et_buf *buf, const char *text)
{
    et_buf_add(buf, text, strlen(text));
}

void et_buf_char(struct et_buf *buf, char c)
{
    et_buf_add(buf, &c, 1);
}

void et_buf_printf(struct et_buf *buf, const char *format, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(small, sizeof small, format, args);
    if (size >= 0 && (size_t)size < sizeof small) {
        et_buf_add(buf, small, (size_t)size);
    } else if (size >= 0) {
        char *large = et_alloc((size_t)size + 1, 1);
        vsnprintf(large, (size_t)size + 1, format, again);
        et_buf_add(buf, large, (size_t)size);
        free(large);
    }
    va_end(again);
    va_end(args);
}

void et_buf_free(struct et_buf *buf)
{
    free(buf->data);
    *buf = (struct et_buf){0};
}

/* ---- text and numbers ---- */

/* Length of the UTF-8 sequence at text and its code. 0: invalid. */
static size_t utf8_read(const uint8_t *text, size_t left, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = text[0];
    *code = first;
    if (first < 0x80) {
        return 1;
    }
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || length > left) {
        return 0;
    }
    *code = first & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        *code = *code << 6 | (text[i] & 0x3fu);
    }
    return *code < least[length] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : length;
}

/* Control characters, and those that change the direction of text, end a line, or cannot be seen. */
static bool is_unprintable(uint32_t code)
{
    static const struct {
        uint32_t from, to;
    } ranges[] = {{0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},      {0x61c, 0x61c},   {0x180e, 0x180e},
                  {0x200b, 0x200b}, {0x200e, 0x200f},   {0x2028, 0x202e},  {0x2060, 0x206f}, {0xfeff, 0xfeff},
                  {0xfff9, 0xfffb}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && code >= ranges[i].from; i++) {
        if (code <= ranges[i].to) {
            return true;
        }
    }
    return false;
}

char *et_clean(const char *text, size_t size)
{
    char *clean = et_alloc(size + 1, 1);
    size_t out = 0;
    uint32_t code;
    for (size_t i = 0; i < size;) {
        size_t length = utf8_read((const uint8_t *)text + i, size - i, &code);
        if (length == 0 || is_unprintable(code)) {
            clean[out++] = '?';
            i++;
            continue;
        }
        memcpy(clean + out, text + i, length);
        out += length;
        i += length;
    }
    return clean;
}

bool et_is_plain(const char *text, size_t size)
{
    static const uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;
    uint64_t wrong = 0;
    size_t i = 0;
    for (; i + 8 <= size; i += 8) { /* a byte's high bit: not ASCII, below ' ', or 0x7f */
        uint64_t word;
        memcpy(&word, text + i, sizeof word);
        wrong |= word | (word - ones * 0x20) | (word + ones);
    }
    for (; i < size; i++) {
        uint8_t byte = (uint8_t)text[i];
        wrong |= byte < 0x20 || byte >= 0x7f ? highs : 0;
    }
    return !(wrong & highs);
}

void et_varint_put(struct et_buf *buf, uint64_t value)
{
    uint8_t bytes[10];
    size_t size = 0;
    for (; value >= 0x80; value >>= 7) {
        bytes[size++] = (uint8_t)(value | 0x80);
    }
    bytes[size++] = (uint8_t)value;
    et_buf_add(buf, bytes, size);
}

bool et_varint_get(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

/* ---- files ---- */

int et_read_file(const char *path, size_t limit, struct et_buf *out)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!file) {
        return -errno;
    }
    char chunk[65536];
    int err = 0;
    size_t got;
    while (!err && (got = fread(chunk, 1, sizeof chunk, file)) > 0) {
        if (out->size + got > limit) {
            err = -EFBIG;
        } else {
            et_buf_add(out, chunk, got);
        }
    }
    if (!err && ferror(file)) {
        err = errno ? -errno : -EIO;
    }
    if (file != stdin) {
        fclose(file);
    }
    return err;
}

int et_write_file(const char *path, const void *bytes, size_t size)
{
    bool to_stdout = strcmp(path, "-") == 0;
    FILE *file = to_stdout ? stdout : fopen(path, "wb");
    if (!file) {
        return -errno;
    }
    int err = fwrite(bytes, 1, size, file) == size ? 0 : -EIO;
    if ((to_stdout ? fflush(file) : fclose(file)) != 0) {
        err = errno ? -errno : -EIO;
    }
    return err;
}

const char *et_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int et_make_folders(const char *path)
{
    char *copy = et_strdup(path);
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(copy, 0777);
        *slash = '/';
    }
    int err = mkdir(copy, 0777) == 0 || errno == EEXIST ? 0 : -errno;
    free(copy);
    return err;
}

int et_print_bytes(struct et_buf *out)
{
    int err = et_write_file("-", out->data ? out->data : "", out->size);
    if (err && err != -EPIPE) { /* EPIPE: the reader closed the pipe on purpose */
        et_error("standard output: %s", strerror(-err));
    }
    et_buf_free(out);
    return err ? ET_FAILED : ET_OK;
}

int et_print_output(struct et_buf *out)
{
    struct et_buf clean = {0};
    for (size_t at = 0, size; at < out->size; at += size + 1) {
        for (size = 0; at + size < out->size && !strchr("\n\t", out->data[at + size]);) {
            size++; /* a NUL also ends a part */
        }
        char *part = et_clean(out->data + at, size);
        et_buf_text(&clean, part);
        et_buf_add(&clean, out->data + at + size, at + size < out->size && out->data[at + size]);
        free(part);
    }
    et_buf_free(out);
    return et_print_bytes(&clean);
}

/* Outside of strings JSON has no characters but ASCII, and of the control characters white space only. */
int et_print_json(struct et_buf *out)
{
    struct et_buf clean = {0};
    uint32_t code;
    for (size_t at = 0, length; at < out->size; at += length ? length : 1) {
        length = utf8_read((const uint8_t *)out->data + at, out->size - at, &code);
        if (length > 0 && !is_unprintable(code)) {
            et_buf_add(&clean, out->data + at, length);
        } else if (length == 0 || code < ' ') {
            et_buf_char(&clean, length == 0 ? '?' : code == '\n' ? '\n' : ' ');
        } else if (code > 0xffff) {
            et_buf_printf(&clean, "\\u%04x\\u%04x", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
        } else {
            et_buf_printf(&clean, "\\u%04x", code);
        }
    }
    et_buf_free(out);
    return et_print_bytes(&clean);
}

int et_print_as(bool json, struct et_buf *out)
{
    return json ? et_print_json(out) : et_print_output(out);
}

void et_printf(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&text, format, args);
    va_end(args);
    abort_if_null(size < 0 ? NULL : text);
    bool ends = size > 0 && text[size - 1] == '\n';
    char *clean = et_clean(text, (size_t)size - ends);
    fputs(clean, stdout);
    fputs(ends ? "\n" : "", stdout);
    free(clean);
    free(text);
}

bool et_is_hex(const char *text, size_t size)
{
    return strspn(text, "0123456789abcdef") == size && text[size] == '\0';
}
