/*
 * Modules of a message. A module without a file, such as Linux's vdso, has its names only in the process: each of its
 * functions is sent as a module of its own, named "[vdso]:FUNCTION" and without a build id, as no file has it; what
 * lies between them is sent as "[vdso]".
 */
#include "core/encode/write.h"

#include <compact.pb.h>
#include <string.h>

#define TAG(message, field) edgeprof_v1_##message##_##field##_tag
#define PATH_MOST           80u

struct ep_module_part {
    const struct ep_module *module;
    uintptr_t start, end;
    const char *path;
};

static bool write_part(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_module_part *part = source->part;
    const struct ep_module *module = part->module;

    return ep_put_number(s, TAG(Module, base), module->base + (part->start - module->start)) &&
           ep_put_number(s, TAG(Module, size), part->end - part->start) &&
           ep_put_number(s, TAG(Module, address), part->start - module->bias) &&
           (part->path != module->path ||
            ep_put_bytes(s, TAG(Module, build_id), module->build_id, module->build_id_size)) &&
           ep_put_text(s, TAG(Module, path), part->path);
}

static bool put_part(pb_ostream_t *s, uint32_t tag, const struct ep_module_part *part)
{
    const struct ep_source source = {.part = part};

    return part->start == part->end || ep_put_nested(s, tag, write_part, &source);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* "[vdso]:FUNCTION", cut to its room. */
static void name_join(char *to, const char *path, const char *function)
{
    const size_t size = least(strlen(path), PATH_MOST / 2), more = least(strlen(function), PATH_MOST - 2 - size);

    memcpy(to, path, size);
    to[size] = ':';
    memcpy(to + size + 1, function, more);
    to[size + 1 + more] = 0;
}

bool ep_put_module(pb_ostream_t *s, uint32_t tag, const struct ep_module *module)
{
    uintptr_t at = module->start;
    struct ep_port_function function;
    char path[PATH_MOST];

    while (at < module->end && ep_port_function_next(at, module->end, &function)) {
        const size_t left = module->end - function.start;
        const uintptr_t end = function.start + least(function.size, left);
        name_join(path, module->path, function.name);
        if (!put_part(s, tag, &(struct ep_module_part){module, at, function.start, module->path}) ||
            !put_part(s, tag, &(struct ep_module_part){module, function.start, end, path}))
            return false;
        at = end;
    }
    return put_part(s, tag, &(struct ep_module_part){module, at, module->end, module->path});
}
