/*
 * The control endpoint's requests and answers, without sockets. The pull endpoint has the same paths below /control.
 *
 *   GET  /status                the state, as JSON
 *   POST /level?high            low, medium, high
 *   POST /kinds?cpu,alloc       enables only these kinds
 *   POST /kinds?on=lock,gc      enables these too; off=...: disables these
 *   POST /tasks, GET /tasks?N   what pending work waits for (tasks.c)
 *   POST /flush, POST /threads  ends the interval; dumps the stacks of all threads     (PUT is accepted like POST)
 *   POST /incident?name         triggers an incident
 *
 *   ep_control_answer -> ep_request_read -> ep_control_act -> put_status -> put_...
 *   ep_control_answer, ep_control_look -> ep_tasks_look, while a list is made
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/collect/collect.h"
#include <edgeprof/hooks.h>
#include <edgeprof/port_calls.h>
#include "core/features/control/control.h"

/* Writes ,"name":value: not for an object's first member. */
static void put_member(struct ep_text *out, const char *name, uint64_t value)
{
    ep_text_put(out, ",\"");
    ep_text_put(out, name);
    ep_text_put(out, "\":");
    ep_text_number(out, value);
}

static void put_kinds(struct ep_text *out, const struct ep_stats *stats, uint32_t kinds)
{
    ep_text_put(out, ",\"kinds\":{");
    for (unsigned kind = 1; kind < EP_KINDS; kind++) {
        ep_text_put(out, kind > 1 ? ",\"" : "\"");
        ep_text_put(out, ep_kind_name(kind));
        ep_text_put(out, kinds & EP_KIND_BIT(kind) ? "\":{\"on\":true" : "\":{\"on\":false");
        put_member(out, "period", ep_hook_period((enum ep_kind)kind));
        if (stats->kind_rate[kind])
            put_member(out, "rate", stats->kind_rate[kind]);
        put_member(out, "count", stats->kind_count[kind]);
        put_member(out, "value", stats->kind_value[kind]);
        ep_text_put(out, ",\"unit\":\"");
        ep_text_put(out, ep_kind_unit(kind));
        const char *missing = atomic_load(&ep_kind_missing[kind]);
        ep_text_put(out, missing ? "\",\"unavailable\":\"" : "");
        ep_text_put(out, missing ? missing : "");
        ep_text_put(out, "\"}");
    }
    ep_text_put(out, "}");
}

static void put_losses(struct ep_text *out, const struct ep_stats *stats)
{
    const char *between = "\"";

    ep_text_put(out, ",\"losses\":{");
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++) {
        if (!stats->lost_count[reason] && !stats->lost_ns[reason])
            continue;
        ep_text_put(out, between);
        ep_text_put(out, ep_loss_name(reason));
        ep_text_put(out, "\":{\"count\":");
        ep_text_number(out, stats->lost_count[reason]);
        put_member(out, "cpu_ns", stats->lost_ns[reason]);
        ep_text_put(out, "}");
        between = ",\"";
    }
    ep_text_put(out, "}");
}

/* Names contain no character that needs escaping (core/sample/unsampled.c). */
static void put_unsampled(struct ep_text *out, const struct ep_stats *stats)
{
    ep_text_put(out, ",\"unsampled\":[");
    for (unsigned i = 0, some = 0; i < EP_UNSAMPLED; i++) {
        const struct ep_unsampled *of = &stats->unsampled[i];
        if (!stats->lost_count[of->reason])
            continue;
        ep_text_put(out, some++ ? ",{\"reason\":\"" : "{\"reason\":\"");
        ep_text_put(out, ep_loss_name(of->reason));
        ep_text_put(out, "\"");
        put_member(out, "number", of->reason);
        put_member(out, "threads", stats->lost_count[of->reason]);
        put_member(out, "error", (uint64_t)-of->error);
        put_member(out, "limit", of->limit);
        for (unsigned k = 0; k < 3 && of->name[k][0]; k++) {
            ep_text_put(out, k ? "\",\"" : ",\"names\":[\"");
            ep_text_put(out, of->name[k]);
        }
        ep_text_put(out, of->name[0][0] ? "\"]}" : "}");
    }
    ep_text_put(out, "]");
}

static void put_governor(struct ep_text *out, const struct ep_stats *stats)
{
    ep_text_put(out, ",\"governor\":{\"budget_ppm\":");
    ep_text_number(out, stats->budget_ppm);
    put_member(out, "cost_ppm", stats->cost_ppm);
    put_member(out, "stretch_pct", stats->stretch_pct);
    put_member(out, "stretches", stats->stretches);
    ep_text_put(out, "}");
}

/* Explains the errors that ep_port_spool_open() defines. */
static const char *spool_error_text(uint64_t error)
{
    if (error == EBUSY)
        return "another process uses this directory; give each its own";
    if (error == EPERM)
        return "the directory, a folder before it or a file in it is another user's, or everybody may write to it; "
               "chown it, chmod 700";
    return "";
}

static void put_spool(struct ep_text *out, const struct ep_stats *stats)
{
    ep_text_put(out, ",\"spool\":{\"error\":");
    ep_text_number(out, stats->spool_error);
    ep_text_put(out, ",\"error_text\":\"");
    ep_text_put(out, spool_error_text(stats->spool_error));
    ep_text_put(out, "\"");
    put_member(out, "messages", stats->spool_messages);
    put_member(out, "bytes", stats->spool_bytes);
    put_member(out, "spooled", stats->spooled);
    put_member(out, "replayed", stats->replayed);
    put_member(out, "written", stats->spool_written);
    put_member(out, "damaged", stats->spool_damaged);
    put_member(out, "damaged_bytes", stats->spool_damaged_bytes);
    ep_text_put(out, "}");
}

/* ---- actions ---- */

static const char levels[] = "low\0medium\0high\0";

static int put_status(struct ep_text *out)
{
    struct ep_stats stats;
    unsigned level = ep_level_get();
    const char *name = levels;

    if (ep_stats_get(&stats) != 0)
        return -ESRCH;
    for (unsigned i = 1; i < level; i++)
        name += strlen(name) + 1;
    ep_text_put(out, "{\"version\":\"" EP_VERSION "\",\"running\":");
    ep_text_put(out, level ? "true,\"level\":\"" : "false,\"level\":\"");
    ep_text_put(out, level ? name : "");
    ep_text_put(out, "\"");
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
    put_member(out, "unanswered", stats.unanswered);
    put_member(out, "busy_stops", stats.busy_stops);
    put_member(out, "last_status", stats.last_status);
    put_member(out, "threads", stats.threads);
    put_member(out, "thread_exit_ns", stats.thread_exit_ns);
    put_member(out, "unsampled_ns", stats.unsampled_ns);
    put_member(out, "tick_hz", stats.tick_hz);
    ep_text_put(out, stats.clock == EP_CLOCK_PERF    ? ",\"clock\":\"perf\""
                     : stats.clock == EP_CLOCK_TICKS ? ",\"clock\":\"ticks\""
                                                     : ",\"clock\":\"timer\"");
    put_member(out, "clock_error", stats.clock_error);
    put_member(out, "timed_samples", stats.timed_samples);
    put_member(out, "timed_faults", stats.timed_faults);
    put_member(out, "intervals_early", stats.intervals_early);
    put_member(out, "degraded_labels", stats.degraded_labels);
    put_member(out, "degraded_addresses", stats.degraded_addresses);
    put_member(out, "degraded_frames", stats.degraded_frames);
    put_governor(out, &stats);
    put_spool(out, &stats);
    put_kinds(out, &stats, ep_kinds_get());
    put_losses(out, &stats);
    put_unsampled(out, &stats);
    ep_text_put(out, "}\n");
    return 0;
}

static int level_change(struct ep_part name)
{
    unsigned level = 1;

    for (const char *at = levels; *at; at += strlen(at) + 1, level++)
        if (ep_part_is(name, at))
            return ep_level_set((enum ep_level)level);
    return -EINVAL;
}

/* Reads "cpu,alloc". Returns 0 if one of the names is invalid. */
static uint32_t kinds_of(struct ep_part list)
{
    uint32_t kinds = 0;

    while (list.size) {
        struct ep_part name = ep_part_before(&list, ',');
        unsigned kind = 1;
        while (kind < EP_KINDS && !ep_part_is(name, ep_kind_name(kind)))
            kind++;
        if (kind == EP_KINDS)
            return 0;
        kinds |= EP_KIND_BIT(kind);
    }
    return kinds;
}

static int kinds_change(struct ep_part query)
{
    uint32_t on = 0, off = 0;

    if (query.size && !memchr(query.at, '=', query.size)) {
        on = kinds_of(query);
        return on ? ep_kinds_set(on) : -EINVAL;
    }
    while (query.size) {
        struct ep_part list = ep_part_before(&query, '&'), name = ep_part_before(&list, '=');
        uint32_t kinds = kinds_of(list);
        if (!kinds || (!ep_part_is(name, "on") && !ep_part_is(name, "off")))
            return -EINVAL;
        *(ep_part_is(name, "on") ? &on : &off) |= kinds;
    }
    return on | off ? ep_kinds_change(on, off) : -EINVAL;
}

static int incident_trigger(struct ep_part name)
{
    int error = -ENODATA;

    EP_EACH_FEATURE (at, trigger)
        error = at.feature->trigger(name.at, name.size);
    return error == -EAGAIN ? -EBUSY : error;
}

int ep_control_act(struct ep_text *out, const struct ep_request *request, struct ep_answer *answer)
{
    const struct ep_part path = request->path;
    const bool post = ep_part_is(request->method, "POST") || ep_part_is(request->method, "PUT");

    if (ep_part_is(path, "/status"))
        return ep_part_is(request->method, "GET") ? put_status(out) : -ENOTSUP;
    if (ep_part_is(path, "/level"))
        return post ? level_change(request->query) : -ENOTSUP;
    if (ep_part_is(path, "/kinds"))
        return post ? kinds_change(request->query) : -ENOTSUP;
    if (ep_part_is(path, "/flush"))
        return post ? ep_flush() : -ENOTSUP;
    if (ep_part_is(path, "/threads"))
        return post ? ep_threads_dump() : -ENOTSUP;
    if (ep_part_is(path, "/incident"))
        return post ? incident_trigger(request->query) : -ENOTSUP;
    if (ep_part_is(path, "/tasks"))
        return post ? ep_tasks_ask(answer) : ep_tasks_put(out, request->query);
    return -ENOENT;
}

static const char *reason(int error)
{
    return error == 0        ? "{\"done\":true}\n"
           : error == -ESRCH ? "{\"error\":\"the profiler is not running\"}\n"
           : error == -EINVAL
               ? "{\"error\":\"expected /level?low|medium|high, /kinds?cpu,... or /kinds?on=...&off=...\"}\n"
           : error == -EACCES ? "{\"error\":\"token required: Authorization: Bearer TOKEN\"}\n"
           : error == -ENOENT
               ? "{\"error\":\"expected /status, /level, /kinds, /flush, /threads, /tasks or /incident\"}\n"
           : error == -ENOTSUP ? "{\"error\":\"use GET for /status, POST or PUT for the others\"}\n"
           : error == -ENODATA ? "{\"error\":\"the program keeps no history; set EDGEPROF_INCIDENT=1\"}\n"
           : error == -EBUSY   ? "{\"error\":\"another trigger waits\"}\n"
           : error == -EUSERS  ? "{\"error\":\"busy: others wait for a list already; try again\"}\n"
           : error == -ESTALE  ? "{\"error\":\"a later list has replaced this one; ask for a list again\"}\n"
           : error == -ENOSYS
               ? "{\"error\":\"no list of pending work: not a .NET program, or its runtime is not known\"}\n"
           : error == -ETIMEDOUT ? "{\"error\":\"the program has not answered in time\"}\n"
           : error == -E2BIG     ? "{\"error\":\"the request is too long\"}\n"
                                 : "{\"error\":\"failed\"}\n";
}

int ep_control_settle(struct ep_text *body, size_t head, int error)
{
    if (!error && body->fill != head && !body->full)
        return 0;
    error = body->full ? -ENOBUFS : error;
    *body = (struct ep_text){.at = body->at, .room = body->room, .fill = head};
    ep_text_put(body, reason(error));
    return error;
}

#define HEAD 256

/* The head contains the body's size, so the body is written first, behind room for a head. */
static struct ep_text body_begin(char *buffer)
{
    return (struct ep_text){.at = buffer, .room = EP_CONTROL_ANSWER, .fill = HEAD};
}

static void answer_finish(struct ep_text *body, int error, struct ep_answer *answer)
{
    struct ep_text head = {.at = body->at, .room = HEAD};

    error = ep_control_settle(body, HEAD, error);
    ep_text_put(&head, "HTTP/1.1 ");
    ep_text_put(&head, ep_request_verdict(error));
    ep_text_put(&head, "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ");
    ep_text_number(&head, body->fill - HEAD);
    ep_text_put(&head, "\r\n\r\n");
    memmove(body->at + head.fill, body->at + HEAD, body->fill - HEAD);
    *answer = (struct ep_answer){.size = head.fill + body->fill - HEAD};
}

void ep_control_answer(const char *request, size_t size, const char *token, char *buffer, struct ep_answer *answer)
{
    struct ep_text body = body_begin(buffer);
    struct ep_request asked;
    int error = size >= EP_CONTROL_REQUEST ? -E2BIG : ep_request_read(request, size, token, &asked);

    *answer = (struct ep_answer){0};
    if (!error)
        error = ep_control_act(&body, &asked, answer);
    if (answer->list)
        ep_control_look(buffer, answer);
    else
        answer_finish(&body, error, answer);
}

void ep_control_look(char *buffer, struct ep_answer *answer)
{
    struct ep_text body = body_begin(buffer);
    const int error = ep_tasks_look(&body, answer);

    if (error != -EAGAIN)
        answer_finish(&body, error, answer);
}

void ep_control_done(struct ep_answer *answer)
{
    ep_tasks_done(answer);
}
