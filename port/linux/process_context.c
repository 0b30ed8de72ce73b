/*
 * The mapping of the process context (OTEP 4719): readers find it in /proc/PID/maps by the name of its memory file, or,
 * where no such file is allowed, by the name that prctl() gives it on kernels with CONFIG_ANON_VMA_NAME.
 */
#include "linux.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME          "OTEL_CTX"
#define CLOEXEC       1u
#define ALLOW_SEALING 2u
#define NOEXEC_SEAL   8u         /* Linux 6.3 */
#define SET_VMA       0x53564d41 /* Linux 5.17 */
#define SET_VMA_NAME  0
#define LINE_MOST     512

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

/* The path is the sixth column. */
static bool line_is_context(const char *line)
{
    for (unsigned column = 0; column < 5; column++) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    return starts_with(line, "/memfd:" NAME) || starts_with(line, "[anon_shmem:" NAME "]") ||
           starts_with(line, "[anon:" NAME "]");
}

/* Whole lines from the file; longer ones are cut. */
static bool is_published(void)
{
    char text[LINE_MOST];
    size_t size = 0;
    bool found = false, within = false;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    for (ssize_t got = 1; fd >= 0 && !found && got > 0;) {
        got = read(fd, text + size, sizeof text - 1 - size);
        size += got > 0 ? (size_t)got : 0;
        text[size] = 0;
        char *at = text, *end;
        while (!found && (end = strchr(at, '\n')) != NULL) {
            *end = 0;
            found = !within && line_is_context(at);
            within = false;
            at = end + 1;
        }
        size = (size_t)(text + size - at);
        memmove(text, at, size + 1);
        if (size == sizeof text - 1) {
            found = !within && line_is_context(text);
            within = true;
            size = 0;
        }
    }
    if (fd >= 0)
        (void)close(fd);
    return found;
}

/* ---- this process' ---- */

/* The kernel would end the process by SIGXFSZ. */
static bool is_beyond_limit(size_t size)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur;
}

/* The file, -1: it is not allowed. */
static int file_make(size_t size)
{
    if (is_beyond_limit(size))
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
