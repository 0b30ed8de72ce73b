/*
 * See native_name.h. libiberty reads the names. A name of 200 bytes can refer to its own parts so often that its
 * readable form has gigabytes, so the callbacks stop at a limit.
 */
#include "tools/lib/native_name.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { READABLE_MAX = 1 << 16, D_MAX = 1024, D_REFERENCES = 16 };

/* ---- mangled names ---- */

struct name_reader {
    struct et_buf *out;
    size_t start;
    jmp_buf too_long;
};

static void add_piece(const char *piece, size_t size, void *context)
{
    struct name_reader *reader = context;
    if (reader->out->size - reader->start + size > READABLE_MAX) {
        longjmp(reader->too_long, 1);
    }
    et_buf_add(reader->out, piece, size);
}

typedef int demangler(const char *symbol, int options, demangle_callbackref add, void *context);

static bool demangle_with(demangler *demangle, const char *symbol, int options, struct et_buf *out)
{
    struct name_reader reader = {.out = out, .start = out->size};
    volatile bool ok = false;
    if (setjmp(reader.too_long) == 0) {
        ok = demangle(symbol, options, add_piece, &reader) != 0 && out->size > reader.start;
    }
    out->size = ok ? out->size : reader.start;
    return ok;
}

/* libiberty has no callback for D; each reference can at most double the name. */
static bool demangle_d(const char *symbol, struct et_buf *out)
{
    size_t references = 0;
    for (const char *at = symbol; *at; at++) {
        references += *at == 'Q';
    }
    char *readable =
        strlen(symbol) <= D_MAX && references <= D_REFERENCES ? dlang_demangle(symbol, DMGL_NO_OPTS) : NULL;
    if (readable) {
        et_buf_text(out, readable);
    }
    free(readable);
    return readable != NULL;
}

/* Rust's older names look like C++'s. Apple's linker puts one more _ before each name. */
static bool demangle_plain(const char *symbol, struct et_buf *out)
{
    symbol += symbol[0] == '_' && symbol[1] == '_';
    if (symbol[0] != '_' || !symbol[1]) {
        return false;
    }
    switch (symbol[1]) {
    case 'Z':
        return demangle_with(rust_demangle_callback, symbol, DMGL_NO_OPTS, out) ||
               demangle_with(cplus_demangle_v3_callback, symbol, DMGL_ANSI, out);
    case 'R':
        return demangle_with(rust_demangle_callback, symbol, DMGL_NO_OPTS, out);
    case 'D':
        return ((symbol[2] >= '1' && symbol[2] <= '9') || strcmp(symbol, "_Dmain") == 0) && demangle_d(symbol, out);
    default:
        return false;
    }
}

bool et_native_readable(const char *symbol, struct et_buf *out)
{
    size_t size = symbol[0] == '_' ? et_native_size(symbol) : 0;
    if (!size || !symbol[size]) {
        return size && demangle_plain(symbol, out);
    }
    char *name = strndup(symbol, size);
    bool ok = name && demangle_plain(name, out);
    free(name);
    return ok;
}

/* ---- compilers' suffixes ---- */

static const struct {
    const char *word;
    bool alone; /* also without a number */
} suffixes[] = {{"cold", true},       {"constprop", true}, {"isra", true},        {"lto_priv", true},
                {"part", false},      {"llvm", false},     {"__uniq", false},     {"clone", false},
                {"localalias", true}, {"warm", false},     {"specialized", false}};

/* The size without a number and its dot at the end. */
static size_t before_number(const char *name, size_t size)
{
    size_t at = size;
    while (at && strchr("0123456789ABCDEF", name[at - 1])) {
        at--;
    }
    return at < size && at > 1 && name[at - 1] == '.' ? at - 1 : size;
}

/* The size without the last suffix; the same size if there is none. A suffix that is the whole name is none. */
static size_t before_suffix(const char *name, size_t size)
{
    size_t end = before_number(name, size), dot = end;
    while (dot && name[dot - 1] != '.') {
        dot--;
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes && dot > 1; i++) {
        if (end - dot == strlen(suffixes[i].word) && memcmp(name + dot, suffixes[i].word, end - dot) == 0 &&
            (end < size || suffixes[i].alone)) {
            return dot - 1;
        }
    }
    return size;
}

/* As demanglers write it: "f() [clone .cold]" and, of LLVM, "f() (.llvm.123)". */
static size_t before_note(const char *name, size_t size)
{
    static const struct {
        char end;
        const char *start;
    } notes[] = {{']', " [clone ."}, {')', " (."}};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        size_t start = strlen(notes[i].start), at = size;
        while (size && name[size - 1] == notes[i].end && at-- > 1) {
            if (size - at > start && memcmp(name + at, notes[i].start, start) == 0) {
                return at;
            }
        }
    }
    return size;
}

size_t et_native_size(const char *symbol)
{
    size_t size = strlen(symbol), before;
    do {
        before = size;
        size = before_suffix(symbol, before_note(symbol, size));
    } while (size < before);
    return size;
}

/* ---- senders' names ---- */

/* Whether the file is of a language whose names have dots. */
static bool is_dotted_language(const char *file)
{
    static const char *const endings[] = {".go", ".py", ".java", ".kt", ".scala", ".cs", ".js", ".ts", ".rb", ".php"};
    const char *dot = strrchr(file, '.');
    for (size_t i = 0; i < sizeof endings / sizeof *endings && dot; i++) {
        if (strcasecmp(dot, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

uint32_t et_sent_name(struct et_strings *strings, const char *name, const char *system_name, const char *file)
{
    const char *sent = *name ? name : system_name;
    struct et_buf readable = {0};
    if (!et_native_readable(sent, &readable)) {
        bool whole = is_dotted_language(file) || strchr(sent, '/');
        et_buf_add(&readable, sent, whole ? strlen(sent) : et_native_size(sent));
    }
    char *clean = et_clean(readable.data, readable.size);
    uint32_t number = et_intern(strings, clean);
    free(clean);
    et_buf_free(&readable);
    return number;
}
