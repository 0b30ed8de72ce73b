/*
 * Threads other than the calling one as /proc shows them, without disturbing them: a signal would end their system
 * calls. /proc/self/task/TID/syscall says of a thread that sleeps where its stack and its code are, and "running" of
 * all others; the process may always read it of its own threads, unless it gave its privileges up. The thread's CPU
 * clock tells whether it has run in between. Linked only into programs that ask for every thread's stack.
 */
#include "linux.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static void (*wanted)(uint32_t tid);

static void each(uint32_t tid)
{
    if (!ep_linux_thread_is_own(tid))
        wanted(tid);
}

int ep_port_threads_each(void (*fn)(uint32_t tid))
{
    wanted = fn;
    return ep_linux_tasks(each);
}

static uintptr_t hex(const char *text)
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

/* The last number of the text, which is cut off. */
static uintptr_t last(char *text)
{
    char *space = strrchr(text, ' ');
    uintptr_t value = space ? hex(space + 1) : 0;

    if (space)
        *space = 0;
    return value;
}

int ep_port_thread_blocked(uint32_t tid, struct ep_context *context, uint64_t *ran_ns)
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
    *context = (struct ep_context){.fp = EP_PORT_UNKNOWN, .lr = EP_PORT_UNKNOWN, .base = EP_PORT_UNKNOWN};
    context->pc = ep_linux_pc(tid, last(text));
    context->sp = last(text);
    return context->pc && context->sp ? 0 : -EIO;
}
