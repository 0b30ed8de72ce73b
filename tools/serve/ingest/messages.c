/* See messages.h. A file's messages are stored in an in-memory database, so that files and requests are processed
 * alike.
 */
#include "tools/serve/ingest/messages.h"
#include "tools/lib/gzip.h"
#include "tools/serve/ingest/ingest.h"
#include "tools/lib/kinds.h"
#include "tools/lib/time_text.h"
#include "tools/formats/compact.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 1 << 30, GZIP_0 = 0x1f, GZIP_1 = 0x8b, FIRST_IN_PPROF = 0x0a };

static uint32_t read_length(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Both formats are written in field order: a compact message starts with its segment, a pprof with a sample type. */
bool et_is_pprof(const uint8_t *bytes, size_t size)
{
    return size > 1 && (bytes[0] == FIRST_IN_PPROF || (bytes[0] == GZIP_0 && bytes[1] == GZIP_1));
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

const char *et_messages_hint(const et_pprof *pprof)
{
    const struct et_kind *kind = et_kind_named(et_pprof_note(pprof, "kind"));
    return kind ? kind->family : "";
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

int et_messages_read(const char *path, struct et_buf *file)
{
    int err = et_read_file(path, FILE_LIMIT, file);
    if (err) {
        et_error("%s: %s", path, strerror(-err));
    }
    return err ? ET_FAILED : ET_OK;
}

/* ---- loading ---- */

/* What pprof files say of the processes behind them, which the database does not keep. */
struct told {
    int64_t ran_ns;
    uint64_t processes;
};

static enum et_outcome store_pprof(struct et_store *store, const uint8_t *bytes, size_t size, struct told *told,
                                   const char **why)
{
    struct et_buf inflated = {0};
    enum et_outcome outcome = ET_MALFORMED;
    et_pprof *pprof = et_messages_pprof(bytes, size, &inflated, why);
    if (pprof) {
        const struct et_pprof_push push = {
            .name = "pprof", .family = et_messages_hint(pprof), .bytes = inflated.data, .size = inflated.size};
        outcome = et_ingest_pprof(store, &push, et_now(), why);
        told->ran_ns += pprof->duration_nanos;
        told->processes += strtoull(et_pprof_note(pprof, "processes"), NULL, 10);
        et_pprof_free(pprof);
    }
    et_buf_free(&inflated);
    return outcome;
}

static int store_messages(const char *path, const struct et_buf *file, struct et_store *store, struct told *told)
{
    struct et_messages messages;
    const uint8_t *bytes;
    size_t size, number = 0;
    et_messages_begin(&messages, file);
    while (et_messages_next(&messages, &bytes, &size)) {
        const char *why = "";
        enum et_outcome outcome = et_is_pprof(bytes, size) ? store_pprof(store, bytes, size, told, &why)
                                                           : et_ingest_compact(store, bytes, size, et_now(), &why);
        number++;
        if (outcome != ET_ACCEPTED && outcome != ET_REPEATED) {
            et_error("%s: message %zu: %s", path, number, why);
            return ET_FAILED;
        }
    }
    if (messages.torn) {
        et_error("%s: truncated within message %zu; using the messages before it", path, number + 1);
    }
    return ET_OK;
}

/* Merges profiles of all services in the file. */
int et_messages_load(const char *path, const struct et_buf *file, const struct et_query *query,
                     struct et_profile **profile)
{
    const char *why = NULL;
    struct told told = {0};
    struct et_store *store = et_store_open(":memory:", true, &why);
    *profile = NULL;
    if (!store) {
        et_error("%s", why);
        return ET_FAILED;
    }
    int code = store_messages(path, file, store, &told);
    if (code == ET_OK && (et_store_load(store, query, profile) < 0 || et_store_ran(store, query, *profile) < 0)) {
        et_error("%s: %s", path, et_store_why(store));
        code = ET_FAILED;
    }
    et_store_close(store);
    if (code == ET_OK) {
        (*profile)->ran_ns = told.ran_ns > 0 ? told.ran_ns : (*profile)->ran_ns;
        (*profile)->processes = told.processes ? told.processes : (*profile)->processes;
    }
    if (code == ET_OK && (*profile)->total == 0) {
        et_error("%s: contains no profile", path);
        et_profile_free(*profile);
        *profile = NULL;
        code = ET_NO_DATA;
    }
    return code;
}
