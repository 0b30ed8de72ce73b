/*
 * Any bytes as an endpoint and a service's name, each ended by a NUL: transport/http_url.c, and the requests that
 * http.c and push_pyroscope.c make of them.
 *
 * Checked: the endpoint is refused as -EINVAL, or its parts lie within it, in order, and have nothing in them that
 * could end a line or a word of a request; host and port fit and are what a host and a port may be. The request then
 * has one line "POST path HTTP/1.1", whole header lines of printable characters, one Host, which is the endpoint's, one
 * Content-Length, which is the body's, and the message at the end of it: whatever a name contains, it adds no line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/http.h"
#include "script.h"

#define LARGEST 2000u /* what the script hears of a request is bounded */

const struct ep_stream ep_stream_tcp; /* http.c's own; not opened here */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_url.c:%d: not so: %s\n", __LINE__, #condition);                                      \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static const char body[] = "a message";

/* ---- the parts ---- */

static bool within(const struct ep_http_part *part, const char *text)
{
    return part->text >= text && part->text + part->size <= text + strlen(text);
}

static bool plain(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] <= 0x20 || text[i] >= 0x7f)
            return false;
    return true;
}

static void sound_parts(const struct ep_http_url *url, const char *endpoint)
{
    const struct ep_http_part *parts[] = {&url->userinfo, &url->authority, &url->prefix};
    unsigned long port = strtoul(url->port, NULL, 10);

    for (size_t i = 0; i < 3; i++) {
        REQUIRE(within(parts[i], endpoint) && plain(parts[i]->text, parts[i]->size));
        REQUIRE(i == 0 || parts[i]->text >= parts[i - 1]->text + parts[i - 1]->size);
    }
    REQUIRE(url->host[0] && memchr(url->host, 0, sizeof url->host) && plain(url->host, strlen(url->host)));
    REQUIRE(url->port[0] && memchr(url->port, 0, sizeof url->port) &&
            strspn(url->port, "0123456789") == strlen(url->port));
    REQUIRE(port >= 1 && port <= 65535);
    REQUIRE(url->authority.size > 0 && !memchr(url->authority.text, '/', url->authority.size));
    REQUIRE(!memchr(url->authority.text, '@', url->authority.size));
    REQUIRE(url->prefix.size == 0 || (url->prefix.text[0] == '/' && url->prefix.text[url->prefix.size - 1] != '/'));
}

/* ---- the request ---- */

/* The line at *at without its end, which it moves behind; "" ends the head. */
static struct ep_http_part next_line(const char **at, const char *end)
{
    const char *stop = memmem(*at, (size_t)(end - *at), "\r\n", 2);
    REQUIRE(stop);
    struct ep_http_part line = {*at, (size_t)(stop - *at)};
    *at = stop + 2;
    for (size_t i = 0; i < line.size; i++)
        REQUIRE(line.text[i] >= 0x20 && line.text[i] < 0x7f);
    return line;
}

static bool begins(const struct ep_http_part *line, const char *word)
{
    return line->size >= strlen(word) && memcmp(line->text, word, strlen(word)) == 0;
}

static void request_line(const struct ep_http_part *line)
{
    static const char tail[] = " HTTP/1.1";
    unsigned blanks = 0;

    for (size_t i = 0; i < line->size; i++)
        blanks += line->text[i] == ' ';
    REQUIRE(begins(line, "POST /") && blanks == 2);
    REQUIRE(memcmp(line->text + line->size - strlen(tail), tail, strlen(tail)) == 0);
}

static void sound_request(const char *heard, size_t size, const struct ep_http_url *url)
{
    const char *at = heard, *end = heard + size;
    unsigned hosts = 0, lengths = 0;
    size_t length = 0;
    struct ep_http_part line = next_line(&at, end);

    request_line(&line);
    while ((line = next_line(&at, end)).size > 0) {
        REQUIRE(memmem(line.text, line.size, ": ", 2));
        if (begins(&line, "Host: ")) {
            hosts++;
            REQUIRE(line.size == 6 + url->authority.size);
            REQUIRE(memcmp(line.text + 6, url->authority.text, url->authority.size) == 0);
        }
        if (begins(&line, "Content-Length: ")) {
            lengths++;
            length = strtoul(line.text + 16, NULL, 10);
        }
    }
    REQUIRE(hosts == 1 && lengths == 1 && (size_t)(end - at) == length);
    REQUIRE(length >= strlen(body) && memcmp(end - strlen(body), body, strlen(body)) == 0);
}

static void request(const struct ep_target *target, const struct ep_http_url *url, enum ep_format format)
{
    static uint64_t state[EP_TRANSPORT_BYTES / 8];
    struct ep_message message = {.data = (const uint8_t *)body, .size = strlen(body), .format = format};
    message.family = format == EP_FORMAT_PPROF ? "process_cpu" : NULL;
    struct ep_deadline deadline = {.at_ns = 1};
    uint64_t retry_ns = 0;

    script_reset();
    script_say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    memset(state, 0, sizeof state);
    REQUIRE(ep_http_open_over(state, target, &script_stream) == 0);
    REQUIRE(ep_transport_http.send(state, &message, &deadline, &retry_ns) == 0);
    ep_transport_http.close(state);
    sound_request(script.connections[0].heard, script.connections[0].heard_size, url);
}

/* ---- the input ---- */

/* The next text of the input, "" behind its end. */
static const char *next_text(char **at, char *end)
{
    char *text = *at;
    *at += strlen(text);
    *at += *at < end;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ep_http_url url;
    char *copy = malloc(size + 1), *at = copy;

    REQUIRE(copy);
    memcpy(copy, data, size);
    copy[size] = '\0';
    struct ep_target target = {.endpoint = next_text(&at, copy + size), .tags = "v=1,d=pi", .push = &ep_push_pyroscope};
    target.service = next_text(&at, copy + size);
    memset(&url, 0xa5, sizeof url);
    int err = ep_http_url_parse(&url, target.endpoint);
    REQUIRE(err == 0 || err == -EINVAL);
    if (err == 0) {
        sound_parts(&url, target.endpoint);
        if (size <= LARGEST)
            for (unsigned format = EP_FORMAT_COMPACT; format <= EP_FORMAT_PPROF; format++)
                request(&target, &url, (enum ep_format)format);
    }
    free(copy);
    return 0;
}
