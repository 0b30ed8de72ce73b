/*
 * Reads other threads from /proc without disturbing them (a signal would end their system calls).
 * /proc/self/task/TID/syscall has pc and sp of a blocked thread, and "running" for all others. A process may read it
 * for its own threads unless it has dropped its privileges. The thread's CPU clock shows if it has run in between.
 * Linked only into programs that dump the stacks of all threads.
 */
#include "linux.h"

#include <errno.h>
#include <string.h>
#include <time.h>

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
