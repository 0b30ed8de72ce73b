/*
 * See symbols.h. Modules are known by build id. What takes long is done for one module by one thread at a time, without
 * the lock: it opens the module's file and finds the names of the addresses that were asked for.
 *
 *   et_symbolize    collect -> start -> wait_for -> fill
 *   work            load -> et_resolve -> publish       in a worker, or in the thread that asks
 *   ask             et_debuginfod_find                  in an asker, or in the thread that asks
 */
#include "tools/symbols/symbols.h"
#include "tools/symbols/debuginfod.h"
#include "tools/symbols/places.h"
#include "tools/symbols/reader.h"
#include "tools/lib/pause.h"
#include "tools/lib/progress.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum state {
    UNKNOWN, /* to be looked for */
    ABSENT,
    OPEN,
    CLOSED, /* to make room; the answers stay */
};

struct answer {
    uint32_t function, source, line; /* numbers of strings; function 0: no name */
    bool more;                       /* the next answer belongs to the same address */
    uint64_t start;                  /* without a name: of the function */
};

struct module {
    char *build_id, *path; /* of a module without build id also its key; else of whom asked last */
    enum state state;
    struct et_reader *file; /* the busy thread's */
    char *file_path, *fetched;
    char debuglink[256]; /* of the file */
    unsigned quality;
    struct et_map known; /* address -> PENDING, or index + FIRST into answers */
    struct answer *answers;
    size_t answer_count, answer_capacity;
    struct et_strings strings;
    uint64_t *pending; /* addresses without an answer yet */
    size_t pending_count, pending_capacity;
    time_t tried;
    bool queued, busy;       /* a worker has to look at it; one does */
    bool ask_queued, asking; /* the same of an asker */
    bool slow;               /* somebody has waited in vain for what is being done */
    unsigned users;          /* requests */
    uint64_t used;           /* when, in requests */
};

enum { PENDING = 1, FIRST = 2 };

enum { WORKERS = 4, ASKERS = 2 };

struct et_symbols {
    struct et_places *places;
    struct et_debuginfod *debuginfod;
    int64_t wait_ns; /* 0: the asking thread does the work itself */
    pthread_mutex_t lock;
    pthread_cond_t work, answered;
    pthread_t threads[WORKERS + ASKERS];
    size_t thread_count;
    atomic_bool stopping;
    struct module **modules;
    size_t module_count, module_capacity;
    size_t answer_count;
    size_t parsing; /* workers that wait for a file's process */
    uint64_t requests;
};

/* A module without symbols is looked for again after so many seconds: files may have been added. Besides, what is kept:
 * the least recently used goes. TEXT: bytes of names. BATCH: addresses that are asked for at once.
 * TRIES: files of a module, if one after the other breaks its process. */
enum {
    RETRY_SECONDS = 15,
    MODULES_MOST = 4096,
    ANSWERS_MOST = 1 << 20,
    TEXT_MOST = 48 << 20,
    TEXT_OF_A_MODULE = 16 << 20,
    FILES_MOST = 64,
    BATCH = 256,
    TRIES = 4,
    QUALITY_SYMTAB = 2,
    QUALITY_DWARF = 4
};
/* Of all open files: in processes of their own, and in this one, where a file takes about its size. */
static const uint64_t MEMORY_THERE = (uint64_t)64 << 20, MEMORY_HERE = (uint64_t)1 << 30;
/* Files that are parsed at once: a large one must not keep the others waiting. */
enum { PARSED_MOST = 2 };

struct et_symbols *et_symbols_new(void)
{
    struct et_symbols *symbols = et_alloc(1, sizeof *symbols);
    symbols->places = et_places_new();
    pthread_mutex_init(&symbols->lock, NULL);
    et_cond_init(&symbols->work);
    et_cond_init(&symbols->answered);
    return symbols;
}

static void free_module(struct module *module)
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

void et_symbols_stop(struct et_symbols *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->work);
    pthread_cond_broadcast(&s->answered);
    pthread_mutex_unlock(&s->lock);
    if (s->debuginfod) {
        et_debuginfod_stop(s->debuginfod);
    }
}

void et_symbols_free(struct et_symbols *s)
{
    if (!s) {
        return;
    }
    et_symbols_stop(s);
    for (size_t i = 0; i < s->thread_count; i++) {
        pthread_join(s->threads[i], NULL);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->answered);
    for (size_t i = 0; i < s->module_count; i++) {
        free_module(s->modules[i]);
    }
    et_debuginfod_free(s->debuginfod);
    et_places_free(s->places);
    free(s->modules);
    free(s);
}

void et_symbols_add_folder(struct et_symbols *s, const char *folder)
{
    et_places_add_folder(s->places, folder);
}

void et_symbols_set_store(struct et_symbols *s, const char *folder)
{
    et_places_set_store(s->places, folder);
}

const char *et_symbols_store(const struct et_symbols *s)
{
    return et_places_store(s->places);
}

void et_symbols_set_debuginfod(struct et_symbols *s, const char *urls, const char *cache)
{
    et_debuginfod_free(s->debuginfod);
    s->debuginfod = et_debuginfod_new(urls, cache);
}

void et_symbols_set_wait(struct et_symbols *s, int64_t wait_ns)
{
    s->wait_ns = wait_ns;
}

/* ---- complaints ---- */

static bool is_named(const struct module *module)
{
    return module->path[0] != '[';
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void say_absent(const struct et_symbols *s, const struct module *module)
{
    struct et_buf name = {0};
    et_buf_printf(&name, "%s (build id %s)", module->path, module->build_id[0] ? module->build_id : "none");
    et_places_complain(s->places, name.data, "no symbol file found (" ET_PLACES_HINT ")");
    et_buf_free(&name);
}

/* Says once where a stripped program's names are. Of a system's libraries few users miss the names. */
static void say_stripped(const struct et_symbols *s, const struct module *module)
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

/* ---- what is kept ---- */

static bool is_idle(const struct module *module)
{
    return module->users == 0 && !module->busy && !module->queued && !module->asking && !module->ask_queued;
}

static void forget(struct et_symbols *s, struct module *module)
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
        free_module(s->modules[oldest]);
        s->modules[oldest] = s->modules[--s->module_count];
    }
}

static struct module *oldest_file(const struct et_symbols *s, const struct module *but)
{
    struct module *oldest = NULL;
    for (size_t i = 0; i < s->module_count; i++) {
        struct module *module = s->modules[i];
        bool old = module->state == OPEN && !module->busy && module != but;
        oldest = old && (!oldest || module->used < oldest->used) ? module : oldest;
    }
    return oldest;
}

static void close_files(struct et_symbols *s, const struct module *but)
{
    uint64_t bytes = 0;
    size_t files = 0;
    for (size_t i = 0; i < s->module_count; i++) {
        bool held = s->modules[i]->state == OPEN && !s->modules[i]->busy;
        files += held;
        bytes += held ? et_reader_memory(s->modules[i]->file) : 0;
    }
    bytes += but->file ? et_reader_memory(but->file) : 0;
    struct module *old;
    const uint64_t most = et_reader_runs() ? MEMORY_THERE : MEMORY_HERE;
    while ((files >= FILES_MOST || bytes > most) && (old = oldest_file(s, but))) {
        files--;
        bytes -= et_reader_memory(old->file);
        et_reader_close(old->file);
        old->file = NULL;
        old->state = CLOSED;
    }
}

static struct module *get_module(struct et_symbols *s, const char *build_id, const char *path)
{
    struct module *module = NULL;
    for (size_t i = 0; i < s->module_count && !module; i++) {
        bool same = strcmp(s->modules[i]->build_id, build_id) == 0;
        module = same && (build_id[0] || strcmp(s->modules[i]->path, path) == 0) ? s->modules[i] : NULL;
    }
    if (!module) {
        make_room(s);
        module = et_alloc(1, sizeof *module);
        module->build_id = et_strdup(build_id);
        module->path = et_strdup(path);
        s->modules = et_reserve(s->modules, &s->module_capacity, s->module_count + 1, sizeof *s->modules);
        s->modules[s->module_count++] = module;
    }
    module->used = ++s->requests;
    if (module->state == ABSENT && !module->busy && !module->asking && time(NULL) - module->tried >= RETRY_SECONDS) {
        if (strcmp(module->path, path) != 0) { /* its own place may be there */
            free(module->path);
            module->path = et_strdup(path);
        }
        module->state = UNKNOWN;
    }
    return module;
}

/* ---- work ---- */

struct loaded {
    struct et_choice choice;
    struct et_reader *file;
    bool said; /* what is wrong */
};

/* Of the best file there is. */
static struct loaded try_file(const struct et_symbols *s, const struct module *module, const char *fetched)
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
static struct loaded find_file(const struct et_symbols *s, const struct module *module, const char *fetched)
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
static void load(struct et_symbols *s, struct module *module)
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
        forget(s, module);
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
    close_files(s, module);
}

static void publish(struct et_symbols *s, struct module *module, uint64_t address, const struct et_resolved *resolved)
{
    size_t at = module->answer_count;
    module->answers =
        et_reserve(module->answers, &module->answer_capacity, at + resolved->count, sizeof *module->answers);
    for (size_t i = 0; i < resolved->count; i++) {
        const struct et_resolved_line *line = &resolved->lines[i];
        module->answers[at + i] = (struct answer){
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

static void ask(struct et_symbols *s, struct module *module)
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
    struct module *module;
    size_t answered;
};

static void on_answer(void *context, uint64_t address, const struct et_resolved *resolved)
{
    struct answering *a = context;
    struct module *module = a->module;
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
static void find_names(struct et_symbols *s, struct module *module)
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

static void work(struct et_symbols *s, struct module *module)
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

static struct module *next_module(const struct et_symbols *s, bool asks)
{
    for (size_t i = 0; i < s->module_count; i++) {
        struct module *module = s->modules[i];
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
        struct module *module = next_module(s, asks);
        if (!module) {
            pthread_cond_wait(&s->work, &s->lock);
        } else if (asks) {
            ask(s, module);
            pthread_cond_broadcast(&s->answered);
        } else {
            work(s, module);
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
static void start_threads(struct et_symbols *s)
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

/* ---- requests ---- */

struct request {
    struct et_symbols *symbols;
    struct et_profile *profile;
    struct wanted {
        struct module *module; /* NULL: no frame of the profile's module needs a name */
        bool first;            /* this request is the one that looks for it */
    } * wanted;                /* for each module of the profile */
    size_t count;
    enum { IN_TIME, FILES, SERVERS } wait; /* for as long as files take, or servers' answers, too */
    struct timespec until;
};

static void want(struct request *r, size_t index, const char *build_id, const char *path)
{
    struct wanted *wanted = &r->wanted[index];
    if (!wanted->module) {
        wanted->module = get_module(r->symbols, build_id, path);
        wanted->module->users++;
        wanted->first = wanted->module->state == UNKNOWN;
    }
}

static void collect(struct request *r)
{
    const struct et_profile *p = r->profile;
    for (size_t i = 0; i < p->frame_count; i++) {
        const struct et_frame *frame = &p->frames[i];
        if (frame->line_count || frame->name || frame->module == 0) {
            continue;
        }
        const struct et_module *of = &p->modules[frame->module - 1];
        want(r, frame->module - 1, et_text(&p->strings, of->build_id), et_text(&p->strings, of->path));
        struct module *module = r->wanted[frame->module - 1].module;
        uint64_t *known = et_map_at(&module->known, frame->address);
        if (!*known) {
            *known = PENDING;
            module->pending = et_reserve(module->pending, &module->pending_capacity, module->pending_count + 1,
                                         sizeof *module->pending);
            module->pending[module->pending_count++] = frame->address;
        }
    }
}

/* Gives the work to the workers, or does it. Whether there is nothing to wait for. */
static bool start(struct request *r)
{
    struct et_symbols *s = r->symbols;
    bool done = true;
    for (size_t i = 0; i < r->count; i++) {
        struct module *module = r->wanted[i].module;
        if (!module) {
            continue;
        }
        bool needed = module->pending_count || module->state == UNKNOWN;
        if (needed && !module->busy && s->thread_count == 0) {
            et_progress_of(i, r->count);
            work(s, module);
            needed = module->pending_count || module->state == UNKNOWN;
        }
        if (needed && !module->busy && s->thread_count > 0) {
            module->queued = true;
            pthread_cond_broadcast(&s->work); /* this request may not wait for it */
        }
        bool asked = module->asking || module->ask_queued;
        bool left =
            needed || module->busy || (asked && (r->wait == SERVERS || (r->wait == IN_TIME && r->wanted[i].first)));
        done = done && (!left || (module->slow && r->wait == IN_TIME));
    }
    return done;
}

/* One request waits for it, and not all that come meanwhile, nor this one for its next profile. */
static void mark_slow(struct request *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct module *module = r->wanted[i].module;
        if (module) {
            module->slow = module->pending_count || module->state == UNKNOWN || module->busy || module->asking ||
                           module->ask_queued;
        }
    }
}

static void wait_for(struct request *r)
{
    struct et_symbols *s = r->symbols;
    if (s->wait_ns && s->thread_count == 0) {
        start_threads(s);
    }
    int code = 0;
    while (!s->stopping && code == 0) {
        if (r->profile) {
            collect(r);
        }
        if (start(r)) {
            return;
        }
        pthread_cond_broadcast(&s->work);
        if (r->wait != IN_TIME || s->wait_ns == 0) {
            pthread_cond_wait(&s->answered, &s->lock);
        } else {
            code = pthread_cond_timedwait(&s->answered, &s->lock, &r->until);
        }
    }
    if (code) {
        mark_slow(r);
    }
}

static void fill_frame(struct request *r, struct et_frame *frame, const struct module *module)
{
    struct et_profile *p = r->profile;
    const uint64_t *known = et_map_find(&module->known, frame->address);
    const struct answer none = {.start = frame->address};
    const struct answer *answer = known && *known >= FIRST ? &module->answers[*known - FIRST] : &none;
    bool more;
    do {
        struct et_buf name = {0};
        if (answer->function == 0) {
            et_address_name(et_text(&p->strings, p->modules[frame->module - 1].path), answer->start, &name);
        }
        char *clean = name.data ? et_clean(name.data, name.size) : NULL;
        et_profile_line(p, frame, clean ? clean : et_text(&module->strings, answer->function),
                        et_text(&module->strings, answer->source), answer->line);
        free(clean);
        et_buf_free(&name);
        more = answer->more;
        answer++;
    } while (more);
}

static void fill(struct request *r)
{
    struct et_profile *p = r->profile;
    for (size_t i = 0; i < p->frame_count; i++) {
        struct et_frame *frame = &p->frames[i];
        if (frame->line_count) {
            continue;
        }
        if (frame->name) {
            et_profile_line(p, frame, et_text(&p->strings, frame->name), et_text(&p->strings, frame->file),
                            frame->line);
        } else if (frame->module == 0) {
            char name[32];
            et_special_name(frame->address, name);
            et_profile_line(p, frame, name, "", 0);
        } else if (r->wanted[frame->module - 1].module) {
            fill_frame(r, frame, r->wanted[frame->module - 1].module);
        }
    }
}

static void finish(struct request *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->wanted[i].module) {
            r->wanted[i].module->users--;
        }
    }
    free(r->wanted);
}

unsigned et_symbols_quality(struct et_symbols *s, const char *build_id, const char *path, struct et_buf *file)
{
    struct request r = {.symbols = s, .wanted = et_alloc(1, sizeof *r.wanted), .count = 1, .wait = SERVERS};
    pthread_mutex_lock(&s->lock);
    want(&r, 0, build_id, path);
    wait_for(&r);
    const struct module *module = r.wanted[0].module;
    unsigned quality = module->quality;
    if (file && module->file_path) {
        et_buf_text(file, module->file_path);
    }
    finish(&r);
    pthread_mutex_unlock(&s->lock);
    return quality;
}

static void symbolize(struct et_symbols *s, struct et_profile *profile, int wait)
{
    struct request r = {.symbols = s,
                        .profile = profile,
                        .wanted = et_alloc(profile->module_count + 1, sizeof *r.wanted),
                        .count = profile->module_count,
                        .wait = wait,
                        .until = et_monotonic_after(s->wait_ns)};
    pthread_mutex_lock(&s->lock);
    wait_for(&r);
    fill(&r);
    finish(&r);
    pthread_mutex_unlock(&s->lock);
}

void et_symbolize(struct et_symbols *symbols, struct et_profile *profile)
{
    symbolize(symbols, profile, IN_TIME);
}

void et_symbolize_waiting(struct et_symbols *symbols, struct et_profile *profile, bool servers)
{
    symbolize(symbols, profile, servers ? SERVERS : FILES);
}
