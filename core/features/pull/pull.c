/*
 * The pull endpoint's requests and answers, without sockets; the paths are listed below. A profile takes three steps of
 * views.c: open a view, end it, and send it in pieces. If none is free, the client waits.
 *
 *   ep_pull_answer -> ep_request_read -> serve_request -> serve_metrics | serve_index | serve_control | serve_profile
 *   serve_profile, ep_pull_look -> profile_begin | profile_end
 *   serve_control, ep_pull_look -> list_look
 */
#include <errno.h>
#include <string.h>

#include "core/features/control/control.h"
#include "core/features/pull/pull.h"
#include "core/features/pull/views.h"

#define HEAD          384u
#define SECONDS       1000000000u
#define SECONDS_MOST  600u
#define SECONDS_USUAL 30u
#define PATIENCE_NS   3000000000u /* longest wait for a view */
#define LOOK_AGAIN_NS 20000000u
#define FIRST         1u /* number of the first route; 0: none */
#define DEBUG_PPROF   "/debug/pprof/"
#define TEXT_TYPE     "text/plain; charset=utf-8"
#define METRICS_TYPE  "text/plain; version=0.0.4; charset=utf-8"

/*
 * The paths are those of Go's net/http/pprof, so that tools for Go profiles work here:
 *
 *   GET /debug/pprof/                       an overview, for people
 *   GET /debug/pprof/profile?seconds=30     CPU samples of the next seconds
 *   GET /debug/pprof/goroutine              the stacks of all threads, now
 *   GET /debug/pprof/gc_heap                the heap's generations, now
 *   GET /debug/pprof/{allocs,heap,mutex,block,exception,gc,write,sync}[?seconds=N]
 *                                           since the start of the endpoint or profiler; or of the next seconds
 *   GET, POST /debug/pprof/symbol           says that there are no names here; go tool pprof requires an answer
 *   GET /metrics                            statistics in Prometheus' text format
 *   ... /control/status, /control/level?high and so on, as in control.c; only with a token
 */
struct route {
    char name[12];
    uint16_t kinds;
    uint16_t wanted; /* the kind that must be on; 0: none */
    bool moment;     /* shows the current state, not a period */
    bool passing;    /* never covers the time since the start */
    char about[80];
};

static const struct route routes[] = {
    {.name = "allocs",
     .kinds = EP_KIND_BIT(EP_KIND_ALLOC),
     .wanted = EP_KIND_ALLOC,
     .about = "allocations, by place (.NET by type; native memory if hooked)"},
    {.name = "block", .kinds = EP_KIND_BIT(EP_KIND_WAIT), .wanted = EP_KIND_WAIT, .about = "where threads wait"},
    {.name = "exception",
     .kinds = EP_KIND_BIT(EP_KIND_EXCEPTION),
     .wanted = EP_KIND_EXCEPTION,
     .about = "exceptions thrown, by type and place (.NET)"},
    {.name = "gc", .kinds = EP_KIND_BIT(EP_KIND_GC), .wanted = EP_KIND_GC, .about = "the collector's pauses (.NET)"},
    {.name = "gc_heap",
     .kinds = EP_KIND_BIT(EP_KIND_HEAP),
     .wanted = EP_KIND_HEAP,
     .moment = true,
     .about = "the collector's heap by generation (.NET)"},
    {.name = "goroutine",
     .kinds = EP_KIND_BIT(EP_KIND_THREAD),
     .moment = true,
     .passing = true,
     .about = "a stack of every thread, now"},
    {.name = "heap",
     .kinds = EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE),
     .wanted = EP_KIND_LIVE,
     .about = "memory in use, and allocations (.NET; native memory if hooked)"},
    {.name = "mutex",
     .kinds = EP_KIND_BIT(EP_KIND_LOCK),
     .wanted = EP_KIND_LOCK,
     .about = "contended locks: where threads wait for them"},
    {.name = "profile",
     .kinds = EP_KIND_BIT(EP_KIND_CPU),
     .wanted = EP_KIND_CPU,
     .passing = true,
     .about = "CPU time, of the next 30 seconds or of ?seconds=N"},
    {.name = "sync",
     .kinds = EP_KIND_BIT(EP_KIND_SYNC),
     .wanted = EP_KIND_SYNC,
     .about = "fsync() and the like, if hooked"},
    {.name = "write",
     .kinds = EP_KIND_BIT(EP_KIND_WRITE),
     .wanted = EP_KIND_WRITE,
     .about = "bytes written to files, by place and file, if hooked"},
};
#define ROUTES (sizeof routes / sizeof routes[0])

/* ---- heads ---- */

static struct ep_text body_begin(char *buffer)
{
    return (struct ep_text){.at = buffer, .room = EP_PULL_ANSWER, .fill = HEAD};
}

static void head_put(struct ep_text *head, int error, const char *type, uint64_t size)
{
    ep_text_put(head, "HTTP/1.1 ");
    ep_text_put(head, ep_request_verdict(error));
    ep_text_put(head, "\r\nContent-Type: ");
    ep_text_put(head, type);
    /* X-Go-Pprof makes `go tool pprof` show an error's text. */
    ep_text_put(head, "\r\nX-Content-Type-Options: nosniff\r\nX-Go-Pprof: 1\r\nConnection: close\r\nContent-Length: ");
    ep_text_number(head, size);
    ep_text_put(head, "\r\n\r\n");
}

/* Writes the head in front of the body, which body_begin() placed behind room for one. */
static void answer_finish(struct ep_text *body, int error, const char *type, struct ep_answer *answer)
{
    struct ep_text head = {.at = body->at, .room = HEAD};
    size_t size = body->fill - HEAD;

    head_put(&head, error, type, size);
    memmove(body->at + head.fill, body->at + HEAD, size);
    *answer = (struct ep_answer){.size = head.fill + size};
}

/* Answers with one line of text. */
static void answer_line(char *buffer, int error, const char *a, const char *b, const char *c, struct ep_answer *answer)
{
    struct ep_text body = body_begin(buffer);

    ep_text_put(&body, a);
    ep_text_put(&body, b);
    ep_text_put(&body, c);
    ep_text_put(&body, "\n");
    answer_finish(&body, error, TEXT_TYPE, answer);
}

static const char *error_text(int error)
{
    return error == -EINVAL    ? "not an HTTP/1.1 request"
           : error == -EACCES  ? "token required: Authorization: Bearer TOKEN, or http://any:TOKEN@host/..."
           : error == -EPERM   ? "unknown host name; use an address or localhost, or set EDGEPROF_PULL_TOKEN"
           : error == -EXDEV   ? "web pages of other sites may not ask"
           : error == -ENOENT  ? "not found; use " DEBUG_PPROF ", /metrics or /control/status"
           : error == -ENOTSUP ? "use GET for profiles and /metrics; everything else is below /control"
           : error == -E2BIG   ? "the request is too long"
           : error == -EBUSY   ? "busy with other requests, retry"
           : error == -ESRCH   ? "the profiler is not running"
                               : "failed";
}

/* ---- profiles ---- */

static const char *level_with(unsigned kind)
{
    return ep_level_kinds(EP_LEVEL_LOW) & EP_KIND_BIT(kind)      ? "low"
           : ep_level_kinds(EP_LEVEL_MEDIUM) & EP_KIND_BIT(kind) ? "medium"
                                                                 : "high";
}

/* Checks that the kind is on. False: it is off, and the answer says how to enable it. */
static bool switched_on(char *buffer, const struct route *route, struct ep_answer *answer)
{
    struct ep_text body = body_begin(buffer);

    if (!route->wanted || ep_kinds_get() & EP_KIND_BIT(route->wanted))
        return true;
    ep_text_put(&body, route->name);
    ep_text_put(&body, ": the kind ");
    ep_text_put(&body, ep_kind_name(route->wanted));
    ep_text_put(&body, " is disabled; level ");
    ep_text_put(&body, level_with(route->wanted));
    ep_text_put(&body, " enables it (EDGEPROF_LEVEL, POST /control/level?");
    ep_text_put(&body, level_with(route->wanted));
    ep_text_put(&body, "), or enable only it: POST /control/kinds?on=");
    ep_text_put(&body, ep_kind_name(route->wanted));
    ep_text_put(&body, "\n");
    answer_finish(&body, -ENODATA, TEXT_TYPE, answer);
    return false;
}

/* Opens a view, or schedules another try until give_up_ns. */
static void profile_begin(char *buffer, struct ep_answer *answer)
{
    const struct route *route = &routes[answer->route - FIRST];
    const struct ep_view_question open = {.what = EP_VIEW_OPEN,
                                          .kinds = route->kinds,
                                          .since_start = !route->passing && !answer->period_ns,
                                          .no_duration = !answer->period_ns};
    int64_t view = ep_view_ask(&open);
    uint64_t now = ep_port_uptime_ns();

    if (view == -EBUSY && now < answer->give_up_ns) {
        answer->look_ns = now + LOOK_AGAIN_NS;
    } else if (view < 0) {
        answer_line(buffer, (int)view, error_text((int)view), "", "", answer);
    } else {
        answer->view = (unsigned)view;
        answer->look_ns = now + answer->period_ns;
    }
}

/* Ends the view and writes the answer's head, or schedules another try. */
static void profile_end(char *buffer, struct ep_answer *answer)
{
    const struct ep_view_question close = {.what = EP_VIEW_END, .view = answer->view};
    struct ep_text head = {.at = buffer, .room = EP_PULL_ANSWER};
    int64_t size = ep_view_ask(&close);
    uint64_t now = ep_port_uptime_ns();

    if ((size == -EAGAIN || size == -EBUSY) && now < answer->give_up_ns + answer->period_ns + PATIENCE_NS) {
        answer->look_ns = now + LOOK_AGAIN_NS;
        return;
    }
    if (size < 0) {
        ep_pull_done(answer);
        answer_line(buffer, (int)size, error_text((int)size), "", "", answer);
        return;
    }
    head_put(&head, 0, "application/octet-stream", (uint64_t)size);
    answer->size = head.fill;
    answer->look_ns = 0;
    answer->body = (uint64_t)size;
}

/* Reads a number of 1 to `most`; 0: invalid. */
static unsigned number_read(struct ep_part digits, unsigned most)
{
    unsigned number = 0;

    for (size_t i = 0; i < digits.size; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9' || number > most)
            return 0;
        number = number * 10 + (unsigned)(digits.at[i] - '0');
    }
    return number <= most ? number : 0;
}

/* Reads "seconds=5" and ignores unknown parameters. False: an invalid value. */
static bool period_read(struct ep_part query, const struct route *route, uint64_t *period_ns)
{
    *period_ns = route->passing && !route->moment ? (uint64_t)SECONDS_USUAL * SECONDS : 0;
    while (query.size) {
        struct ep_part value = ep_part_before(&query, '&'), name = ep_part_before(&value, '=');
        unsigned seconds = number_read(value, SECONDS_MOST);
        if (ep_part_is(name, "debug") && !ep_part_is(value, "0"))
            return false;
        if (!ep_part_is(name, "seconds"))
            continue;
        if (!seconds || route->moment)
            return false;
        *period_ns = (uint64_t)seconds * SECONDS;
    }
    return true;
}

static void serve_profile(char *buffer, const struct route *route, struct ep_part query, struct ep_answer *answer)
{
    uint64_t period_ns;

    if (!period_read(query, route, &period_ns)) {
        answer_line(buffer, -EINVAL, route->name,
                    route->moment ? " is a snapshot: use it without ?seconds" : ": ?seconds must be 1 to 600",
                    ", and without ?debug: the format is binary pprof, for go tool pprof", answer);
        return;
    }
    if (ep_level_get() == EP_LEVEL_DEFAULT) {
        answer_line(buffer, -ESRCH, error_text(-ESRCH), "", "", answer);
        return;
    }
    if (!switched_on(buffer, route, answer))
        return;
    answer->route = (unsigned)(route - routes) + FIRST;
    answer->period_ns = period_ns;
    answer->give_up_ns = ep_port_uptime_ns() + PATIENCE_NS;
    ep_pull_look(buffer, answer);
}

/* ---- all else ---- */

static void serve_index(char *buffer, struct ep_answer *answer)
{
    struct ep_text body = body_begin(buffer);
    const uint32_t kinds = ep_kinds_get();

    ep_text_put(&body, "<!DOCTYPE html>\n<html><head><title>" DEBUG_PPROF "</title></head>\n<body>\n<p>" DEBUG_PPROF
                       "</p>\n<p>Set of profiles, for go tool pprof; of this device's edgeprof " EP_VERSION
                       ".</p>\n<table>\n");
    for (const struct route *route = routes; route < routes + ROUTES; route++) {
        const bool on = kinds && (!route->wanted || kinds & EP_KIND_BIT(route->wanted));
        ep_text_put(&body, "<tr><td><a href=\"" DEBUG_PPROF);
        ep_text_put(&body, route->name);
        ep_text_put(&body, "\">");
        ep_text_put(&body, route->name);
        ep_text_put(&body, "</a></td><td>");
        ep_text_put(&body, on ? "on" : "off");
        ep_text_put(&body, "</td><td>");
        ep_text_put(&body, route->about);
        ep_text_put(&body, "</td></tr>\n");
    }
    ep_text_put(&body,
                "</table>\n<p>allocs, block, exception, gc, heap, mutex, sync and write are since the start, or "
                "with ?seconds=N of the next N seconds. <a href=\"/metrics\">/metrics</a></p>\n</body></html>\n");
    answer_finish(&body, body.full ? -ENOBUFS : 0, "text/html; charset=utf-8", answer);
}

static void serve_metrics(char *buffer, struct ep_answer *answer)
{
    struct ep_text body = body_begin(buffer);
    int error = ep_metrics_put(&body);

    if (error || body.full)
        answer_line(buffer, error ? error : -ENOBUFS, error_text(error), "", "", answer);
    else
        answer_finish(&body, 0, METRICS_TYPE, answer);
}

static void control_finish(struct ep_text *body, int error, struct ep_answer *answer)
{
    error = ep_control_settle(body, HEAD, error);
    answer_finish(body, error, "application/json", answer);
}

static void list_look(char *buffer, struct ep_answer *answer)
{
    struct ep_text body = body_begin(buffer);
    const int error = ep_tasks_look(&body, answer);

    if (error != -EAGAIN)
        control_finish(&body, error, answer);
}

/* request->path: from "/status" on. */
static void serve_control(char *buffer, const struct ep_request *request, struct ep_answer *answer)
{
    struct ep_text body = body_begin(buffer);
    const int error = ep_control_act(&body, request, answer);

    if (answer->list)
        list_look(buffer, answer);
    else
        control_finish(&body, error, answer);
}

/* Removes the prefix from the path. False: the path does not start with it. */
static bool path_strip(struct ep_part *path, const char *beginning)
{
    size_t size = strlen(beginning);

    if (path->size < size || memcmp(path->at, beginning, size) != 0)
        return false;
    path->at += size;
    path->size -= size;
    return true;
}

/* Detects DNS rebinding: a foreign web page may let its own name resolve to this address to read what is here. */
static bool is_foreign(struct ep_part host)
{
    if (host.size == 0 || host.at[0] == '[' || ep_part_is(host, "localhost"))
        return false;
    for (size_t i = 0; i < host.size; i++)
        if (host.at[i] != '.' && (host.at[i] < '0' || host.at[i] > '9'))
            return true;
    return false;
}

static void serve_request(char *buffer, struct ep_request *request, bool token, struct ep_answer *answer)
{
    struct ep_part path = request->path;
    int error = -ENOENT;

    if (!token && is_foreign(request->host)) {
        error = -EPERM;
    } else if (path_strip(&request->path, "/control")) {
        if (token)
            serve_control(buffer, request, answer);
        else
            answer_line(buffer, -EPERM, "/control requires a token; set EDGEPROF_PULL_TOKEN", "", "", answer);
        return;
    } else if (ep_part_is(path, DEBUG_PPROF "symbol")) {
        answer_line(buffer, 0, "num_symbols: 0", "", "", answer);
        return;
    } else if (!ep_part_is(request->method, "GET")) {
        error = -ENOTSUP;
    } else if (ep_part_is(path, "/metrics")) {
        serve_metrics(buffer, answer);
        return;
    } else if (ep_part_is(path, "/debug/pprof") || path_strip(&path, DEBUG_PPROF)) {
        if (path.size == 0 || path.at == request->path.at) {
            serve_index(buffer, answer);
            return;
        }
        for (const struct route *route = routes; route < routes + ROUTES; route++)
            if (ep_part_is(path, route->name)) {
                serve_profile(buffer, route, request->query, answer);
                return;
            }
    }
    answer_line(buffer, error, error_text(error), "", "", answer);
}

/* ---- for the port ---- */

void ep_pull_answer(const char *request, size_t size, const char *token, char *buffer, struct ep_answer *answer)
{
    struct ep_request asked;
    int error = size >= EP_PULL_REQUEST ? -E2BIG : ep_request_read(request, size, token, &asked);

    *answer = (struct ep_answer){0};
    if (error)
        answer_line(buffer, error, error_text(error), "", "", answer);
    else
        serve_request(buffer, &asked, token != NULL, answer);
}

void ep_pull_look(char *buffer, struct ep_answer *answer)
{
    if (answer->list)
        list_look(buffer, answer);
    else if (!answer->view)
        profile_begin(buffer, answer);
    if (answer->view && !answer->size && answer->look_ns <= ep_port_uptime_ns())
        profile_end(buffer, answer);
}

size_t ep_pull_piece(char *buffer, const struct ep_answer *answer)
{
    const struct ep_view_question piece = {.what = EP_VIEW_PIECE,
                                           .view = answer->view,
                                           .from = answer->sent,
                                           .data = (uint8_t *)buffer,
                                           .size = EP_PULL_ANSWER};
    int64_t size = answer->sent < answer->body ? ep_view_ask(&piece) : 0;

    return size > 0 ? (size_t)size : 0;
}

void ep_pull_done(struct ep_answer *answer)
{
    ep_tasks_done(answer);
    if (answer->view)
        ep_view_close(answer->view);
    answer->view = 0;
}
