/*
 * Parses an endpoint. Its parts are copied into requests unchanged, so only this file rejects characters that could end
 * a line or a word of a request. Accepts only http and https. Rejects queries and fragments, which have no place in a
 * prefix.
 *
 *   ep_http_url_parse -> parse_authority -> parse_host, parse_port
 */
#include "transport/http.h"

#include <errno.h>
#include <string.h>

/* Printable ASCII except characters with a special meaning in a request line or after a path. */
static bool is_plain(char c)
{
    return c > 0x20 && c < 0x7f && c != '?' && c != '#' && c != '"' && c != '<' && c != '>' && c != '\\';
}

static bool is_host_char(char c, bool literal)
{
    bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return alnum || c == '.' || c == '-' || c == '_' || (literal && (c == ':' || c == '%'));
}

static int parse_port(struct ep_http_url *url, const char *text, size_t size)
{
    unsigned value = 0;

    if (size == 0 || size >= sizeof url->port)
        return -EINVAL;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    memcpy(url->port, text, size);
    url->port[size] = '\0';
    return value >= 1 && value <= 65535 ? 0 : -EINVAL;
}

static int parse_host(struct ep_http_url *url, const char *text, size_t size, bool literal)
{
    if (size == 0 || size >= sizeof url->host)
        return -EINVAL;
    for (size_t i = 0; i < size; i++)
        if (!is_host_char(text[i], literal))
            return -EINVAL;
    memcpy(url->host, text, size);
    url->host[size] = '\0';
    return 0;
}

/* host, host:port, [literal] or [literal]:port */
static int parse_authority(struct ep_http_url *url, const char *text, size_t size)
{
    bool literal = size > 0 && text[0] == '[';
    const char *host = text + literal;
    const char *end = memchr(host, literal ? ']' : ':', size - literal);
    size_t host_size = end ? (size_t)(end - host) : size;
    const char *rest = host + host_size + literal;

    if (literal && !end)
        return -EINVAL;
    url->authority = (struct ep_http_part){text, size};
    if (parse_host(url, host, host_size, literal))
        return -EINVAL;
    if (rest == text + size)
        return parse_port(url, url->secure ? "443" : "80", 2 + url->secure);
    return *rest == ':' ? parse_port(url, rest + 1, (size_t)(text + size - rest) - 1) : -EINVAL;
}

int ep_http_url_parse(struct ep_http_url *url, const char *endpoint)
{
    if (strncmp(endpoint, "http", 4) != 0)
        return -EINVAL;
    url->secure = endpoint[4] == 's';
    endpoint += 4 + url->secure;
    if (strncmp(endpoint, "://", 3) != 0)
        return -EINVAL;

    const char *authority = endpoint + 3;
    for (const char *p = authority; *p; p++)
        if (!is_plain(*p))
            return -EINVAL;

    const char *path = authority + strcspn(authority, "/");
    const char *at = memchr(authority, '@', (size_t)(path - authority));
    url->userinfo = (struct ep_http_part){authority, at ? (size_t)(at - authority) : 0};
    if (at)
        authority = at + 1;

    size_t size = strlen(path);
    while (size > 0 && path[size - 1] == '/')
        size--;
    url->prefix = (struct ep_http_part){path, size};
    return parse_authority(url, authority, (size_t)(path - authority));
}
