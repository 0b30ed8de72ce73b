/* See symbols_parts.h: finding files and names, by the asking thread or by workers. */
#include "tools/symbols/symbols_parts.h"
#include "tools/lib/progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TEXT: bytes of names. BATCH: addresses that are asked for at once. */
enum { TEXT_OF_A_MODULE = 16 << 20, BATCH = 256 };
/* Files that are parsed at once: a large one must not keep the others waiting. */
enum { PARSED_MOST = 2 };

/* ---- complaints ---- */

static bool is_named(const struct et_symbols_module *module)
{
    return module->path[0] != '[';
}

static void say_absent(const struct et_symbols *s, const struct et_symbols_module *module)
{
    struct et_buf name = {0};
    if (module->file_ns == ET_FILE_CHANGED) {
        et_places_complain(s->places, module->path,
                           "it has no build id and is newer than the profile, so it may be another version");
        return;
    }
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
        snprintf(link, sizeof link, "%s.dbg or the like", et_base_name(module->path));
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
    struct et_tried tried;
    bool said; /* what is wrong */
};

static void note_tried(struct loaded *found)
{
    struct et_tried *tried = &found->tried;
    if (tried->count < sizeof tried->files / sizeof *tried->files) {
        tried->files[tried->count++] = (struct et_tried_file){
            .path = et_strdup(found->choice.path), .quality = found->file ? et_reader_quality(found->file) : 0};
    }
}

static void open_chosen(const struct et_symbols *s, const struct et_symbols_module *module, struct loaded *found)
{
    struct et_buf why = {0};
    const char *path = found->choice.path;
    found->file = et_reader_open(path, module->build_id, &s->stopping, &why);
    found->choice.broken |= !found->file && why.size == 0;
    found->said |= !found->file;
    note_tried(found);
    if (why.size && found->file) {
        et_places_say(s->places, path, why.data);
    } else if (why.size) {
        et_places_complain(s->places, path, why.data);
    }
    et_buf_free(&why);
}

/* The best file there is, by what is known of those that were opened. Whether another one may be better. */
static bool try_file(const struct et_symbols *s, const struct et_symbols_module *module, const char *fetched,
                     struct loaded *found)
{
    char *before = found->choice.path;
    size_t tried = found->tried.count;
    found->choice = (struct et_choice){.tried = &found->tried};
    et_places_find(s->places, module->build_id, module->path, &found->choice);
    if (fetched) {
        et_places_consider(&found->choice, fetched, module->build_id);
    }
    bool same = before && found->file && found->choice.path && strcmp(before, found->choice.path) == 0;
    free(before);
    if (!same) {
        et_reader_close(found->file);
        found->file = NULL;
    }
    if (found->choice.path && !same) {
        open_chosen(s, module, found);
    } else if (!found->choice.path && strcmp(module->path, "[vdso]") == 0) {
        found->file = et_reader_open_vdso(module->build_id);
    }
    found->said |= found->choice.broken;
    unsigned quality = found->file ? et_reader_quality(found->file) : 0;
    return found->tried.count > tried && quality < found->choice.quality;
}

/* Files may have less than their headers promise, or break the process that reads them. */
static struct loaded find_file(const struct et_symbols *s, const struct et_symbols_module *module, const char *fetched)
{
    struct loaded found = {0};
    if (!module->build_id[0] && module->file_ns == ET_FILE_CHANGED) {
        return found;
    }
    while (try_file(s, module, fetched, &found) && !s->stopping) {
    }
    for (size_t i = 0; i < found.tried.count; i++) {
        free(found.tried.files[i].path);
    }
    if (found.file && !module->build_id[0] && et_symbols_file_time(module->path, INT64_MAX) != module->file_ns) {
        et_reader_close(found.file); /* replaced a moment ago: whoever asks next has another module */
        found.file = NULL;
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
    module->quality = found.file ? et_reader_quality(found.file) : 0;
    memcpy(module->debuglink, found.choice.debuglink, sizeof module->debuglink);
    module->lacked = (struct et_companion){0};
    module->state = found.file ? OPEN : ABSENT;
    module->tried = time(NULL);
    module->ask_queued =
        (module->ask_queued || first) && s->debuginfod && is_named(module) && module->quality < ET_QUALITY_DWARF;
    if (!module->ask_queued && !module->file_path && !found.said && is_named(module)) {
        say_absent(s, module);
    }
    et_symbols_close_files(s, module);
}

/* Whether the companion that was missing may have come since. */
static bool companion_came(const struct et_symbols *s, const struct et_symbols_module *module)
{
    struct et_buf path = {0};
    bool came = false;
    for (size_t i = 0; module->lacked.kind && module->file_path && !came &&
                       et_places_companion(s->places, &module->lacked, module->file_path, module->path, i, &path);
         i++) {
        came = path.size && et_symbols_file_time(path.data, (int64_t)module->tried * 1000000000) == ET_FILE_CHANGED;
        et_buf_free(&path);
    }
    et_buf_free(&path);
    return came;
}

/* Debuginfod has the common file of dwz by its build id, as any other one. What came and is not taken is not asked for
 * again. */
static bool may_be_fetched(const struct et_symbols *s, const struct et_symbols_module *module)
{
    return s->debuginfod && module->lacked.kind == ET_COMPANION_COMMON && !module->lacked_fetched;
}

/* Whether a better file than the one in use has come since, or what it lacks. */
static void look_again(struct et_symbols *s, struct et_symbols_module *module)
{
    struct et_choice choice = {.quality = module->quality};
    module->look_again = false;
    pthread_mutex_unlock(&s->lock);
    et_places_find(s->places, module->build_id, module->path, &choice);
    bool came = choice.path || companion_came(s, module);
    pthread_mutex_lock(&s->lock);
    module->tried = time(NULL);
    if (came && module->state != ABSENT) {
        module->state = UNKNOWN;
    }
    module->ask_queued |= !came && may_be_fetched(s, module);
    free(choice.path);
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

static void say_lacked(const struct et_symbols *s, const struct et_symbols_module *module,
                       const struct et_companion *companion)
{
    const char *file = module->file_path ? module->file_path : module->path;
    struct et_buf words = {0};
    if (companion->kind == ET_COMPANION_COMMON) {
        et_buf_printf(&words, "its names of inlined functions are in %s (build id %s), which was not found",
                      et_base_name(companion->name), companion->id);
    } else if (companion->kind == ET_COMPANION_SPLIT) {
        et_buf_printf(&words, "inlined functions are in split DWARF, %s.dwp or %s, which was not found",
                      et_base_name(module->path), companion->name);
    }
    char *clean = words.data ? et_clean(words.data, words.size) : NULL;
    if (clean) {
        et_places_say(s->places, file, clean);
    }
    free(clean);
    et_buf_free(&words);
}

/* What was answered without the common file is answered again with it. */
static void answer_again(struct et_symbols_module *module)
{
    for (size_t i = 0; i < module->known.capacity; i++) {
        if (module->known.entries[i].used && module->known.entries[i].value >= FIRST) {
            module->pending = et_reserve(module->pending, &module->pending_capacity, module->pending_count + 1,
                                         sizeof *module->pending);
            module->pending[module->pending_count++] = module->known.entries[i].key;
        }
    }
    module->lacked_fetched = true;
    module->state = UNKNOWN;
}

static void ask(struct et_symbols *s, struct et_symbols_module *module)
{
    struct et_buf path = {0};
    const struct et_companion lacked = may_be_fetched(s, module) ? module->lacked : (struct et_companion){0};
    module->ask_queued = false;
    module->asking = true;
    pthread_mutex_unlock(&s->lock);
    et_progress("fetching symbols of %s", et_base_name(module->path));
    bool found = et_debuginfod_find(s->debuginfod, lacked.kind ? lacked.id : module->build_id, &path);
    pthread_mutex_lock(&s->lock);
    module->asking = module->slow = false;
    if (lacked.kind && found) {
        answer_again(module);
    } else if (lacked.kind) {
        say_lacked(s, module, &lacked);
    } else if (found) {
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
    if (module->file_path && module->quality < ET_QUALITY_SYMTAB && !resolved->lines[0].function) {
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

static bool on_place(void *context, const struct et_companion *companion, size_t index, struct et_buf *path)
{
    const struct answering *a = context;
    return et_places_companion(a->symbols->places, companion, a->module->file_path ? a->module->file_path : "",
                               a->module->path, index, path);
}

static void on_missing(void *context, const struct et_companion *companion)
{
    const struct answering *a = context;
    pthread_mutex_lock(&a->symbols->lock);
    if (companion->kind != ET_COMPANION_PACKAGE) {
        a->module->lacked = *companion;
    }
    bool asks = may_be_fetched(a->symbols, a->module);
    a->module->ask_queued |= asks;
    pthread_cond_broadcast(&a->symbols->work);
    pthread_mutex_unlock(&a->symbols->lock);
    if (!asks) {
        say_lacked(a->symbols, a->module, companion);
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
        const struct et_reader_places places = {on_place, on_missing, &a};
        err = et_reader_names(module->file, &places, module->path, addresses, count, on_answer, &a, &s->stopping);
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
    while (!s->stopping && et_symbols_has_work(module)) {
        if (module->look_again) {
            look_again(s, module);
        } else if (module->state == UNKNOWN || module->state == CLOSED) {
            load(s, module);
        } else {
            find_names(s, module);
        }
        if (s->wait_ns == 0 && module->ask_queued) {
            ask(s, module);
        }
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
