/* See symbols_parts.h: the modules that are kept. */
#include "tools/symbols/symbols_parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Files of a module that has not all symbols are looked for again after so many seconds: some may have been added.
 * Besides, what is kept: the least recently used goes. TEXT: bytes of names. */
enum { RETRY_SECONDS = 10, MODULES_MOST = 4096, ANSWERS_MOST = 1 << 20, TEXT_MOST = 48 << 20, FILES_MOST = 64 };
/* Of all open files: in processes of their own, and in this one, where a file takes about its size. */
static const uint64_t MEMORY_THERE = (uint64_t)64 << 20, MEMORY_HERE = (uint64_t)1 << 30;

void et_symbols_free_module(struct et_symbols_module *module)
{
    et_reader_close(module->file);
    et_map_free(&module->known);
    et_strings_free(&module->strings);
    free(module->answers);
    free(module->pending);
    free(module->build_id);
    free(module->path);
    free(module->file_path);
    free(module->fetched);
    free(module);
}

static bool is_idle(const struct et_symbols_module *module)
{
    return module->users == 0 && !module->busy && !module->queued && !module->asking && !module->ask_queued;
}

void et_symbols_forget(struct et_symbols *s, struct et_symbols_module *module)
{
    s->answer_count -= module->answer_count;
    et_map_free(&module->known);
    et_strings_free(&module->strings);
    module->strings = (struct et_strings){0};
    module->answer_count = 0;
    for (size_t i = 0; i < module->pending_count; i++) {
        *et_map_at(&module->known, module->pending[i]) = PENDING;
    }
}

static size_t text_bytes(const struct et_symbols *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->module_count; i++) {
        bytes += s->modules[i]->strings.bytes;
    }
    return bytes;
}

static void make_room(struct et_symbols *s)
{
    while (s->module_count >= MODULES_MOST || s->answer_count >= ANSWERS_MOST || text_bytes(s) > TEXT_MOST) {
        size_t oldest = s->module_count;
        for (size_t i = 0; i < s->module_count; i++) {
            if (is_idle(s->modules[i]) &&
                (oldest == s->module_count || s->modules[i]->used < s->modules[oldest]->used)) {
                oldest = i;
            }
        }
        if (oldest == s->module_count) {
            return;
        }
        s->answer_count -= s->modules[oldest]->answer_count;
        et_symbols_free_module(s->modules[oldest]);
        s->modules[oldest] = s->modules[--s->module_count];
    }
}

static struct et_symbols_module *oldest_file(const struct et_symbols *s, const struct et_symbols_module *but)
{
    struct et_symbols_module *oldest = NULL;
    for (size_t i = 0; i < s->module_count; i++) {
        struct et_symbols_module *module = s->modules[i];
        bool old = module->state == OPEN && !module->busy && module != but;
        oldest = old && (!oldest || module->used < oldest->used) ? module : oldest;
    }
    return oldest;
}

void et_symbols_close_files(struct et_symbols *s, const struct et_symbols_module *but)
{
    uint64_t bytes = 0;
    size_t files = 0;
    for (size_t i = 0; i < s->module_count; i++) {
        bool held = s->modules[i]->state == OPEN && !s->modules[i]->busy;
        files += held;
        bytes += held ? et_reader_memory(s->modules[i]->file) : 0;
    }
    bytes += but->file ? et_reader_memory(but->file) : 0;
    struct et_symbols_module *old;
    const uint64_t most = et_reader_runs() ? MEMORY_THERE : MEMORY_HERE;
    while ((files >= FILES_MOST || bytes > most) && (old = oldest_file(s, but))) {
        files--;
        bytes -= et_reader_memory(old->file);
        et_reader_close(old->file);
        old->file = NULL;
        old->state = CLOSED;
    }
}

/* The path is of whom asked last: its own place may be there. */
static void retry(struct et_symbols_module *module, const char *path)
{
    if (module->state == UNKNOWN || (module->quality >= ET_QUALITY_DWARF && !module->lacked.kind)) {
        return;
    }
    if (strcmp(module->path, path) != 0) {
        free(module->path);
        module->path = et_strdup(path);
    }
    if (module->state == ABSENT) {
        module->state = UNKNOWN;
    } else {
        module->look_again = true;
    }
}

int64_t et_symbols_file_time(const char *path, int64_t since_ns)
{
    struct stat status;
    if (path[0] != '/' || stat(path, &status) != 0) {
        return ET_FILE_ABSENT;
    }
    int64_t changed = (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec;
    return changed > since_ns ? ET_FILE_CHANGED : changed;
}

struct et_symbols_module *et_symbols_get_module(struct et_symbols *s, const char *build_id, const char *path,
                                                int64_t since_ns)
{
    struct et_symbols_module *module = NULL;
    int64_t file_ns = build_id[0] ? 0 : et_symbols_file_time(path, since_ns);
    for (size_t i = 0; i < s->module_count && !module; i++) {
        bool same = strcmp(s->modules[i]->build_id, build_id) == 0 && s->modules[i]->file_ns == file_ns;
        module = same && (build_id[0] || strcmp(s->modules[i]->path, path) == 0) ? s->modules[i] : NULL;
    }
    if (!module) {
        make_room(s);
        module = et_alloc(1, sizeof *module);
        module->build_id = et_strdup(build_id);
        module->file_ns = file_ns;
        module->path = et_strdup(path);
        s->modules = et_reserve(s->modules, &s->module_capacity, s->module_count + 1, sizeof *s->modules);
        s->modules[s->module_count++] = module;
    }
    module->used = ++s->requests;
    if (!module->busy && !module->asking && time(NULL) - module->tried >= RETRY_SECONDS) {
        retry(module, path);
    }
    return module;
}
