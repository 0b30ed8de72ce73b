/* See symbols_parts.h: finding files and names, by the asking thread or by workers. */
#include "tools/symbols/symbols_parts.h"
#include "tools/lib/progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TEXT: bytes of names. BATCH: addresses that are asked for at once. TRIES: files of a module, if one after the other
 * breaks its process. */
enum { TEXT_OF_A_MODULE = 16 << 20, BATCH = 256, TRIES = 4, QUALITY_SYMTAB = 2, QUALITY_DWARF = 4 };
/* Files that are parsed at once: a large one must not keep the others waiting. */
enum { PARSED_MOST = 2 };

/* ---- complaints ---- */

static bool is_named(const struct et_symbols_module *module)
{
    return module->path[0] != '[';
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void say_absent(const struct et_symbols *s, const struct et_symbols_module *module)
{
    struct et_buf name = {0};
    et_buf_printf(&name, "%s (build id %s)", module->path, module->build_id[0] ? module->build_id : "none");
    et_places_complain(s->places, name.data, "no symbol file found (" ET_PLACES_HINT ")");
    et_buf_free(&name);
}

/* Says once where a stripped program's names are. Of a system's libraries few users miss the names. */
static void say_stripped(const struct et_symbols *s, const struct et_symbols_module *module)
{
    static const char *const systems[] = {"/lib/", "/lib64/", "/usr/lib/", "["};
    char link[256];
    snprintf(link, sizeof link, "%s", module->debuglink);
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        if (strncmp(module->path, systems[i], strlen(systems[i])) == 0) {
            return;
        }
    }
    if (!link[0]) {
        snprintf(link, sizeof link, "%s.dbg or the like", base_name(module->path));
    }
    struct et_buf why = {0};
    et_buf_printf(&why, "stripped: its names are in %s, which was not found (" ET_PLACES_HINT ")", link);
    et_places_complain(s->places, module->path, why.data);
    et_buf_free(&why);
}

/* ---- files and names ---- */

struct loaded {
    struct et_choice choice;
    struct et_reader *file;
    bool said; /* what is wrong */
};

/* Of the best file there is. */
static struct loaded try_file(const struct et_symbols *s, const struct et_symbols_module *module, const char *fetched)
{
    struct loaded found = {0};
    struct et_buf why = {0};
    et_places_find(s->places, module->build_id, module->path, &found.choice);
    if (fetched) {
        et_places_consider(&found.choice, fetched, module->build_id);
    }
    if (found.choice.path) {
        found.file = et_reader_open(found.choice.path, module->build_id, &s->stopping, &why);
        if (!found.file && why.size) {
            et_places_complain(s->places, found.choice.path, why.data);
        }
        found.choice.broken |= !found.file && why.size == 0;
        found.said = !found.file;
    } else if (strcmp(module->path, "[vdso]") == 0) {
        found.file = et_reader_open_vdso(module->build_id);
        found.choice.quality = QUALITY_SYMTAB;
    }
    found.said |= found.choice.broken;
    et_buf_free(&why);
    return found;
}

/* A file that breaks the process which reads it is not chosen a second time. */
static struct loaded find_file(const struct et_symbols *s, const struct et_symbols_module *module, const char *fetched)
{
    struct loaded found = try_file(s, module, fetched);
    for (int tries = 1; tries < TRIES && !found.file && found.choice.path && found.choice.broken && !s->stopping;
         tries++) {
        free(found.choice.path);
        found = try_file(s, module, fetched);
        found.said = true;
    }
    if (!found.file) {
        free(found.choice.path);
        found.choice.path = NULL;
    }
    return found;
}

/* The busy thread has the module's path and file to itself. */
static void load(struct et_symbols *s, struct et_symbols_module *module)
{
    bool first = module->state == UNKNOWN && !module->fetched;
    char *fetched = module->fetched ? et_strdup(module->fetched) : NULL;
    struct et_reader *old = module->file;
    module->file = NULL;
    pthread_mutex_unlock(&s->lock);
    et_reader_close(old);
    struct loaded found = find_file(s, module, fetched);
    free(fetched);
    pthread_mutex_lock(&s->lock);
    if (module->state == UNKNOWN) {
        et_symbols_forget(s, module);
    }
    free(module->file_path);
    module->file = found.file;
    module->file_path = found.choice.path;
    module->quality = found.file ? found.choice.quality : 0;
    memcpy(module->debuglink, found.choice.debuglink, sizeof module->debuglink);
    module->state = found.file ? OPEN : ABSENT;
    module->tried = time(NULL);
    module->ask_queued =
        (module->ask_queued || first) && s->debuginfod && is_named(module) && module->quality < QUALITY_DWARF;
    if (!module->ask_queued && !module->file_path && !found.said && is_named(module)) {
        say_absent(s, module);
    }
    et_symbols_close_files(s, module);
}

static void publish(struct et_symbols *s, struct et_symbols_module *module, uint64_t address,
                    const struct et_resolved *resolved)
{
    size_t at = module->answer_count;
    module->answers =
        et_reserve(module->answers, &module->answer_capacity, at + resolved->count, sizeof *module->answers);
    for (size_t i = 0; i < resolved->count; i++) {
        const struct et_resolved_line *line = &resolved->lines[i];
        module->answers[at + i] = (struct et_symbols_answer){
            .function = line->function ? et_intern(&module->strings, line->function) : 0,
            .source = et_intern(&module->strings, line->source),
            .line = line->line,
            .more = i + 1 < resolved->count,
            .start = line->start,
        };
    }
    module->answer_count += resolved->count;
    s->answer_count += resolved->count;
    *et_map_at(&module->known, address) = at + FIRST;
}

static void ask(struct et_symbols *s, struct et_symbols_module *module)
{
    struct et_buf path = {0};
    module->ask_queued = false;
    module->asking = true;
    pthread_mutex_unlock(&s->lock);
    et_progress("fetching symbols of %s", base_name(module->path));
    bool found = et_debuginfod_find(s->debuginfod, module->build_id, &path);
    pthread_mutex_lock(&s->lock);
    module->asking = module->slow = false;
    if (found) {
        free(module->fetched);
        module->fetched = et_strdup(path.data);
        module->state = UNKNOWN;
    } else if (module->state == ABSENT && !module->file_path && !s->stopping) {
        say_absent(s, module);
    }
    et_buf_free(&path);
}

struct answering {
    struct et_symbols *symbols;
    struct et_symbols_module *module;
    size_t answered;
};

static void on_answer(void *context, uint64_t address, const struct et_resolved *resolved)
{
    struct answering *a = context;
    struct et_symbols_module *module = a->module;
    a->answered++;
    pthread_mutex_lock(&a->symbols->lock);
    if (module->file_path && module->quality < QUALITY_SYMTAB && !resolved->lines[0].function) {
        say_stripped(a->symbols, module);
    }
    publish(a->symbols, module, address, resolved);
    pthread_mutex_unlock(&a->symbols->lock);
}

/* Addresses of a module that has no file, or whose file has more text than its names can be. */
static void answer_nothing(struct answering *a, const uint64_t *addresses, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct et_resolved resolved = {0};
        et_resolve(NULL, a->module->path, addresses[i], &resolved);
        on_answer(a, addresses[i], &resolved);
        et_resolved_free(&resolved);
    }
}

/* Those that are not answered, because the file's process ended, are asked for again. */
static void find_names(struct et_symbols *s, struct et_symbols_module *module)
{
    uint64_t addresses[BATCH];
    size_t count = module->pending_count < BATCH ? module->pending_count : BATCH;
    struct answering a = {.symbols = s, .module = module};
    module->pending_count -= count;
    memcpy(addresses, module->pending + module->pending_count, count * sizeof *addresses);
    bool too_much = module->strings.bytes >= TEXT_OF_A_MODULE, read = module->file && !too_much;
    pthread_mutex_unlock(&s->lock);
    int err = 0;
    if (too_much && module->file_path) {
        et_places_complain(s->places, module->file_path, "names of more than 16 MiB are not kept");
    }
    if (read) {
        err = et_reader_names(module->file, module->path, addresses, count, on_answer, &a, &s->stopping);
    } else {
        answer_nothing(&a, addresses, count);
    }
    pthread_mutex_lock(&s->lock);
    module->pending = et_reserve(module->pending, &module->pending_capacity, module->pending_count + count - a.answered,
                                 sizeof *module->pending);
    for (size_t i = a.answered; i < count; i++) {
        module->pending[module->pending_count++] = addresses[i];
    }
    if (err) {
        module->state = CLOSED;
    }
}

/* Waits until few enough others do. */
static void begin_parsing(struct et_symbols *s)
{
    while (s->parsing >= PARSED_MOST && !s->stopping) {
        pthread_cond_wait(&s->work, &s->lock);
    }
    s->parsing++;
}

static void end_parsing(struct et_symbols *s)
{
    s->parsing--;
    pthread_cond_broadcast(&s->work);
}

void et_symbols_work(struct et_symbols *s, struct et_symbols_module *module)
{
    module->queued = false;
    module->busy = true;
    begin_parsing(s);
    while (!s->stopping && (module->pending_count || module->state == UNKNOWN)) {
        if (module->state == UNKNOWN || module->state == CLOSED) {
            load(s, module);
            if (s->wait_ns == 0 && module->ask_queued) {
                ask(s, module);
            }
            continue;
        }
        find_names(s, module);
    }
    end_parsing(s);
    module->busy = module->slow = false;
    pthread_cond_broadcast(&s->answered);
}

static struct et_symbols_module *next_module(const struct et_symbols *s, bool asks)
{
    for (size_t i = 0; i < s->module_count; i++) {
        struct et_symbols_module *module = s->modules[i];
        if (asks ? module->ask_queued && !module->asking : module->queued && !module->busy) {
            return module;
        }
    }
    return NULL;
}

static void serve(struct et_symbols *s, bool asks)
{
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct et_symbols_module *module = next_module(s, asks);
        if (!module) {
            pthread_cond_wait(&s->work, &s->lock);
        } else if (asks) {
            ask(s, module);
            pthread_cond_broadcast(&s->answered);
        } else {
            et_symbols_work(s, module);
            pthread_cond_broadcast(&s->work); /* it may have to be asked for */
        }
    }
    pthread_mutex_unlock(&s->lock);
}

static void *worker(void *context)
{
    serve(context, false);
    return NULL;
}

static void *asker(void *context)
{
    serve(context, true);
    return NULL;
}

/* At the first need. Signals are for the program's other threads. */
void et_symbols_start_threads(struct et_symbols *s)
{
    sigset_t all, old;
    size_t wanted = s->debuginfod ? WORKERS + ASKERS : WORKERS;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (s->thread_count < wanted &&
           pthread_create(&s->threads[s->thread_count], NULL, s->thread_count < WORKERS ? worker : asker, s) == 0) {
        s->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
