/*
 * Parsing and authorization of requests, and writing of text; see request.h.
 *
 *   ep_request_read -> line, ep_part_before -> is_authorized -> is_token | is_password -> base64_digit
 */
#include "core/features/endpoint/request.h"

#include <errno.h>
#include <string.h>

#include <edgeprof/port_calls.h>

/* ---- writing ---- */

void ep_text_bytes(struct ep_text *text, const char *bytes, size_t size)
{
    if (size > text->room - text->fill) {
        text->full = true;
        return;
    }
    memcpy(text->at + text->fill, bytes, size);
    text->fill += size;
}

void ep_text_put(struct ep_text *text, const char *more)
{
    ep_text_bytes(text, more, strlen(more));
}

void ep_text_number(struct ep_text *text, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    ep_text_bytes(text, digits + at, sizeof digits - at);
}

/* ---- parsing ---- */

bool ep_part_is(struct ep_part part, const char *text)
{
    return part.size == strlen(text) && memcmp(part.at, text, part.size) == 0;
}

struct ep_part ep_part_before(struct ep_part *part, char c)
{
    const char *found = part->size ? memchr(part->at, c, part->size) : NULL;
    struct ep_part first = {part->at, found ? (size_t)(found - part->at) : part->size};

    part->at += first.size + (found != NULL);
    part->size -= first.size + (found != NULL);
    return first;
}

/* Takes one line off the text; returns it without its line end. */
static struct ep_part line(struct ep_part *rest)
{
    struct ep_part line = ep_part_before(rest, '\n');

    line.size -= line.size && line.at[line.size - 1] == '\r';
    return line;
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static bool is_header(struct ep_part name, const char *wanted)
{
    if (name.size != strlen(wanted))
        return false;
    for (size_t i = 0; i < name.size; i++)
        if (lower(name.at[i]) != wanted[i])
            return false;
    return true;
}

/* ---- authorization ---- */

/* Compares in a time that depends only on the length of `sent`. */
static bool is_token(struct ep_part sent, const char *token)
{
    size_t size = strlen(token);
    unsigned different = sent.size != size;

    for (size_t i = 0; i < sent.size; i++)
        different |= (unsigned char)(sent.at[i] ^ token[size ? i % size : 0]);
    return different == 0;
}

static unsigned base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? (unsigned)(c - 'A')
           : c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') + 26
           : c >= '0' && c <= '9' ? (unsigned)(c - '0') + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : 64;
}

/* Checks "user:token" in base64, for any user. Compares byte by byte, without a copy of the token. */
static bool is_password(struct ep_part sent, const char *token)
{
    size_t size = strlen(token), at = 0;
    uint32_t bits = 0;
    unsigned count = 0, different = 0;
    bool behind_user = false;

    while (sent.size && sent.at[sent.size - 1] == '=')
        sent.size--;
    for (size_t i = 0; i < sent.size; i++) {
        unsigned digit = base64_digit(sent.at[i]);
        if (digit > 63)
            return false;
        bits = bits << 6 | digit;
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        unsigned char byte = (unsigned char)(bits >> count);
        if (behind_user)
            different |= byte ^ (unsigned char)token[size ? at++ % size : 0];
        else
            behind_user = byte == ':';
    }
    return behind_user && at == size && different == 0;
}

static bool strip_prefix(struct ep_part *part, const char *scheme)
{
    size_t size = strlen(scheme);

    if (part->size < size || memcmp(part->at, scheme, size) != 0)
        return false;
    part->at += size;
    part->size -= size;
    return true;
}

static bool is_authorized(struct ep_part value, const char *token)
{
    return strip_prefix(&value, "Bearer ") ? is_token(value, token)
                                           : strip_prefix(&value, "Basic ") && is_password(value, token);
}

/* ---- requests ---- */

int ep_request_complete(const char *request, size_t size, size_t room)
{
    if (size >= room)
        return 1;
    for (size_t i = 1; i < size; i++)
        if (request[i] == '\n' &&
            (request[i - 1] == '\n' || (i > 1 && request[i - 1] == '\r' && request[i - 2] == '\n')))
            return 1;
    return 0;
}

/* The host of "[::1]:80" or "name:80". */
static struct ep_part host_of(struct ep_part value)
{
    return value.size && value.at[0] == '[' ? ep_part_before(&value, ']') : ep_part_before(&value, ':');
}

/* True if a browser says that a page of another site has caused the request: an image whose address is a query, or a
 * form. Other programs send neither header. */
static bool is_of_a_page(struct ep_part name, struct ep_part value)
{
    return is_header(name, "origin") ||
           (is_header(name, "sec-fetch-site") && (ep_part_is(value, "cross-site") || ep_part_is(value, "same-site")));
}

/* Reads the headers. If there are several Authorization headers, the last counts. False: no valid token. */
static bool headers_read(struct ep_part headers, const char *token, struct ep_request *request)
{
    bool good = !token;

    while (headers.size) {
        struct ep_part value = line(&headers), name = ep_part_before(&value, ':');
        while (value.size && value.at[0] == ' ')
            value = (struct ep_part){value.at + 1, value.size - 1};
        if (is_header(name, "host"))
            request->host = host_of(value);
        request->foreign |= is_of_a_page(name, value);
        if (token && is_header(name, "authorization"))
            good = is_authorized(value, token);
    }
    return good;
}

int ep_request_read(const char *bytes, size_t size, const char *token, struct ep_request *request)
{
    struct ep_part rest = {bytes, size}, first = line(&rest);

    *request = (struct ep_request){.method = ep_part_before(&first, ' ')};
    struct ep_part target = ep_part_before(&first, ' ');
    if (!request->method.size || !target.size || first.size != 8 || memcmp(first.at, "HTTP/1.", 7) != 0)
        return -EINVAL;
    request->path = ep_part_before(&target, '?');
    request->query = target;
    if (!headers_read(rest, token, request))
        return -EACCES;
    return request->foreign ? -EXDEV : 0;
}

const char *ep_request_verdict(int error)
{
    return error == 0                            ? "200 OK"
           : error == -ESRCH                     ? "503 Service Unavailable"
           : error == -EBUSY || error == -EUSERS ? "503 Service Unavailable\r\nRetry-After: 1"
           : error == -EINVAL                    ? "400 Bad Request"
           : error == -EACCES ? "401 Unauthorized\r\nWWW-Authenticate: Bearer, Basic realm=\"edgeprof\""
           : error == -EPERM || error == -EXDEV    ? "403 Forbidden"
           : error == -ENOENT                      ? "404 Not Found"
           : error == -ENOTSUP                     ? "405 Method Not Allowed"
           : error == -ENODATA || error == -ESTALE ? "409 Conflict"
           : error == -ENOSYS                      ? "501 Not Implemented"
           : error == -ETIMEDOUT                   ? "504 Gateway Timeout"
           : error == -E2BIG                       ? "431 Request Header Fields Too Large"
                                                   : "500 Internal Server Error";
}
