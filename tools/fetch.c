/* See fetch.h. */
#include "fetch.h"
#include "progress.h"

#include <curl/curl.h>
#include <errno.h>
#include <string.h>

enum { CONNECT_SECONDS = 10, SECONDS = 120, LIMIT = 256 << 20, REDIRECTS = 4 };

struct receiving {
    const struct et_fetch *fetch;
    CURL *curl;
    size_t size, limit;
    int err; /* of the file */
};

static size_t on_data(char *bytes, size_t size, size_t count, void *context)
{
    struct receiving *r = context;
    size_t more = size * count;
    long status = 0;
    if (more > r->limit - r->size) {
        r->err = EFBIG;
        return 0;
    }
    r->size += more;
    if (r->fetch->answer) {
        et_buf_add(r->fetch->answer, bytes, more);
        return more;
    }
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200 && fwrite(bytes, 1, more, r->fetch->file) != more) {
        r->err = errno ? errno : EIO;
        return 0;
    }
    return more;
}

static int on_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
    const struct et_fetch *fetch = context;
    et_progress_of((size_t)(now + up_now), (size_t)(total + up_total));
    return fetch->stop && atomic_load(fetch->stop);
}

static struct curl_slist *headers(const struct et_fetch *fetch)
{
    /* curl would wait for "100 Continue" before a large body. */
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    if (fetch->body) {
        list = curl_slist_append(list, "Content-Type: application/octet-stream");
    }
    if (fetch->token && *fetch->token) {
        struct et_buf line = {0};
        et_buf_printf(&line, "Authorization: Bearer %s", fetch->token);
        list = curl_slist_append(list, line.data);
        et_buf_free(&line);
    }
    return list;
}

static void set_up(const struct et_fetch *fetch, struct receiving *receiving)
{
    CURL *curl = receiving->curl;
    curl_easy_setopt(curl, CURLOPT_URL, fetch->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, fetch->redirects && !fetch->token ? 1L : 0L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "edgeprof/" EP_VERSION_TEXT);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, receiving);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, (void *)(uintptr_t)fetch);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, fetch->seconds ? fetch->seconds : (long)SECONDS);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    if (fetch->authority) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, fetch->authority);
    }
    if (fetch->body) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, fetch->body->data ? fetch->body->data : "");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)fetch->body->size);
    }
}

long et_fetch(const struct et_fetch *fetch, struct et_buf *why)
{
    struct receiving receiving = {
        .fetch = fetch, .curl = curl_easy_init(), .limit = fetch->limit ? fetch->limit : LIMIT};
    struct curl_slist *list = headers(fetch);
    char words[CURL_ERROR_SIZE] = "";
    long status = 0;
    CURLcode code = CURLE_FAILED_INIT;
    if (receiving.curl) {
        set_up(fetch, &receiving);
        curl_easy_setopt(receiving.curl, CURLOPT_HTTPHEADER, list);
        curl_easy_setopt(receiving.curl, CURLOPT_ERRORBUFFER, words);
        code = curl_easy_perform(receiving.curl);
        curl_easy_getinfo(receiving.curl, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_cleanup(receiving.curl);
    }
    curl_slist_free_all(list);
    if (receiving.err) {
        et_buf_text(why, receiving.err == EFBIG ? "the answer is too large" : strerror(receiving.err));
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
