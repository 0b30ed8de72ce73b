/* See places.h. */
#include "tools/symbols/places.h"
#include "tools/symbols/reader.h"
#include "tools/symbols/symstore.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct found_file {
    char *build_id, *path;
};

struct et_places {
    char **folders;
    size_t folder_count, folder_capacity;
    char *store;
    pthread_mutex_t lock; /* of the files found in folders */
    struct found_file *files;
    size_t file_count, file_capacity;
    time_t scanned;
    pthread_mutex_t complaints_lock;
    struct et_strings complaints; /* each is made once */
};

/* Folders are read again after so many seconds: files may have been added. */
enum { RETRY_SECONDS = 15, COMPLAINTS = 200 };

struct et_places *et_places_new(void)
{
    struct et_places *places = et_alloc(1, sizeof *places);
    pthread_mutex_init(&places->lock, NULL);
    pthread_mutex_init(&places->complaints_lock, NULL);
    return places;
}

static void forget_files(struct et_places *places)
{
    for (size_t i = 0; i < places->file_count; i++) {
        free(places->files[i].build_id);
        free(places->files[i].path);
    }
    places->file_count = 0;
}

void et_places_free(struct et_places *places)
{
    for (size_t i = 0; i < places->folder_count; i++) {
        free(places->folders[i]);
    }
    forget_files(places);
    pthread_mutex_destroy(&places->lock);
    pthread_mutex_destroy(&places->complaints_lock);
    et_strings_free(&places->complaints);
    free(places->folders);
    free(places->files);
    free(places->store);
    free(places);
}

void et_places_add_folder(struct et_places *places, const char *folder)
{
    places->folders =
        et_reserve(places->folders, &places->folder_capacity, places->folder_count + 1, sizeof *places->folders);
    places->folders[places->folder_count++] = et_strdup(folder);
}

void et_places_set_store(struct et_places *places, const char *folder)
{
    free(places->store);
    places->store = et_strdup(folder);
}

const char *et_places_store(const struct et_places *places)
{
    return places->store;
}

/* Senders name modules: no more lines than somebody would read. */
void et_places_complain(struct et_places *places, const char *path, const char *why)
{
    struct et_strings *complaints = &places->complaints;
    struct et_buf line = {0};
    et_buf_printf(&line, "symbols: %s: %s; its frames are shown as module+offset", path, why);
    pthread_mutex_lock(&places->complaints_lock);
    size_t before = complaints->count;
    bool fresh = before < COMPLAINTS && !et_known(complaints, line.data);
    if (fresh) {
        et_intern(complaints, line.data);
        et_error("%s%s", line.data,
                 complaints->count == COMPLAINTS ? "; further messages of this kind are omitted" : "");
    }
    pthread_mutex_unlock(&places->complaints_lock);
    et_buf_free(&line);
}

/* ---- places ---- */

static void consider(struct et_choice *best, const char *path, const struct et_symfile_facts *facts)
{
    if (facts->quality > best->quality) {
        free(best->path);
        best->path = et_strdup(path);
        best->quality = facts->quality;
        snprintf(best->debuglink, sizeof best->debuglink, "%s", facts->debuglink);
    }
}

/* nftw() passes no context. Several tables may be scanned at once, each by one thread. */
static _Thread_local struct et_places *scanning;

static void found(const char *path)
{
    struct et_places *places = scanning;
    struct et_symfile_facts facts;
    int err = et_reader_examine(path, &facts);
    if (err == -EINVAL || err == -EBADMSG) {
        return;
    }
    if (err) {
        et_places_complain(places, path, strerror(-err));
        return;
    }
    places->files = et_reserve(places->files, &places->file_capacity, places->file_count + 1, sizeof *places->files);
    places->files[places->file_count++] =
        (struct found_file){.build_id = et_strdup(facts.build_id), .path = et_strdup(path)};
}

static bool is_elf(const char *path)
{
    char magic[4] = {0};
    FILE *file = fopen(path, "rb");
    if (!file) {
        et_places_complain(scanning, path, strerror(errno));
        return false;
    }
    bool elf = fread(magic, 1, sizeof magic, file) == sizeof magic && memcmp(magic, "\177ELF", 4) == 0;
    fclose(file);
    return elf;
}

static int visit(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)where;
    if (type == FTW_F && S_ISREG(status->st_mode) && status->st_size > 64 && is_elf(path)) {
        found(path);
    }
    return 0;
}

static void scan_folders(struct et_places *places)
{
    time_t now = time(NULL);
    if (places->scanned && now - places->scanned < RETRY_SECONDS) {
        return;
    }
    places->scanned = now;
    forget_files(places);
    scanning = places;
    for (size_t i = 0; i < places->folder_count; i++) {
        if (nftw(places->folders[i], visit, 32, FTW_PHYS) != 0) {
            et_places_complain(places, places->folders[i], strerror(errno));
        }
    }
}

static void consider_path(struct et_choice *best, const char *path, const char *build_id,
                          struct et_symfile_facts *facts)
{
    int err = et_reader_examine(path, facts);
    best->broken |= err == -EBADMSG;
    if (err == 0 && strcmp(facts->build_id, build_id) == 0) {
        consider(best, path, facts);
    }
}

static void consider_found(struct et_places *places, struct et_choice *best, const char *build_id)
{
    struct et_symfile_facts facts;
    pthread_mutex_lock(&places->lock);
    scan_folders(places);
    for (size_t i = 0; i < places->file_count && build_id[0]; i++) {
        if (strcmp(places->files[i].build_id, build_id) == 0) {
            consider_path(best, places->files[i].path, build_id, &facts);
        }
    }
    pthread_mutex_unlock(&places->lock);
}

void et_places_consider(struct et_choice *best, const char *path, const char *build_id)
{
    struct et_symfile_facts facts;
    consider_path(best, path, build_id, &facts);
}

/* Where gdb looks for it, too: "Debugging Information in Separate Files" in its manual. */
static void consider_debuglink(struct et_choice *best, const char *build_id, const char *module, const char *name)
{
    static const char *const prefixes[] = {"", "/usr/lib/debug"}, *const folders[] = {"", ".debug/"};
    char path[4608];
    int folder = (int)(strrchr(module, '/') + 1 - module);
    for (size_t i = 0; i < 4; i++) {
        int size = snprintf(path, sizeof path, "%s%.*s%s%s", prefixes[i / 2], folder, module, folders[i % 2], name);
        if (size > 0 && (size_t)size < sizeof path) {
            et_places_consider(best, path, build_id);
        }
    }
}

static void consider_known_places(const struct et_places *places, struct et_choice *best, const char *build_id,
                                  const char *module)
{
    const char *const folders[] = {places->store, "/usr/lib/debug/.build-id"};
    char path[4352], id[ET_BUILD_ID_TEXT];
    struct et_symfile_facts facts;
    if (module[0] == '/' && !strstr(module, "/../")) { /* no kernel says it so */
        consider_path(best, module, build_id, &facts);
        snprintf(path, sizeof path, "%s.dbg", module);
        et_places_consider(best, path, build_id);
        if (facts.debuglink[0]) {
            consider_debuglink(best, build_id, module, facts.debuglink);
        }
    }
    for (size_t i = 0; i < 2 && et_build_id_read(build_id, id); i++) {
        struct et_buf place = {0};
        if (folders[i]) {
            et_symstore_path(folders[i], id, &place);
            et_places_consider(best, place.data, build_id);
        }
        et_buf_free(&place);
    }
}

void et_places_find(struct et_places *places, const char *build_id, const char *path, struct et_choice *best)
{
    consider_found(places, best, build_id);
    consider_known_places(places, best, build_id, path);
}
