/*
 * One line a case that says why profiles do not arrive, and one when they arrive again. Only programs that call
 * ep_notice_to() link this. The state belongs to the deliver thread.
 *
 *   ep_start        -> notice_start         a token that goes unencrypted
 *   a send          -> notice_sent          -> case_of -> failed_say; again_say
 *   another feature -> notice_unreadable    a file that cannot be read
 *
 * A case is said once, and again after an hour at the earliest: a link that comes and goes fills no log. No line has a
 * credential: of the endpoint it shows scheme, host and path only.
 */
#include "core/deliver/deliver.h"

#include <edgeprof/port_calls.h>

#include <errno.h>
#include <string.h>

#define PATIENCE_TRIES 3u
#define PATIENCE_NS    30000000000u
#define AGAIN_NS       3600000000000u

enum notice_case { REDIRECTED, TOKEN, FORBIDDEN, PATH, PROXY, BUSY, SERVER, PAGE, OTHER, SECURE, LINK, REFUSED, CASES };
enum { APART = CASES }; /* a second endpoint: its bit */

static const struct {
    const char *text;
    bool patient; /* may pass by itself: said after some tries only */
} cases[CASES] = {
    [REDIRECTED] = {"redirected to another address, which is not followed (a captive portal?)", false},
    [TOKEN] = {"the token is missing, wrong or has expired", false},
    [FORBIDDEN] = {"the token does not permit it, or a proxy forbids it", false},
    [PATH] = {"the path is wrong, or this is not a receiver of profiles", false},
    [PROXY] = {"a proxy asks for credentials", false},
    [BUSY] = {"too many requests", true},
    [SERVER] = {"the server or the proxy before it has failed", true},
    [PAGE] = {"a web page instead of an answer (a captive portal?)", false},
    [OTHER] = {"the server does not take the request", false},
    [SECURE] = {NULL, false},
    [LINK] = {NULL, true},
    [REFUSED] = {"the profile is invalid for this receiver", false},
};

_Static_assert(APART < 16, "a bit a case");

static struct {
    void (*say)(const char *line);
    unsigned tries;               /* failed since the last success */
    uint16_t said;                /* a bit a case */
    bool open;                    /* a line said that profiles do not arrive, and none has arrived since */
    uint64_t failing_ns, said_ns; /* uptime of the first failure, of the last line */
} notice;

/* ---- the line ---- */

struct line {
    char text[512];
    size_t size;
};

static void put(struct line *line, const char *text, size_t size)
{
    if (size > sizeof line->text - 1 - line->size)
        size = sizeof line->text - 1 - line->size;
    memcpy(line->text + line->size, text, size);
    line->size += size;
    line->text[line->size] = 0;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

static void put_number(struct line *line, unsigned number)
{
    char digits[10];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    put(line, digits + at, sizeof digits - at);
}

/* The place behind the user, at the start of "user:password@host...". */
static const char *host_of(const char *at)
{
    const char *end = at + strcspn(at, "/"), *host = at;

    for (; at < end; at++)
        if (*at == '@')
            host = at + 1;
    return host;
}

/* The endpoint without user, password and query. */
static void put_endpoint(struct line *line, const struct ep *ep)
{
    const char *endpoint = ep->config.endpoint, *host = endpoint ? strstr(endpoint, "://") : NULL;

    if (!host) {
        put_text(line, ep->deliver->transport->name);
        return;
    }
    host += 3;
    put(line, endpoint, (size_t)(host - endpoint));
    host = host_of(host);
    put(line, host, strcspn(host, "?"));
}

static const char *error_text(int error)
{
    switch (error) {
    case -ECONNREFUSED:
        return "connection refused";
    case -ETIMEDOUT:
        return "no answer in time";
    case -ECONNRESET:
    case -EPIPE:
        return "the connection was closed";
    case -EHOSTUNREACH:
        return "the host is unknown or not reachable";
    case -ENETUNREACH:
        return "no network";
    case -EPROTO:
        return "the answer is not HTTP";
    case -ENOSPC:
        return "no space left";
    default:
        return NULL;
    }
}

static void put_error(struct line *line, int error)
{
    const char *text = error_text(error);

    put_text(line, text ? text : "error ");
    if (!text)
        put_number(line, (unsigned)(error < 0 ? -error : error));
}

/* ---- what has happened ---- */

static enum notice_case case_of(int error, unsigned status, const char *why)
{
    if (error == -EBADMSG || error == -EMSGSIZE)
        return REFUSED;
    if (status >= 500)
        return SERVER;
    switch (status) {
    case 0:
        return why[0] ? SECURE : LINK;
    case 401:
        return TOKEN;
    case 403:
        return FORBIDDEN;
    case 404:
        return PATH;
    case 407:
        return PROXY;
    case 408:
    case 429:
        return BUSY;
    default:
        return status < 300 ? PAGE : status < 400 ? REDIRECTED : OTHER;
    }
}

static void failed_say(struct ep *ep, enum notice_case which, const struct ep_sent *sent)
{
    struct line line = {.size = 0};

    put_text(&line, sent->status ? "profiles are not accepted by " : "profiles do not reach ");
    put_endpoint(&line, ep);
    put_text(&line, ": ");
    if (sent->status) {
        put_number(&line, sent->status);
        put_text(&line, ", ");
    }
    if (cases[which].text)
        put_text(&line, cases[which].text);
    else if (which == SECURE)
        put_text(&line, sent->why);
    else
        put_error(&line, sent->error);
    put_text(&line, which == REFUSED ? "; it is dropped and counted as lost" : "; they are kept and sent again");
    notice.say(line.text);
}

static void again_say(struct ep *ep)
{
    struct line line = {.size = 0};

    put_text(&line, "profiles are accepted again by ");
    put_endpoint(&line, ep);
    notice.say(line.text);
}

static void succeeded(struct ep *ep, uint64_t now)
{
    notice.tries = 0;
    if (notice.open)
        again_say(ep);
    notice.open = false;
    if (now - notice.said_ns >= AGAIN_NS)
        notice.said = 0;
}

/* Returns true if this case has its line now: once, until profiles have arrived for a while. */
static bool is_new(unsigned which, uint64_t now)
{
    if (notice.said >> which & 1)
        return false;
    notice.said = (uint16_t)(notice.said | 1u << which);
    notice.said_ns = now;
    return true;
}

/* A second endpoint's answer says nothing about the first: it is no part of the first's failures. */
static void apart_sent(int error, uint64_t now)
{
    if (error == 0 || error == -EMSGSIZE || !is_new(APART, now))
        return;
    notice.say(error == -EBADMSG
                   ? "old profiles are not accepted by the endpoint for old profiles; they are counted as lost"
                   : "old profiles do not reach the endpoint for old profiles; they are kept and sent again");
}

static void notice_sent(struct ep *ep, const struct ep_sent *sent)
{
    uint64_t now = ep_port_uptime_ns();

    if (ep_apart) {
        apart_sent(sent->error, now);
        return;
    }
    if (sent->error == 0)
        succeeded(ep, now);
    if (sent->error == 0 || sent->error == -ESTALE)
        return;
    enum notice_case which = case_of(sent->error, sent->status, sent->why);
    if (notice.tries++ == 0)
        notice.failing_ns = now;
    if (cases[which].patient && notice.tries < PATIENCE_TRIES && now - notice.failing_ns < PATIENCE_NS)
        return;
    if (!is_new(which, now))
        return;
    notice.open |= which != REFUSED;
    failed_say(ep, which, sent);
}

/* ---- the token ---- */

static void notice_unreadable(const char *path, int error)
{
    struct line line = {.size = 0};

    put_text(&line, "the token cannot be read from ");
    put_text(&line, path);
    put_text(&line, ": ");
    put_text(&line, error == -ENOENT   ? "there is no such file"
                    : error == -EACCES ? "permission denied"
                    : error == -EINVAL ? "it must have one token"
                    : error == -EFBIG  ? "it is too long"
                                       : "error ");
    if (error != -ENOENT && error != -EACCES && error != -EINVAL && error != -EFBIG)
        put_number(&line, (unsigned)-error);
    put_text(&line, "; it is read again later");
    notice.say(line.text);
}

static bool starts_nocase(const char *text, const char *word)
{
    for (; *word; text++, word++)
        if ((*text >= 'A' && *text <= 'Z' ? *text - 'A' + 'a' : *text) != *word)
            return false;
    return true;
}

static bool has_authorization(const char *headers)
{
    while (headers && *headers) {
        if (starts_nocase(headers, "authorization:"))
            return true;
        headers += strcspn(headers, "\n");
        headers += *headers == '\n';
    }
    return false;
}

static bool is_loopback(const char *host)
{
    static const char *const names[] = {"localhost", "[::1]"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char after = starts_nocase(host, names[i]) ? host[strlen(names[i])] : 'x';
        if (after == 0 || after == ':' || after == '/')
            return true;
    }
    return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strcspn(host, ":/");
}

/* A token or password that others on the way can read. */
static bool shows_secret(const struct ep *ep)
{
    const char *endpoint = ep->config.endpoint;

    if (!endpoint || strcmp(ep->deliver->transport->name, "http") != 0 || strncmp(endpoint, "http://", 7) != 0)
        return false;
    const char *host = host_of(endpoint + 7);
    return !is_loopback(host) &&
           (host != endpoint + 7 || EP_HAS_FEATURE(headers) || has_authorization(ep->config.headers));
}

static void notice_start(struct ep *ep)
{
    struct line line = {.size = 0};
    void (*say)(const char *line) = notice.say;

    memset(&notice, 0, sizeof notice);
    notice.say = say;
    if (!shows_secret(ep))
        return;
    put_text(&line, "the token goes unencrypted to ");
    put_endpoint(&line, ep);
    put_text(&line, ": others on the network can read it; use https");
    notice.say(line.text);
}

void ep_notice_line(const char *line)
{
    if (notice.say)
        notice.say(line);
}

void ep_notice_to(void (*say)(const char *line))
{
    static const struct ep_feature feature = {
        .name = "notice", .start = notice_start, .sent = notice_sent, .unreadable = notice_unreadable};

    notice.say = say;
    if (say)
        (void)ep_feature_add(&feature); /* there are fewer features than places */
    else
        ep_feature_remove(&feature);
}
