/*
 * Private to the Linux port: calls that need a process with one thread.
 */
#ifndef EP_LINUX_ALONE_H
#define EP_LINUX_ALONE_H

/* The C library's syscall(). */
typedef long ep_linux_alone_call(long number, long a, long b, long c, long d, long e, long f);

/* Makes a system call of two arguments, for which edgeprof's threads may have to end. Returns 0, or -1 with errno.
 * Context: any thread of the program. */
int ep_linux_alone(ep_linux_alone_call *call, long number, long a, long b);

/* What the preload library stops and starts beside the profiler. NULL: nothing. Written before the start. */
struct ep_linux_alone_more {
    void (*stop)(void);
    void (*start)(void);
};

extern struct ep_linux_alone_more ep_linux_alone_more;

#endif
