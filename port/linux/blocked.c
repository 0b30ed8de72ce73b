/*
 * Reads other threads from /proc without disturbing them (a signal would end their system calls).
 * /proc/self/task/TID/syscall has pc and sp of a blocked thread, and "running" for all others. A process may read it
 * for its own threads unless it has dropped its privileges. The thread's CPU clock shows if it has run in between.
 * Linked only into programs that dump the stacks of all threads, or watch waits that nobody marks.
 */
#include "linux.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include <edgeprof/hooks.h>

static void (*thread_fn)(uint32_t tid);

static void visit_thread(uint32_t tid)
{
    if (!ep_linux_thread_is_own(tid))
        thread_fn(tid);
}

int ep_port_threads_each(void (*fn)(uint32_t tid))
{
    thread_fn = fn;
    return ep_linux_tasks(visit_thread);
}

static uintptr_t number_hex(const char *text)
{
    uintptr_t value = 0;

    for (text += strncmp(text, "0x", 2) == 0 ? 2 : 0;; text++) {
        if (*text >= '0' && *text <= '9')
            value = value << 4 | (uintptr_t)(*text - '0');
        else if (*text >= 'a' && *text <= 'f')
            value = value << 4 | (uintptr_t)(*text - 'a' + 10);
        else
            return value;
    }
}

/* Returns the last number of the text and cuts it off. */
static uintptr_t number_cut(char *text)
{
    char *space = strrchr(text, ' ');
    uintptr_t value = space ? number_hex(space + 1) : 0;

    if (space)
        *space = 0;
    return value;
}

int ep_port_thread_blocked(uint32_t tid, struct ep_registers *registers, uint64_t *ran_ns)
{
    char text[192]; /* "number argument... sp pc" */
    struct timespec ran;

    if (clock_gettime(ep_linux_cpu_clock(tid), &ran) != 0)
        return -ESRCH;
    int got = ep_linux_task_read(tid, "/syscall", text, sizeof text);
    if (got < 0)
        return got == -ENOENT ? -ESRCH : got;
    if (strncmp(text, "running", 7) == 0)
        return -EAGAIN;
    *ran_ns = (uint64_t)ran.tv_sec * 1000000000u + (uint64_t)ran.tv_nsec;
    *registers = (struct ep_registers){.fp = EP_PORT_UNKNOWN, .lr = EP_PORT_UNKNOWN, .base = EP_PORT_UNKNOWN};
    registers->pc = ep_linux_pc(tid, number_cut(text));
    registers->sp = number_cut(text);
    return registers->pc && registers->sp ? 0 : -EIO;
}

/* System calls that wait for something else than [wait]. Not every architecture has all. */
static const struct waiting_call {
    uint16_t number;
    uint8_t wait;
} waiting_calls[] = {
#ifdef SYS_poll
    {SYS_poll, EP_WAIT_NETWORK},
#endif
#ifdef SYS_select
    {SYS_select, EP_WAIT_NETWORK},
#endif
#ifdef SYS__newselect
    {SYS__newselect, EP_WAIT_NETWORK},
#endif
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, EP_WAIT_IDLE},
#endif
#ifdef SYS_fcntl
    {SYS_fcntl, EP_WAIT_DISK},
#endif
#ifdef SYS_fcntl64
    {SYS_fcntl64, EP_WAIT_DISK},
#endif
#ifdef SYS_nanosleep
    {SYS_nanosleep, EP_WAIT_SLEEP},
#endif
#ifdef SYS_clock_nanosleep
    {SYS_clock_nanosleep, EP_WAIT_SLEEP},
#endif
#ifdef SYS_clock_nanosleep_time64
    {SYS_clock_nanosleep_time64, EP_WAIT_SLEEP},
    {SYS_ppoll_time64, EP_WAIT_NETWORK},
    {SYS_pselect6_time64, EP_WAIT_NETWORK},
    {SYS_recvmmsg_time64, EP_WAIT_NETWORK},
#endif
#ifdef SYS_accept
    {SYS_accept, EP_WAIT_NETWORK},
#endif
    {SYS_ppoll, EP_WAIT_NETWORK},
    {SYS_pselect6, EP_WAIT_NETWORK},
    {SYS_accept4, EP_WAIT_NETWORK},
    {SYS_connect, EP_WAIT_NETWORK},
    {SYS_recvfrom, EP_WAIT_NETWORK},
    {SYS_recvmsg, EP_WAIT_NETWORK},
    {SYS_sendto, EP_WAIT_NETWORK},
    {SYS_sendmsg, EP_WAIT_NETWORK},
    {SYS_recvmmsg, EP_WAIT_NETWORK},
    {SYS_epoll_pwait, EP_WAIT_IDLE},
    {SYS_fsync, EP_WAIT_DISK},
    {SYS_fdatasync, EP_WAIT_DISK},
    {SYS_sync, EP_WAIT_DISK},
    {SYS_flock, EP_WAIT_DISK},
    {SYS_openat, EP_WAIT_DISK},
    {SYS_read, EP_WAIT_BY_DESCRIPTOR},
    {SYS_write, EP_WAIT_BY_DESCRIPTOR},
    {SYS_readv, EP_WAIT_BY_DESCRIPTOR},
    {SYS_writev, EP_WAIT_BY_DESCRIPTOR},
    {SYS_pread64, EP_WAIT_BY_DESCRIPTOR},
    {SYS_pwrite64, EP_WAIT_BY_DESCRIPTOR},
};

static unsigned number_decimal(const char *text)
{
    unsigned value = 0;

    for (; *text >= '0' && *text <= '9'; text++)
        value = 10 * value + (unsigned)(*text - '0');
    return value;
}

unsigned ep_port_thread_wait(uint32_t tid)
{
    char text[192]; /* "number argument... sp pc"; "-1 sp pc" outside a system call */

    if (ep_linux_task_read(tid, "/syscall", text, sizeof text) < 0)
        return EP_WAIT_OTHER;
    if (text[0] == '-') /* a page that comes from a disk */
        return EP_WAIT_DISK;
    const char *first = strchr(text, ' ');
    const unsigned number = number_decimal(text);
    for (unsigned i = 0; first && i < sizeof waiting_calls / sizeof *waiting_calls; i++)
        if (waiting_calls[i].number == number)
            return waiting_calls[i].wait == EP_WAIT_BY_DESCRIPTOR ? ep_port_descriptor_wait((int)number_hex(first + 1))
                                                                  : waiting_calls[i].wait;
    return EP_WAIT_OTHER;
}
