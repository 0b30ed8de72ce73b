/*
 * Any bytes as an HTTP response. The first byte chooses the portions, the rest is what the far end says.
 *
 * Checked: the parser stays inside its bounds (the sanitizers'), takes no byte twice, is bounded in all, and comes to
 * the same end however the bytes are portioned. The whole client, fed the same, returns one of its documented results.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/http.h"
#include "script.h"

const struct ep_stream ep_stream_tcp; /* http.c's own; not opened here */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

struct end {
    int result;
    size_t used;
    unsigned status;
    bool known, close;
    uint32_t retry_s;
};

static struct end parse(const uint8_t *data, size_t size, size_t portion)
{
    struct ep_http_response response;
    struct end end = {.result = 1};

    ep_http_response_start(&response);
    while (end.result > 0 && end.used < size) {
        size_t n = size - end.used < portion ? size - end.used : portion;
        size_t used = 0;
        end.result = ep_http_response_feed(&response, data + end.used, n, &used);
        require(used <= n && (end.result <= 0 || used == n));
        end.used += used;
        require(response.bytes == end.used);
        require(end.result != 0 || response.known);
        require(end.result == 0 || end.result == 1 || end.result == -EPROTO);
    }
    end.known = response.known;
    end.close = response.close;
    end.status = response.known ? response.status : 0;
    end.retry_s = response.known ? response.retry_s : 0;
    require(!end.known || (end.status >= 200 && end.status <= 999));
    require(end.retry_s <= EP_HTTP_RETRY_MAX);
    return end;
}

static struct end parser(const uint8_t *data, size_t size, size_t portion)
{
    struct end a = parse(data, size, portion), b = parse(data, size, 1);

    require(a.result == b.result && a.status == b.status && a.known == b.known && a.retry_s == b.retry_s);
    require(a.close == b.close && (a.used == b.used || a.used > EP_HTTP_RESPONSE_MAX));
    return a;
}

/* Only five statuses drop a message for good, and only a success acknowledges it. */
static void judgement(int result, unsigned status)
{
    bool judges = status == 400 || status == 413 || status == 415 || status == 422 || status == 501;

    require((result == -EBADMSG || result == -EMSGSIZE) == judges);
    require((result == -ESTALE) == (status == 409));
    require(result != 0 || (status >= 200 && status <= 299));
}

static void client(const uint8_t *data, size_t size, size_t portion, unsigned status)
{
    static const int results[] = {0,          -ESTALE, -EBADMSG, -EMSGSIZE,   -EAGAIN,
                                  -ETIMEDOUT, -EIO,    -EPROTO,  -ECONNRESET, -EACCES};
    struct ep_target target = {.endpoint = "http://h", .service = "", .tags = ""};
    struct ep_message message = {.data = (const uint8_t *)"x", .size = 1};
    struct ep_deadline deadline = {.at_ns = 1};
    uint64_t retry_ns = 0;
    void *state = calloc(1, ep_transport_http.state_size);
    bool listed = false;

    script_reset();
    script.read_at_most = portion;
    script_say_bytes((const char *)data, size);
    require(state && ep_http_open_over(state, &target, &script_stream) == 0);
    int result = ep_transport_http.send(state, &message, &deadline, &retry_ns);
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        listed |= result == results[i];
    require(listed && (retry_ns == 0 || result == -EAGAIN));
    judgement(result, status);
    ep_transport_http.close(state);
    require(script.opened == 1 && script.closed == 1);
    free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t portion = data[0] ? data[0] : SIZE_MAX;
    client(data + 1, size - 1, portion, parser(data + 1, size - 1, portion).status);
    return 0;
}
