/*
 * The mapping of the process context (OTEP 4719): readers find it in /proc/PID/maps by the name of its memory file, or,
 * where no such file is allowed, by the name that prctl() gives it on kernels with CONFIG_ANON_VMA_NAME.
 */
#include "linux.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME          "OTEL_CTX"
#define CLOEXEC       1u
#define ALLOW_SEALING 2u
#define NOEXEC_SEAL   8u         /* Linux 6.3 */
#define SET_VMA       0x53564d41 /* Linux 5.17 */
#define SET_VMA_NAME  0

static struct {
    void *memory;
    size_t size;
    pid_t pid;
    bool named; /* by its file */
} context;

/* ---- another library's ---- */

static bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool context_find(const struct ep_linux_mapping *mapping, void *found)
{
    *(bool *)found = starts_with(mapping->path, "/memfd:" NAME) ||
                     starts_with(mapping->path, "[anon_shmem:" NAME "]") ||
                     starts_with(mapping->path, "[anon:" NAME "]");
    return !*(bool *)found;
}

static bool is_published(void)
{
    bool found = false;

    (void)ep_linux_maps_each(context_find, &found);
    return found;
}

/* ---- this process' ---- */

/* The file, -1: it is not allowed. */
static int file_make(size_t size)
{
    if (ep_linux_is_beyond_limit(size))
        return -1;
    int fd = (int)syscall(SYS_memfd_create, NAME, CLOEXEC | ALLOW_SEALING | NOEXEC_SEAL);

    if (fd < 0)
        fd = (int)syscall(SYS_memfd_create, NAME, CLOEXEC | ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, (off_t)size) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static int context_map(size_t size)
{
    int fd = file_make(size);
    int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    int error = memory == MAP_FAILED ? -errno : 0;

    if (fd >= 0)
        (void)close(fd);
    if (error)
        return error;
    if (madvise(memory, size, MADV_DONTFORK) != 0) {
        error = -errno;
        (void)munmap(memory, size);
        return error;
    }
    context.memory = memory;
    context.size = size;
    context.pid = getpid();
    context.named = fd >= 0;
    return 0;
}

bool ep_port_context_mine(void **memory)
{
    *memory = context.memory;
    return context.memory && context.pid == getpid();
}

int ep_port_context_open(size_t size, void **memory)
{
    if (ep_port_context_mine(memory))
        return 1;
    if (is_published())
        return -EEXIST;
    int error = context_map(size);
    *memory = context.memory;
    return error;
}

/* Readers may trace this very call, so it is made even where the kernel cannot name memory. */
int ep_port_context_changed(void)
{
    int error = prctl(SET_VMA, SET_VMA_NAME, context.memory, context.size, NAME);

    return error == 0 || context.named ? 0 : -ENOTSUP;
}

void ep_port_context_close(void)
{
    if (context.memory && context.pid == getpid())
        (void)munmap(context.memory, context.size);
    context.memory = NULL;
}
