/*
 * Seccomp filters. One that kills for a system call that edgeprof makes would end the program at a moment that has
 * nothing to do with what the program did. So edgeprof sees filters come, runs them for each call of its list
 * (filter_calls.c), and ends before such a filter is set.
 *
 *   the program sets a filter   prctl(), syscall(): preload_filter.c, filter_wrap.c
 *     by its main thread, or for all threads (TSYNC), or strict mode: profiling ends; what was measured is delivered
 *     by another thread for itself: only that thread is not profiled any more
 *   the process starts below a filter: filter_start.c
 *
 * Errno values are no reason: edgeprof lives with them. A signal (SECCOMP_RET_TRAP), a tracer and a supervisor are,
 * because what they do with an unexpected call is not known. Not seen: a filter that is set by a system call of the
 * program's own (Go, static programs, Chromium), and a later change of mind of a supervisor.
 */
#include "filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>

#include "linux.h"

#if defined __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH AUDIT_ARCH_ARM
#endif

#define STOP_MS      1000u
#define KNOWN_FLAGS  0x3fu
#define CAUSE_FILTER "sets a seccomp filter that does not permit edgeprof's system call "
#define CAUSE_TSC    "forbids to read the processor's cycle counter by "
#define NAME_STRICT  "futex" /* the first call after strict mode, which permits read, write, exit and rt_sigreturn */

/* Only programs that start them have them. */
extern int ep_pull_stop(void) __attribute__((weak));
extern int ep_control_stop(void) __attribute__((weak));
extern void ep_crash_stop(void) __attribute__((weak));

static void stop(void)
{
    if (ep_pull_stop)
        (void)ep_pull_stop();
    if (ep_control_stop)
        (void)ep_control_stop();
    (void)ep_stop(STOP_MS);
    if (ep_crash_stop)
        ep_crash_stop();
}

void (*ep_linux_filter_end)(void);

static _Atomic(const char *) met;
static _Thread_local bool is_here;

const char *ep_linux_filter_met(void)
{
    return atomic_load_explicit(&met, memory_order_acquire);
}

void ep_linux_filter_is_met(const char *call)
{
    atomic_store_explicit(&met, call, memory_order_release);
}

bool ep_linux_filter_is_here(void)
{
    return is_here;
}

/* ---- what a filter would do ---- */

static bool is_survived(uint32_t verdict, bool must_return)
{
    const uint32_t action = verdict & SECCOMP_RET_ACTION_FULL;

    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG || (action == SECCOMP_RET_ERRNO && !must_return);
}

const struct ep_linux_call *ep_linux_filter_meets(const struct sock_filter *program, unsigned length)
{
    struct seccomp_data data = {.arch = ARCH};

    for (unsigned i = 0; i < ep_linux_call_count; i++) {
        const struct ep_linux_call *call = &ep_linux_calls[i];
        data.nr = call->number;
        for (unsigned at = 0; at < EP_LINUX_FILTER_ARGUMENTS; at++)
            data.args[at] = (__u64)(long)call->arguments[at];
        if (!is_survived(ep_linux_filter_verdict(program, length, &data), call->must_return))
            return call;
    }
    return NULL;
}

/* The kernel answers EFAULT for memory that cannot be read, and libraries ask for that to learn what it knows. True
 * where an earlier filter refuses the call that would tell. */
static bool filter_can_be_read(const void *memory, size_t size)
{
    unsigned char part[512] = {0}, one;

    if (ep_port_copy((uint32_t)getpid(), (uintptr_t)part, &one, 1) != 1)
        return true;
    for (size_t at = 0; at < size; at += sizeof part) {
        const size_t want = size - at < sizeof part ? size - at : sizeof part;
        if (ep_port_copy((uint32_t)getpid(), (uintptr_t)memory + at, part, want) != want)
            return false;
    }
    return true;
}

static const char *meets(const struct sock_fprog *given)
{
    if (!given || !filter_can_be_read(given, sizeof *given) || !given->filter ||
        !filter_can_be_read(given->filter, given->len * sizeof *given->filter) ||
        !ep_linux_filter_is_valid(given->filter, given->len))
        return NULL;
    const struct ep_linux_call *call = ep_linux_filter_meets(given->filter, given->len);
    return call ? call->name : NULL;
}

/* Filters are for threads that cannot gain privileges, or have CAP_SYS_ADMIN. */
static bool may_filter(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {0};

    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
           (syscall(SYS_capget, &header, sets) == 0 && (sets[0].effective & (1u << CAP_SYS_ADMIN)) != 0);
}

/* ---- what edgeprof does then ---- */

extern void ep_notice_line(const char *line) __attribute__((weak)); /* if the program has ep_notice_to() */

static void say(const char *who, const char *cause, const char *call)
{
    const char *const parts[] = {who, " from here on: the program ", cause, call, "()"};
    char line[256];
    size_t at = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t length = strlen(parts[i]), room = sizeof line - 1 - at;
        memcpy(line + at, parts[i], length < room ? length : room);
        at += length < room ? length : room;
    }
    line[at] = 0;
    if (ep_notice_line)
        ep_notice_line(line);
}

static void leave_process(const char *cause, const char *call)
{
    const int state = ep_linux_cancel_off();
    struct ep *ep = ep_hold();

    ep_linux_here_set_own(true);
    if (ep) {
        ep_release();
        say("nothing is profiled", cause, call);
    }
    (ep_linux_filter_end ? ep_linux_filter_end : stop)();
    ep_linux_pins_settle();
    ep_linux_here_set_own(false);
    ep_linux_filter_is_met(call);
    ep_linux_cancel_back(state);
}

static void leave_thread(const char *call)
{
    const int state = ep_linux_cancel_off();

    ep_threads_needed(); /* parked ones cannot be started from below the filter */
    say("a thread is not profiled", CAUSE_FILTER, call);
    ep_linux_thread_ends();
    ep_linux_here_set_own(true);
    is_here = true;
    ep_linux_cancel_back(state);
}

/* Errno is kept. */
static void comes(const char *call, bool all)
{
    const int kept = errno;

    if (call && (uint32_t)syscall(SYS_gettid) != (uint32_t)getpid() && !all)
        leave_thread(call);
    else if (call)
        leave_process(CAUSE_FILTER, call);
    errno = kept;
}

static bool is_over(void)
{
    return is_here || ep_linux_filter_met();
}

void ep_linux_filter_syscall(unsigned long operation, unsigned long flags, const void *program)
{
    const int kept = errno;

    if (is_over())
        return;
    if (operation == SECCOMP_SET_MODE_STRICT && flags == 0 && !program)
        comes(NAME_STRICT, false);
    else if (operation == SECCOMP_SET_MODE_FILTER && (flags & ~(unsigned long)KNOWN_FLAGS) == 0 && program &&
             may_filter())
        comes(meets(program), (flags & SECCOMP_FILTER_FLAG_TSYNC) != 0);
    errno = kept;
}

/* Reading the counter is then SIGSEGV, for this thread and those that it creates; no scan sees of which. */
static void counter_ends(void)
{
    const int kept = errno;
    int state;

    if (!is_over() && prctl(PR_GET_TSC, &state, 0, 0, 0) == 0) /* else this kernel does not know the call */
        leave_process(CAUSE_TSC, "prctl");
    errno = kept;
}

void ep_linux_filter_prctl(int option, unsigned long mode, const void *program)
{
    if (option == PR_SET_TSC && mode == PR_TSC_SIGSEGV)
        counter_ends();
    if (option == PR_SET_SECCOMP && mode == SECCOMP_MODE_STRICT)
        ep_linux_filter_syscall(SECCOMP_SET_MODE_STRICT, 0, NULL);
    else if (option == PR_SET_SECCOMP && mode == SECCOMP_MODE_FILTER)
        ep_linux_filter_syscall(SECCOMP_SET_MODE_FILTER, 0, program);
}
