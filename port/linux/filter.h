/*
 * Private to port/linux: seccomp filters of the program, and what they would do to edgeprof's own system calls.
 */
#ifndef EP_LINUX_FILTER_H
#define EP_LINUX_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

#define EP_LINUX_FILTER_ARGUMENTS 4

/* How the probe of filter_start.c makes a call: with its arguments, with arguments that the kernel refuses, or not. */
enum ep_linux_probe { EP_LINUX_PROBE_WRONG, EP_LINUX_PROBE_AS_IS, EP_LINUX_PROBE_NOT };

/* A system call that edgeprof makes. must_return: the kernel makes it for a thread with ticks, so that even an errno
 * value in its place would harm the program. */
struct ep_linux_call {
    const char *name;
    uint16_t number;
    uint8_t probe;
    bool must_return;
    int32_t arguments[EP_LINUX_FILTER_ARGUMENTS]; /* typical ones, for filters that read them */
};

/* All of them, on this architecture (filter_calls.c). */
extern const struct ep_linux_call ep_linux_calls[];
extern const unsigned ep_linux_call_count;

/* Runs a filter as the kernel does. The program must have passed ep_linux_filter_is_valid(). Returns the filter's
 * verdict, SECCOMP_RET_... Context: any thread. */
uint32_t ep_linux_filter_verdict(const struct sock_filter *program, unsigned length, const struct seccomp_data *data);

/* Returns true if every instruction is one that seccomp has, jumps stay inside, and the last instruction returns: only
 * such a program ends. Context: any thread. */
bool ep_linux_filter_is_valid(const struct sock_filter *program, unsigned length);

/* Returns the first of edgeprof's system calls for which a valid filter would do more than to return an errno value;
 * NULL: none. Context: any thread. */
const struct ep_linux_call *ep_linux_filter_meets(const struct sock_filter *program, unsigned length);

/* The program's prctl() and syscall(): a filter that would end edgeprof's threads, or make them end the program, ends
 * profiling first. filter.c has the rules. Call these before the system call; they keep errno. Context: any thread. */
void ep_linux_filter_prctl(int option, unsigned long mode, const void *program);
void ep_linux_filter_syscall(unsigned long operation, unsigned long flags, const void *program);

/* Returns the name of the system call because of which this process is not profiled any more, or not at all: edgeprof
 * may make no system call. NULL: none. Context: any thread. */
const char *ep_linux_filter_met(void);

/* Notes that name; NULL: none. Context: init. */
void ep_linux_filter_is_met(const char *call);

/* Returns true if this thread has set such a filter for itself alone. Context: any thread. */
bool ep_linux_filter_is_here(void);

/* Returns true if the thread has other seccomp filters than the calling thread, so that it has set them itself or has
 * inherited them from a thread that has. Context: collect. */
bool ep_linux_filter_differs(uint32_t tid);

/* What ends profiling before such a filter; NULL: ep_stop(). The preload library has more to end. */
extern void (*ep_linux_filter_end)(void);

/* The process has just begun, maybe below a filter. Finds out, by a child that makes each call, whether it would be
 * ended. Returns as ep_linux_filter_met(). Context: init. */
const char *ep_linux_filter_begin(void);

#endif
