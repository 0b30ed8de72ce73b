/* See resolve.h. */
#include "tools/symbols/resolve.h"
#include "tools/symbols/demangle.h"

#include <stdlib.h>
#include <string.h>

struct resolving {
    struct et_symfile *file;
    const char *path;
    uint64_t address;
    struct et_resolved *out;
};

static enum et_code code_at(const struct resolving *r, const char *mangled)
{
    if (!r->file || !et_symfile_managed(r->file, r->address)) {
        return ET_CODE_NATIVE;
    }
    size_t type = et_demangle_state_machine(mangled);
    return type && et_symfile_is_iterator(r->file, mangled, type) ? ET_CODE_ITERATOR : ET_CODE_MANAGED;
}

static char *clean_name(const struct resolving *r, const char *mangled)
{
    struct et_buf name = {0};
    et_demangle(mangled, r->path, code_at(r, mangled), &name);
    char *clean = et_clean(name.data, name.size);
    et_buf_free(&name);
    return clean;
}

static void on_line(void *context, const char *mangled, const char *source, uint32_t line)
{
    const struct resolving *r = context;
    struct et_resolved *out = r->out;
    out->lines = et_reserve(out->lines, &out->capacity, out->count + 1, sizeof *out->lines);
    out->lines[out->count++] = (struct et_resolved_line){
        .function = mangled ? clean_name(r, mangled) : NULL,
        .source = et_clean(source ? source : "", source ? strlen(source) : 0),
        .line = line,
        .start = mangled || !r->file ? r->address : et_symfile_function(r->file, r->address),
    };
}

/* The device names the ranges of the vdso's functions, since no file has them: "[vdso]:FUNCTION". */
static const char *name_in_path(const char *path)
{
    static const char start[] = "[vdso]:";
    return strncmp(path, start, sizeof start - 1) == 0 && path[sizeof start - 1] ? path + sizeof start - 1 : NULL;
}

void et_resolve(struct et_symfile *file, const char *path, uint64_t address, struct et_resolved *out)
{
    struct resolving r = {.file = file, .path = path, .address = address, .out = out};
    const char *symbol = file ? et_symfile_symbol(file, address) : name_in_path(path);
    if (!file || et_symfile_lines(file, address, on_line, &r) == 0) {
        on_line(&r, symbol, NULL, 0);
    } else if (symbol) {
        struct et_resolved_line *last = &out->lines[out->count - 1];
        free(last->function);
        last->function = clean_name(&r, symbol);
    }
}

void et_resolved_free(struct et_resolved *resolved)
{
    for (size_t i = 0; i < resolved->count; i++) {
        free(resolved->lines[i].function);
        free(resolved->lines[i].source);
    }
    free(resolved->lines);
    *resolved = (struct et_resolved){0};
}
