/*
 * Files of gperftools, as docs of google-perftools and `pprof` describe them. A CPU profile is a list of machine words
 * of the machine that wrote it, then the text of its /proc/self/maps:
 *
 *   0 3 0 PERIOD_US 0   { COUNT DEPTH PC...leaf first }...   0 1 0   maps
 *
 * A heap profile is text: in use, and in brackets all since the start; the addresses of the call; then the maps.
 *
 *   heap profile:     18:    22000 [    34:   102000] @ heap_v2/524288
 *       17:    17000 [    17:    17000] @ 0x55c0ff1e31d5 0x55c0ff1e320c
 */
#include "tools/formats/foreign_pprof.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

struct words {
    const unsigned char *bytes;
    size_t count, size; /* size: bytes of a word */
    bool big;
};

static uint64_t word_at(const struct words *words, size_t index)
{
    uint64_t word = 0;
    for (size_t i = 0; i < words->size; i++) {
        size_t place = words->big ? i : words->size - 1 - i;
        word = word << 8 | words->bytes[index * words->size + place];
    }
    return word;
}

enum { HEAD = 5, HEAD_WORDS = 3, HEAD_PERIOD = 3, RECORD = 2 };

static bool find_words(const char *bytes, size_t size, struct words *words)
{
    for (unsigned way = 0; way < 4; way++) {
        *words = (struct words){.bytes = (const unsigned char *)bytes, .size = way & 1 ? 4 : 8, .big = way & 2};
        words->count = size / words->size;
        if (words->count >= HEAD && word_at(words, 0) == 0 && word_at(words, 1) == HEAD_WORDS &&
            word_at(words, 2) == 0 && word_at(words, HEAD_PERIOD) > 0 && word_at(words, 4) == 0) {
            return true;
        }
    }
    return false;
}

bool et_gperftools_cpu_is(const char *bytes, size_t size)
{
    struct words words;
    return find_words(bytes, size, &words);
}

/* The signal handler may be a frame of its own, with the leaf's address again. A return address is behind its call. */
static void push_stack(struct et_foreign_pprof *out, const struct words *words, size_t first, size_t depth)
{
    uint64_t leaf = word_at(words, first);
    for (size_t i = 0; i < depth; i++) {
        uint64_t pc = word_at(words, first + i);
        if (i == 0 || (i != 1 || pc != leaf)) {
            et_foreign_push(out, et_foreign_address(out, i && pc ? pc - 1 : pc));
        }
    }
}

/* Returns the word behind the records; 0: *why. */
static size_t read_records(const struct words *words, struct et_foreign_pprof *out, struct et_buf *why)
{
    const uint64_t period = out->period;
    uint64_t total = 0;
    size_t at = HEAD;
    while (at + RECORD < words->count) {
        uint64_t count = word_at(words, at), depth = word_at(words, at + 1);
        if (count == 0 && depth == 1 && word_at(words, at + RECORD) == 0) {
            return at + RECORD + 1;
        }
        if (depth && depth <= ET_FOREIGN_DEPTH && depth > words->count - at - RECORD) {
            break;
        }
        if (depth == 0 || depth > ET_FOREIGN_DEPTH) {
            et_buf_printf(why, "gperftools CPU profile, word %zu: a stack of %" PRIu64 " frames", at, depth);
            return 0;
        }
        if (count > (INT64_MAX - total) / period) {
            et_buf_printf(why, "gperftools CPU profile, word %zu: the count is too large", at);
            return 0;
        }
        total += count * period;
        struct et_foreign_sample *sample = et_foreign_sample(out);
        sample->values[0] = count;
        sample->values[1] = count * period;
        push_stack(out, words, at + RECORD, depth);
        at += RECORD + depth;
    }
    et_buf_text(why, "gperftools CPU profile: it ends without its last record");
    return 0;
}

bool et_gperftools_cpu_read(const char *bytes, size_t size, struct et_foreign_pprof *out, struct et_buf *why)
{
    struct words words;
    if (!find_words(bytes, size, &words) || word_at(&words, HEAD_PERIOD) > 1000000000) {
        et_buf_text(why, "gperftools CPU profile: invalid sampling period");
        return false;
    }
    out->period = word_at(&words, HEAD_PERIOD) * 1000;
    (void)et_foreign_type(out, "samples", "count");
    (void)et_foreign_type(out, "cpu", "nanoseconds");
    size_t end = read_records(&words, out, why) * words.size;
    if (end) {
        et_foreign_maps(out, bytes + end, size - end);
    }
    return end > 0;
}

/* ---- heap ---- */

enum { LIVE_OBJECTS, LIVE_BYTES, ALLOC_OBJECTS, ALLOC_BYTES, COLUMNS };

/* The average number of bytes between two samples; 0: every allocation is in the file. False: an unknown kind. */
static bool read_rate(const char *line, double *rate)
{
    const char *at = strchr(line, '@');
    char name[32] = "";
    unsigned long long bytes = 0;
    int read = at ? sscanf(at + 1, " %31[a-z_0-9]/%llu", name, &bytes) : 0;
    bool halved = strcmp(name, "heap") == 0;
    bool sampled = halved || strcmp(name, "heap_v2") == 0 || strcmp(name, "heapz_v2") == 0;
    *rate = sampled && read == 2 ? (double)bytes / (halved ? 2 : 1) : 0;
    return sampled ? read == 2 && bytes > 0 : strcmp(name, "heapprofile") == 0 || strcmp(name, "growthz") == 0;
}

/* What `count` objects of together `bytes` stand for: an allocation of that size is in a sample with the probability 1
 * - exp(-size / rate). */
static double scale_of(uint64_t count, uint64_t bytes, double rate)
{
    double size = count ? (double)bytes / (double)count : 0;
    return rate > 0 && size > 0 ? 1 / (1 - exp(-size / rate)) : 1;
}

static bool set_columns(struct et_foreign_sample *sample, const uint64_t columns[COLUMNS], double rate)
{
    for (size_t i = 0; i < COLUMNS; i += 2) {
        double scale = scale_of(columns[i], columns[i + 1], rate);
        for (size_t k = i; k < i + 2; k++) {
            double value = (double)columns[k] * scale;
            if (!(value < 1e15)) {
                return false;
            }
            sample->values[k] = (uint64_t)llround(value);
        }
    }
    return true;
}

/* " 1: 24 [ 2: 48] @ 0x1 0x2". */
static bool read_site(struct et_foreign_pprof *out, const char *line, double rate)
{
    uint64_t columns[COLUMNS];
    int used = 0;
    if (sscanf(line, " %" SCNu64 ": %" SCNu64 " [ %" SCNu64 ": %" SCNu64 " ] @%n", &columns[0], &columns[1],
               &columns[2], &columns[3], &used) != COLUMNS ||
        !used || !set_columns(et_foreign_sample(out), columns, rate)) {
        return false;
    }
    for (const char *at = line + used; *at;) {
        char *end;
        uint64_t pc = strtoull(at, &end, 16);
        if (end == at) {
            return at[strspn(at, " \t\r")] == '\0';
        }
        et_foreign_push(out, et_foreign_address(out, pc ? pc - 1 : 0));
        at = end;
    }
    return true;
}

static bool is_blank(const char *line)
{
    return line[strspn(line, " \t\r")] == '\0';
}

bool et_gperftools_heap_read(const char *text, size_t size, struct et_foreign_pprof *out, struct et_buf *why)
{
    static const char *const types[COLUMNS][2] = {
        {"inuse_objects", "count"}, {"inuse_space", "bytes"}, {"alloc_objects", "count"}, {"alloc_space", "bytes"}};
    static const char maps[] = "MAPPED_LIBRARIES:";
    double rate = 0;
    bool ok = true, ended = false;
    size_t number = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        (void)et_foreign_type(out, types[i][0], types[i][1]);
    }
    for (size_t at = 0; at < size && ok && !ended;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        char *line = et_clean(text + at, length);
        at += length + 1;
        ended = strncmp(line, maps, sizeof maps - 1) == 0;
        ok = ended || (number++ == 0 ? read_rate(line, &rate) : is_blank(line) || read_site(out, line, rate));
        free(line);
        if (ended && at < size) {
            et_foreign_maps(out, text + at, size - at);
        }
    }
    if (!ok) {
        et_buf_printf(why, "gperftools heap profile, line %zu: expected %s", number,
                      number == 1 ? "heapprofile or heap_v2/RATE behind @" : "N: BYTES [N: BYTES] @ 0xADDRESS ...");
    }
    return ok;
}
