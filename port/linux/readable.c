/*
 * Which memory a handler may read. Only the kernel knows: another thread may change mappings at any time, and
 * /proc/self/maps takes too long. A futex's wait compares the word at an address first, so it says whether the word can
 * be read; it waits for no time.
 */
#include "linux.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A word that is not there, as far as possible: then the call returns at once. */
#define UNLIKELY_WORD 0x9e3779b9u

static int wait_result(uintptr_t word)
{
    const long long none[2] = {0, 0};
    long result = -1;

#ifdef SYS_futex
    result = syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, UNLIKELY_WORD, none, NULL, 0);
    if (result == 0 || errno != ENOSYS)
        return result == 0 ? 0 : errno;
#endif
#ifdef SYS_futex_time64
    result = syscall(SYS_futex_time64, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, UNLIKELY_WORD, none, NULL, 0);
#endif
    return result == 0 ? 0 : errno;
}

bool ep_port_readable(uintptr_t at)
{
    int kept = errno;
    int error = wait_result(at & ~(uintptr_t)3);

    errno = kept;
    return error == 0 || error == EAGAIN || error == ETIMEDOUT || error == EINTR;
}
