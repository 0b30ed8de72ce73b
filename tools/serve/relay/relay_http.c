/* See relay_http.h. */
#include "tools/serve/relay/relay_http.h"
#include "tools/lib/gzip.h"
#include "tools/lib/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SECRET_LIMIT = 64 << 10, WORDS = 256 << 10 };

struct et_relay_http {
    const struct et_relay_target *target;
    CURL *curl;
    char *token, *password, *api_key;
    bool denied; /* the last status was 401 or 403 */
    bool cut, grpc_answered;
    long grpc_status; /* of the answer under way */
    char grpc_words[200];
};

/* ---- secrets ---- */

static void erase_secret(char **secret)
{
    if (*secret) {
        explicit_bzero(*secret, strlen(*secret));
    }
    free(*secret);
    *secret = NULL;
}

/* Reads the file's first line. A byte that is invalid in a header is an error. */
static bool read_secret(const char *path, char **secret, struct et_buf *why)
{
    struct et_buf bytes = {0};
    int err = path ? et_read_file(path, SECRET_LIMIT, &bytes) : 0;
    if (!path) {
        return true;
    }
    size_t size = bytes.data ? strcspn(bytes.data, "\r\n") : 0;
    for (size_t i = 0; i < size && !err; i++) {
        err = (unsigned char)bytes.data[i] < 0x20 || bytes.data[i] == 0x7f ? -EINVAL : 0;
    }
    if (err || !size) {
        et_buf_printf(why, "%s: %s", path,
                      err == -EINVAL ? "contains a character that is invalid in a header"
                      : err          ? strerror(-err)
                                     : "is empty");
    } else {
        erase_secret(secret);
        *secret = et_alloc(size + 1, 1);
        memcpy(*secret, bytes.data, size);
    }
    if (bytes.data) {
        explicit_bzero(bytes.data, bytes.capacity);
    }
    et_buf_free(&bytes);
    return why->size == 0;
}

static bool read_secrets(struct et_relay_http *http, struct et_buf *why)
{
    const struct et_relay_target *target = http->target;
    return read_secret(target->token_file, &http->token, why) &&
           read_secret(target->password_file, &http->password, why) &&
           read_secret(target->api_key_file, &http->api_key, why);
}

/* ---- requests ---- */

struct answer {
    struct et_relay_http *http;
    struct et_buf *words;
};

static size_t keep_reply(char *bytes, size_t size, size_t count, void *context)
{
    struct answer *answer = context;
    struct et_buf *words = answer->words;
    size_t left = WORDS - (words->size < WORDS ? words->size : WORDS), all = size * count;
    et_buf_add(words, bytes, all < left ? all : left);
    answer->http->cut |= all > left;
    return all;
}

/* Headers and trailers. */
static size_t keep_grpc(char *bytes, size_t size, size_t count, void *context)
{
    static const char status[] = "grpc-status:", message[] = "grpc-message:";
    struct et_relay_http *http = context;
    size_t all = size * count, skip = sizeof message - 1;
    if (all > sizeof status && strncasecmp(bytes, status, sizeof status - 1) == 0) {
        char *end;
        const char *text = bytes + sizeof status - 1;
        http->grpc_status = strtol(text, &end, 10);
        http->grpc_answered = end > text;
    } else if (all > skip && strncasecmp(bytes, message, skip) == 0) {
        size_t words = all - skip < sizeof http->grpc_words - 1 ? all - skip : sizeof http->grpc_words - 1;
        memcpy(http->grpc_words, bytes + skip, words);
        http->grpc_words[words] = '\0';
    }
    return all;
}

static int check_stop(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
    const atomic_bool *stop = context;
    (void)total;
    (void)now;
    (void)up_total;
    (void)up_now;
    return atomic_load(stop) ? 1 : 0;
}

static struct curl_slist *append_header(struct curl_slist *list, const char *name, const char *value)
{
    struct et_buf line = {0};
    if (value) {
        et_buf_printf(&line, "%s: %s", name, value);
        list = curl_slist_append(list, line.data);
        explicit_bzero(line.data, line.size);
    }
    et_buf_free(&line);
    return list;
}

static struct curl_slist *make_headers(const struct et_relay_http *http, const char *type, bool gzip)
{
    struct et_buf bearer = {0};
    /* Without this header, curl waits for "100 Continue" before it sends a large body. */
    struct curl_slist *list = append_header(curl_slist_append(NULL, "Expect:"), "Content-Type", type);
    list = append_header(list, "Content-Encoding", gzip ? "gzip" : NULL);
    list = append_header(list, "TE", http->target->grpc ? "trailers" : NULL);
    list = append_header(list, "X-Scope-OrgID", http->target->org_id);
    list = append_header(list, "DD-API-KEY", http->api_key);
    if (http->token) {
        et_buf_printf(&bearer, "Bearer %s", http->token);
        list = append_header(list, "Authorization", bearer.data);
        explicit_bzero(bearer.data, bearer.size);
    }
    for (size_t i = 0; i < http->target->header_count; i++) {
        list = curl_slist_append(list, http->target->headers[i]);
    }
    et_buf_free(&bearer);
    return list;
}

static void set_connection_options(CURL *curl, const struct et_relay_target *target)
{
    et_http_set_up(curl, target->url, target->ca, (long)target->timeout_s);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep_reply);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, check_stop);
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    if (target->grpc) {
        /* curl 7.88 fails with CURLE_HTTP2 when it uses such a connection again. */
        curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
        bool clear = strncmp(target->url, "http://", 7) == 0;
        curl_easy_setopt(curl, CURLOPT_HTTP_VERSION,
                         (long)(clear ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE : CURL_HTTP_VERSION_2TLS));
    }
    if (target->cert) {
        curl_easy_setopt(curl, CURLOPT_SSLCERT, target->cert);
        curl_easy_setopt(curl, CURLOPT_SSLKEY, target->key ? target->key : target->cert);
    }
}

struct et_relay_http *et_relay_http_new(const struct et_relay_target *target, struct et_buf *why)
{
    struct et_relay_http *http = et_alloc(1, sizeof *http);
    http->target = target;
    http->curl = curl_easy_init();
    if (!http->curl || !read_secrets(http, why)) {
        et_buf_text(why, http->curl ? "" : "out of memory");
        et_relay_http_free(http);
        return NULL;
    }
    set_connection_options(http->curl, target);
    if (target->grpc) {
        curl_easy_setopt(http->curl, CURLOPT_HEADERFUNCTION, keep_grpc);
        curl_easy_setopt(http->curl, CURLOPT_HEADERDATA, http);
    }
    return http;
}

void et_relay_http_free(struct et_relay_http *http)
{
    if (http) {
        curl_easy_cleanup(http->curl);
        erase_secret(&http->token);
        erase_secret(&http->password);
        erase_secret(&http->api_key);
        free(http);
    }
}

/* Makes the server's reply one printable line. */
static void clean_reply(struct et_buf *words)
{
    char *clean = et_clean(words->data ? words->data : "", words->size);
    et_buf_free(words);
    et_buf_text(words, clean);
    free(clean);
}

/* gRPC's status as that of HTTP. */
static long status_of_grpc(long status)
{
    static const short statuses[] = {200, 499, 500, 400, 504, 404, 409, 403, 429,
                                     400, 409, 400, 404, 500, 503, 500, 401};
    return status >= 0 && (size_t)status < sizeof statuses / sizeof *statuses ? statuses[status] : 500;
}

/* A page of a proxy or a login is no acknowledgement, whatever its status. */
static void classify_answer(const struct et_relay_http *http, struct et_relay_reply *reply)
{
    const char *type = NULL;
    bool success = reply->status >= 200 && reply->status < 300;
    curl_easy_getinfo(http->curl, CURLINFO_CONTENT_TYPE, &type);
    if (http->target->grpc && success && http->grpc_answered) {
        reply->status = status_of_grpc(http->grpc_status);
        reply->words.size = 0;
        et_buf_text(&reply->words, http->grpc_words);
    } else if (success) {
        reply->strange = http->target->grpc || (type && strncasecmp(type, "text/html", 9) == 0) ||
                         (reply->words.size && reply->words.data[0] == '<');
    }
}

static void perform_transfer(struct et_relay_http *http, const struct et_buf *body, struct et_relay_reply *reply)
{
    char words[CURL_ERROR_SIZE] = "";
    curl_off_t after = 0;
    curl_easy_setopt(http->curl, CURLOPT_POSTFIELDS, body->data ? body->data : "");
    curl_easy_setopt(http->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
    struct answer answer = {http, &reply->words};
    http->cut = http->grpc_answered = false;
    http->grpc_words[0] = '\0';
    curl_easy_setopt(http->curl, CURLOPT_WRITEDATA, &answer);
    curl_easy_setopt(http->curl, CURLOPT_ERRORBUFFER, words);
    if (http->target->user) {
        curl_easy_setopt(http->curl, CURLOPT_USERNAME, http->target->user);
        curl_easy_setopt(http->curl, CURLOPT_PASSWORD, http->password ? http->password : "");
    }
    CURLcode code = curl_easy_perform(http->curl);
    curl_easy_setopt(http->curl, CURLOPT_ERRORBUFFER, NULL);
    if (code == CURLE_OK) {
        curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &reply->status);
        curl_easy_getinfo(http->curl, CURLINFO_RETRY_AFTER, &after);
        reply->retry_after_s = after;
        reply->cut = http->cut;
        classify_answer(http, reply);
    } else {
        reply->words.size = 0;
        et_buf_text(&reply->words, words[0] ? words : curl_easy_strerror(code));
    }
}

void et_relay_http_post(struct et_relay_http *http, const struct et_buf *body, const char *type, bool gzip,
                        const atomic_bool *stop, struct et_relay_reply *reply)
{
    struct et_buf zipped = {0};
    *reply = (struct et_relay_reply){0};
    if (http->denied && !read_secrets(http, &reply->words)) {
        return;
    }
    if (gzip) {
        et_gzip_fast(body->data, body->size, &zipped);
    }
    struct curl_slist *list = make_headers(http, type, gzip);
    curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(http->curl, CURLOPT_XFERINFODATA, (void *)(uintptr_t)stop);
    perform_transfer(http, gzip ? &zipped : body, reply);
    curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(list);
    et_buf_free(&zipped);
    http->denied = reply->status == 401 || reply->status == 403;
    clean_reply(&reply->words);
}
