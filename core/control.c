/*
 * The control endpoint's requests and answers, without sockets: bytes in, bytes out, and the public functions called in
 * between. Part of HTTP/1.1 that curl speaks: one request a connection, no body is looked at.
 *
 *   GET  /status                what runs, as JSON
 *   POST /level?high            low, medium, high
 *   POST /kinds?cpu,alloc       these alone
 *   POST /kinds?on=lock,gc      these as well; off=...: without these
 *   POST /flush                 ends the interval
 *   POST /threads               a stack of every thread
 *
 * PUT does as well as POST. Whoever sends a token that is not ours learns nothing: it is compared whole, and first.
 *
 *   ep_control_answer -> authorized -> act -> status -> put...
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "hooks.h"
#include "port/port.h"

struct out {
    char *at;
    size_t fill;
    bool full;
};

/* A stretch of the request. */
struct part {
    const char *at;
    size_t size;
};

/* ---- writing ---- */

static void put_bytes(struct out *out, const char *bytes, size_t size)
{
    if (size > EP_CONTROL_ANSWER - out->fill) {
        out->full = true;
        return;
    }
    memcpy(out->at + out->fill, bytes, size);
    out->fill += size;
}

static void put(struct out *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

static void put_number(struct out *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    put_bytes(out, digits + at, sizeof digits - at);
}

/* "name":value, in an object whose first member stands already. */
static void put_member(struct out *out, const char *name, uint64_t value)
{
    put(out, ",\"");
    put(out, name);
    put(out, "\":");
    put_number(out, value);
}

static void put_kinds(struct out *out, const struct ep_stats *stats, uint32_t kinds)
{
    put(out, ",\"kinds\":{");
    for (unsigned kind = 1; kind < EP_KINDS; kind++) {
        put(out, kind > 1 ? ",\"" : "\"");
        put(out, ep_kind_name(kind));
        put(out, kinds & EP_KIND_BIT(kind) ? "\":{\"on\":true" : "\":{\"on\":false");
        put_member(out, "period", ep_hook_period((enum ep_kind)kind));
        put_member(out, "count", stats->kind_count[kind]);
        put_member(out, "value", stats->kind_value[kind]);
        put(out, ",\"unit\":\"");
        put(out, ep_kind_unit(kind));
        put(out, "\"}");
    }
    put(out, "}");
}

static void put_losses(struct out *out, const struct ep_stats *stats)
{
    const char *between = "\"";

    put(out, ",\"losses\":{");
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++) {
        if (!stats->lost_count[reason] && !stats->lost_ns[reason])
            continue;
        put(out, between);
        put(out, ep_loss_name(reason));
        put(out, "\":{\"count\":");
        put_number(out, stats->lost_count[reason]);
        put_member(out, "cpu_ns", stats->lost_ns[reason]);
        put(out, "}");
        between = ",\"";
    }
    put(out, "}");
}

static void put_governor(struct out *out, const struct ep_stats *stats)
{
    put(out, ",\"governor\":{\"budget_ppm\":");
    put_number(out, stats->budget_ppm);
    put_member(out, "cost_ppm", stats->cost_ppm);
    put_member(out, "stretch_pct", stats->stretch_pct);
    put_member(out, "stretches", stats->stretches);
    put(out, "}");
}

/* ---- what is asked for ---- */

static const char levels[] = "low\0medium\0high\0";

static bool is(struct part part, const char *text)
{
    return part.size == strlen(text) && memcmp(part.at, text, part.size) == 0;
}

/* Takes what is before `c` off the part, all of it when there is none. */
static struct part before(struct part *part, char c)
{
    const char *found = part->size ? memchr(part->at, c, part->size) : NULL;
    struct part first = {part->at, found ? (size_t)(found - part->at) : part->size};

    part->at += first.size + (found != NULL);
    part->size -= first.size + (found != NULL);
    return first;
}

static int status(struct out *out)
{
    struct ep_stats stats;
    unsigned level = ep_level_get();
    const char *name = levels;

    if (ep_stats_get(&stats) != 0)
        return -ESRCH;
    for (unsigned i = 1; i < level; i++)
        name += strlen(name) + 1;
    put(out, "{\"version\":\"" EP_VERSION "\",\"running\":");
    put(out, level ? "true,\"level\":\"" : "false,\"level\":\"");
    put(out, level ? name : "");
    put(out, "\"");
    put_member(out, "samples", stats.samples);
    put_member(out, "weight_ns", stats.weight_ns);
    put_member(out, "exact", stats.exact);
    put_member(out, "gap", stats.gap);
    put_member(out, "cut", stats.cut);
    put_member(out, "handler_ns", stats.handler_ns);
    put_member(out, "collect_cpu_ns", stats.collect_cpu_ns);
    put_member(out, "deliver_cpu_ns", stats.deliver_cpu_ns);
    put_member(out, "messages", stats.messages);
    put_member(out, "delivered", stats.delivered);
    put_member(out, "delivery_failures", stats.delivery_failures);
    put_member(out, "threads", stats.threads);
    put_governor(out, &stats);
    put_kinds(out, &stats, ep_kinds_get());
    put_losses(out, &stats);
    put(out, "}\n");
    return 0;
}

static int level_change(struct part name)
{
    unsigned level = 1;

    for (const char *at = levels; *at; at += strlen(at) + 1, level++)
        if (is(name, at))
            return ep_level_set((enum ep_level)level);
    return -EINVAL;
}

/* "cpu,alloc"; 0 when one of them is none. */
static uint32_t kinds_of(struct part list)
{
    uint32_t kinds = 0;

    while (list.size) {
        struct part name = before(&list, ',');
        unsigned kind = 1;
        while (kind < EP_KINDS && !is(name, ep_kind_name(kind)))
            kind++;
        if (kind == EP_KINDS)
            return 0;
        kinds |= EP_KIND_BIT(kind);
    }
    return kinds;
}

static int kinds_change(struct part query)
{
    uint32_t on = 0, off = 0;

    if (query.size && !memchr(query.at, '=', query.size)) {
        on = kinds_of(query);
        return on ? ep_kinds_set(on) : -EINVAL;
    }
    while (query.size) {
        struct part list = before(&query, '&'), name = before(&list, '=');
        uint32_t kinds = kinds_of(list);
        if (!kinds || (!is(name, "on") && !is(name, "off")))
            return -EINVAL;
        *(is(name, "on") ? &on : &off) |= kinds;
    }
    return on | off ? ep_kinds_change(on, off) : -EINVAL;
}

static int act(struct out *out, struct part method, struct part target)
{
    struct part path = before(&target, '?');
    bool post = is(method, "POST") || is(method, "PUT");

    if (is(path, "/status"))
        return is(method, "GET") ? status(out) : -ENOTSUP;
    if (is(path, "/level"))
        return post ? level_change(target) : -ENOTSUP;
    if (is(path, "/kinds"))
        return post ? kinds_change(target) : -ENOTSUP;
    if (is(path, "/flush"))
        return post ? ep_flush() : -ENOTSUP;
    if (is(path, "/threads"))
        return post ? ep_threads_dump() : -ENOTSUP;
    return -ENOENT;
}

/* ---- requests ---- */

/* A line without its end. */
static struct part line(struct part *rest)
{
    struct part line = before(rest, '\n');

    line.size -= line.size && line.at[line.size - 1] == '\r';
    return line;
}

static bool is_header(struct part name, const char *lower)
{
    if (name.size != strlen(lower))
        return false;
    for (size_t i = 0; i < name.size; i++)
        if ((name.at[i] >= 'A' && name.at[i] <= 'Z' ? name.at[i] | 0x20 : name.at[i]) != lower[i])
            return false;
    return true;
}

/* In a time that depends on the length of what was sent alone. */
static bool is_token(struct part sent, const char *token)
{
    size_t size = strlen(token);
    unsigned different = sent.size != size;

    for (size_t i = 0; i < sent.size; i++)
        different |= (unsigned char)(sent.at[i] ^ token[size ? i % size : 0]);
    return different == 0;
}

static bool authorized(struct part headers, const char *token)
{
    static const char scheme[] = "Bearer ";
    bool good = !token;

    while (headers.size) {
        struct part value = line(&headers), name = before(&value, ':');
        while (value.size && value.at[0] == ' ')
            value = (struct part){value.at + 1, value.size - 1};
        if (!token || !is_header(name, "authorization") || value.size < sizeof scheme - 1 ||
            memcmp(value.at, scheme, sizeof scheme - 1) != 0)
            continue;
        good = is_token((struct part){value.at + sizeof scheme - 1, value.size - (sizeof scheme - 1)}, token);
    }
    return good;
}

int ep_control_complete(const char *request, size_t size)
{
    if (size >= EP_CONTROL_REQUEST)
        return 1;
    for (size_t i = 1; i < size; i++)
        if (request[i] == '\n' &&
            (request[i - 1] == '\n' || (i > 1 && request[i - 1] == '\r' && request[i - 2] == '\n')))
            return 1;
    return 0;
}

static int answer_to(struct out *out, struct part rest, const char *token)
{
    struct part first = line(&rest), method = before(&first, ' '), target = before(&first, ' ');

    if (!method.size || !target.size || first.size != 8 || memcmp(first.at, "HTTP/1.", 7) != 0)
        return -EINVAL;
    if (!authorized(rest, token))
        return -EACCES;
    return act(out, method, target);
}

static const char *verdict(int error)
{
    return error == 0          ? "200 OK"
           : error == -ESRCH   ? "503 Service Unavailable"
           : error == -EINVAL  ? "400 Bad Request"
           : error == -EACCES  ? "401 Unauthorized\r\nWWW-Authenticate: Bearer"
           : error == -ENOENT  ? "404 Not Found"
           : error == -ENOTSUP ? "405 Method Not Allowed"
           : error == -E2BIG   ? "431 Request Header Fields Too Large"
                               : "500 Internal Server Error";
}

static const char *reason(int error)
{
    return error == 0         ? "{\"done\":true}\n"
           : error == -ESRCH  ? "{\"error\":\"no profiler runs\"}\n"
           : error == -EINVAL ? "{\"error\":\"want /level?low|medium|high, /kinds?cpu,... or /kinds?on=...&off=...\"}\n"
           : error == -EACCES ? "{\"error\":\"want Authorization: Bearer TOKEN\"}\n"
           : error == -ENOENT ? "{\"error\":\"want /status, /level, /kinds, /flush or /threads\"}\n"
           : error == -ENOTSUP ? "{\"error\":\"GET is for /status, all else is POST or PUT\"}\n"
           : error == -E2BIG   ? "{\"error\":\"the request is too long\"}\n"
                               : "{\"error\":\"failed\"}\n";
}

/* The head's length is not known before the body's: the body is written behind the room for one. */
size_t ep_control_answer(const char *request, size_t size, const char *token, char *answer)
{
    enum { HEAD = 256 };
    struct out body = {.at = answer, .fill = HEAD}, head = {.at = answer};
    int error = size >= EP_CONTROL_REQUEST ? -E2BIG : answer_to(&body, (struct part){request, size}, token);

    if (error || body.fill == HEAD || body.full) {
        error = body.full ? -ENOBUFS : error;
        body.fill = HEAD;
        body.full = false;
        put(&body, reason(error));
    }
    put(&head, "HTTP/1.1 ");
    put(&head, verdict(error));
    put(&head, "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ");
    put_number(&head, body.fill - HEAD);
    put(&head, "\r\n\r\n");
    memmove(answer + head.fill, answer + HEAD, body.fill - HEAD);
    return head.fill + body.fill - HEAD;
}
