/*
 * See debuginfod.h.
 *
 *   et_debuginfod_find -> cached -> missing -> fetch_from (each server) -> keep, trim
 *
 * The library's own cache knows no limit of size, and takes most errors for a file that is missing. So it gets a folder
 * for one answer, CACHE/.asking-XXXXXX, and what came is put in place from there. That nobody has a file is noted by an
 * empty one, ID.missing, beside those that are there.
 */
#include "tools/symbols/debuginfod.h"
#include "tools/symbols/debuginfod_fetch.h"
#include "tools/symbols/symstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { AGAIN_SECONDS = 60, MISSING_SECONDS = 3600 };

static const uint64_t CACHE_LIMIT = (uint64_t)2 << 30;

struct server {
    char *url;
    _Atomic time_t failed;
};

struct et_debuginfod {
    struct server *servers;
    size_t count, capacity;
    char *cache;
    struct et_fetches fetches;
};

void et_debuginfod_stop(struct et_debuginfod *d)
{
    et_fetches_stop(&d->fetches);
}

struct et_debuginfod *et_debuginfod_new(const char *urls, const char *cache)
{
    struct et_debuginfod *d = et_alloc(1, sizeof *d);
    char *copy = et_strdup(urls), *rest = copy, *url;
    d->cache = et_strdup(cache);
    pthread_mutex_init(&d->fetches.lock, NULL);
    while ((url = strsep(&rest, " \t\n"))) {
        size_t size = strlen(url);
        while (size && url[size - 1] == '/') {
            url[--size] = '\0';
        }
        if (size) {
            d->servers = et_reserve(d->servers, &d->capacity, d->count + 1, sizeof *d->servers);
            d->servers[d->count++].url = et_strdup(url);
        }
    }
    free(copy);
    return d;
}

void et_debuginfod_free(struct et_debuginfod *d)
{
    if (!d) {
        return;
    }
    for (size_t i = 0; i < d->count; i++) {
        free(d->servers[i].url);
    }
    pthread_mutex_destroy(&d->fetches.lock);
    free(d->servers);
    free(d->cache);
    free(d);
}

bool et_debuginfod_cache(struct et_buf *folder)
{
    const char *own = getenv("EDGEPROF_CACHE"), *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own) {
        et_buf_text(folder, own);
    } else if (caches && *caches == '/') {
        et_buf_printf(folder, "%s/edgeprof/symbols", caches);
    } else if (home && *home == '/') {
        et_buf_printf(folder, "%s/.cache/edgeprof/symbols", home);
    }
    return folder->size > 0;
}

/* ---- the cache ---- */

static bool cached(const struct et_debuginfod *d, const char *id, struct et_buf *path)
{
    const char *why;
    unsigned quality;
    struct et_buf file = {0};
    et_symstore_path(d->cache, id, &file);
    bool there = et_symstore_check(file.data, id, &quality, &why) == 0;
    if (there) {
        utimensat(AT_FDCWD, file.data, NULL, 0); /* the least used are removed first */
        et_buf_add(path, file.data, file.size);
    }
    et_buf_free(&file);
    return there;
}

static void missing_path(const struct et_debuginfod *d, const char *id, struct et_buf *path)
{
    et_buf_printf(path, "%s/%.2s/%s.missing", d->cache, id, id + 2);
}

static bool missing(const struct et_debuginfod *d, const char *id)
{
    struct stat status;
    struct et_buf path = {0};
    missing_path(d, id, &path);
    bool noted = stat(path.data, &status) == 0 && time(NULL) - status.st_mtime < MISSING_SECONDS;
    et_buf_free(&path);
    return noted;
}

static void note_missing(const struct et_debuginfod *d, const char *id)
{
    struct et_buf path = {0}, folder = {0};
    et_buf_printf(&folder, "%s/%.2s", d->cache, id);
    missing_path(d, id, &path);
    mkdir(folder.data, 0777);
    /* senders name ids: there is no end of them */
    et_symstore_remove_old(folder.data, "", ".missing", MISSING_SECONDS);
    unlink(path.data); /* its time is now */
    int err = et_write_file(path.data, "", 0);
    if (err) {
        et_error("debuginfod: %s: %s", path.data, strerror(-err));
    }
    et_buf_free(&path);
    et_buf_free(&folder);
}

struct kept {
    char *path;
    uint64_t size;
    int64_t used_ns;
};

struct listing {
    struct kept *files;
    size_t count, capacity;
    uint64_t size;
};

static void on_file(void *context, const struct et_symstore_entry *entry)
{
    struct listing *list = context;
    list->files = et_reserve(list->files, &list->capacity, list->count + 1, sizeof *list->files);
    list->files[list->count++] =
        (struct kept){.path = et_strdup(entry->path), .size = entry->size, .used_ns = entry->used_ns};
    list->size += entry->size;
}

static int by_use(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* Removes what was not used for longest until the rest is within the limit. */
static void trim(const struct et_debuginfod *d)
{
    struct listing list = {0};
    et_symstore_each(d->cache, on_file, &list);
    if (list.size > CACHE_LIMIT) {
        qsort(list.files, list.count, sizeof *list.files, by_use);
    }
    for (size_t i = 0; i < list.count; i++) {
        if (list.size > CACHE_LIMIT && unlink(list.files[i].path) == 0) {
            list.size -= list.files[i].size;
        }
        free(list.files[i].path);
    }
    free(list.files);
}

/* ---- servers ---- */

static void server_failed(struct server *server, const char *why)
{
    server->failed = time(NULL);
    et_error("debuginfod: %s: %s; retrying in %d s", server->url, why, AGAIN_SECONDS);
}

/* Puts what was fetched in place. 0, 1, or a negative errno value. */
static int keep(const struct et_debuginfod *d, const char *id, const char *folder, struct et_buf *why)
{
    const char *wrong = NULL;
    struct et_buf path = {0}, inner = {0};
    et_buf_printf(&path, "%s/%s/debuginfo", folder, id);
    et_buf_printf(&inner, "%s/%.2s", d->cache, id);
    struct et_symstore_file file = {.file = fopen(path.data, "rb"), .path = path.data};
    int err = file.file ? et_make_folders(inner.data) : -errno;
    if (err) {
        et_symstore_abort(&file);
    } else {
        futimens(fileno(file.file), NULL); /* it has the server's time, and would be the first that is removed */
        err = et_symstore_commit(d->cache, id, &file, &wrong);
    }
    if (err < 0) {
        et_buf_printf(why, "invalid file for %s: %s", id, wrong ? wrong : strerror(-err));
    }
    et_buf_free(&inner);
    return err;
}

/* 1: the file is in the cache; 0: that server does not have it; or an error, which was said. */
static int fetch_from(struct et_debuginfod *d, struct server *server, const char *id)
{
    struct et_buf folder = {0}, why = {0};
    et_symstore_remove_old(d->cache, ".asking-", "", ET_LEFT_SECONDS);
    et_buf_printf(&folder, "%s/.asking-XXXXXX", d->cache);
    int found = mkdtemp(folder.data) ? 0 : -errno;
    if (found < 0) {
        et_error("debuginfod: %s: %s", d->cache, strerror(-found));
    } else {
        found = et_debuginfod_fetch(&d->fetches, server->url, id, folder.data, &why);
        int err = found == 1 ? keep(d, id, folder.data, &why) : 0;
        found = err < 0 ? err : found;
        et_symstore_remove(folder.data);
        if (found < 0 && !et_fetches_stopped(&d->fetches)) {
            server_failed(server, why.data);
        }
    }
    et_buf_free(&folder);
    et_buf_free(&why);
    return found;
}

bool et_debuginfod_find(struct et_debuginfod *d, const char *build_id, struct et_buf *path)
{
    char id[ET_BUILD_ID_TEXT];
    bool asked_all = true;
    if (!et_build_id_read(build_id, id) || et_make_folders(d->cache) != 0) {
        return false;
    }
    if (cached(d, id, path)) {
        return true;
    }
    if (missing(d, id)) {
        return false;
    }
    for (size_t i = 0; i < d->count; i++) {
        struct server *server = &d->servers[i];
        int found = time(NULL) - server->failed < AGAIN_SECONDS ? -EAGAIN : fetch_from(d, server, id);
        if (found == 1) {
            trim(d);
            return cached(d, id, path);
        }
        asked_all &= found == 0;
    }
    if (asked_all) {
        note_missing(d, id);
    }
    return false;
}
