/*
 * See folded.h. et_folded_kind() uses set_by_suffix() or set_by_units(); et_folded_parse() calls read_line() for each
 * line.
 */
#include "tools/formats/folded.h"
#include "tools/lib/kinds.h"
#include "tools/lib/native_name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A megabyte of text can have half a million calls, and each takes a hundred bytes of memory. */
enum { NODES_MAX = 1000000 };

/* ---- kinds ---- */

static void set_sampled_time(const char *kind, uint64_t rate, struct et_folded *out)
{
    *out = (struct et_folded){.kind = kind, .unit = "nanoseconds", .count = true, .period = 1000000000 / rate};
}

static bool set_by_suffix(const char *suffix, uint64_t rate, struct et_folded *out)
{
    static const char *const units[] = {"count", "bytes", "nanoseconds"};
    if (strcmp(suffix, "cpu") == 0 || strcmp(suffix, "itimer") == 0 || strcmp(suffix, "wall") == 0) {
        set_sampled_time(strcmp(suffix, "wall") == 0 ? ET_WALL : "cpu", rate, out);
        return true;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        bool count = false;
        const struct et_kind *kind = et_kind_of_pprof("", suffix, units[i], &count);
        if (kind) {
            *out = (struct et_folded){.kind = kind->name, .unit = kind->unit, .count = count};
            return true;
        }
    }
    return false;
}

static bool set_by_units(const char *units, bool average, uint64_t rate, struct et_folded *out)
{
    static const struct {
        const char *units, *comes, *is_there;
        bool count;
    } known[] = {
        {"objects", "alloc", "live", true},        {"bytes", "alloc", "live", false},
        {"lock_samples", "lock", "lock", true},    {"lock_nanoseconds", "lock", "lock", false},
        {"goroutines", "thread", "thread", false}, {"exceptions", "exception", "exception", false},
    };
    if (!*units || strcmp(units, "samples") == 0) {
        set_sampled_time("cpu", rate, out);
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(units, known[i].units) == 0) {
            const struct et_kind *kind = et_kind_named(average ? known[i].is_there : known[i].comes);
            *out = (struct et_folded){.kind = kind->name, .unit = kind->unit, .count = known[i].count};
            return true;
        }
    }
    return false;
}

bool et_folded_kind(const char *name, size_t *service_size, const char *units, bool average, uint64_t rate,
                    struct et_folded *out)
{
    const char *dot = strrchr(name, '.');
    *service_size = strlen(name);
    if (dot && dot > name && set_by_suffix(dot + 1, rate, out)) {
        *service_size = (size_t)(dot - name);
        return true;
    }
    return set_by_units(units, average, rate, out);
}

/* ---- reading ---- */

struct folded_reader {
    struct et_profile *profile;
    const struct et_folded *what;
    struct et_strings sent; /* names as they came */
    struct et_map frames;   /* number in `sent` -> frame */
    struct et_map nodes;    /* parent << 32 | frame -> node */
    struct et_map entries;  /* node -> entry + 1 */
    uint32_t deep;          /* frame for cut stacks; 0: not made yet */
    bool lines;
};

static uint32_t find_frame(struct folded_reader *f, const char *text, size_t size)
{
    char *sent = et_clean(text, size);
    uint64_t *known = et_map_at(&f->frames, et_intern(&f->sent, sent));
    if (!*known) {
        *known =
            et_profile_frame(f->profile, (struct et_frame){.name = et_sent_name(&f->profile->strings, sent, "", "")});
    }
    free(sent);
    return (uint32_t)*known;
}

static uint32_t find_node(struct folded_reader *f, uint32_t parent, uint32_t frame)
{
    uint64_t *known = et_map_at(&f->nodes, (uint64_t)parent << 32 | frame);
    if (!*known) {
        *known = et_profile_node(f->profile, parent, frame);
    }
    return (uint32_t)*known;
}

static size_t depth_of(const char *stack, size_t size)
{
    size_t depth = 1;
    for (size_t i = 0; i < size; i++) {
        depth += stack[i] == ';';
    }
    return depth;
}

/* Returns the leaf's node. A stack that is too deep loses frames next to the root; a special frame replaces them. */
static uint32_t add_frames(struct folded_reader *f, const char *stack, size_t size)
{
    size_t depth = depth_of(stack, size), skip = depth < ET_MAX_DEPTH ? 0 : depth - (ET_MAX_DEPTH - 1);
    uint32_t node = 0;
    if (skip) {
        f->deep = f->deep ? f->deep : et_profile_frame(f->profile, (struct et_frame){.address = ET_FRAME_DEEP});
        node = find_node(f, 0, f->deep);
    }
    for (size_t at = 0; at<size; skip -= skip> 0) {
        const char *end = memchr(stack + at, ';', size - at);
        size_t length = end ? (size_t)(end - stack) - at : size - at;
        if (!skip && length) {
            node = find_node(f, node, find_frame(f, stack + at, length));
        }
        at += length + 1;
    }
    return node;
}

static size_t digits_before(const char *line, size_t size)
{
    size_t digits = 0;
    while (digits < size && line[size - digits - 1] >= '0' && line[size - digits - 1] <= '9') {
        digits++;
    }
    return digits;
}

/* Parses the number at the end of the line; *part: behind its decimal point. *size becomes the size of the text before
 * it. */
static bool number_at_end(const char *line, size_t *size, uint64_t *number, double *part)
{
    size_t end = *size, digits = digits_before(line, end);
    double place = 1;
    *part = 0;
    if (digits < end && line[end - digits - 1] == '.') {
        for (const char *at = line + end - digits; at < line + end; at++) {
            place /= 10;
            *part += place * (*at - '0');
        }
        end -= digits + 1;
        digits = digits_before(line, end);
    }
    if (digits == 0 || digits > 18 || digits + 1 >= end || line[end - digits - 1] != ' ') {
        return false;
    }
    *number = 0;
    for (const char *at = line + end - digits; at < line + end; at++) {
        *number = *number * 10 + (uint64_t)(*at - '0');
    }
    *size = end - digits - 1;
    return true;
}

/* Adds to the stack's entry. */
static void add_values(struct folded_reader *f, uint32_t node, uint64_t value, uint64_t count)
{
    uint64_t *known = et_map_at(&f->entries, node);
    if (!*known) {
        et_profile_entry(f->profile, &(struct et_entry){.node = node});
        *known = f->profile->entry_count;
    }
    struct et_entry *entry = &f->profile->entries[*known - 1];
    entry->value += value;
    entry->count += count;
    f->profile->values += value;
    f->profile->counts += count;
}

/* Returns NULL or a description of the error. */
static const char *read_line(struct folded_reader *f, const char *line, size_t size)
{
    uint64_t number = 1;
    double part = 0;
    while (size && (line[size - 1] == '\r' || line[size - 1] == ' ')) {
        size--;
    }
    if (size && !f->lines && !number_at_end(line, &size, &number, &part)) {
        return "expected a;b;c 42";
    }
    uint64_t period = f->what->count ? f->what->period : 1, count = f->what->count ? number + (part >= 0.5) : 0;
    if (number > INT64_MAX / (period ? period : 1)) {
        return "the number is too large";
    }
    uint64_t value = number * period + (uint64_t)(part * (double)period + 0.5);
    if (size == 0 || (value == 0 && count == 0)) {
        return NULL;
    }
    add_values(f, add_frames(f, line, size), value, count);
    return NULL;
}

/* Returns NULL, or why the whole text is refused. */
static const char *beyond_limits(const struct et_profile *p)
{
    return p->values > INT64_MAX || p->counts > INT64_MAX ? "the sum is too large"
           : p->node_count > NODES_MAX                    ? "more than a million calls"
                                                          : NULL;
}

static void set_header(struct et_profile *profile, const struct et_folded *what)
{
    profile->kind = et_intern(&profile->strings, what->kind);
    profile->value_unit = et_intern(&profile->strings, what->unit);
    profile->period = what->period;
    profile->samples = what->period ? profile->counts : 0;
    profile->profiles = 1;
    et_profile_show(profile, ET_MEASURE_DEFAULT);
}

struct et_profile *et_folded_parse(const char *text, size_t size, bool lines, const struct et_folded *what,
                                   struct et_buf *why)
{
    struct folded_reader f = {.profile = et_profile_new(), .what = what, .lines = lines};
    const char *wrong = NULL, *beyond = NULL;
    size_t number = 0, wrong_at = 0, bad = 0;
    for (size_t at = 0; at < size && !beyond;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        const char *error = read_line(&f, text + at, length);
        beyond = beyond_limits(f.profile);
        number++;
        bad += error != NULL;
        wrong_at = beyond || (error && !wrong) ? number : wrong_at;
        wrong = beyond ? beyond : wrong ? wrong : error;
        at += length + 1;
    }
    et_strings_free(&f.sent);
    et_map_free(&f.frames);
    et_map_free(&f.nodes);
    et_map_free(&f.entries);
    set_header(f.profile, what);
    if (wrong) {
        et_buf_printf(why, "folded text, line %zu: %s", wrong_at, wrong);
    }
    if (beyond || bad * 2 >= number + !number) {
        et_profile_free(f.profile);
        return NULL;
    }
    if (bad) {
        et_buf_printf(why, "; %zu of %zu lines are left out", bad, number);
    }
    return f.profile;
}
