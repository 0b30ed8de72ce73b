/*
 * The text of `perf script`. A sample is a header at the beginning of a line, its frames on indented lines, the leaf
 * first, and an empty line:
 *
 *   prog  2806/2807 [001]  555.200995:     250000 cpu-clock:u:
 *             1247 main+0x21 (/tmp/prog)
 *     prog.c:11                                              with -F +srcline
 *
 * Without a call chain the only frame is in the header's line. The period and [cpu] may be missing.
 */
#include "tools/formats/foreign_pprof.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 64, LEAST_TOKENS = 3 };

struct token {
    const char *text;
    size_t size;
};

struct perf_header {
    struct token thread, event;
    struct token rest; /* behind the event */
    uint64_t period;   /* 0: not given */
    uint64_t time_ns;  /* 0: not given */
};

struct perf_reader {
    struct et_foreign_pprof *out;
    bool open;        /* a sample is under way */
    const char *leaf; /* the last frame's name and module, to which a source line may belong */
    size_t leaf_size;
    size_t cpu; /* type of CPU time; ET_FOREIGN_TYPES: none */
    uint64_t first_ns, last_ns;
    size_t line, headers, bad, bad_at;
};

/* ---- the header ---- */

static size_t split(const char *text, size_t size, struct token *tokens)
{
    size_t count = 0;
    for (size_t at = 0; at < size && count < TOKENS;) {
        while (at < size && isspace((unsigned char)text[at])) {
            at++;
        }
        size_t start = at;
        while (at < size && !isspace((unsigned char)text[at])) {
            at++;
        }
        if (at > start) {
            tokens[count++] = (struct token){text + start, at - start};
        }
    }
    return count;
}

/* Whether all of the token's characters but the last `end` ones are of the set, at least one. */
static bool consists_of(const struct token *token, const char *set, size_t end)
{
    if (token->size <= end) {
        return false;
    }
    for (size_t i = 0; i + end < token->size; i++) {
        if (!token->text[i] || !strchr(set, token->text[i])) {
            return false;
        }
    }
    return true;
}

static bool is_time(const struct token *token)
{
    return token->text[token->size - 1] == ':' && consists_of(token, "0123456789.", 1) &&
           memchr(token->text, '.', token->size);
}

static bool is_pid(const struct token *token)
{
    return consists_of(token, "0123456789/", 0) && isdigit((unsigned char)token->text[0]);
}

static bool is_number(const struct token *token)
{
    return consists_of(token, "0123456789", 0);
}

static uint64_t number_of(const struct token *token)
{
    uint64_t number = 0;
    for (size_t i = 0; i < token->size && i < 18 && isdigit((unsigned char)token->text[i]); i++) {
        number = number * 10 + (uint64_t)(token->text[i] - '0');
    }
    return number;
}

/* "555.200995:" in ns. */
static uint64_t time_of(const struct token *token)
{
    const char *dot = memchr(token->text, '.', token->size);
    uint64_t seconds = number_of(token), place = 100000000, part = 0;
    for (const char *at = dot + 1; at < token->text + token->size && isdigit((unsigned char)*at) && place; at++) {
        part += (uint64_t)(*at - '0') * place;
        place /= 10;
    }
    return seconds < UINT32_MAX ? seconds * 1000000000 + part : 0; /* since the start of the machine, or 1970 */
}

/* The last token before the period and the event: the time, or without it the process or [cpu]. 0: none. */
static size_t find_place(const struct token *tokens, size_t count, size_t *pid)
{
    size_t place = 0;
    for (size_t i = 1; i < count && !place; i++) {
        place = is_time(&tokens[i]) ? i : 0;
    }
    for (size_t i = place ? place - 1 : 1; i > 0 && i < count; i = place ? i - 1 : i + 1) {
        if (is_pid(&tokens[i])) {
            *pid = i;
            return place ? place : i + 1 < count && tokens[i + 1].text[0] == '[' ? i + 1 : i;
        }
    }
    return 0;
}

/* Without what only says how the event was counted: "cycles:u", "cpu-clock:pppH". A tracepoint's name stays. */
static void cut_modifiers(struct token *event)
{
    static const char modifiers[] = "ukhGHpPSDWeIb";
    for (size_t i = event->size; i-- > 1;) {
        if (event->text[i] == ':') {
            event->size = i;
            return;
        }
        if (!strchr(modifiers, event->text[i])) {
            return;
        }
    }
}

static bool read_header(const char *line, size_t size, struct perf_header *out)
{
    struct token tokens[TOKENS];
    size_t pid = 0, count = split(line, size, tokens), at = find_place(tokens, count, &pid);
    *out = (struct perf_header){0};
    if (!at || count < LEAST_TOKENS || pid < 1) {
        return false;
    }
    out->thread =
        (struct token){tokens[0].text, (size_t)(tokens[pid - 1].text - tokens[0].text) + tokens[pid - 1].size};
    out->time_ns = is_time(&tokens[at]) ? time_of(&tokens[at]) : 0;
    at++;
    if (at + 1 < count && is_number(&tokens[at])) {
        out->period = number_of(&tokens[at++]);
    }
    if (at >= count || tokens[at].text[tokens[at].size - 1] != ':' || tokens[at].size < 2) {
        return false;
    }
    out->event = (struct token){tokens[at].text, tokens[at].size - 1};
    cut_modifiers(&out->event);
    const char *rest = tokens[at].text + tokens[at].size;
    out->rest = (struct token){rest, (size_t)(line + size - rest)};
    return true;
}

/* ---- frames ---- */

/* The name without "+0x1f"; a place without a name is that of its module, in brackets. */
static uint64_t location_of(struct perf_reader *r, const char *name, size_t size, const char *file, uint32_t line)
{
    size_t end = size, hex = size;
    while (hex > 0 && isxdigit((unsigned char)name[hex - 1])) {
        hex--;
    }
    if (hex > 3 && hex < size && memcmp(name + hex - 3, "+0x", 3) == 0) {
        end = hex - 3;
    }
    return et_foreign_function(r->out, name, end, file, line);
}

static uint64_t unknown_in(struct perf_reader *r, const char *module, size_t size)
{
    struct et_buf path = {0}, name = {0};
    et_buf_printf(&path, "%.*s", (int)size, module);
    const char *base = et_base_name(path.data);
    et_buf_printf(&name, base[0] == '[' ? "%s" : "[%s]", base);
    uint64_t location = et_foreign_function(r->out, name.data, name.size, "", 0);
    et_buf_free(&path);
    et_buf_free(&name);
    return location;
}

/* The place of the bracket that the last character closes, "(/tmp/prog (deleted))"; 0: none. */
static size_t open_bracket(const char *line, size_t size)
{
    size_t depth = 0;
    for (size_t i = size; i-- > 0;) {
        depth += line[i] == ')';
        if (depth == 0 || (line[i] == '(' && --depth == 0)) {
            return depth || line[i] != '(' ? 0 : i;
        }
    }
    return 0;
}

/* "1247 main+0x21 (/tmp/prog)". False: it is something else. */
static bool read_frame(struct perf_reader *r, const char *line, size_t size)
{
    static const char unknown[] = "[unknown]";
    size_t hex = 0, open = open_bracket(line, size);
    while (hex < size && isxdigit((unsigned char)line[hex])) {
        hex++;
    }
    if (hex == 0 || hex == size || line[hex] != ' ' || open <= hex || line[open - 1] != ' ') {
        return false;
    }
    const char *name = line + hex + 1, *module = line + open + 1;
    size_t name_size = open > hex + 2 ? open - hex - 2 : 0, module_size = size - open - 2;
    bool named = name_size && !(name_size == sizeof unknown - 1 && memcmp(name, unknown, name_size) == 0);
    r->leaf = named ? name : NULL;
    r->leaf_size = name_size;
    et_foreign_push(r->out, named ? location_of(r, name, name_size, "", 0) : unknown_in(r, module, module_size));
    return true;
}

/* "prog.c:11" below a frame. False: it is something else. */
static bool read_source_line(struct perf_reader *r, const char *line, size_t size)
{
    size_t digits = size;
    while (digits > 0 && isdigit((unsigned char)line[digits - 1])) {
        digits--;
    }
    const struct token number = {line + digits, size - digits};
    if (!r->leaf || digits < 2 || digits == size || line[digits - 1] != ':' || number_of(&number) > UINT32_MAX) {
        return false;
    }
    char *file = et_clean(line, digits - 1);
    r->out->stacks[r->out->stack_size - 1] = location_of(r, r->leaf, r->leaf_size, file, (uint32_t)number_of(&number));
    free(file);
    r->leaf = NULL;
    return true;
}

/* False: it is no part of a sample. */
static bool read_indented(struct perf_reader *r, const char *line, size_t size)
{
    while (size && isspace((unsigned char)*line)) {
        line++, size--;
    }
    return r->open && size && (read_frame(r, line, size) || read_source_line(r, line, size));
}

/* ---- samples ---- */

/* NULL, or what is wrong. */
static const char *begin_sample(struct perf_reader *r, const struct perf_header *header)
{
    static const char *const clocks[] = {"cpu-clock", "task-clock"};
    struct et_foreign_pprof *out = r->out;
    char *event = et_clean(header->event.text, header->event.size);
    char *thread = et_clean(header->thread.text, header->thread.size);
    bool cpu = header->period && (strcmp(event, clocks[0]) == 0 || strcmp(event, clocks[1]) == 0);
    size_t samples = et_foreign_type(out, "samples", "count");
    size_t type = et_foreign_type(out, cpu ? "cpu" : event, cpu ? "nanoseconds" : "count");
    if (type < ET_FOREIGN_TYPES) {
        struct et_foreign_sample *sample = et_foreign_sample(out);
        sample->values[samples] = 1;
        sample->values[type] = header->period ? header->period : 1;
        sample->label = et_intern(&out->strings, thread);
        r->cpu = cpu ? type : r->cpu;
        out->period = cpu ? header->period : out->period;
    }
    free(event);
    free(thread);
    return type < ET_FOREIGN_TYPES ? NULL : "too many events";
}

static const char *read_sample(struct perf_reader *r, const char *line, size_t size)
{
    struct perf_header header;
    r->open = false;
    r->leaf = NULL;
    r->headers++;
    if (!read_header(line, size, &header)) {
        r->bad_at = r->bad++ ? r->bad_at : r->line;
        return NULL;
    }
    const char *why = begin_sample(r, &header);
    r->open = why == NULL;
    if (header.time_ns) {
        r->first_ns = !r->first_ns || header.time_ns < r->first_ns ? header.time_ns : r->first_ns;
        r->last_ns = header.time_ns > r->last_ns ? header.time_ns : r->last_ns;
    }
    /* With its frame in the header's line a sample is complete. */
    r->open = r->open && !read_indented(r, header.rest.text, header.rest.size);
    return why;
}

static size_t line_size(const char *text, size_t size)
{
    const char *end = memchr(text, '\n', size);
    return end ? (size_t)(end - text) : size;
}

/* Events that are no time would otherwise count as samples of CPU time. */
static void keep_samples_of_cpu(const struct perf_reader *r)
{
    for (size_t i = 0; i < r->out->sample_count && r->cpu < ET_FOREIGN_TYPES; i++) {
        uint64_t *values = r->out->samples[i].values;
        values[0] = values[r->cpu] ? values[0] : 0;
    }
}

static bool finish(struct perf_reader *r, const char *wrong, struct et_buf *why)
{
    size_t good = r->headers - r->bad;
    if (wrong) {
        et_buf_printf(why, "perf script, line %zu: %s", r->line, wrong);
    } else if (r->bad) {
        et_buf_printf(why, "perf script, line %zu: expected \"COMM PID TIME: PERIOD EVENT:\"%s", r->bad_at,
                      good > r->bad ? "; such lines are left out" : "");
    }
    keep_samples_of_cpu(r);
    r->out->duration_ns = r->last_ns - r->first_ns;
    return !wrong && good > r->bad;
}

bool et_perf_script_read(const char *text, size_t size, struct et_foreign_pprof *out, struct et_buf *why)
{
    struct perf_reader r = {.out = out, .cpu = ET_FOREIGN_TYPES};
    const char *wrong = NULL;
    for (size_t at = 0; at < size && !wrong;) {
        const char *line = text + at;
        size_t length = line_size(line, size - at);
        size_t content = length && line[length - 1] == '\r' ? length - 1 : length;
        struct perf_header header;
        r.line++;
        if (content == 0) {
            r.open = false;
        } else if (!isspace((unsigned char)line[0])) {
            wrong = line[0] == '#' ? NULL : read_sample(&r, line, content);
        } else if (!read_indented(&r, line, content) && read_header(line, content, &header)) {
            wrong = read_sample(&r, line, content); /* short names of threads are padded on the left */
        }
        at += length + 1;
    }
    return finish(&r, wrong, why);
}

bool et_perf_script_is(const char *text, size_t size)
{
    struct perf_header header;
    for (size_t at = 0; at < size;) {
        size_t length = line_size(text + at, size - at);
        if (length && text[at] != '#') {
            return read_header(text + at, text[at + length - 1] == '\r' ? length - 1 : length, &header);
        }
        at += length + 1;
    }
    return false;
}
