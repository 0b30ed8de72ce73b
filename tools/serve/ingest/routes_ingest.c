/*
 * Pyroscope's older /ingest: pprof (raw, gzip, or a form field) and folded text, described by the URL's arguments.
 * Status: 400 for the arguments, 422 for the body, 413 and 429 for too much data.
 */
#include "tools/formats/folded.h"
#include "tools/lib/gzip.h"
#include "tools/serve/ingest/ingest_batch.h"
#include "tools/lib/json_read.h"
#include "tools/formats/multipart.h"
#include "tools/serve/http/rejections.h"
#include "tools/serve/http/routes.h"
#include "tools/serve/ingest/keep_batch.h"
#include "tools/serve/http/limits.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The URL's arguments. */
struct ingest_request {
    char *service, *tags, *family;
    int64_t from_ns, until_ns, now_ns;
    const char *units;
    bool pprof, lines, average, said; /* said: the URL has the format */
    uint64_t rate;                    /* samples per second */
};

/* Returns NULL or an error. */
static const char *read_format(const struct et_request *request, struct ingest_request *ingest)
{
    static const char *const foreign[] = {"trie", "tree", "speedscope"};
    const char *format = et_argument(request, "format"), *type = et_header(request, "Content-Type");
    ingest->pprof = strcmp(format, "pprof") == 0;
    ingest->lines = strcmp(format, "lines") == 0;
    ingest->said = *format != '\0';
    if (strcmp(format, "jfr") == 0) {
        return "Java's recordings (jfr) are not supported; supported formats: pprof, groups (folded) and lines";
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        if (strcmp(format, foreign[i]) == 0) {
            return "supported formats: pprof, groups (folded) and lines; trie, tree and speedscope are not supported";
        }
    }
    if (type && strncasecmp(type, "multipart/form-data", strlen("multipart/form-data")) == 0) {
        ingest->pprof = true;
    } else if (type && strncmp(type, "binary/octet-stream+", strlen("binary/octet-stream+")) == 0) {
        return "supported formats: pprof, groups (folded) and lines; tries and trees are not supported";
    }
    bool known = !*format || ingest->pprof || ingest->lines || strcmp(format, "groups") == 0 ||
                 strcmp(format, "folded") == 0; /* the older name */
    return known ? NULL : "supported formats: pprof, groups (folded) and lines";
}

/* Parses samples per second: digits. pyroscope-go sends 0 with profiles that have no rate. */
static bool read_rate(const char *text, uint64_t *rate)
{
    char *end;
    *rate = 100;
    if (!*text) {
        return true;
    }
    *rate = strtoull(text, &end, 10);
    bool ok = text[0] >= '0' && text[0] <= '9' && *end == '\0' && *rate <= 1000000;
    *rate = *rate ? *rate : 100;
    return ok;
}

/* Returns NULL or an error. */
static const char *read_arguments(const struct et_request *request, struct ingest_request *ingest)
{
    const char *from = et_argument(request, "from"), *until = et_argument(request, "until"), *why = NULL;
    ingest->units = et_argument(request, "units");
    ingest->average = strcmp(et_argument(request, "aggregationType"), "average") == 0;
    ingest->now_ns = et_now();
    if ((*from && !et_parse_time(from, &ingest->from_ns)) || (*until && !et_parse_time(until, &ingest->until_ns))) {
        return "from and until must be Unix times, now, now-1h or 2026-01-31";
    }
    if (!read_rate(et_argument(request, "sampleRate"), &ingest->rate)) {
        return "sampleRate must be 0 to 1000000 samples per second";
    }
    why = read_format(request, ingest);
    if (why || !et_batch_name(et_argument(request, "name"), &ingest->service, &ingest->tags, &ingest->family, &why)) {
        return why;
    }
    return NULL;
}

/* Reads a form field, inflated. Returns NULL or an error; *found: the field exists. */
static const char *read_field(const struct et_buf *body, const char *boundary, const char *name, size_t limit,
                              struct et_buf *out, bool *found)
{
    const char *field;
    size_t size;
    int there = et_multipart_field(body->data, body->size, boundary, name, &field, &size);
    *found = there > 0;
    if (there < 0) {
        return "the form's parts do not end with its boundary";
    }
    int err = there ? et_gunzip(field, size, limit, out) : 0;
    return err == -EFBIG ? "too large when inflated" : err ? "broken gzip or zstd data" : NULL;
}

/* Reads sample_type_config. NULL: not an object, see *why. */
static json_t *read_config(const struct et_buf *config, struct et_buf *why)
{
    et_buf_text(why, "sample_type_config: ");
    json_t *value = et_json_read(config->data ? config->data : "", config->size, why);
    if (json_is_object(value)) {
        why->size = 0;
        return value;
    }
    if (value) {
        et_buf_text(why, "not an object");
    }
    json_decref(value);
    return NULL;
}

/* Reads the profile of a form; *types: its sample_type_config or NULL, json_decref() it. False: see *why. */
static bool read_form(const struct et_buf *body, const char *type, size_t limit, struct et_buf *profile, json_t **types,
                      struct et_buf *why)
{
    char boundary[ET_BOUNDARY];
    struct et_buf config = {0}, previous = {0};
    bool found = false, configured = false, has_previous = false;
    const char *wrong = "the form has no boundary";
    if (et_multipart_boundary(type, boundary)) {
        wrong = read_field(body, boundary, "profile", limit, profile, &found);
        wrong = wrong ? wrong : read_field(body, boundary, "sample_type_config", limit, &config, &configured);
        wrong = wrong ? wrong : read_field(body, boundary, "prev_profile", limit, &previous, &has_previous);
        wrong = wrong          ? wrong
                : has_previous ? "prev_profile is not supported; send differences, not totals"
                : !found       ? "the form has no field profile"
                               : NULL;
    }
    if (wrong) {
        et_buf_text(why, wrong);
    } else if (configured && !(*types = read_config(&config, why))) {
        wrong = why->data;
    }
    et_buf_free(&config);
    et_buf_free(&previous);
    return !wrong;
}

/* Older agents append the kind to the service's name, see et_folded_kind(). */
static bool add_folded(struct et_batch *batch, const struct ingest_request *ingest, const struct et_buf *text,
                       struct et_buf *why)
{
    struct et_folded what;
    size_t service_size;
    if (!et_folded_kind(ingest->service, &service_size, ingest->units, ingest->average, ingest->rate, &what)) {
        et_buf_text(why,
                    "units must be samples, objects, bytes, lock_nanoseconds, lock_samples, goroutines or exceptions");
        return false;
    }
    struct et_profile *profile = et_folded_parse(text->data ? text->data : "", text->size, ingest->lines, &what, why);
    if (!profile) {
        return false;
    }
    bool timed = ingest->from_ns && ingest->until_ns > ingest->from_ns;
    ingest->service[service_size] = '\0';
    et_batch_add(batch, ingest->service, ingest->tags, profile, timed ? ingest->from_ns : ingest->now_ns - 1,
                 timed ? ingest->until_ns : ingest->now_ns);
    return true;
}

/* Without a format, Pyroscope expects text, but edgeprof has always accepted pprof. Text has no byte 0; pprof has one,
 * in the empty string. */
static bool is_pprof(const struct ingest_request *ingest, const struct et_buf *body)
{
    return ingest->pprof || (!ingest->said && body->size && memchr(body->data, '\0', body->size));
}

static bool add_pprof(struct et_batch *batch, const struct ingest_request *ingest, const struct et_buf *bytes,
                      json_t *types, struct et_buf *why)
{
    struct et_folded what; /* its meaning is in the sample types */
    size_t service_size;
    (void)et_folded_kind(ingest->service, &service_size, "", false, ingest->rate, &what);
    ingest->service[service_size] = '\0';
    struct et_batch_source source = {.service = ingest->service,
                                     .tags = ingest->tags,
                                     .family = ingest->family,
                                     .guess = true,
                                     .config = types,
                                     .from_ns = ingest->from_ns,
                                     .until_ns = ingest->until_ns,
                                     .now_ns = ingest->now_ns};
    const char *wrong = et_batch_pprof(batch, &source, bytes->data, bytes->size);
    if (wrong) {
        et_buf_text(why, wrong);
    }
    return !wrong || batch->count;
}

/* Returns the status; *why: the error. */
static unsigned ingest_body(struct et_server *server, const struct et_request *request,
                            const struct ingest_request *ingest, const struct et_buf *body, struct et_buf *why)
{
    const char *type = et_header(request, "Content-Type");
    struct et_batch batch = {0};
    struct et_buf field = {0};
    bool form = type && strncasecmp(type, "multipart/", strlen("multipart/")) == 0;
    json_t *types = NULL;
    bool ok = !form || read_form(body, type, et_server_limits(server)->inflated, &field, &types, why);
    const struct et_buf *profile = form ? &field : body;
    ok = ok && (is_pprof(ingest, profile) ? add_pprof(&batch, ingest, profile, types, why)
                                          : add_folded(&batch, ingest, profile, why));
    if (why->size) {
        et_reject(ET_REJECTED_MALFORMED, "%s of %s: %s", request->path, ingest->service, why->data);
    }
    bool partly = why->size; /* what is good is kept */
    unsigned status = ok ? et_server_keep_batch(server, request, &batch, why) : 422;
    status = status == 200 && partly ? 422 : status;
    json_decref(types);
    et_batch_free(&batch);
    et_buf_free(&field);
    return status;
}

static void ingest_profile(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct ingest_request ingest = {0};
    struct et_buf body = {0}, why = {0};
    const char *wrong = read_arguments(request, &ingest);
    if (wrong) {
        et_reject(ET_REJECTED_MALFORMED, "%s: %s", request->path, wrong);
        et_answer_text(answer, 400, wrong);
    } else if (et_body(request, et_server_limits(server)->inflated, &body, answer) == 0) {
        unsigned status = ingest_body(server, request, &ingest, &body, &why);
        et_answer_text(answer, status, why.size ? why.data : "ok");
    }
    free(ingest.service);
    free(ingest.tags);
    free(ingest.family);
    et_buf_free(&body);
    et_buf_free(&why);
}

const struct et_route et_routes_ingest[] = {
    {.method = "POST", .path = "/ingest", .handle = ingest_profile},
    {.method = "POST", .path = "/pyroscope/ingest", .handle = ingest_profile},
    {0},
};
