/*
 * Finds the process' threads in /proc/self/task, by raw getdents64, because opendir() would allocate.
 */
#include "linux.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Offsets in the kernel's struct linux_dirent64: d_ino, d_off, d_reclen, d_type, d_name. */
#define RECORD_SIZE_AT 16
#define NAME_AT        19

struct visit {
    void (*each)(uint32_t tid);
    uint32_t here; /* the calling thread's number */
    bool met;      /* it was among them */
};

static void visit_entry(const char *record, struct visit *visit)
{
    const char *name = record + NAME_AT;
    uint64_t tid = ep_linux_number(&name);

    if (tid > 0 && tid <= UINT32_MAX && *name == 0) {
        visit->met |= tid == visit->here;
        visit->each((uint32_t)tid);
    }
}

static void visit_entries(const char *bytes, long size, struct visit *visit)
{
    for (long at = 0; at + NAME_AT < size;) {
        uint16_t record_size;
        __builtin_memcpy(&record_size, bytes + at + RECORD_SIZE_AT, sizeof record_size);
        if (record_size < NAME_AT || record_size > size - at)
            return;
        visit_entry(bytes + at, visit);
        at += record_size;
    }
}

/* A /proc of another namespace has other numbers, of which none is a thread here. The first thread's is known. */
int ep_linux_tasks(void (*each)(uint32_t tid))
{
    struct visit visit = {.each = each, .here = (uint32_t)syscall(SYS_gettid)};
    char bytes[2048];
    long got;
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    while ((got = syscall(SYS_getdents64, fd, bytes, sizeof bytes)) > 0)
        visit_entries(bytes, got, &visit);
    int error = got < 0 ? -errno : 0;
    (void)close(fd);
    if (error == 0 && !visit.met)
        each((uint32_t)getpid());
    return error;
}
