/* See places.h. */
#include "tools/symbols/places.h"
#include "tools/symbols/reader.h"
#include "tools/symbols/symstore.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct found_file {
    char *build_id, *path;
};

struct et_places {
    char **folders;
    size_t folder_count, folder_capacity;
    char *store, *cache;
    pthread_mutex_t lock; /* of the files found in folders */
    struct found_file *files;
    size_t file_count, file_capacity;
    int64_t scanned_ns, scan_ns; /* when, and how long it took; of the monotonic clock */
    pthread_mutex_t complaints_lock;
    struct et_strings complaints; /* each is made once */
};

/* Folders are read again after so many seconds, or later if it takes long: files may have been added. */
enum { RETRY_SECONDS = 4, RETRY_COST = 10, RETRY_SECONDS_MOST = 15, COMPLAINTS = 200 };
static const int64_t SECOND_NS = 1000000000;

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
    free(places->cache);
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

void et_places_set_cache(struct et_places *places, const char *folder)
{
    free(places->cache);
    places->cache = et_strdup(folder);
}

const char *et_places_store(const struct et_places *places)
{
    return places->store;
}

/* Senders name modules: no more lines than somebody would read. */
void et_places_say(struct et_places *places, const char *path, const char *words)
{
    struct et_strings *complaints = &places->complaints;
    struct et_buf line = {0};
    et_buf_printf(&line, "symbols: %s: %s", path, words);
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

void et_places_complain(struct et_places *places, const char *path, const char *why)
{
    struct et_buf words = {0};
    et_buf_printf(&words, "%s; its frames are shown as module+offset", why);
    et_places_say(places, path, words.data);
    et_buf_free(&words);
}

/* ---- places ---- */

/* What a file's headers promise, or what was found when it was opened. */
static unsigned quality_of(const struct et_choice *best, const char *path, unsigned promised)
{
    for (size_t i = 0; best->tried && i < best->tried->count; i++) {
        if (strcmp(best->tried->files[i].path, path) == 0) {
            return best->tried->files[i].quality;
        }
    }
    return promised;
}

static void consider(struct et_choice *best, const char *path, const struct et_symfile_facts *facts)
{
    unsigned quality = quality_of(best, path, facts->quality);
    if (quality > best->quality) {
        free(best->path);
        best->path = et_strdup(path);
        best->quality = quality;
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
    int64_t now = et_monotonic(), pause = places->scan_ns * RETRY_COST;
    const int64_t least = RETRY_SECONDS * SECOND_NS, most = RETRY_SECONDS_MOST * SECOND_NS;
    pause = pause < least ? least : pause > most ? most : pause;
    if (places->scanned_ns && now - places->scanned_ns < pause) {
        return;
    }
    places->scanned_ns = now;
    forget_files(places);
    scanning = places;
    for (size_t i = 0; i < places->folder_count; i++) {
        if (nftw(places->folders[i], visit, 32, FTW_PHYS) != 0) {
            et_places_complain(places, places->folders[i], strerror(errno));
        }
    }
    places->scan_ns = et_monotonic() - now;
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

/* ---- companions ---- */

static int folder_of(const char *path)
{
    return (int)(et_base_name(path) - path);
}

/* Names are foreign: relative ones may go up, as Debian's do. */
static bool place_common(const struct et_places *places, const struct et_companion *c, const char *file, size_t index,
                         struct et_buf *path)
{
    char id[ET_BUILD_ID_TEXT];
    bool named = et_build_id_read(c->id, id);
    switch (index) {
    case 0:
        et_buf_printf(path, "%.*s%s", c->name[0] == '/' ? 0 : folder_of(file), file, c->name);
        return true;
    case 1:
        et_buf_printf(path, "%.*s%s", folder_of(file), file, et_base_name(c->name));
        return true;
    case 2:
        et_buf_printf(path, "/usr/lib/debug/.dwz/%s", et_base_name(c->name));
        return true;
    case 3:
        if (named) {
            et_symstore_path("/usr/lib/debug/.build-id", id, path);
        }
        return true;
    case 4:
        if (named && places->store) {
            et_symstore_path(places->store, id, path);
        }
        return true;
    case 5:
        if (named && places->cache) {
            et_symstore_path(places->cache, id, path);
        }
        return true;
    default:
        return false;
    }
}

/* Beside the program, beside the file, and where it was compiled. A debug file's package has the program's name. */
static bool place_split(const struct et_companion *c, const char *file, const char *module, size_t index,
                        struct et_buf *path)
{
    const char *dot = strrchr(et_base_name(file), '.');
    bool package = c->kind == ET_COMPANION_PACKAGE;
    switch (index) {
    case 0:
        if (package) {
            et_buf_printf(path, "%s.dwp", file);
        } else if (c->name[0] == '/' || !c->folder[0]) {
            et_buf_text(path, c->name);
        } else {
            et_buf_printf(path, "%s/%s", c->folder, c->name);
        }
        return true;
    case 1:
        if (package && dot) {
            et_buf_printf(path, "%.*s.dwp", (int)(dot - file), file);
        } else if (!package) {
            et_buf_printf(path, "%.*s%s", folder_of(file), file, et_base_name(c->name));
        }
        return true;
    case 2:
        if (module[0] == '/') {
            et_buf_printf(path, "%.*s%s%s", folder_of(module), module, et_base_name(package ? module : c->name),
                          package ? ".dwp" : "");
        }
        return true;
    default:
        return false;
    }
}

/* The files in the folders that were given, which are also asked by name: what split DWARF has elsewhere has no build
 * id. */
static bool place_found(struct et_places *places, const struct et_companion *c, const char *module, size_t index,
                        struct et_buf *path)
{
    bool more = false;
    pthread_mutex_lock(&places->lock);
    scan_folders(places);
    for (size_t i = index; i < places->file_count && !more; i++) {
        const struct found_file *file = &places->files[i];
        const char *base = et_base_name(file->path),
                   *wanted = et_base_name(c->kind == ET_COMPANION_PACKAGE ? module : c->name);
        size_t size = strlen(wanted);
        more = true;
        bool same = c->kind == ET_COMPANION_COMMON ? strcmp(file->build_id, c->id) == 0
                    : c->kind == ET_COMPANION_SPLIT
                        ? strcmp(base, wanted) == 0
                        : strncmp(base, wanted, size) == 0 && strcmp(base + size, ".dwp") == 0;
        if (same) {
            et_buf_text(path, file->path);
        }
    }
    pthread_mutex_unlock(&places->lock);
    return more;
}

bool et_places_companion(struct et_places *places, const struct et_companion *companion, const char *file,
                         const char *module, size_t index, struct et_buf *path)
{
    enum { KNOWN = 6 };
    if (index >= KNOWN) {
        return place_found(places, companion, module, index - KNOWN, path);
    }
    bool known = companion->kind == ET_COMPANION_COMMON ? place_common(places, companion, file, index, path)
                                                        : place_split(companion, file, module, index, path);
    return known || index < KNOWN;
}

void et_places_find(struct et_places *places, const char *build_id, const char *path, struct et_choice *best)
{
    consider_found(places, best, build_id);
    consider_known_places(places, best, build_id, path);
}
