/*
 * The one list of system calls that edgeprof makes on Linux, by itself and through the C library, on its own threads
 * and on those of the program. tests/linux/preload/filter_calls.py checks that it is complete.
 *
 * perf_event_open() is missing: a filter that kills by it is one of a program that asked for perf events by itself.
 */
#include "filter.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define THREAD_FLAGS                                                                                                   \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |                 \
     CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)
#define FUTEX_WAIT_PRIVATELY 128
#define NAME_THREAD          15 /* PR_SET_NAME */

/* clang-format off */
#define CALL(call) {.name = #call, .number = SYS_##call, .arguments = {-1, -1, -1, -1}}
#define CALL_WITH(call, how, ...) {.name = #call, .number = SYS_##call, .probe = how, .arguments = {__VA_ARGS__}}

const struct ep_linux_call ep_linux_calls[] = {
    /* ticks */
    {.name = "rt_sigreturn", .number = SYS_rt_sigreturn, .probe = EP_LINUX_PROBE_NOT, .must_return = true},
    {.name = "restart_syscall", .number = SYS_restart_syscall, .must_return = true},
    CALL(write), CALL(getppid), CALL(kill), /* lines on standard error; in this order for ep_linux_filter_begin() */
    CALL(gettid), CALL(getpid), CALL(rt_sigprocmask), CALL(rt_sigaction), CALL(rt_tgsigqueueinfo), CALL(tgkill),
    CALL(timer_create), CALL(timer_delete), CALL(getrusage),
#ifdef SYS_rt_sigqueueinfo
    CALL(rt_sigqueueinfo),
#endif
#ifdef SYS_timer_settime
    CALL(timer_settime),
#endif
#ifdef SYS_clock_gettime
    CALL(clock_gettime), CALL(clock_getres), CALL(clock_nanosleep),
#endif
#ifdef SYS_clock_gettime32 /* musl's names where time_t has 64 bits and long has 32 */
    CALL(clock_gettime32), CALL(clock_getres_time32), CALL(clock_nanosleep_time32), CALL(timer_settime32),
#endif
#ifdef SYS_futex
    CALL_WITH(futex, EP_LINUX_PROBE_WRONG, 0, FUTEX_WAIT_PRIVATELY),
#endif
#ifdef SYS_futex_time64
    CALL_WITH(futex_time64, EP_LINUX_PROBE_WRONG, 0, FUTEX_WAIT_PRIVATELY), CALL(clock_gettime64),
    CALL(clock_getres_time64), CALL(clock_nanosleep_time64), CALL(timer_settime64), CALL(ppoll_time64),
#endif
    CALL(sched_yield),
    /* threads */
    CALL_WITH(clone, EP_LINUX_PROBE_WRONG, THREAD_FLAGS, -1), CALL(clone3),
    CALL_WITH(prctl, EP_LINUX_PROBE_AS_IS, NAME_THREAD, 0), CALL(setpriority), CALL(set_robust_list), CALL(rseq),
    CALL_WITH(exit, EP_LINUX_PROBE_NOT, 0),
    CALL_WITH(sched_getaffinity, EP_LINUX_PROBE_WRONG, 0, 128),
    /* memory */
    CALL(munmap), CALL(madvise), CALL(mremap), CALL(brk), CALL(process_vm_readv),
#ifdef SYS_mmap
    CALL_WITH(mmap, EP_LINUX_PROBE_AS_IS, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS),
#endif
#ifdef SYS_mmap2
    CALL_WITH(mmap2, EP_LINUX_PROBE_AS_IS, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS),
#endif
    CALL_WITH(mprotect, EP_LINUX_PROBE_AS_IS, 0, 0, PROT_READ | PROT_WRITE),
    /* files */
    CALL(openat), CALL(close), CALL(read), CALL(pread64), CALL(pwrite64), CALL(lseek), CALL(fdatasync), CALL(fsync), CALL(flock),
    CALL(ftruncate), CALL(fcntl), CALL(fchmod), CALL(mkdirat), CALL(unlinkat), CALL(readlinkat), CALL(faccessat),
    CALL(getdents64), CALL(ioctl), CALL(memfd_create), CALL(writev),
#ifdef SYS_fcntl64
    CALL(fcntl64), CALL(ftruncate64), CALL(fstatat64), CALL(fstat64), CALL(_llseek),
#endif
#ifdef SYS_newfstatat
    CALL(newfstatat), CALL(fstat),
#endif
#ifdef SYS_open
    CALL(open), CALL(mkdir), CALL(unlink), CALL(readlink), CALL(access), CALL(poll),
#endif
    CALL_WITH(renameat2, EP_LINUX_PROBE_WRONG, -1, 0, -1, 0),
    /* sockets */
    CALL_WITH(socket, EP_LINUX_PROBE_AS_IS, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), CALL(connect), CALL(sendto),
    CALL(sendmsg), CALL(recvfrom), CALL(recvmsg), CALL(setsockopt), CALL(getsockopt), CALL(getsockname),
    CALL(shutdown), CALL(bind), CALL(listen), CALL(accept4), CALL(ppoll), CALL(eventfd2),
    /* the system */
    CALL(getrandom), CALL(uname), CALL(prlimit64), CALL(geteuid), CALL(sysinfo), CALL(pidfd_open), CALL(pidfd_send_signal), CALL(capget),
};
/* clang-format on */

const unsigned ep_linux_call_count = sizeof ep_linux_calls / sizeof ep_linux_calls[0];
