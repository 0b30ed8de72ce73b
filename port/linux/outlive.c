/*
 * Memory that outlives the process: a file on tmpfs that the process maps.
 *
 *   memory   [.. | private: struct ep | shared: ring, tree, outbox | shared: head | ..]     EP_OUTLIVE_ROOM()
 *   file                              [the same                    | the same     ]
 *
 * The file is written before it is mapped, so a full tmpfs is noticed then, and never by SIGBUS. It is closed at once,
 * so a program that closes all descriptors changes nothing. A child of fork(), also of the bare system call, has
 * neither part: the private one becomes zero there, which is a ring without room, and the shared one is not mapped. So
 * it cannot write into its parent's profile. Its own profiler gets another file.
 */
#include "linux.h"
#include "outlive.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <edgeprof/port.h>

static char path[256];
static uint8_t *shared; /* first page */
static size_t private_size, shared_size;
static pid_t owner;   /* the process that has the file mapped; 0: none */
static bool has_file; /* it is still in its folder */

static long map(void *at, size_t size, int flags, int fd)
{
#ifdef SYS_mmap2
    return syscall(SYS_mmap2, at, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
#else
    return syscall(SYS_mmap, at, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0);
#endif
}

static bool share(int fd)
{
    if (ep_linux_is_beyond_limit(shared_size) || syscall(SYS_write, fd, shared, shared_size) != (long)shared_size ||
        syscall(SYS_madvise, shared - private_size, private_size, MADV_WIPEONFORK) != 0)
        return false;
    if (map(shared, shared_size, MAP_SHARED, fd) != -1 && syscall(SYS_madvise, shared, shared_size, MADV_DONTFORK) == 0)
        return true;
    (void)syscall(SYS_madvise, shared - private_size, private_size, MADV_KEEPONFORK);
    return false;
}

/* Also in a signal handler: system calls only. */
void *ep_port_outlive(void)
{
    const int before = errno;
    const pid_t was = owner;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    owner = getpid(); /* first: a child of a fork() meanwhile has to fill the hole, too */
    const bool done = fd >= 0 && share(fd);

    if (fd >= 0)
        (void)syscall(SYS_close, fd);
    has_file = done;
    if (!done)
        owner = was;
    if (!done && fd >= 0)
        (void)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    errno = before;
    return done ? shared + shared_size - EP_OUTLIVE_HEAD : NULL;
}

/* A forked child: what its parent shares with the file is missing here. At once, or a library that the child opens is
 * mapped there. */
static void fill_hole(void)
{
    if (owner && owner != getpid())
        (void)map(shared, shared_size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    owner = 0;
}

/* ---- the room ---- */

static size_t in_pages(size_t size)
{
    return (size + EP_OUTLIVE_PAGE - 1) & ~(size_t)(EP_OUTLIVE_PAGE - 1);
}

/* Another run may want another size; a late reader may still have the old room, so it stays. */
static uint8_t *room_map(size_t size)
{
    static uint8_t *room;
    static size_t room_size;

    if (room_size == size)
        return room;
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return NULL;
    room = bytes;
    room_size = size;
    return room;
}

static int room_use(struct ep_config *config)
{
    static bool watches;
    const size_t own = ep_outlive_private(config->memory_size);
    uint8_t *room = config->memory;

    if (shared && room == shared - own)
        return 0; /* a forked child, with its parent's settings */
    if (!room)
        room = room_map(EP_OUTLIVE_ROOM(config->memory_size));
    if (!room)
        return -ENOMEM;
    if (!watches && pthread_atfork(NULL, NULL, fill_hole) != 0)
        return -ENOMEM;
    watches = true;
    private_size = in_pages(own);
    shared = room + private_size;
    shared_size = in_pages(config->memory_size - own) + EP_OUTLIVE_HEAD;
    config->memory = shared - own;
    return 0;
}

/* ---- the file ---- */

static bool put(size_t *at, const char *text)
{
    const size_t size = strlen(text);

    if (size >= sizeof path - *at)
        return false;
    memcpy(path + *at, text, size + 1);
    *at += size;
    return true;
}

static bool put_number(size_t *at, uint64_t number, unsigned base, const char *before)
{
    char digits[EP_LINUX_DIGITS];

    (void)ep_linux_number_put(digits, number, base);
    return put(at, before) && put(at, digits);
}

static bool path_make(const char *folder, uint64_t oom_kills)
{
    size_t at = 0;

    return put(&at, folder) && put_number(&at, (uint64_t)getpid(), 10, "/") &&
           put_number(&at, ep_port_uptime_ns(), 16, "-") && put_number(&at, oom_kills, 16, "-");
}

int ep_linux_outlive_begin(struct ep_config *config, const struct ep_own_text *own_text, const char *folder,
                           uint64_t oom_kills, bool at_once)
{
    if (!path_make(folder, oom_kills))
        return -ENAMETOOLONG;
    if (sysconf(_SC_PAGESIZE) != EP_OUTLIVE_PAGE)
        return -EOPNOTSUPP;
    const int error = room_use(config);
    if (error)
        return error;
    void *head = at_once ? ep_port_outlive() : NULL;
    if (at_once && !head)
        return -ENOSPC;
    return ep_outlive_begin(own_text, head);
}

/* Children have it from now on, as they have all memory, so fill_hole() makes no system call: a filter that the program
 * sets next may kill for it. The content stays, because a thread may still be leaving the profiler. */
static bool keep_private(void)
{
    const int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    const bool kept = fd >= 0 && map(shared, shared_size, MAP_PRIVATE, fd) != -1;

    if (fd >= 0)
        (void)close(fd);
    return kept && syscall(SYS_madvise, shared - private_size, private_size, MADV_KEEPONFORK) == 0;
}

void ep_port_outlive_end(void)
{
    if (!has_file || owner != getpid())
        return;
    if (keep_private())
        owner = 0;
    (void)unlink(path);
    has_file = false;
}
