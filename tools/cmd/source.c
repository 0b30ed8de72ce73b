/* See source.h. A server answers with pprof, already symbolized. */
#include "tools/cmd/source.h"
#include "tools/lib/http_client.h"
#include "tools/lib/gzip.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"
#include "tools/lib/progress.h"
#include "tools/formats/pprof_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_LIMIT = 256 << 20, WORDS = 200 };

static void end_progress(bool begun)
{
    if (begun) {
        et_progress_end();
    }
}

static int load_profile(struct et_store *store, const char *path, const struct et_query *query,
                        struct et_profile **profile)
{
    struct et_buf service = {0};
    struct et_query own = *query;
    int err = et_store_choose(store, query, &service), code = ET_OK;
    own.service = service.data;
    if (err == -EINVAL) {
        et_error("%s has several services; choose one with --service: %s", path, service.data);
        code = ET_USAGE;
    } else if (err || et_store_load(store, &own, profile) < 0 || et_store_ran(store, &own, *profile) < 0) {
        et_error("%s: %s", path, et_store_why(store));
        code = ET_FAILED;
    }
    et_buf_free(&service);
    return code;
}

/* NULL: an error was reported. */
static struct et_store *open_store(const char *path)
{
    const char *why;
    if (access(path, F_OK) != 0) {
        et_error("database %s does not exist; run `edgeprof serve`, or choose another with --db", path);
        return NULL;
    }
    struct et_store *store = et_store_open(path, false, &why);
    if (!store) {
        et_error("database %s: %s", path, why);
    }
    return store;
}

int et_source_db(const char *path, const struct et_query *query, struct et_profile **profile)
{
    bool begun = et_progress_begin("reading %s", path);
    struct et_store *store = open_store(path);
    int code = store ? load_profile(store, path, query, profile) : ET_FAILED;
    et_store_close(store);
    end_progress(begun);
    return code;
}

/* The words of an answer that is an error: those of the API's JSON, or the first line. *own: the API's. The
 * caller frees them. */
static char *error_text(struct et_buf *body, bool *own)
{
    struct et_buf why = {0};
    et_buf_text(body, "");
    json_t *document = body->data[0] == '{' ? et_json_read(body->data, body->size, &why) : NULL;
    const char *words = et_json_text(document, "error");
    *own = words != NULL;
    words = words ? words : body->data;
    char *text = et_clean(words, strcspn(words, "\n") < WORDS ? strcspn(words, "\n") : WORDS);
    json_decref(document);
    et_buf_free(&why);
    return text;
}

struct plain_ask {
    et_source_ask *ask;
};

static unsigned call_plain(struct et_store *store, const struct et_query *query, const void *context,
                           struct et_buf *out)
{
    return ((const struct plain_ask *)context)->ask(store, query, out);
}

int et_source_db_text(const char *path, et_source_ask *ask, const struct et_query *query, struct et_buf *out)
{
    return et_source_db_call(path, call_plain, query, &(struct plain_ask){ask}, out);
}

int et_source_db_call(const char *path, et_source_call *call, const struct et_query *query, const void *context,
                      struct et_buf *out)
{
    bool begun = et_progress_begin("reading %s", path);
    struct et_store *store = open_store(path);
    unsigned status = store ? call(store, query, context, out) : 0;
    end_progress(begun);
    if (store && status != 200) {
        bool own;
        char *text = error_text(out, &own);
        et_error("%s: %s", path, text);
        free(text);
    }
    et_store_close(store);
    return status == 200 ? ET_OK : ET_FAILED;
}

/* ---- server ---- */

static void add_selector_parameters(struct et_buf *url, const struct et_query *query)
{
    struct et_buf text = {0};
    et_selector_print(query->service ? query->service : "", query->matchers, query->matcher_count, &text);
    et_url_parameter(url, "service", text.data);
    for (size_t i = 0; i < query->matcher_count; i++) {
        text.size = 0;
        et_matcher_print(&query->matchers[i], &text);
        et_url_parameter(url, "tag", query->matchers[i].process ? text.data : "");
    }
    et_buf_free(&text);
}

static void add_time_parameter(struct et_buf *url, const char *name, int64_t ns)
{
    if (ns > 0 && ns < INT64_MAX) {
        et_buf_printf(url, "&%s=%lld.%09lld", name, (long long)(ns / 1000000000), (long long)(ns % 1000000000));
    }
}

static void add_query_parameters(struct et_buf *url, const struct et_query *query)
{
    add_selector_parameters(url, query);
    et_url_parameter(url, "kind", query->kind);
    struct et_buf key = {0};
    for (const char *rest = query->group; et_group_next(&rest, &key);) {
        et_url_parameter(url, "group", key.data);
    }
    et_buf_free(&key);
    et_url_parameter(url, "value", query->measure == ET_MEASURE_COUNT ? "count" : "");
    et_url_parameter(url, "labels", query->keep_labels ? "" : "no");
    add_time_parameter(url, "from", query->from_ns);
    add_time_parameter(url, "to", query->to_ns);
}

/* body: NULL for a GET. */
static int request_server(const struct et_remote *remote, const char *path, const struct et_query *query,
                          const struct et_buf *sent, struct et_buf *body)
{
    struct et_buf url = {0}, why = {0};
    size_t size = strlen(remote->url);
    while (size && remote->url[size - 1] == '/') {
        size--;
    }
    et_buf_printf(&url, "%.*s%s%s", (int)size, remote->url, path, !query ? "" : strchr(path, '?') ? "&" : "?");
    if (query) {
        add_query_parameters(&url, query);
    }
    const struct et_http_request fetch = {
        .url = url.data, .token = remote->token, .authority = remote->authority, .body = sent, .answer = body};
    bool begun = et_progress_begin("reading %s", remote->url);
    long status = et_http_send(&fetch, &why);
    end_progress(begun);
    if (status == 0 && remote->assumed) {
        et_error("no database edgeprof.db here, and %s: %s; run `edgeprof serve`, or choose with --db or --url",
                 remote->url, why.data);
    } else if (status == 0) {
        et_error("%s: %s; --url or EDGEPROF_URL chooses a server", remote->url, why.data);
    } else if (status / 100 != 2) {
        bool own;
        char *text = error_text(body, &own), number[32];
        snprintf(number, sizeof number, "HTTP status %ld: ", status);
        et_error("%s: %s%s%s", remote->url, own && status / 100 == 4 ? "" : number, text,
                 status == 401 ? "; set --token-file or EDGEPROF_TOKEN" : "");
        free(text);
    }
    et_buf_free(&url);
    et_buf_free(&why);
    return status / 100 == 2 ? ET_OK : ET_FAILED;
}

/* ---- names that the server still reads ---- */

/* A server answers at once, with addresses for the names that it does not have yet. */
struct waiting {
    unsigned tries;
};

/* Whether to ask again; after a while, which grows. */
static bool wait_for_names(struct waiting *waiting, const char *server, uint64_t pending)
{
    enum { TRIES = 60, FIRST_MS = 100, MOST_MS = 1000 };
    if (pending == 0) {
        return false;
    }
    if (waiting->tries == TRIES) {
        et_error("%s: %llu addresses have no name yet: the server still reads or fetches symbol files", server,
                 (unsigned long long)pending);
        return false;
    }
    long ms = waiting->tries < MOST_MS / FIRST_MS ? FIRST_MS * (long)(waiting->tries + 1) : MOST_MS;
    waiting->tries++;
    et_progress("waiting for names: the server still reads symbol files for %llu addresses",
                (unsigned long long)pending);
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
    return true;
}

/* Of an answer in JSON. Within a string the quotes would be escaped. */
static uint64_t pending_names(const struct et_buf *body)
{
    static const char field[] = "\"names_pending\":";
    const char *at = body->size ? memmem(body->data, body->size, field, sizeof field - 1) : NULL;
    return at ? strtoull(at + sizeof field - 1, NULL, 10) : 0;
}

int et_source_get(const struct et_remote *remote, const char *path, const struct et_query *query, struct et_buf *body)
{
    struct waiting waiting = {0};
    int code;
    do {
        body->size = 0;
        code = request_server(remote, path, query, NULL, body);
    } while (code == ET_OK && wait_for_names(&waiting, remote->url, pending_names(body)));
    return code;
}

int et_source_post(const struct et_remote *remote, const char *path, const struct et_buf *sent, struct et_buf *body)
{
    return request_server(remote, path, NULL, sent, body);
}

/* Uses the kind in edgeprof's note, because pprof names can be ambiguous. */
static struct et_profile *make_profile(const et_pprof *pprof, enum et_measure measure, const char **why)
{
    struct et_pprof_kind kinds[ET_PPROF_KINDS];
    const char *noted = et_pprof_note(pprof, "kind");
    const struct et_kind *kind = et_kind_named(noted);
    et_pprof_kinds(pprof, kind ? kind->family : "", kinds);
    struct et_profile *profile = et_pprof_profile(pprof, &kinds[0], why);
    if (profile && kind) {
        profile->kind = et_intern(&profile->strings, noted);
        profile->value_unit = et_intern(&profile->strings, kind->unit);
    }
    if (profile) {
        char *service = et_clean(et_pprof_note(pprof, "service"), strlen(et_pprof_note(pprof, "service")));
        profile->service = et_intern(&profile->strings, service);
        profile->samples = strtoull(et_pprof_note(pprof, "samples"), NULL, 10);
        profile->processes = strtoull(et_pprof_note(pprof, "processes"), NULL, 10);
        profile->names_pending = strtoull(et_pprof_note(pprof, "names-pending"), NULL, 10);
        et_profile_show(profile, measure);
        free(service);
    }
    return profile;
}

static int decode_answer(const char *base, const struct et_buf *body, enum et_measure measure,
                         struct et_profile **profile)
{
    struct et_buf raw = {0};
    const char *why = "broken gzip data";
    et_pprof *pprof = NULL;
    if (et_gunzip(body->data, body->size, ANSWER_LIMIT, &raw) == 0) {
        pprof = et_pprof_decode(raw.data, raw.size, &why);
    }
    *profile = pprof ? make_profile(pprof, measure, &why) : NULL;
    if (pprof) {
        et_pprof_free(pprof);
    }
    et_buf_free(&raw);
    if (!*profile) {
        et_error("%s: unexpected answer: %s", base, why);
        return ET_FAILED;
    }
    return ET_OK;
}

int et_source_url(const struct et_remote *remote, const struct et_query *query, struct et_profile **profile)
{
    struct waiting waiting = {0};
    int code;
    *profile = NULL;
    do {
        struct et_buf body = {0};
        et_profile_free(*profile);
        *profile = NULL;
        code = et_source_get(remote, "/api/pprof", query, &body);
        code = code ? code : decode_answer(remote->url, &body, query->measure, profile);
        et_buf_free(&body);
    } while (code == ET_OK && wait_for_names(&waiting, remote->url, (*profile)->names_pending));
    return code;
}
