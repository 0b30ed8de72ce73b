/*
 * See symbols.h. Modules are known by build id. What takes long is done for one module by one thread at a time, without
 * the lock (symbols_work.c): it opens the module's file and finds the names of the addresses that were asked for.
 *
 *   et_symbolize    collect -> start -> wait_for -> fill
 *   work            load -> et_resolve -> publish       in a worker, or in the thread that asks
 *   ask             et_debuginfod_find                  in an asker, or in the thread that asks
 */
#include "tools/symbols/symbols_parts.h"
#include "tools/lib/pause.h"
#include "tools/lib/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct et_symbols *et_symbols_new(void)
{
    struct et_symbols *symbols = et_alloc(1, sizeof *symbols);
    symbols->places = et_places_new();
    pthread_mutex_init(&symbols->lock, NULL);
    et_cond_init(&symbols->work);
    et_cond_init(&symbols->answered);
    return symbols;
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
        et_symbols_free_module(s->modules[i]);
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
    et_places_set_cache(s->places, cache);
}

void et_symbols_set_wait(struct et_symbols *s, int64_t wait_ns)
{
    s->wait_ns = wait_ns;
}

/* ---- requests ---- */

struct request {
    struct et_symbols *symbols;
    struct et_profile *profile;
    struct wanted {
        struct et_symbols_module *module; /* NULL: no frame of the profile's module needs a name */
        bool first;                       /* this request is the one that looks for it */
    } * wanted;                           /* for each module of the profile */
    size_t count;
    enum { IN_TIME, FILES, SERVERS } wait; /* for as long as files take, or servers' answers, too */
    struct timespec until;
};

static void want(struct request *r, size_t index, const char *build_id, const char *path, int64_t since_ns)
{
    struct wanted *wanted = &r->wanted[index];
    if (!wanted->module) {
        wanted->module = et_symbols_get_module(r->symbols, build_id, path, since_ns);
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
        want(r, frame->module - 1, et_text(&p->strings, of->build_id), et_text(&p->strings, of->path),
             p->began_ns ? p->began_ns : p->start_ns);
        struct et_symbols_module *module = r->wanted[frame->module - 1].module;
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
        struct et_symbols_module *module = r->wanted[i].module;
        if (!module) {
            continue;
        }
        bool needed = et_symbols_has_work(module);
        if (needed && !module->busy && s->thread_count == 0) {
            et_progress_of(i, r->count);
            et_symbols_work(s, module);
            needed = et_symbols_has_work(module);
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

/* Whether something that may name its addresses is still being read or fetched. */
static bool is_pending(const struct et_symbols *s, const struct et_symbols_module *module)
{
    return !s->stopping &&
           (module->pending_count || module->state == UNKNOWN || module->busy || module->asking || module->ask_queued);
}

/* One request waits for it, and not all that come meanwhile, nor this one for its next profile. */
static void mark_slow(struct request *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct et_symbols_module *module = r->wanted[i].module;
        if (module) {
            module->slow = is_pending(r->symbols, module);
        }
    }
}

static void wait_for(struct request *r)
{
    struct et_symbols *s = r->symbols;
    if (s->wait_ns && s->thread_count == 0) {
        et_symbols_start_threads(s);
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

static void fill_frame(struct request *r, struct et_frame *frame, const struct et_symbols_module *module)
{
    struct et_profile *p = r->profile;
    const uint64_t *known = et_map_find(&module->known, frame->address);
    const struct et_symbols_answer none = {.start = frame->address};
    const struct et_symbols_answer *answer = known && *known >= FIRST ? &module->answers[*known - FIRST] : &none;
    bool more;
    frame->unnamed = answer->function == 0;
    r->profile->names_pending += answer->function == 0 && is_pending(r->symbols, module);
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
    want(&r, 0, build_id, path, INT64_MAX);
    wait_for(&r);
    const struct et_symbols_module *module = r.wanted[0].module;
    unsigned quality = module->quality;
    if (file && module->file_path) {
        et_buf_text(file, module->file_path);
    }
    finish(&r);
    pthread_mutex_unlock(&s->lock);
    return quality;
}

static void begin(struct request *r, struct et_symbols *s, struct et_profile *profile, int wait)
{
    *r = (struct request){.symbols = s,
                          .profile = profile,
                          .wanted = et_alloc(profile->module_count + 1, sizeof *r->wanted),
                          .count = profile->module_count,
                          .wait = wait,
                          .until = et_monotonic_after(s->wait_ns)};
    profile->names_pending = 0;
}

static void symbolize(struct et_symbols *s, struct et_profile *profile, int wait)
{
    struct request r;
    begin(&r, s, profile, wait);
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

void et_symbolize_both(struct et_symbols *s, struct et_profile *left, struct et_profile *right)
{
    struct request r[2];
    begin(&r[0], s, left, IN_TIME);
    begin(&r[1], s, right, IN_TIME);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < 2; i++) {
        wait_for(&r[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        collect(&r[i]); /* a file that came meanwhile has dropped what the left side knew */
        fill(&r[i]);
        finish(&r[i]);
    }
    pthread_mutex_unlock(&s->lock);
}
