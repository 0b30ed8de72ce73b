/*
 * Finds what processes left that have ended. Whether a process still has its memory is known by a lease: the kernel
 * grants a read lease of a file only if nobody has it open or mapped for writing. So process ids of other namespaces,
 * zombies and exec need no rules. A lock keeps two processes that start from reading the same file.
 *
 *   ep_port_outlived_next -> candidate_open   each name of the folder once
 *                         -> file_check       owner, links, lock, lease
 *                         -> reason_of        from the name: PID-TIME-KILLS
 */
#include "linux.h"
#include "outlive.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <edgeprof/port.h>

#define MEMORY_MOST (1u << 30)
#define TMPFS       0x01021994
#define RAMFS       0x858458f6
/* Of the kernel's struct linux_dirent64: d_reclen, d_name. */
#define RECORD_SIZE_AT 16
#define NAME_AT        19

static char folder[256];
static int folder_open; /* its descriptor and 1; 0: closed */
static struct {
    char bytes[2048];
    long size, at;
} names;
static char name[64]; /* of the current file */

/* ---- the folder ---- */

int ep_port_outlive_open(const char *path)
{
    struct statfs info;

    if (path[0] != '/' || strlen(path) >= sizeof folder)
        return -EINVAL;
    memcpy(folder, path, strlen(path) + 1);
    const int fd = ep_linux_folder_open(path, true);
    if (fd < 0)
        return fd;
    const int error = fstatfs(fd, &info) != 0 ? -errno : 0;
    if (error || ((uint32_t)info.f_type != TMPFS && (uint32_t)info.f_type != RAMFS)) {
        (void)close(fd);
        return error ? error : -EMEDIUMTYPE;
    }
    folder_open = fd + 1;
    names.size = names.at = 0;
    return 0;
}

int ep_port_outlive_begin(struct ep_config *config, const struct ep_own_text *own_text, bool at_once)
{
    if (folder_open)
        (void)close(folder_open - 1);
    folder_open = 0;
    return ep_linux_outlive_begin(config, own_text, folder, ep_linux_oom_kills(), at_once);
}

/* Copies the next name that is not hidden to `name`. A longer one is nobody's that has written here. */
static bool name_next(void)
{
    for (;;) {
        if (names.at + NAME_AT >= names.size) {
            names.at = 0;
            names.size = syscall(SYS_getdents64, folder_open - 1, names.bytes, sizeof names.bytes);
            if (names.size <= NAME_AT)
                return false;
        }
        uint16_t record_size;
        const char *record = names.bytes + names.at;
        memcpy(&record_size, record + RECORD_SIZE_AT, sizeof record_size);
        if (record_size < NAME_AT || record_size > names.size - names.at)
            return false;
        names.at += record_size;
        const size_t size = strlen(record + NAME_AT);
        if (record[NAME_AT] < '0' || record[NAME_AT] > '9' || size >= sizeof name)
            continue;
        memcpy(name, record + NAME_AT, size + 1);
        return true;
    }
}

/* ---- one file ---- */

uint8_t *ep_linux_outlived_read(int fd, size_t *size)
{
    struct stat info;
    size_t done = 0;

    *size = 0;
    if (fstat(fd, &info) != 0 || info.st_size <= (off_t)EP_OUTLIVE_HEAD || info.st_size >= (off_t)MEMORY_MOST)
        return NULL;
    *size = (size_t)info.st_size;
    uint8_t *copy = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return NULL;
    while (done < *size) {
        const ssize_t got = pread(fd, copy + done, *size - done, (off_t)done);
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    if (done == *size)
        return copy;
    (void)munmap(copy, *size);
    return NULL;
}

/* Returns 0; -EAGAIN: a process has it; -EPERM: it is not ours. */
static int file_check(int fd)
{
    struct stat info;

    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() || info.st_nlink > 1)
        return -EPERM;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
        return -EAGAIN;
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    return fstat(fd, &info) == 0 && info.st_nlink == 1 ? 0 : -EAGAIN; /* 0: another one was quicker */
}

static uint64_t hexadecimal(const char *at)
{
    uint64_t number = 0;

    for (; (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f'); at++)
        number = number << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    return number;
}

uint64_t ep_linux_oom_kills(void)
{
    static const char key[] = "\noom_kill ";
    char text[8192];
    size_t size = 0;
    const int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && size < sizeof text - 1) {
        const ssize_t got = read(fd, text + size, sizeof text - 1 - size);
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    if (fd >= 0)
        (void)close(fd);
    text[size] = 0;
    const char *at = strstr(text, key);
    if (!at)
        return 0;
    at += sizeof key - 1;
    return ep_linux_number(&at);
}

static const char *reason_of(void)
{
    const char *at = name, *kills = strrchr(name, '-');
    const uint64_t pid = ep_linux_number(&at);

    if (pid == (uint64_t)getpid())
        return "it has called exec";
    if (kills && ep_linux_oom_kills() > hexadecimal(kills + 1))
        return "it was killed, probably by the kernel for want of memory, which has killed since it started";
    return "it was killed, has crashed, or has called exit_group()";
}

bool ep_port_outlived_next(struct ep_outlived_file *file)
{
    while (name_next()) {
        const int fd = openat(folder_open - 1, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        const int error = fd >= 0 ? file_check(fd) : errno == ENOENT ? -EAGAIN : -EPERM;
        if (error == -EAGAIN) {
            if (fd >= 0)
                (void)close(fd);
            continue;
        }
        *file = (struct ep_outlived_file){.name = name, .reason = reason_of(), .fd = fd};
        if (!error)
            file->left = ep_linux_outlived_read(fd, &file->size);
        file->memory_size = 2 * file->size;
        if (file->left)
            file->memory = mmap(NULL, file->memory_size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (file->memory != MAP_FAILED)
            return true;
        file->memory = NULL;
        ep_port_outlived_done(file, false);
    }
    return false;
}

/* What is not ours is never removed. */
void ep_port_outlived_done(const struct ep_outlived_file *file, bool remove)
{
    if (remove && file->fd >= 0 && file_check(file->fd) == 0)
        (void)unlinkat(folder_open - 1, file->name, 0);
    if (file->memory)
        (void)munmap(file->memory, file->memory_size);
    if (file->left)
        (void)munmap(file->left, file->size);
    if (file->fd >= 0)
        (void)close(file->fd);
}
