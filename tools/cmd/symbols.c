/*
 * edgeprof symbols: manages a folder of symbol files by build id, here or on a server: adds files, lists them, and
 * checks the folder and the modules of stored profiles.
 */
#include "tools/lib/text_table.h"
#include "tools/cmd/commands.h"
#include "tools/lib/gzip.h"
#include "tools/lib/json_write.h"
#include "tools/lib/json_read.h"
#include "tools/cmd/options.h"
#include "tools/symbols/reader.h"
#include "tools/symbols/symstore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct et_help et_help_symbols = {
    .usage = "add (--symbols-store DIR | --url URL) FILE...\n"
             "list (--symbols-store DIR | --url URL) [--json]\n"
             "check [--symbols-store DIR] [--db FILE [options]] [--json]",
    .about = "Manages .dbg and ELF files by build id, for `serve --symbols-store DIR` or `--symbols DIR`.\n"
             "\n"
             "`add` stores files with symbols; for each build id it keeps the best: DWARF, a symbol table, dynamic "
             "symbols. `list` prints the files. `check` verifies every file of DIR, and prints for each module of a "
             "database's profiles the file with its symbols, or that they are missing.",
    .end = "exit codes: 0 done, 1 failed, a file was refused or is damaged, 2 wrong usage, 3 check: a module has no "
           "symbols",
    .words = "add list check",
};

enum { FILE_LIMIT = 512 << 20 };

/* ---- add ---- */

/* *kept: the existing file was better and stays. Returns an exit code. */
static int add_to_folder(const char *folder, const char *id, const char *path, const struct et_buf *file, bool *kept)
{
    const char *why = "";
    int err = et_symstore_put(folder, id, file->data, file->size, &why);
    *kept = err == 1;
    if (err < 0) {
        et_error("%s: %s: %s", err == -EINVAL ? path : folder, id, err == -EINVAL ? why : strerror(-err));
    }
    return err < 0 ? ET_FAILED : ET_OK;
}

static int send_to_server(const struct et_options *options, const char *id, const struct et_buf *file, bool *kept)
{
    const struct et_remote remote = et_options_remote(options);
    struct et_buf packed = {0}, answer = {0}, path = {0};
    et_buf_printf(&path, "/api/symbols/%s", id);
    et_gzip(file->data, file->size, &packed);
    int code = et_source_post(&remote, path.data, &packed, &answer);
    *kept = answer.data && strncmp(answer.data, "kept", 4) == 0;
    et_buf_free(&path);
    et_buf_free(&packed);
    et_buf_free(&answer);
    return code;
}

static int add_file(const struct et_options *options, const char *path)
{
    char taken[ET_BUILD_ID_TEXT];
    const char *why = "";
    struct et_buf file = {0}, trouble = {0};
    struct et_symfile_facts facts;
    unsigned promised;
    bool kept = false;
    int err = et_reader_examine_all(path, &facts, &trouble);
    if (!err && facts.build_id[0] && !et_build_id_read(facts.build_id, taken)) {
        err = -EINVAL;
        why = "build id longer than 64 digits";
    } else {
        err = et_symstore_check(path, facts.build_id, &promised, &why);
    }
    if (!err && trouble.size) {
        et_error("%s: %s", path, trouble.data);
    }
    et_buf_free(&trouble);
    err = err ? err : et_read_file(path, FILE_LIMIT, &file);
    if (err) {
        et_error("%s: %s", path, *why ? why : strerror(-err));
        return ET_FAILED;
    }
    int code = options->url ? send_to_server(options, taken, &file, &kept)
                            : add_to_folder(options->symbols_store, taken, path, &file, &kept);
    if (code == ET_OK) {
        et_printf("%s %s %s (%s)\n", kept ? "kept " : "added", taken, path,
                  kept ? "the existing file is as good" : et_symbols_words(facts.quality));
    }
    et_buf_free(&file);
    return code;
}

static int add_symbol_files(const struct et_options *options, int count, char **files)
{
    int code = count ? ET_OK : ET_USAGE;
    if (count == 0) {
        et_error("symbols add: no files given");
    }
    for (int i = 0; i < count; i++) {
        int one = add_file(options, files[i]);
        code = one ? one : code;
    }
    return code;
}

/* ---- list ---- */

static void write_list(const json_t *document, struct et_buf *out)
{
    static const char *const heads[] = {"build id", ">bytes", "symbols", NULL};
    struct et_text_table columns = {.heads = heads};
    const json_t *entry;
    size_t i;
    json_array_foreach(json_object_get(document, "symbols"), i, entry)
    {
        const char *id = et_json_text(entry, "build_id"), *words = et_json_text(entry, "symbols");
        et_text_table_cell(&columns, "%s", id ? id : "");
        et_text_table_cell(&columns, "%lld", (long long)json_integer_value(json_object_get(entry, "bytes")));
        et_text_table_cell(&columns, "%s", words ? words : "");
    }
    et_text_table_print(&columns, out);
}

static int list_symbols(const struct et_options *options)
{
    const struct et_remote remote = et_options_remote(options);
    struct et_buf text = {0}, why = {0}, out = {0};
    int err = options->url ? 0 : et_symstore_json(options->symbols_store, &text);
    if (err) {
        et_error("%s: %s", options->symbols_store, strerror(-err));
    }
    int code = options->url ? et_source_get(&remote, "/api/symbols", NULL, &text) : err ? ET_FAILED : ET_OK;
    json_t *document = code ? NULL : et_json_read(text.data, text.size, &why);
    et_json_clean(document);
    if (!code && !document) {
        et_error("%s: unexpected answer: %s", options->url, why.data);
        code = ET_FAILED;
    }
    if (!code && options->json) {
        et_buf_add(&out, text.data, text.size);
    } else if (!code) {
        write_list(document, &out);
    }
    json_decref(document);
    et_buf_free(&text);
    et_buf_free(&why);
    return code ? code : et_print_as(options->json, &out);
}

/* ---- check ---- */

struct folder_check {
    size_t files, damaged;
};

static void check_file(void *context, const struct et_symstore_entry *entry)
{
    struct folder_check *damage = context;
    const char *why = "";
    unsigned quality;
    damage->files++;
    if (et_symstore_check(entry->path, entry->id, &quality, &why) != 0) {
        et_error("%s: %s", entry->path, why);
        damage->damaged++;
    }
}

/* Checks every file of the folder. Returns an exit code. */
static int check_folder(const char *folder, struct folder_check *damage)
{
    int err = et_symstore_each(folder, check_file, damage);
    if (err) {
        et_error("%s: %s", folder, strerror(-err));
    }
    return err || damage->damaged ? ET_FAILED : ET_OK;
}

struct module_row {
    const struct et_profile *profile;
    const struct et_module *module;
    uint64_t self; /* sum of the self values of its frames */
    unsigned quality;
    struct et_buf file;
};

static int compare_self(const void *a, const void *b)
{
    const struct module_row *x = a, *y = b;
    return x->self < y->self ? 1 : x->self > y->self ? -1 : 0;
}

/* A row for each module of the profile, largest first. The kernel's modules have no file. */
static struct module_row *module_rows(const struct et_profile *p, struct et_symbols *symbols)
{
    struct module_row *rows = et_alloc(p->module_count, sizeof *rows);
    for (size_t i = 0; i < p->module_count; i++) {
        rows[i] = (struct module_row){.profile = p, .module = &p->modules[i]};
        rows[i].quality = et_symbols_quality(symbols, et_text(&p->strings, p->modules[i].build_id),
                                             et_text(&p->strings, p->modules[i].path), &rows[i].file);
    }
    for (size_t i = 1; i < p->node_count; i++) {
        uint32_t module = p->frames[p->nodes[i].frame].module;
        if (module) {
            rows[module - 1].self += p->nodes[i].self;
        }
    }
    if (p->module_count) {
        qsort(rows, p->module_count, sizeof *rows, compare_self);
    }
    return rows;
}

static void write_rows_json(const struct module_row *rows, size_t count, const struct folder_check *damage,
                            struct et_buf *out)
{
    et_buf_printf(out, "{\"files\":%zu,\"damaged\":%zu,\"modules\":[", damage->files, damage->damaged);
    for (size_t i = 0; i < count; i++) {
        const struct et_strings *strings = &rows[i].profile->strings;
        et_buf_printf(out, "%s\n{\"module\":", i ? "," : "");
        et_json_string(out, et_text(strings, rows[i].module->path));
        et_buf_text(out, ",\"build_id\":");
        et_json_string(out, et_text(strings, rows[i].module->build_id));
        et_buf_printf(out, ",\"self\":%llu,\"symbols\":\"%s\",\"file\":", (unsigned long long)rows[i].self,
                      et_symbols_words(rows[i].quality));
        et_json_string(out, rows[i].file.data ? rows[i].file.data : "");
        et_buf_char(out, '}');
    }
    et_buf_text(out, "]}\n");
}

static void write_rows_table(const struct module_row *rows, size_t count, struct et_buf *out)
{
    static const char *const heads[] = {">share", "symbols", "module", "build id", "file", NULL};
    struct et_text_table columns = {.heads = heads};
    for (size_t i = 0; i < count; i++) {
        const struct et_profile *p = rows[i].profile;
        const char *id = et_text(&p->strings, rows[i].module->build_id);
        et_text_table_cell(&columns, "%.2f%%", p->total ? 100.0 * (double)rows[i].self / (double)p->total : 0);
        et_text_table_cell(&columns, "%s", et_symbols_words(rows[i].quality));
        et_text_table_cell(&columns, "%s", et_text(&p->strings, rows[i].module->path));
        et_text_table_cell(&columns, "%s", *id ? id : "none");
        et_text_table_cell(&columns, "%s", rows[i].file.data ? rows[i].file.data : "");
    }
    et_text_table_print(&columns, out);
}

/* Checks every module of the profiles in the database. Returns an exit code. */
static int check_modules(const struct et_options *options, const struct folder_check *damage, struct et_buf *out)
{
    struct et_profile *profile = NULL;
    size_t missing = 0;
    int code = et_options_read(options, &options->wanted.query, &profile);
    if (code) {
        return code;
    }
    struct et_symbols *symbols = et_options_symbols(options);
    struct module_row *rows = module_rows(profile, symbols);
    if (options->json) {
        write_rows_json(rows, profile->module_count, damage, out);
    } else {
        write_rows_table(rows, profile->module_count, out);
    }
    for (size_t i = 0; i < profile->module_count; i++) {
        missing += rows[i].quality == 0 && et_text(&profile->strings, rows[i].module->path)[0] != '[';
        et_buf_free(&rows[i].file);
    }
    free(rows);
    et_symbols_free(symbols);
    et_profile_free(profile);
    return missing ? ET_NO_DATA : ET_OK;
}

static int check_symbols(const struct et_options *options)
{
    struct folder_check damage = {0};
    struct et_buf out = {0};
    int folder = options->symbols_store ? check_folder(options->symbols_store, &damage) : ET_OK, code = ET_OK;
    bool modules = options->db || !options->symbols_store;
    if (options->url) {
        et_error("symbols check: requires a database, --db FILE; a server is not supported");
        return ET_USAGE;
    }
    if (modules) {
        code = check_modules(options, &damage, &out);
    } else if (options->json) {
        write_rows_json(NULL, 0, &damage, &out);
    } else {
        et_buf_printf(&out, "%zu files, %zu damaged\n", damage.files, damage.damaged);
    }
    int printed = et_print_as(options->json, &out);
    return folder ? folder : code ? code : printed;
}

/* ---- the command ---- */

static int run_action(const struct et_options *options, const char *action, int count, char **arguments)
{
    bool adds = strcmp(action, "add") == 0, lists = strcmp(action, "list") == 0;
    if (!adds && !lists && strcmp(action, "check") != 0) {
        et_error("symbols %s: must be add, list or check; see `edgeprof symbols --help`", action);
        return ET_USAGE;
    }
    if (!adds && count) {
        et_error("symbols %s: unexpected argument %s", action, arguments[0]);
        return ET_USAGE;
    }
    if ((adds || lists) && !options->symbols_store == !options->url) {
        et_error("symbols %s: use either --symbols-store DIR or --url URL", action);
        return ET_USAGE;
    }
    return adds ? add_symbol_files(options, count, arguments) : lists ? list_symbols(options) : check_symbols(options);
}

int et_cmd_symbols(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    if (options.first == argc) {
        et_error("symbols: expected add, list or check; see `edgeprof symbols --help`");
        code = ET_USAGE;
    } else {
        code = run_action(&options, argv[options.first], argc - options.first - 1, argv + options.first + 1);
    }
    et_options_free(&options);
    return code;
}
