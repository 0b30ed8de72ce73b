/* See messages.h. A file's messages are stored in an in-memory database, so that files and requests are processed
 * alike.
 */
#include "tools/serve/ingest/messages.h"
#include "tools/lib/gzip.h"
#include "tools/serve/ingest/ingest.h"
#include "tools/lib/time_text.h"
#include "tools/formats/compact.h"
#include "tools/formats/folded.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 1 << 30, FIRST_IN_PPROF = 0x0a };

static uint32_t read_length(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Reads a field of protobuf and moves behind it. Returns its number; 0: none, or it is none of pprof. */
static uint64_t skip_field(const uint8_t **at, const uint8_t *end)
{
    static const char types[] = " 22222200002000"; /* by number: 0 varint, 2 bytes; repeated numbers may be bytes */
    uint64_t tag, size = 0;
    if (!et_varint_get(at, end, &tag) || tag >> 3 == 0 || tag >> 3 >= sizeof types - 1 ||
        !((tag & 7) == 2 || (tag & 7) == (uint64_t)(types[tag >> 3] - '0')) || !et_varint_get(at, end, &size)) {
        return 0;
    }
    if ((tag & 7) == 2) {
        if (size > (uint64_t)(end - *at)) {
            return 0;
        }
        *at += size;
    }
    return tag >> 3;
}

/* A compact message starts with its segment, which no field of a pprof looks like. Most writers of pprof begin with a
 * sample type; of others the first fields have to be pprof's. */
bool et_is_pprof(const uint8_t *bytes, size_t size)
{
    enum { ENOUGH = 4 };
    const uint8_t *at = bytes, *end = bytes + size;
    size_t fields = 0;
    if (size > 1 && (bytes[0] == FIRST_IN_PPROF || et_is_gzip(bytes, size))) {
        return true;
    }
    while (at < end && fields < ENOUGH && skip_field(&at, end)) {
        fields++;
    }
    return fields == ENOUGH;
}

et_pprof *et_messages_pprof(const uint8_t *bytes, size_t size, struct et_buf *inflated, const char **why)
{
    int err = et_gunzip(bytes, size, FILE_LIMIT, inflated);
    if (err) {
        *why = "invalid or too large gzip data";
        return NULL;
    }
    return et_pprof_decode(inflated->data, inflated->size, why);
}

static bool is_message(const uint8_t *bytes, size_t size)
{
    const char *why;
    struct et_buf inflated = {0};
    et_message *message = et_is_pprof(bytes, size) ? NULL : et_message_decode(bytes, size, &why);
    et_pprof *pprof = et_is_pprof(bytes, size) ? et_messages_pprof(bytes, size, &inflated, &why) : NULL;
    bool ok = message || pprof;
    if (message) {
        et_message_free(message);
    }
    if (pprof) {
        et_pprof_free(pprof);
    }
    et_buf_free(&inflated);
    return ok;
}

/* A file is framed when its lengths lead exactly to its end, or when the first frame is a message. */
static bool is_framed(const struct et_messages *messages)
{
    const uint8_t *at = messages->at;
    while (messages->end - at >= 4 && read_length(at) <= (size_t)(messages->end - at) - 4) {
        if (at == messages->at && is_message(at + 4, read_length(at))) {
            return true;
        }
        at += 4 + read_length(at);
    }
    return at == messages->end;
}

void et_messages_begin(struct et_messages *messages, const struct et_buf *file)
{
    const uint8_t *bytes = (const uint8_t *)(file->data ? file->data : "");
    *messages = (struct et_messages){.at = bytes, .end = bytes + file->size};
    messages->bare = !is_framed(messages);
}

bool et_messages_next(struct et_messages *messages, const uint8_t **bytes, size_t *size)
{
    size_t left = (size_t)(messages->end - messages->at), head = messages->bare ? 0 : 4;
    if (left == 0) {
        return false;
    }
    *size = messages->bare ? left : left >= 4 ? read_length(messages->at) : left;
    messages->torn = left < head || *size > left - head;
    *bytes = messages->at + head;
    messages->at = messages->torn ? messages->end : *bytes + *size;
    return !messages->torn;
}

const char *et_messages_why(const struct et_messages *messages, const uint8_t *bytes, const char *why)
{
    enum { FIRST_IN_COMPACT = 0x09, GZIP_0 = 0x1f };
    return messages->bare && bytes[0] != FIRST_IN_COMPACT && bytes[0] != FIRST_IN_PPROF && bytes[0] != GZIP_0
               ? "unknown format; known are compact, pprof, folded, perf script, speedscope and gperftools"
               : why;
}

bool et_messages_each(const struct et_buf *file, bool (*call)(void *context, et_message *message, const char **why),
                      void *context, const char **why)
{
    struct et_messages messages;
    const uint8_t *bytes;
    size_t size;
    bool ok = true;
    et_messages_begin(&messages, file);
    while (ok && et_messages_next(&messages, &bytes, &size)) {
        if (!et_is_pprof(bytes, size)) {
            et_message *message = et_message_decode(bytes, size, why);
            ok = message && call(context, message, why);
        }
    }
    return ok;
}

/* Replaces the file of another profiler by pprof, and what is packed and neither pprof nor compact by its content. */
static int convert_foreign(const char *path, struct et_buf *file, enum et_foreign *format)
{
    struct et_buf inflated = {0}, pprof = {0}, why = {0};
    const char *bytes = file->data ? file->data : "";
    bool packed = et_is_gzip(bytes, file->size) && et_gunzip(bytes, file->size, FILE_LIMIT, &inflated) == 0;
    const struct et_buf *content = packed ? &inflated : file;
    int code = ET_OK;
    *format = et_foreign_recognize(content->data ? content->data : "", content->size);
    if (*format != ET_FOREIGN_NONE) {
        code = et_foreign_read(*format, content->data, content->size, &pprof, &why) ? ET_OK : ET_FAILED;
        et_buf_free(file);
        *file = pprof;
    } else if (packed && !et_is_pprof((const uint8_t *)(inflated.data ? inflated.data : ""), inflated.size)) {
        et_buf_free(file);
        *file = inflated;
        inflated = (struct et_buf){0};
    }
    if (why.size) {
        et_error("%s: %s", path, why.data);
    }
    et_buf_free(&inflated);
    et_buf_free(&why);
    return code;
}

int et_messages_read(const char *path, struct et_buf *file)
{
    enum et_foreign format;
    return et_messages_read_foreign(path, file, &format);
}

int et_messages_read_foreign(const char *path, struct et_buf *file, enum et_foreign *format)
{
    *format = ET_FOREIGN_NONE;
    int err = et_read_file(path, FILE_LIMIT, file);
    if (err) {
        et_error("%s: %s", path, strerror(-err));
    }
    return err ? ET_FAILED : convert_foreign(path, file, format);
}

/* ---- loading ---- */

struct et_profile *et_messages_folded(const struct et_buf *file, const char *kind)
{
    struct et_messages messages;
    struct et_buf why = {0};
    const struct et_kind *known = et_kind_named(kind && *kind ? kind : ET_CPU);
    et_messages_begin(&messages, file);
    if (!known || !messages.bare || !file->size || is_message(messages.at, file->size) ||
        memchr(file->data, '\0', file->size)) {
        return NULL;
    }
    const struct et_folded what = {
        .kind = known->name, .unit = known->unit, .count = !*known->counts && !*known->value};
    struct et_profile *profile = et_folded_parse(file->data, file->size, false, &what, &why);
    if (profile && why.size) {
        et_error("%s", why.data);
    }
    et_buf_free(&why);
    return profile;
}

/* What pprof files say of the processes behind them, which the database does not keep. */
struct told {
    int64_t ran_ns;
    uint64_t processes, samples; /* samples: of the kinds in edgeprof's own notes */
};

static enum et_outcome store_pprof(struct et_store *store, const uint8_t *bytes, size_t size, struct told *told,
                                   const char **why)
{
    struct et_buf inflated = {0};
    enum et_outcome outcome = ET_MALFORMED;
    et_pprof *pprof = et_messages_pprof(bytes, size, &inflated, why);
    if (pprof) {
        const struct et_pprof_push push = {
            .name = "pprof", .family = et_pprof_hint(pprof), .bytes = inflated.data, .size = inflated.size};
        outcome = et_ingest_pprof(store, &push, et_now(), why);
        told->ran_ns += pprof->duration_nanos;
        told->processes += strtoull(et_pprof_note(pprof, "processes"), NULL, 10);
        told->samples += strtoull(et_pprof_note(pprof, "samples"), NULL, 10);
        et_pprof_free(pprof);
    }
    et_buf_free(&inflated);
    return outcome;
}

/* count: of the messages that were there or are now. */
static int store_messages(const char *path, const struct et_buf *file, struct et_store *store, struct told *told,
                          size_t *count)
{
    struct et_messages messages;
    const uint8_t *bytes;
    size_t size, number = 0;
    et_messages_begin(&messages, file);
    while (et_messages_next(&messages, &bytes, &size)) {
        const char *why = "";
        bool is_pprof = et_is_pprof(bytes, size);
        enum et_outcome outcome = is_pprof ? store_pprof(store, bytes, size, told, &why)
                                           : et_ingest_compact(store, bytes, size, et_now(), &why);
        number++;
        if (outcome != ET_ACCEPTED && outcome != ET_REPEATED) {
            et_error("%s: message %zu: %s", path, number, et_messages_why(&messages, bytes, why));
            return ET_FAILED;
        }
        ++*count;
        if (outcome == ET_ACCEPTED && is_pprof && *why) {
            et_error("%s: message %zu: %s; using the others", path, number, why);
        }
    }
    if (messages.torn) {
        et_error("%s: truncated within message %zu; using the messages before it", path, number + 1);
    }
    return ET_OK;
}

int et_messages_store(const char *path, const struct et_buf *file, struct et_store *store, size_t *count)
{
    struct told told = {0};
    return store_messages(path, file, store, &told, count);
}

static void add_kind(void *context, const struct et_service_row *row)
{
    et_buf_printf(context, "%s%s", ((struct et_buf *)context)->size ? ", " : "", row->kind);
}

/* Merges profiles of all services in the file. */
int et_messages_load(const char *path, const struct et_buf *file, const struct et_query *query,
                     struct et_profile **profile)
{
    const char *why = NULL;
    struct told told = {0};
    size_t count = 0;
    *profile = et_messages_folded(file, query->kind);
    if (*profile) {
        et_profile_show(*profile, query->measure);
        return ET_OK;
    }
    struct et_store *store = et_store_open(":memory:", true, &why);
    *profile = NULL;
    if (!store) {
        et_error("%s", why);
        return ET_FAILED;
    }
    int code = store_messages(path, file, store, &told, &count);
    if (code == ET_OK && (et_store_load(store, query, profile) < 0 || et_store_ran(store, query, *profile) < 0)) {
        et_error("%s: %s", path, et_store_why(store));
        code = ET_FAILED;
    }
    struct et_buf kinds = {0};
    if (code == ET_OK && (*profile)->total == 0) {
        (void)et_store_services(store, add_kind, &kinds);
    }
    et_store_close(store);
    if (code == ET_OK) {
        bool dated = (*profile)->ran_ns > (int64_t)(*profile)->profiles; /* a pprof without a duration has 1 ns */
        (*profile)->ran_ns = told.ran_ns > 0 ? told.ran_ns : dated ? (*profile)->ran_ns : 0;
        (*profile)->processes = told.processes ? told.processes : (*profile)->processes;
        if (told.samples && query->matcher_count == 0) { /* the file's counts are the periods that fit */
            (*profile)->samples = told.samples;
        }
    }
    if (code == ET_OK && (*profile)->total == 0) {
        et_error("%s: contains no profile%s%s", path, kinds.size ? " of this kind; choose with --kind: " : "",
                 kinds.size ? kinds.data : "");
        et_profile_free(*profile);
        *profile = NULL;
        code = ET_NO_DATA;
    }
    et_buf_free(&kinds);
    return code;
}
