/* edgeprof symbolize: symbolizes addresses from arguments or standard input, or the locations of a profile file (-o).
 */
#include "tools/cmd/commands.h"
#include "tools/lib/gzip.h"
#include "tools/lib/json_write.h"
#include "tools/serve/ingest/messages.h"
#include "tools/cmd/options.h"
#include "tools/formats/output.h"
#include "tools/symbols/pprof_names.h"
#include "tools/lib/progress.h"
#include "tools/symbols/reader.h"
#include "tools/symbols/symstore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct et_help et_help_symbolize = {
    .usage = "[--module FILE | --build-id ID] [options] [ADDRESS...]\n"
             "-o OUT.pb.gz [options] FILE",
    .about = "Prints function, file and line of hexadecimal ELF addresses, inlined functions first. An ADDRESS may "
             "name its module: FILE+0x12ab or BUILDID+0x12ab. Without ADDRESS, reads addresses from standard input, "
             "one per line. With -o, symbolizes the locations without names of a pprof file, or a file of compact "
             "messages; - is standard input.",
    .end = "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no symbols found",
};

enum { LINES_LIMIT = 64 << 20, TEXT = 4096 };

/* ---- addresses ---- */

struct address_query {
    const struct et_options *options;
    const char *default_place; /* module of addresses without one */
    struct et_symbols *symbols;
    struct et_buf out;
    size_t asked, named;
};

/* Finds a module by FILE or BUILDID. False: an error was reported. */
static bool find_module(const char *place, struct et_buf *path, char id[129])
{
    char read[ET_BUILD_ID_TEXT];
    struct et_symfile_facts facts;
    int err = et_reader_examine(place, &facts);
    if (err == -ENOENT && !strchr(place, '/') && et_build_id_read(place, read)) {
        snprintf(id, 129, "%s", read);
        et_buf_text(path, "?");
        return true;
    }
    char *real = realpath(place, NULL);
    if (!real || err == -EINVAL) {
        et_error("symbolize: %s: %s", place, real ? "not an ELF file" : strerror(errno));
        free(real);
        return false;
    }
    et_buf_text(path, real);
    snprintf(id, 129, "%s", err ? "" : facts.build_id);
    free(real);
    return true;
}

static bool parse_address(const char *text, uint64_t *value)
{
    char *end;
    const char *digits = strncmp(text, "0x", 2) == 0 ? text + 2 : text;
    errno = 0;
    *value = strtoull(digits, &end, 16);
    return *digits && strspn(digits, "0123456789abcdefABCDEF") == strlen(digits) && errno == 0;
}

static void write_json(struct address_query *a, const char *asked, const char *id, const struct et_profile *profile)
{
    const struct et_frame *frame = &profile->frames[1];
    et_buf_text(&a->out, a->asked ? ",\n{\"asked\":" : "\n{\"asked\":");
    et_json_string(&a->out, asked);
    et_buf_printf(&a->out, ",\"address\":%llu,\"build_id\":\"%s\",\"frames\":[", (unsigned long long)frame->address,
                  id);
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct et_line *line = &profile->lines[frame->first_line + i];
        et_buf_text(&a->out, i ? ",{\"function\":" : "{\"function\":");
        et_json_string(&a->out, et_text(&profile->strings, line->function));
        if (line->file) {
            et_buf_text(&a->out, ",\"file\":");
            et_json_string(&a->out, et_text(&profile->strings, line->file));
            et_buf_printf(&a->out, ",\"line\":%u", line->line);
        }
        et_buf_char(&a->out, '}');
    }
    et_buf_text(&a->out, "]}");
}

/* Writes "address function file:line", one line per inlined function; only the first has the address. */
static void write_text(struct address_query *a, const char *asked, const struct et_profile *profile)
{
    const struct et_frame *frame = &profile->frames[1];
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct et_line *line = &profile->lines[frame->first_line + i];
        et_buf_printf(&a->out, "%s\t%s\t", i ? "" : asked, et_text(&profile->strings, line->function));
        if (line->file) {
            et_buf_printf(&a->out, "%s:%u", et_text(&profile->strings, line->file), line->line);
        }
        et_buf_char(&a->out, '\n');
    }
}

/* Symbolizes "0x12ab", "FILE+0x12ab" or "BUILDID+0x12ab". Returns an exit code. */
static int symbolize_address(struct address_query *a, const char *asked)
{
    struct et_buf path = {0};
    char place[TEXT], id[129] = "";
    const char *plus = strrchr(asked, '+'), *digits = plus ? plus + 1 : asked;
    uint64_t address;
    size_t size = plus ? (size_t)(plus - asked) : 0;
    if (!parse_address(digits, &address) || size >= sizeof place || (plus && size == 0)) {
        et_error("symbolize: %.100s: expected 0x12ab, FILE+0x12ab or BUILDID+0x12ab", asked);
        return ET_USAGE;
    }
    snprintf(place, sizeof place, "%.*s", (int)size, asked);
    if (!plus && !a->default_place) {
        et_error("symbolize: %.100s: no module given; use --module FILE or --build-id ID", asked);
        return ET_USAGE;
    }
    if (!find_module(plus ? place : a->default_place, &path, id)) {
        et_buf_free(&path);
        return ET_FAILED;
    }
    struct et_profile *profile = et_profile_new();
    profile->start_ns = INT64_MAX; /* of the file as it is now */
    struct et_frame frame = {.module = et_profile_module(profile, id, path.data), .address = address};
    et_profile_frame(profile, frame);
    et_symbolize(a->symbols, profile);
    a->named += et_symbols_quality(a->symbols, id, path.data, NULL) > 0;
    if (a->options->json) {
        write_json(a, asked, id, profile);
    } else {
        write_text(a, asked, profile);
    }
    a->asked++;
    et_profile_free(profile);
    et_buf_free(&path);
    return ET_OK;
}

static int symbolize_lines(struct address_query *a)
{
    struct et_buf text = {0};
    int err = et_read_file("-", LINES_LIMIT, &text), code = err ? ET_FAILED : ET_OK;
    if (err) {
        et_error("symbolize: standard input: %s", strerror(-err));
    }
    char *rest = text.data, *line;
    while (code == ET_OK && rest && (line = strsep(&rest, "\n"))) {
        line += strspn(line, " \t");
        line[strcspn(line, " \t\r")] = '\0';
        code = *line ? symbolize_address(a, line) : ET_OK;
    }
    et_buf_free(&text);
    return code;
}

static int symbolize_addresses(const struct et_options *options, int count, char **asked)
{
    struct address_query a = {.options = options, .symbols = et_options_symbols(options)};
    char id[ET_BUILD_ID_TEXT];
    a.default_place = options->module ? options->module : options->build_id;
    int code = ET_OK;
    if (options->build_id && (options->module || !et_build_id_read(options->build_id, id))) {
        et_error(options->module ? "symbolize: --module and --build-id cannot be combined"
                                 : "symbolize: --build-id: must be 2 to 64 hexadecimal digits");
        code = ET_USAGE;
    }
    et_buf_text(&a.out, options->json ? "[" : "");
    for (int i = 0; !code && i < count; i++) {
        code = symbolize_address(&a, asked[i]);
    }
    code = code || count ? code : symbolize_lines(&a);
    et_buf_text(&a.out, options->json ? "]\n" : "");
    int printed = options->json ? et_print_json(&a.out) : a.asked ? et_print_output(&a.out) : ET_OK;
    et_buf_free(&a.out);
    et_symbols_free(a.symbols);
    return code ? code : printed ? printed : a.named ? ET_OK : ET_NO_DATA;
}

/* ---- files ---- */

static int write_packed(const char *path, const et_pprof *pprof)
{
    struct et_buf packed = {0};
    size_t size = perftools__profiles__profile__get_packed_size(pprof);
    uint8_t *bytes = et_alloc(size, 1);
    perftools__profiles__profile__pack(pprof, bytes);
    et_gzip(bytes, size, &packed);
    int err = et_write_file(path, packed.data, packed.size);
    if (err) {
        et_error("%s: %s", path, strerror(-err));
    }
    free(bytes);
    et_buf_free(&packed);
    return err ? ET_FAILED : ET_OK;
}

static int symbolize_pprof(const char *from, const struct et_buf *file, struct et_symbols *symbols, const char *to)
{
    struct et_buf inflated = {0};
    const char *why;
    size_t without;
    et_pprof *pprof = et_messages_pprof((const uint8_t *)file->data, file->size, &inflated, &why);
    int code = pprof ? ET_OK : ET_FAILED;
    if (!pprof) {
        et_error("%s: %s", from, why);
    } else {
        size_t with = et_pprof_add_names(pprof, symbols, &without);
        code = write_packed(to, pprof);
        code = code ? code : !with && without ? ET_NO_DATA : ET_OK;
        et_pprof_free(pprof);
    }
    et_buf_free(&inflated);
    return code;
}

static int symbolize_messages(const struct et_options *options, const char *from, const struct et_buf *file,
                              struct et_symbols *symbols, const char *to)
{
    struct et_profile *profile;
    struct et_query query = options->wanted.query;
    query.keep_labels = true;
    int code = et_messages_load(from, file, &query, &profile);
    if (code == ET_OK) {
        et_symbolize(symbols, profile);
        code = et_output_write(profile, ET_FORMAT_PPROF, to);
    }
    et_profile_free(profile);
    return code;
}

static int symbolize_file(const struct et_options *options, const char *from)
{
    et_progress("reading %s and symbols", from);
    struct et_buf file = {0};
    struct et_symbols *symbols = et_options_symbols(options);
    const char *to = options->outputs.items[0];
    int code = et_messages_read(from, &file);
    if (code == ET_OK && et_is_pprof((const uint8_t *)file.data, file.size)) {
        code = symbolize_pprof(from, &file, symbols, to);
    } else if (code == ET_OK) {
        code = symbolize_messages(options, from, &file, symbols, to);
    }
    et_symbols_free(symbols);
    et_buf_free(&file);
    return code;
}

int et_cmd_symbolize(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    int count = argc - options.first;
    if (options.outputs.count == 0) {
        code = symbolize_addresses(&options, count, argv + options.first);
    } else if (options.outputs.count > 1 || count != 1) {
        et_error("symbolize: -o requires one input FILE and one output FILE");
        code = ET_USAGE;
    } else {
        code = symbolize_file(&options, argv[options.first]);
    }
    et_progress_end();
    et_options_free(&options);
    return code;
}
