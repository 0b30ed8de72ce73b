/*
 * Crash records: start and stop, the mark of the run, and delivery. Only programs that call ep_crash_start() link this.
 *
 * The message about an earlier run is the first in the outbox, so it leaves at once and before all profiles, or goes to
 * the spool with them.
 *
 *   ep_crash_start -> the record and the mark of the last run -> the own mark -> the signals are watched
 *   ep_start       -> crash_begin -> message_put
 *   a send         -> crash_answered -> record_free, missed_free
 */
#include "core/features/crash/crash.h"
#include "core/deliver/state.h"
#include "core/sample/feature.h"

#include <errno.h>
#include <string.h>

#define LIMIT_MS   1000u
#define LIMIT_FROM 100u
#define LIMIT_TO   3000u
#define DIR_BYTES  256u

static struct {
    bool on;
    struct ep_crash_run missed;       /* count 0: none */
    const struct ep_crash_view *view; /* NULL: no record waits */
    uint32_t pid;
    uint64_t record_segment, missed_segment; /* of the messages; 0: none */
} crash;

/* ---- the mark ---- */

int ep_crash_mark_write(void)
{
    struct ep_crash_mark mark = {.magic = {'E', 'P', 'R', '1'}, .run = ep_crash_own.run, .missed = crash.missed};

    mark.crc = ep_crash_crc(&mark.run, sizeof mark.run + sizeof mark.missed);
    return ep_port_crash_write(0, &mark, sizeof mark);
}

static int mark_safe(void)
{
    int error = ep_crash_mark_write();

    return error ? error : ep_port_crash_sync();
}

static bool is_same_run(const struct ep_crash_run *a, const struct ep_crash_run *b)
{
    return a->pid == b->pid && a->start_ns == b->start_ns && strcmp(a->boot_id, b->boot_id) == 0;
}

/* Reads how the last run ended: there is nothing to report if it ended regularly, or if its record is here. */
static void mark_read(void)
{
    struct ep_crash_mark mark;

    crash.missed = (struct ep_crash_run){0};
    if (ep_port_crash_read(0, &mark, sizeof mark) != sizeof mark || memcmp(mark.magic, "EPR1", 4) != 0 ||
        ep_crash_crc(&mark.run, sizeof mark.run + sizeof mark.missed) != mark.crc)
        return;
    crash.missed = mark.missed;
    if (mark.run.state == EP_CRASH_ENDED || (crash.view && is_same_run(&crash.view->run, &mark.run)))
        return;
    mark.run.count = crash.missed.count + 1;
    crash.missed = mark.run;
}

static void run_begin(void)
{
    struct ep_identity identity = {0};
    struct ep_crash_run *run = &ep_crash_own.run;

    ep_port_identity(&identity);
    *run = (struct ep_crash_run){.state = EP_CRASH_RUNS, .pid = identity.pid, .start_ns = ep_port_uptime_ns()};
    run->unix_ns = ep_port_unix_ns();
    memcpy(run->boot_id, identity.boot_id, sizeof run->boot_id);
    memcpy(run->executable, identity.executable, sizeof run->executable);
    crash.pid = identity.pid;
}

/* ---- delivery ---- */

/* The record's place is free again. */
static void record_free(void)
{
    static const struct ep_crash_head none;

    if (ep_port_crash_write(EP_CRASH_HEAD_AT, &none, sizeof none) != 0 || ep_port_crash_sync() != 0)
        return;
    crash.view = NULL;
    crash.record_segment = 0;
    atomic_store(&ep_crash_own.waits, false);
}

static void missed_free(void)
{
    crash.missed = (struct ep_crash_run){0};
    crash.missed_segment = 0;
    (void)mark_safe();
}

/* A message that is refused for ever must not keep later crashes from being recorded. */
static int crash_answered(struct ep *ep, const struct ep_message *message, int error)
{
    const bool record = message->segment && message->segment == crash.record_segment;
    const bool missed = message->segment && message->segment == crash.missed_segment;

    (void)ep;
    if (!record && !missed)
        return error;
    if (error != 0 && error != -EBADMSG && error != -EMSGSIZE && error != -ESTALE)
        return error;
    if (record)
        record_free();
    else
        missed_free();
    return 0;
}

/* Puts a message into the outbox. Returns its segment; 0: there is no room for it. */
static uint64_t message_put(struct ep *ep, const struct ep_crash_view *view)
{
    struct ep_box_header header = {.end_ns = ep_port_uptime_ns(), .end_unix_ns = ep_port_unix_ns()};
    uint8_t *bytes;
    uint32_t room = ep_outbox_room(&ep->deliver->outbox, &bytes);

    if (room > ep->deliver->message_bytes)
        room = ep->deliver->message_bytes;
    header.start_unix_ns = header.end_unix_ns;
    header.size = room ? ep_crash_message(ep, view, &crash.missed, bytes, room, &header.segment) : 0;
    if (header.size == 0)
        return 0;
    (void)ep_outbox_put(&ep->deliver->outbox, &header, false);
    return header.segment;
}

static bool is_ours(void)
{
    struct ep_identity identity = {0};

    if (!crash.on) /* then no system call either: a filter may end the process for one */
        return false;
    ep_port_identity(&identity);
    return identity.pid == crash.pid; /* a forked child has none */
}

/* Only receivers of the compact format read records. */
static void crash_begin(struct ep *ep)
{
    const bool sends = ep->deliver->transport && !EP_HAS_FEATURE(convert) && is_ours();

    crash.record_segment = sends && crash.view ? message_put(ep, crash.view) : 0;
    crash.missed_segment = sends && crash.missed.count ? message_put(ep, NULL) : 0;
    if (crash.record_segment || crash.missed_segment)
        ep->config.flags &= ~(uint32_t)EP_LAZY_THREADS;
}

/* ---- start and stop ---- */

static int config_check(const struct ep_crash_config *wanted)
{
    const uint32_t limit = wanted->limit_ms ? wanted->limit_ms : LIMIT_MS;

    if (crash.on || ep_running())
        return ep_refuse(-EALREADY, "crash records: they are on already, or the profiler runs");
    if (!wanted->dir || !*wanted->dir || strlen(wanted->dir) >= DIR_BYTES)
        return ep_refuse(-EINVAL, "crash records: no directory, or its name is too long");
    if (limit < LIMIT_FROM || limit > LIMIT_TO)
        return ep_refuse(-EINVAL, "crash records: limit_ms must be 100 to 3000");
    return 0;
}

/* Reads what the last run left, and marks this one. */
static int file_begin(const char *dir)
{
    int error = ep_port_crash_open(dir, EP_CRASH_FILE_SIZE);

    if (error)
        return error;
    if (ep_crash_read(&crash.view) != 0)
        crash.view = NULL;
    atomic_store(&ep_crash_own.waits, crash.view != NULL);
    mark_read();
    run_begin();
    error = mark_safe();
    if (error)
        ep_port_crash_close();
    return error;
}

static int watch_begin(uint32_t limit_ms)
{
    int error = ep_port_crash_watch(limit_ms);

    if (!error)
        return 0;
    ep_crash_own.run.state = EP_CRASH_ENDED;
    (void)mark_safe();
    ep_port_crash_close();
    return ep_refuse(error, "crash records: cannot watch the signals");
}

int ep_crash_start(const struct ep_crash_config *wanted)
{
    static const struct ep_feature feature = {.name = "crash", .start = crash_begin, .answered = crash_answered};

    (void)ep_refuse(0, "");
    int error = config_check(wanted);
    if (error)
        return error;
    error = ep_feature_add(&feature);
    if (error)
        return ep_refuse(error, "crash records: too many features");
    ep_crash_own.registers = wanted->registers;
    error = file_begin(wanted->dir);
    if (error)
        return ep_complain(error, "crash records: cannot use the directory ", wanted->dir, "");
    error = watch_begin(wanted->limit_ms ? wanted->limit_ms : LIMIT_MS);
    crash.on = error == 0;
    return error;
}

int ep_crash_in_front(void)
{
    return is_ours() ? ep_port_crash_in_front() : -ENOENT;
}

void ep_crash_stop(void)
{
    if (!is_ours())
        return;
    ep_port_crash_unwatch();
    ep_crash_own.run.state = EP_CRASH_ENDED;
    (void)mark_safe();
    ep_port_crash_close();
    crash.on = false;
}

/* exit(). Others may still stop the profiler, which delivers, so the file stays open. */
__attribute__((destructor)) static void exit_mark(void)
{
    if (!is_ours())
        return;
    ep_crash_own.run.state = EP_CRASH_ENDED;
    (void)mark_safe();
}
