/*
 * Lifecycle: ep_start(), ep_stop(), and the public functions that act on the running profiler.
 *
 *   ep_start -> ep_settings_check, ep_layout, ep_settings_apply -> start_pipeline
 *       start_pipeline opens the transport, lists the modules, starts edgeprof's threads, and starts sampling last
 *   ep_stop  -> wind_down -> stop sampling -> wait for handlers -> collect thread encodes what is left
 *                         -> deliver thread sends it
 *            -> wait for handlers that have stayed -> settle
 *
 * A failed step of the start undoes the steps before it. After ep_stop() the memory belongs to the caller again, unless
 * a thread of the service still uses it: then ep_stop() returns -EBUSY, and a later stop or start settles the run.
 */
#include "core/lifecycle/start.h"
#include "core/profile/encoding.h"
#include "core/collect/collect.h"
#include "core/deliver/deliver.h"
#include "core/sample/feature.h"

#include <errno.h>

#define HANDLERS_LEAVE_NS 1000000000u
#define HANDLERS_POLL_NS  200000u
#define HANDLERS_POLLS    500u /* the least: a thread that leaves soon is waited for without any time left */
#define MS                1000000u
#define THREAD_ENDS_NS    10000000000u /* beyond the deadline, on a machine that is very busy */

static struct ep_stats final_stats;
static bool ever_started;
/* Has ended, but a thread of the service may still use its memory; NULL: none. Used by start and stop only. */
static struct ep *leaving;
static bool leaving_clean; /* nothing of it was lost at its end */
static _Atomic uint64_t busy_stops;
static unsigned unended;    /* a bit a role: its thread had not ended when the time for it was over */
static struct ep *unclosed; /* whose transport such a thread may use */

static bool manual(const struct ep *ep)
{
    return (ep->config.flags & EP_MANUAL) != 0;
}

static const char *headers_of(struct ep *ep)
{
    const struct ep_feature *instead = EP_FEATURE_WITH(headers);

    return instead ? instead->headers(ep) : ep->config.headers;
}

static int transport_open(struct ep *ep)
{
    const struct ep_config *config = &ep->config;

    if (!ep->deliver->transport)
        return 0;
    ep->deliver->target = (struct ep_target){.endpoint = config->endpoint,
                                             .service = config->service,
                                             .tags = config->tags,
                                             .headers = headers_of(ep),
                                             .push = config->push};
    if (!ep->deliver->transport->open)
        return 0;
    int error = ep->deliver->transport->open(ep->deliver->transport_state, &ep->deliver->target);
    return error ? ep_complain(error, ep->deliver->transport->name, ": cannot use the endpoint ",
                               ep_endpoint_shown(config->endpoint))
                 : 0;
}

static void transport_close(struct ep *ep)
{
    if (ep->deliver->transport && ep->deliver->transport->close)
        ep->deliver->transport->close(ep->deliver->transport_state);
}

/* A thread ends by its deadline, unless a transport, a disk or a debugger holds it. */
static void thread_end(enum ep_role role, uint64_t deadline_ns)
{
    const uint64_t now = ep_port_uptime_ns();

    if (ep_port_thread_join(role, (deadline_ns > now ? deadline_ns : now) + THREAD_ENDS_NS) == -ETIMEDOUT)
        unended |= 1u << role;
}

static void collect_end(struct ep *ep, uint64_t deadline_ns)
{
    atomic_store(&ep->stopping, true);
    ep_collect_wake(ep);
    thread_end(EP_ROLE_COLLECT, deadline_ns);
}

static void deliver_end(struct ep *ep, uint64_t deadline_ns)
{
    ep_port_wake(&ep->deliver->event);
    thread_end(EP_ROLE_DELIVER, deadline_ns);
}

/* Waits for threads that were given up. False: one has not ended. */
static bool threads_ended(uint64_t until_ns)
{
    for (unsigned role = 0; unended >> role; role++)
        if ((unended >> role & 1) && ep_port_thread_join((enum ep_role)role, until_ns) != -ETIMEDOUT)
            unended &= ~(1u << role);
    if (!unended && unclosed) {
        transport_close(unclosed);
        unclosed = NULL;
    }
    return unended == 0;
}

/* The longest a parked profiler waits before it starts its threads. It gives a program time to finish what it may
 * only do while it is single-threaded. */
#define LATEST_NS 3000000000u

static int threads_park(struct ep *ep)
{
    int error = ep_port_thread_park(EP_ROLE_COLLECT, ep_collect_thread);

    if (error)
        return error;
    error = ep_port_thread_park(EP_ROLE_DELIVER, ep_deliver_thread);
    if (error) {
        atomic_store(&ep->stopping, true);
        atomic_store(&ep->deliver->stop_deadline_ns, 1);
        ep_port_wake(&ep->collect_event); /* a port without parking has started it already */
        thread_end(EP_ROLE_COLLECT, 0);
        atomic_store(&ep->stopping, false);
        atomic_store(&ep->deliver->stop_deadline_ns, 0);
        return error;
    }
    /* While the threads are parked every sample is timed, because record_timed() also checks whether they are due. */
    atomic_store_explicit(&ep->timing.to_time, EP_PARKED_SAMPLES, memory_order_relaxed);
    ep->resume_at_ns = ep_port_uptime_ns() + (ep->interval_ns > LATEST_NS ? ep->interval_ns : LATEST_NS);
    atomic_store(&ep->parked, true);
    return 0;
}

static int threads_start(struct ep *ep)
{
    if (manual(ep) || (ep->config.flags & EP_LAZY_THREADS && threads_park(ep) == 0))
        return 0;
    int error = ep_port_thread_start(EP_ROLE_COLLECT, ep_collect_thread);
    if (error)
        return ep_refuse(error, "cannot start the collect thread");
    error = ep_port_thread_start(EP_ROLE_DELIVER, ep_deliver_thread);
    if (error) {
        atomic_store(&ep->deliver->stop_deadline_ns, 1);
        collect_end(ep, 0);
        return ep_refuse(error, "cannot start the deliver thread");
    }
    atomic_store(&ep->threads_run, true);
    return 0;
}

static void threads_stop(struct ep *ep, uint64_t deadline_ns)
{
    bool done = false;
    int error = 0;

    EP_EACH_FEATURE (at, stop)
        at.feature->stop(ep, deadline_ns);
    atomic_store(&ep->deliver->stop_deadline_ns, deadline_ns ? deadline_ns : 1);
    ep_deadline_shrink(&ep->deliver->send_deadline,
                       deadline_ns); /* must follow the store above: see struct ep_deliver_until */
    if (!manual(ep) && ep_threads_resume(ep) == 0) {
        collect_end(ep, deadline_ns);
        deliver_end(ep, deadline_ns);
        return;
    }
    if (!manual(ep)) { /* no thread can be created any more: this thread does their work */
        thread_end(EP_ROLE_COLLECT, deadline_ns);
        thread_end(EP_ROLE_DELIVER, deadline_ns);
    }
    ep->deliver->retry_at_ns = 0;
    atomic_store(&ep->stopping, true);
    ep_collect_round(ep);
    do {
        ep_restart_round(ep);
        done = done || ep_collect_finish(ep, true);
        error = ep->deliver->transport ? ep_deliver_round(ep, deadline_ns) : 0;
    } while (error == -EINPROGRESS || (!done && !error));
}

/* Waits until no thread of the service uses the profiler's memory. False: one still does at `until_ns` (uptime), and
 * did in HANDLERS_POLLS looks. */
static __attribute__((noinline)) bool wait_for_handlers(uint64_t until_ns)
{
    struct ep_event never = {0};

    for (unsigned polls = 0; ep_held(); polls++) {
        if (polls >= HANDLERS_POLLS && ep_port_uptime_ns() >= until_ns)
            return false;
        ep_port_wait(&never, 0, HANDLERS_POLL_NS);
    }
    return true;
}

static __attribute__((noinline)) bool handlers_leave(void)
{
    return wait_for_handlers(ep_port_uptime_ns() + HANDLERS_LEAVE_NS);
}

/* Ends what is left of a run when no thread uses its memory any more. Returns as ep_stop(). */
static __attribute__((noinline)) int settle(uint64_t until_ns)
{
    struct ep *ep = leaving;

    if (!threads_ended(until_ns))
        return ep_refuse(-EBUSY,
                         "a thread of edgeprof does not end (its transport, a disk or a debugger holds it): leave "
                         "the memory in place, and try again");
    if (!wait_for_handlers(until_ns))
        return ep_refuse(-EBUSY, "a thread still uses the profiler's memory (it is in a long pause, or a debugger has "
                                 "stopped it): leave the memory in place, and try again");
    if (!ep)
        return -ESRCH;
    leaving = NULL;
    ep_port_sampling_stop(); /* a thread that stayed may have armed its timer */
    if (ep_collect_abandon(ep)) {
        leaving_clean = false;
        ep_stats_fill(ep, &final_stats);
    }
    return leaving_clean ? 0 : -ETIMEDOUT;
}

/* Without what ep_start() itself used since `start_ns` of this thread's CPU time. */
static void count_earlier(const struct ep *ep, uint64_t start_ns)
{
    if (ep->config.flags & EP_SINCE_FORK)
        ep_thread_residual(ep->identity.pid,
                           (int64_t)(ep_port_process_cpu_ns() - (ep_port_thread_cpu_ns() - start_ns)));
}

static int start_pipeline(struct ep *ep)
{
    uint64_t start_ns = ep_port_thread_cpu_ns();
    uint32_t period_ns = 0;
    int error = transport_open(ep);
    if (error)
        return error;
    ep->unwinder.modules.next_base = EP_FRAME_FIRST_ADDRESS;
    ep->unwinder.modules.generation = ep_port_modules_generation();
    error = ep_modules_read(true);
    if (error) {
        error = error < 0 ? ep_refuse(error, "cannot list the loaded modules")
                          : ep_refuse(-EINVAL, "the port's ep_port_modules_scan() must return 0 or a negative error");
    } else {
        ep_segment_begin(ep);
        ep->collect->interval_start_ns = ep_port_uptime_ns();
        ep->collect->interval_due_ns = ep->collect->interval_start_ns + ep->interval_ns;
        ep->collect->depth_limit = EP_MAX_DEPTH;
        ep_level_begin(ep); /* from here on hooks record events */
        period_ns =
            ep->collect->timers_ns; /* read before threads_start(): afterwards it belongs to the collect thread */
        error = threads_start(ep);
    }
    if (!error) {
        error = ep_port_sampling_start(ep->port_memory, ep->threads, period_ns, ep->config.flags & EP_CLOCKS);
        if (error >= 0) {
            ep_count(ep, EP_COUNT_THREADS, (uint64_t)error);
            count_earlier(ep, start_ns);
            return 0;
        }
        error = ep_refuse(error, error == -EBUSY ? "no signal is free for profiling" : "cannot start sampling");
        ep_level_end();
        (void)handlers_leave(); /* threads may have been armed before the failure */
        threads_stop(ep, 0);
    }
    if (unended)
        unclosed = ep;
    else
        transport_close(ep);
    return error;
}

static uint32_t message_most(void)
{
    uint32_t least = UINT32_MAX;

    EP_EACH_FEATURE (at, message_most) {
        const uint32_t most = at.feature->message_most();
        least = most < least ? most : least;
    }
    return least;
}

int ep_start(const struct ep_config *config)
{
    struct ep *ep;

    if (ep_running())
        return ep_refuse(-EALREADY, "already running");
    const char *forbidden = ep_port_forbidden();
    if (forbidden)
        return ep_complain(-EPERM, "a seccomp filter does not permit ", forbidden, "()");
    if (settle(ep_port_uptime_ns() + HANDLERS_LEAVE_NS) == -EBUSY)
        return -EBUSY;
    int error = ep_settings_check(config);
    if (error)
        return error;
    if (ep_layout(config, &ep) != 0)
        return ep_refuse(-ENOMEM, "memory_size: too small for this configuration");
    ep_port_identity(&ep->identity);
    error = ep_settings_apply(ep, config);
    if (error)
        return error;
    ep->deliver->message_bytes = message_most();
    ep->started_ns = ep_port_uptime_ns();
    ep_labels_clear(ep);
    while (ep->run == 0)
        ep_port_random(&ep->run, sizeof ep->run);
    ep->unwinder.hijack_stub = ep_port_hijack_stub();
    EP_EACH_FEATURE (at, start)
        at.feature->start(ep);
    ep_publish(ep);
    error = start_pipeline(ep);
    if (!error) {
        ever_started = true;
        return 0;
    }
    ep_level_end();
    ep_publish(NULL);
    return handlers_leave() && !unended ? error : -EBUSY;
}

/* Counts as lost what is still undelivered. Returns whether there was nothing. */
static bool count_undelivered(struct ep *ep)
{
    const struct ep_box_header *header;
    struct ep_sums sums;

    if (!ep->deliver->transport)
        return true;
    ep_tree_sum(&ep->collect->tree, ep->collect->tree.nodes, &sums);
    bool clean = sums.kinds == 0;
    EP_EACH_FEATURE (at, end)
        at.feature->end(ep);
    ep_lose(ep, EP_LOSS_STOPPED, ep_samples_of(ep, &sums), sums.value[EP_KIND_CPU] - sums.lost_ns);
    for (; (header = ep_outbox_peek(&ep->deliver->outbox)) != NULL; ep_outbox_pop(&ep->deliver->outbox)) {
        ep_lose(ep, EP_LOSS_STOPPED, header->samples, header->cpu_ns - header->lost_ns);
        clean = false;
    }
    return clean;
}

/* Delivers and ends edgeprof's threads, also if a thread of the service still holds the profiler after half the time.
 * False: it holds it while it starts parked threads, whose end nobody can wait for yet. */
static bool wind_down(struct ep *ep, uint64_t now, uint64_t deadline_ns)
{
    const uint64_t half = (deadline_ns - now) / 2;

    ep_port_sampling_stop();
    ep_level_end();
    if (!wait_for_handlers(now + (half < HANDLERS_LEAVE_NS ? half : HANDLERS_LEAVE_NS)) && !manual(ep) &&
        ep_threads_resume(ep) == 0 && !atomic_load(&ep->threads_run))
        return false;
    ep_port_sampling_stop(); /* a thread that was just starting may have armed its timer after the first call */
    threads_stop(ep, deadline_ns);
    if (unended)
        unclosed = ep;
    else
        transport_close(ep);
    leaving_clean = !unended && count_undelivered(ep);
    ep_stats_fill(ep, &final_stats);
    atomic_store(&ep->parked, false); /* no thread that stays may start them again */
    ep_publish(NULL);
    leaving = ep;
    return true;
}

int ep_stop(uint32_t deadline_ms)
{
    const uint64_t now = ep_port_uptime_ns(), deadline = now + (uint64_t)deadline_ms * MS;
    struct ep *ep = ep_running();
    const bool ended = !ep || wind_down(ep, now, deadline);
    int error = settle(deadline);

    if (!ended && error == -ESRCH) { /* the thread that was starting others has left */
        (void)wind_down(ep, now, deadline);
        error = settle(deadline);
    }
    if (error == -EBUSY)
        (void)atomic_fetch_add(&busy_stops, 1);
    return error;
}

int ep_stats_get(struct ep_stats *stats)
{
    struct ep *ep = ep_hold();

    if (ep) {
        ep_stats_fill(ep, stats);
        ep_release();
    } else if (ever_started) {
        *stats = final_stats;
    } else {
        return -ESRCH;
    }
    stats->busy_stops = atomic_load(&busy_stops);
    return 0;
}

int ep_flush(void)
{
    struct ep *ep = ep_hold();

    if (!ep)
        return -ESRCH;
    atomic_store(&ep->flush, true);
    ep_collect_wake(ep);
    ep_release();
    return 0;
}

int ep_collect(void)
{
    struct ep *ep = ep_running();

    if (!ep || !manual(ep))
        return -ESRCH;
    uint64_t start_ns = ep_port_thread_cpu_ns();
    ep_collect_round(ep);
    ep_count(ep, EP_COUNT_COLLECT_CPU_NS, ep_port_thread_cpu_ns() - start_ns);
    return 0;
}

int ep_deliver(uint32_t deadline_ms)
{
    struct ep *ep = ep_running();

    if (!ep || !manual(ep))
        return -ESRCH;
    uint64_t start_ns = ep_port_thread_cpu_ns();
    int error = ep->deliver->transport ? ep_deliver_round(ep, ep_port_uptime_ns() + (uint64_t)deadline_ms * MS) : 0;
    ep_count(ep, EP_COUNT_DELIVER_CPU_NS, ep_port_thread_cpu_ns() - start_ns);
    return error;
}

void ep_forked(void)
{
    ep_running_forget();
    leaving = unclosed = NULL;
    unended = 0;
    EP_EACH_FEATURE (at, forked)
        at.feature->forked();
}
