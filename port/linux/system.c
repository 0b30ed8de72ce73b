/*
 * Clocks, random numbers, identity, small files of /proc. Only raw calls that neither allocate nor lock.
 */
#include "linux.h"
#include <edgeprof/edgeprof.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* A wall clock before this (2020-09-13) is not set. */
#define PLAUSIBLE_UNIX_NS 1600000000000000000u

EP_LINUX_CALLS uint64_t ep_linux_clock_ns(int clock)
{
    struct timespec now = {0};

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ep_port_uptime_ns(void)
{
    return ep_linux_clock_ns(CLOCK_BOOTTIME);
}

void *ep_port_memory(size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return bytes != MAP_FAILED ? bytes : NULL;
}

uint64_t ep_port_unix_ns(void)
{
    uint64_t now = ep_linux_clock_ns(CLOCK_REALTIME);

    return now >= PLAUSIBLE_UNIX_NS ? now : 0;
}

uint64_t ep_port_thread_cpu_ns(void)
{
    return ep_linux_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* By the kernel's struct: two times, then figures of which the sixth is ru_majflt. It leaves errno alone. */
uint32_t ep_port_thread_faults(void)
{
    enum { MAJOR_FAULTS = 9 };
    long usage[18] = {0};
    int kept = errno;

    (void)syscall(SYS_getrusage, RUSAGE_THREAD, usage);
    errno = kept;
    return (uint32_t)usage[MAJOR_FAULTS];
}

uint64_t ep_port_process_cpu_ns(void)
{
    return ep_linux_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void ep_port_random(void *bytes, size_t size)
{
    uint8_t *at = bytes;

    if (getrandom(bytes, size, GRND_NONBLOCK) == (ssize_t)size)
        return;
    /* Early in boot, before the kernel's pool is ready: ids and phases only need to differ. */
    uint64_t state = ep_linux_clock_ns(CLOCK_MONOTONIC) ^ (uint64_t)getpid() << 32;
    for (size_t i = 0; i < size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        at[i] = (uint8_t)(state >> 56);
    }
}

int ep_linux_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    text[0] = 0;
    if (fd < 0)
        return -errno;
    ssize_t got = read(fd, text, size - 1);
    int error = got < 0 ? -errno : 0;
    (void)close(fd);
    if (error)
        return error;
    text[got] = 0;
    return (int)got;
}

uint64_t ep_linux_number(const char **text)
{
    uint64_t value = 0;

    while (**text >= '0' && **text <= '9')
        value = value * 10 + (uint64_t)(*(*text)++ - '0');
    return value;
}

static const char *arch(const char *machine)
{
    if (strncmp(machine, "aarch64", 7) == 0 && sizeof(void *) == 8)
        return "aarch64";
    if (strncmp(machine, "arm", 3) == 0 || strncmp(machine, "aarch64", 7) == 0)
        return "arm";
    return "x86_64";
}

void ep_linux_text_copy(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);

    if (length >= size)
        length = size - 1;
    memcpy(to, from, length);
    to[length] = 0;
}

size_t ep_linux_number_put(char *to, uint64_t number, unsigned base)
{
    size_t digits = 1;

    for (uint64_t rest = number; rest >= base; rest /= base)
        digits++;
    to[digits] = 0;
    for (size_t i = digits; i > 0; i--, number /= base)
        to[i - 1] = "0123456789abcdef"[number % base];
    return digits;
}

void ep_port_identity(struct ep_identity *identity)
{
    struct utsname name;
    char path[256];

    *identity = (struct ep_identity){.pid = (uint32_t)getpid(), .arch = "unknown"};
    if (uname(&name) == 0) {
        ep_linux_text_copy(identity->host, sizeof identity->host, name.nodename);
        identity->arch = arch(name.machine);
    }
    int got = ep_linux_read("/proc/sys/kernel/random/boot_id", identity->boot_id, sizeof identity->boot_id);
    while (got > 0 && identity->boot_id[got - 1] == '\n')
        identity->boot_id[--got] = 0;
    ep_linux_program_path(path, sizeof path);
    const char *slash = strrchr(path, '/');
    ep_linux_text_copy(identity->executable, sizeof identity->executable, slash ? slash + 1 : path);
}

/* O_NONBLOCK: no waiting for a pipe's other end. */
int ep_port_file_read(const char *path, char *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    size_t got = 0;
    ssize_t now = 1;
    char more;

    if (fd < 0)
        return -errno;
    while (got < size && (now = read(fd, bytes + got, size - got)) > 0)
        got += (size_t)now;
    if (got == size)
        now = read(fd, &more, 1);
    int error = now < 0 ? -errno : now > 0 ? -EFBIG : 0;
    (void)close(fd);
    return error ? error : (int)got;
}

int ep_port_forks(void (*child)(void))
{
    return -pthread_atfork(NULL, NULL, child);
}

const char *ep_port_env(const char *name)
{
    return secure_getenv(name);
}

int ep_linux_task_read(uint32_t tid, const char *name, char *text, size_t size)
{
    char path[48] = "/proc/self/task/";
    size_t at = strlen(path);

    at += ep_linux_number_put(path + at, tid, 10);
    ep_linux_text_copy(path + at, sizeof path - at, name);
    return ep_linux_read(path, text, size);
}

void ep_port_thread_name(uint32_t tid, char *name, size_t size)
{
    int got = ep_linux_task_read(tid, "/comm", name, size);

    if (got > 0 && name[got - 1] == '\n')
        name[got - 1] = 0;
}

size_t ep_port_copy(uint32_t tid, uintptr_t from, void *to, size_t size)
{
    struct iovec local = {.iov_base = to, .iov_len = size}, remote = {.iov_base = (void *)from, .iov_len = size};
    ssize_t got = process_vm_readv((pid_t)tid, &local, 1, &remote, 1, 0);

    return got > 0 ? (size_t)got : 0;
}

EP_LINUX_CALLS unsigned ep_port_descriptor_wait(int fd)
{
    struct stat file;
    int kept = errno;
    bool known = fstat(fd, &file) == 0;

    errno = kept;
    if (known && S_ISSOCK(file.st_mode))
        return EP_WAIT_NETWORK;
    return !known || S_ISREG(file.st_mode) || S_ISBLK(file.st_mode) ? EP_WAIT_DISK : EP_WAIT_OTHER;
}
