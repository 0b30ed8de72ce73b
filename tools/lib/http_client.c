/* See http_client.h. */
#include "tools/lib/http_client.h"
#include "tools/lib/progress.h"

#include <curl/curl.h>
#include <string.h>

enum { CONNECT_SECONDS = 10, SECONDS = 120, LIMIT = 256 << 20 };

struct http_transfer {
    struct et_buf *answer;
    size_t size, limit;
    bool too_large;
};

static size_t receive_body(char *bytes, size_t size, size_t count, void *context)
{
    struct http_transfer *r = context;
    size_t more = size * count;
    r->too_large = more > r->limit - r->size;
    if (r->too_large) {
        return 0;
    }
    r->size += more;
    et_buf_add(r->answer, bytes, more);
    return more;
}

static int check_stop(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
    const struct et_http_request *request = context;
    et_progress_of((size_t)(now + up_now), (size_t)(total + up_total));
    return request->stop && atomic_load(request->stop);
}

static struct curl_slist *make_headers(const struct et_http_request *request)
{
    /* Without this header, curl waits for "100 Continue" before it sends a large body. */
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    if (request->body) {
        list = curl_slist_append(list, "Content-Type: application/octet-stream");
    }
    if (request->token && *request->token) {
        struct et_buf line = {0};
        et_buf_printf(&line, "Authorization: Bearer %s", request->token);
        list = curl_slist_append(list, line.data);
        et_buf_free(&line);
    }
    return list;
}

void et_http_set_up(void *curl, const char *url, const char *authority, long seconds)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "edgeprof/" EP_VERSION_TEXT);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, seconds);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    if (authority) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, authority);
    }
}

static void set_request_options(CURL *curl, const struct et_http_request *request, struct http_transfer *receiving)
{
    et_http_set_up(curl, request->url, request->authority, request->seconds ? request->seconds : (long)SECONDS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, receiving);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, check_stop);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, (void *)(uintptr_t)request);
    if (request->body) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body->data ? request->body->data : "");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body->size);
    }
}

long et_http_send(const struct et_http_request *request, struct et_buf *why)
{
    struct http_transfer receiving = {.answer = request->answer, .limit = request->limit ? request->limit : LIMIT};
    CURL *curl = curl_easy_init();
    struct curl_slist *list = make_headers(request);
    char words[CURL_ERROR_SIZE] = "";
    long status = 0;
    CURLcode code = CURLE_FAILED_INIT;
    if (curl) {
        set_request_options(curl, request, &receiving);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
        curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words);
        code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_cleanup(curl);
    }
    curl_slist_free_all(list);
    if (receiving.too_large) {
        et_buf_text(why, "the answer is too large");
    } else if (code != CURLE_OK) {
        et_buf_text(why, words[0] ? words : curl_easy_strerror(code));
    }
    return why->size ? 0 : status;
}

void et_url_parameter(struct et_buf *url, const char *name, const char *value)
{
    char *escaped = value && *value ? curl_easy_escape(NULL, value, 0) : NULL;
    if (escaped) {
        et_buf_printf(url, "&%s=%s", name, escaped);
    }
    curl_free(escaped);
}
