/* See source.h. A server gives pprof, symbolized there. */
#include "source.h"
#include "gzip.h"
#include "kinds.h"
#include "wire_pprof.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_LIMIT = 256 << 20 };

static int load(struct et_store *store, const char *path, const struct et_query *query, struct et_profile **profile)
{
    struct et_buf service = {0};
    struct et_query own = *query;
    int err = et_store_choose(store, query, &service), code = ET_OK;
    own.service = service.data;
    if (err == -EINVAL) {
        et_error("%s holds several services, choose one with --service: %s", path, service.data);
        code = ET_USAGE;
    } else if (err || et_store_load(store, &own, profile) < 0) {
        et_error("%s: %s", path, et_store_why(store));
        code = ET_FAILED;
    }
    et_buf_free(&service);
    return code;
}

int et_source_db(const char *path, const struct et_query *query, struct et_profile **profile)
{
    const char *why;
    if (access(path, F_OK) != 0) {
        et_error("no database %s: `edgeprof serve` makes one, --db names another", path);
        return ET_FAILED;
    }
    struct et_store *store = et_store_open(path, false, &why);
    if (!store) {
        et_error("database %s: %s", path, why);
        return ET_FAILED;
    }
    int code = load(store, path, query, profile);
    et_store_close(store);
    return code;
}

/* ---- server ---- */

static size_t on_data(char *data, size_t size, size_t count, void *context)
{
    struct et_buf *body = context;
    if (body->size + size * count > ANSWER_LIMIT) {
        return 0;
    }
    et_buf_add(body, data, size * count);
    return size * count;
}

static void parameter(CURL *curl, struct et_buf *url, const char *name, const char *value)
{
    char *escaped = value && *value ? curl_easy_escape(curl, value, 0) : NULL;
    if (escaped) {
        et_buf_printf(url, "&%s=%s", name, escaped);
    }
    curl_free(escaped);
}

static void selector_parameters(CURL *curl, struct et_buf *url, const struct et_query *query)
{
    struct et_buf text = {0};
    et_selector_print(query->service ? query->service : "", query->matchers, query->matcher_count, &text);
    parameter(curl, url, "service", text.data);
    for (size_t i = 0; i < query->matcher_count; i++) {
        text.size = 0;
        et_matcher_print(&query->matchers[i], &text);
        parameter(curl, url, "tag", query->matchers[i].process ? text.data : "");
    }
    et_buf_free(&text);
}

static void time_parameter(struct et_buf *url, const char *name, int64_t ns)
{
    if (ns > 0 && ns < INT64_MAX) {
        et_buf_printf(url, "&%s=%lld.%09lld", name, (long long)(ns / 1000000000), (long long)(ns % 1000000000));
    }
}

static void make_url(CURL *curl, const char *base, const struct et_query *query, struct et_buf *url)
{
    size_t size = strlen(base);
    while (size && base[size - 1] == '/') {
        size--;
    }
    et_buf_printf(url, "%.*s/api/pprof?", (int)size, base);
    selector_parameters(curl, url, query);
    parameter(curl, url, "kind", query->kind);
    parameter(curl, url, "group", query->group);
    parameter(curl, url, "value", query->measure == ET_MEASURE_COUNT ? "count" : "");
    parameter(curl, url, "labels", query->keep_labels ? "" : "no");
    time_parameter(url, "from", query->from_ns);
    time_parameter(url, "to", query->to_ns);
}

static int fetch(CURL *curl, const char *base, const struct et_query *query, struct et_buf *body)
{
    struct et_buf url = {0};
    long status = 0;
    make_url(curl, base, query, &url);
    curl_easy_setopt(curl, CURLOPT_URL, url.data);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 120L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    et_buf_free(&url);
    if (code != CURLE_OK) {
        et_error("%s: %s", base, curl_easy_strerror(code));
    } else if (status != 200) {
        char *text = et_clean(body->data ? body->data : "", body->size < 200 ? body->size : 200);
        et_error("%s: HTTP status %ld: %s", base, status, text);
        free(text);
    }
    return code == CURLE_OK && status == 200 ? ET_OK : ET_FAILED;
}

/* The kind that edgeprof has noted; its names in pprof are not always enough. */
static struct et_profile *convert(const et_pprof *pprof, enum et_measure measure, const char **why)
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
        et_profile_show(profile, measure);
        free(service);
    }
    return profile;
}

static int decode(const char *base, const struct et_buf *body, enum et_measure measure, struct et_profile **profile)
{
    struct et_buf raw = {0};
    const char *why = "broken gzip data";
    et_pprof *pprof = NULL;
    if (et_gunzip(body->data, body->size, ANSWER_LIMIT, &raw) == 0) {
        pprof = et_pprof_decode(raw.data, raw.size, &why);
    }
    *profile = pprof ? convert(pprof, measure, &why) : NULL;
    if (pprof) {
        et_pprof_free(pprof);
    }
    et_buf_free(&raw);
    if (!*profile) {
        et_error("%s: not an answer of edgeprof: %s", base, why);
        return ET_FAILED;
    }
    return ET_OK;
}

int et_source_url(const char *base, const struct et_query *query, struct et_profile **profile)
{
    struct et_buf body = {0};
    CURL *curl = curl_easy_init();
    if (!curl) {
        et_error("cannot start libcurl");
        return ET_FAILED;
    }
    int code = fetch(curl, base, query, &body);
    code = code ? code : decode(base, &body, query->measure, profile);
    curl_easy_cleanup(curl);
    et_buf_free(&body);
    return code;
}
