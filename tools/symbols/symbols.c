/*
 * See symbols.h. Where a module's symbols are looked for, best quality first, all checked by build id:
 *   1. files in the folders that were given        2. the module's own path on this machine, and path.dbg beside it
 *   3. the store, /usr/lib/debug/.build-id         4. debuginfod servers, when none of these has DWARF
 * A module without build id is only believed when it has none on this machine either.
 */
#include "tools/symbols/symbols.h"
#include "tools/symbols/debuginfod.h"
#include "tools/symbols/demangle.h"
#include "tools/lib/progress.h"
#include "tools/symbols/symfile.h"
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

/* One (build id, path) that was asked for. */
struct module {
    char *build_id, *path;
    struct et_symfile *file; /* NULL: no symbols */
    char *file_path;
    unsigned quality;
    struct et_map known; /* address -> index + 1 into answers */
    time_t tried;
    bool asking; /* a thread asks servers for it, without the lock */
};

struct answer {
    uint32_t function, source, line; /* string numbers */
    bool more;                       /* the next answer belongs to the same address */
};

struct et_symbols {
    char **folders;
    size_t folder_count, folder_capacity;
    struct found_file *files;
    size_t file_count, file_capacity;
    time_t scanned;
    struct module **modules;
    size_t module_count, module_capacity;
    struct answer *answers;
    size_t answer_count, answer_capacity;
    struct et_strings strings;
    struct et_strings complaints; /* each is made once */
    char *store;
    struct et_debuginfod *debuginfod;
    pthread_mutex_t lock;
    pthread_cond_t answered; /* a module is no longer asked for */
};

/* A module without symbols is looked for again after so many seconds: files may have been added. */
enum { RETRY_SECONDS = 15, COMPLAINTS = 200, QUALITY_SYMTAB = 2, QUALITY_DWARF = 4 };

struct et_symbols *et_symbols_new(void)
{
    struct et_symbols *symbols = et_alloc(1, sizeof *symbols);
    pthread_mutex_init(&symbols->lock, NULL);
    pthread_cond_init(&symbols->answered, NULL);
    return symbols;
}

void et_symbols_free(struct et_symbols *s)
{
    if (!s) {
        return;
    }
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->answered);
    for (size_t i = 0; i < s->folder_count; i++) {
        free(s->folders[i]);
    }
    for (size_t i = 0; i < s->file_count; i++) {
        free(s->files[i].build_id);
        free(s->files[i].path);
    }
    for (size_t i = 0; i < s->module_count; i++) {
        et_symfile_close(s->modules[i]->file);
        et_map_free(&s->modules[i]->known);
        free(s->modules[i]->build_id);
        free(s->modules[i]->path);
        free(s->modules[i]->file_path);
        free(s->modules[i]);
    }
    et_debuginfod_free(s->debuginfod);
    free(s->store);
    free(s->folders);
    free(s->files);
    free(s->modules);
    free(s->answers);
    et_strings_free(&s->strings);
    et_strings_free(&s->complaints);
    free(s);
}

void et_symbols_add_folder(struct et_symbols *s, const char *folder)
{
    s->folders = et_reserve(s->folders, &s->folder_capacity, s->folder_count + 1, sizeof *s->folders);
    s->folders[s->folder_count++] = et_strdup(folder);
}

void et_symbols_set_store(struct et_symbols *s, const char *folder)
{
    free(s->store);
    s->store = et_strdup(folder);
}

const char *et_symbols_store(const struct et_symbols *s)
{
    return s->store;
}

void et_symbols_set_debuginfod(struct et_symbols *s, const char *urls, const char *cache)
{
    et_debuginfod_free(s->debuginfod);
    s->debuginfod = et_debuginfod_new(urls, cache);
}

#define WHERE "--symbols searches a folder for it, --debuginfod asks a server"

/* Senders name modules: no more lines than somebody would read. */
static void complain(struct et_symbols *s, const char *path, const char *why)
{
    if (s->complaints.count >= COMPLAINTS) {
        return;
    }
    struct et_buf line = {0};
    et_buf_printf(&line, "symbols: %s: %s; its frames are shown as module+offset", path, why);
    size_t before = s->complaints.count;
    et_intern(&s->complaints, line.data);
    if (s->complaints.count != before) {
        et_error("%s%s", line.data,
                 s->complaints.count == COMPLAINTS ? "; further messages of this kind are omitted" : "");
    }
    et_buf_free(&line);
}

/* ---- folders ---- */

/* nftw() passes no context. Several tables may be scanned at once, each by one thread. */
static _Thread_local struct et_symbols *scanning;

static void found(const char *path)
{
    char id[129];
    int err = et_symfile_build_id(path, id);
    if (err == -ENOENT || err == -EINVAL) {
        return;
    }
    if (err) {
        complain(scanning, path, strerror(-err));
        return;
    }
    struct et_symbols *s = scanning;
    s->files = et_reserve(s->files, &s->file_capacity, s->file_count + 1, sizeof *s->files);
    s->files[s->file_count++] = (struct found_file){.build_id = et_strdup(id), .path = et_strdup(path)};
}

static bool is_elf(const char *path)
{
    char magic[4] = {0};
    FILE *file = fopen(path, "rb");
    if (!file) {
        complain(scanning, path, strerror(errno));
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

static void scan_folders(struct et_symbols *s)
{
    time_t now = time(NULL);
    if (s->scanned && now - s->scanned < RETRY_SECONDS) {
        return;
    }
    s->scanned = now;
    for (size_t i = 0; i < s->file_count; i++) {
        free(s->files[i].build_id);
        free(s->files[i].path);
    }
    s->file_count = 0;
    scanning = s;
    for (size_t i = 0; i < s->folder_count; i++) {
        if (nftw(s->folders[i], visit, 32, FTW_PHYS) != 0) {
            complain(s, s->folders[i], strerror(errno));
        }
    }
}

/* ---- modules ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

struct choice {
    char *path;
    unsigned quality;
};

static void consider(struct choice *best, const char *path)
{
    unsigned quality = et_symfile_quality(path);
    if (quality > best->quality) {
        free(best->path);
        best->path = et_strdup(path);
        best->quality = quality;
    }
}

static void consider_if_same(struct choice *best, const char *path, const char *build_id)
{
    char id[129];
    int err = et_symfile_build_id(path, id);
    if (err == -ENOENT ? build_id[0] == '\0' : err == 0 && strcmp(id, build_id) == 0) {
        consider(best, path);
    }
}

/* Where gdb looks for it, too: "Debugging Information in Separate Files" in its manual. */
static void consider_debuglink(struct choice *best, const struct module *module)
{
    static const char *const prefixes[] = {"", "/usr/lib/debug"}, *const folders[] = {"", ".debug/"};
    char name[256], path[4352];
    if (!et_symfile_debuglink(module->path, name, sizeof name)) {
        return;
    }
    int folder = (int)(strrchr(module->path, '/') + 1 - module->path);
    for (size_t i = 0; i < 4; i++) {
        int size =
            snprintf(path, sizeof path, "%s%.*s%s%s", prefixes[i / 2], folder, module->path, folders[i % 2], name);
        if (size > 0 && (size_t)size < sizeof path) {
            consider_if_same(best, path, module->build_id);
        }
    }
}

static void consider_known_places(const struct et_symbols *s, struct choice *best, const struct module *module)
{
    const char *const folders[] = {s->store, "/usr/lib/debug/.build-id"};
    char path[4352], id[ET_BUILD_ID_TEXT];
    if (module->path[0] == '/' && !strstr(module->path, "/../")) { /* no kernel says it so */
        consider_if_same(best, module->path, module->build_id);
        snprintf(path, sizeof path, "%s.dbg", module->path);
        consider_if_same(best, path, module->build_id);
        consider_debuglink(best, module);
    }
    for (size_t i = 0; i < 2 && et_build_id_read(module->build_id, id); i++) {
        struct et_buf place = {0};
        if (folders[i]) {
            et_symstore_path(folders[i], id, &place);
            consider_if_same(best, place.data, module->build_id);
        }
        et_buf_free(&place);
    }
}

static void consider_module(struct et_symbols *s, struct choice *best, const struct module *module)
{
    scan_folders(s);
    for (size_t i = 0; i < s->file_count && module->build_id[0]; i++) {
        if (strcmp(s->files[i].build_id, module->build_id) == 0) {
            consider(best, s->files[i].path);
        }
    }
    consider_known_places(s, best, module);
}

/* Uses the best file in place of what there was; what was known of addresses is found anew. */
static void use_file(struct et_symbols *s, struct module *module, const struct choice *best)
{
    const char *why = "";
    et_symfile_close(module->file);
    free(module->file_path);
    et_map_free(&module->known);
    module->file = et_symfile_open(best->path, &why);
    module->quality = module->file ? best->quality : 0;
    module->file_path = best->path;
    if (!module->file) {
        complain(s, best->path, why);
    }
}

/* Without the lock: meanwhile others have what was found here. */
static void ask_servers(struct et_symbols *s, struct module *module)
{
    struct choice best = {.quality = module->quality};
    struct et_buf path = {0};
    module->asking = true;
    pthread_mutex_unlock(&s->lock);
    et_progress("fetching symbols of %s", base_name(module->path));
    bool found = et_debuginfod_find(s->debuginfod, module->build_id, &path);
    pthread_mutex_lock(&s->lock);
    module->asking = false;
    pthread_cond_broadcast(&s->answered);
    if (found) {
        consider_if_same(&best, path.data, module->build_id);
    }
    if (best.path) {
        use_file(s, module, &best);
    }
    et_buf_free(&path);
}

static void find_symbols(struct et_symbols *s, struct module *module)
{
    struct choice best = {0};
    bool named = module->path[0] != '[';
    et_map_free(&module->known);
    free(module->file_path);
    module->file_path = NULL;
    module->quality = 0;
    consider_module(s, &best, module);
    if (best.path) {
        use_file(s, module, &best);
    } else if (strcmp(module->path, "[vdso]") == 0) {
        module->file = et_symfile_open_vdso(module->build_id);
        module->quality = module->file ? QUALITY_SYMTAB : 0;
    }
    if (s->debuginfod && named && module->quality < QUALITY_DWARF) {
        ask_servers(s, module);
    }
    if (!module->file_path && named) {
        struct et_buf name = {0};
        et_buf_printf(&name, "%s (build id %s)", module->path, module->build_id[0] ? module->build_id : "none");
        complain(s, name.data, "no symbol file found (" WHERE ")");
        et_buf_free(&name);
    }
    module->tried = time(NULL);
}

static struct module *get_module(struct et_symbols *s, const char *build_id, const char *path, bool wait)
{
    struct module *module = NULL;
    for (size_t i = 0; i < s->module_count && !module; i++) {
        if (strcmp(s->modules[i]->build_id, build_id) == 0 && strcmp(s->modules[i]->path, path) == 0) {
            module = s->modules[i];
        }
    }
    if (!module) {
        module = et_alloc(1, sizeof *module);
        module->build_id = et_strdup(build_id);
        module->path = et_strdup(path);
        s->modules = et_reserve(s->modules, &s->module_capacity, s->module_count + 1, sizeof *s->modules);
        s->modules[s->module_count++] = module;
    }
    while (wait && module->asking) {
        pthread_cond_wait(&s->answered, &s->lock);
    }
    if (!module->file && !module->asking && time(NULL) - module->tried >= RETRY_SECONDS) {
        find_symbols(s, module);
    }
    return module;
}

/* ---- addresses ---- */

struct resolving {
    struct et_symbols *symbols;
    const struct module *module;
    uint64_t address;
};

static enum et_code code_at(const struct resolving *r, const char *mangled)
{
    size_t type = et_demangle_state_machine(mangled);
    if (!et_symfile_managed(r->module->file, r->address)) {
        return ET_CODE_NATIVE;
    }
    return type && et_symfile_has(r->module->file, mangled, type, "__System_IDisposable_Dispose") ? ET_CODE_ITERATOR
                                                                                                  : ET_CODE_MANAGED;
}

static void add_answer(const struct resolving *r, const char *mangled, const char *source, uint32_t line)
{
    struct et_symbols *s = r->symbols;
    struct et_buf name = {0};
    if (mangled) {
        et_demangle(mangled, r->module->path, code_at(r, mangled), &name);
    } else {
        uint64_t start = r->module->file ? et_symfile_function(r->module->file, r->address) : r->address;
        et_address_name(r->module->path, start, &name);
    }
    char *clean_name = et_clean(name.data, name.size),
         *clean_source = et_clean(source ? source : "", source ? strlen(source) : 0);
    s->answers = et_reserve(s->answers, &s->answer_capacity, s->answer_count + 1, sizeof *s->answers);
    s->answers[s->answer_count++] = (struct answer){
        .function = et_intern(&s->strings, clean_name),
        .source = et_intern(&s->strings, clean_source),
        .line = line,
        .more = true,
    };
    free(clean_name);
    free(clean_source);
    et_buf_free(&name);
}

static void on_line(void *context, const char *function, const char *source, uint32_t line)
{
    add_answer(context, function, source, line);
}

static void use_symbol(struct resolving *r, const char *symbol, struct answer *answer)
{
    size_t before = r->symbols->answer_count;
    add_answer(r, symbol, NULL, 0);
    answer->function = r->symbols->answers[before].function;
    r->symbols->answer_count = before;
}

/* Says once where a stripped program's names are. Of a system's libraries few users miss the names. */
static void say_stripped(struct et_symbols *s, const struct module *module)
{
    static const char *const systems[] = {"/lib/", "/lib64/", "/usr/lib/", "["};
    char link[256];
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        if (strncmp(module->path, systems[i], strlen(systems[i])) == 0) {
            return;
        }
    }
    if (!et_symfile_debuglink(module->file_path, link, sizeof link)) {
        snprintf(link, sizeof link, "%s.dbg or the like", base_name(module->path));
    }
    struct et_buf why = {0};
    et_buf_printf(&why, "stripped: its names are in %s, which was not found (" WHERE ")", link);
    complain(s, module->path, why.data);
    et_buf_free(&why);
}

/* The symbol table names the function itself, DWARF what was inlined into it and all lines. */
static size_t resolve(struct et_symbols *s, struct module *module, uint64_t address)
{
    struct resolving r = {.symbols = s, .module = module, .address = address};
    size_t first = s->answer_count;
    const char *symbol = module->file ? et_symfile_symbol(module->file, address) : NULL;
    if (!module->file || et_symfile_lines(module->file, address, on_line, &r) == 0) {
        add_answer(&r, symbol, NULL, 0);
        if (!symbol && module->file_path && module->quality < QUALITY_SYMTAB) {
            say_stripped(s, module);
        }
    } else if (symbol) {
        struct answer last = s->answers[s->answer_count - 1];
        use_symbol(&r, symbol, &last);
        s->answers[s->answer_count - 1] = last;
    }
    s->answers[s->answer_count - 1].more = false;
    return first;
}

static size_t lookup(struct et_symbols *s, struct module *module, uint64_t address)
{
    uint64_t *known = et_map_at(&module->known, address);
    if (!*known) {
        *known = resolve(s, module, address) + 1;
    }
    return (size_t)*known - 1;
}

static void symbolize_frame(struct et_symbols *s, struct et_profile *profile, struct et_frame *frame, bool wait)
{
    if (frame->name) {
        et_profile_line(profile, frame, et_text(&profile->strings, frame->name),
                        et_text(&profile->strings, frame->file), frame->line);
    } else if (frame->module == 0) {
        char name[32];
        et_special_name(frame->address, name);
        et_profile_line(profile, frame, name, "", 0);
    } else {
        const struct et_module *module = &profile->modules[frame->module - 1];
        struct module *own =
            get_module(s, et_text(&profile->strings, module->build_id), et_text(&profile->strings, module->path), wait);
        const struct answer *answer;
        size_t at = lookup(s, own, frame->address);
        do {
            answer = &s->answers[at++];
            et_profile_line(profile, frame, et_text(&s->strings, answer->function),
                            et_text(&s->strings, answer->source), answer->line);
        } while (answer->more);
    }
}

unsigned et_symbols_quality(struct et_symbols *symbols, const char *build_id, const char *path, struct et_buf *file)
{
    pthread_mutex_lock(&symbols->lock);
    const struct module *module = get_module(symbols, build_id, path, false);
    unsigned quality = module->quality;
    if (file && module->file_path) {
        et_buf_text(file, module->file_path);
    }
    pthread_mutex_unlock(&symbols->lock);
    return quality;
}

static void symbolize(struct et_symbols *symbols, struct et_profile *profile, bool wait)
{
    pthread_mutex_lock(&symbols->lock);
    for (size_t i = 0; i < profile->frame_count; i++) {
        et_progress_of(i, profile->frame_count);
        if (profile->frames[i].line_count == 0) {
            symbolize_frame(symbols, profile, &profile->frames[i], wait);
        }
    }
    pthread_mutex_unlock(&symbols->lock);
}

void et_symbolize(struct et_symbols *symbols, struct et_profile *profile)
{
    symbolize(symbols, profile, false);
}

void et_symbolize_waiting(struct et_symbols *symbols, struct et_profile *profile)
{
    symbolize(symbols, profile, true);
}
