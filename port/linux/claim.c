/*
 * One profiler a process. Two libraries of a process may each contain edgeprof; both would count the whole process. The
 * first that starts maps a page of a file with a name that /proc/self/maps shows. The others find it and have no CPU
 * samples, but the events of their own library. A forked child does not have the page.
 */
#include "linux.h"
#include "sampler.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define NAME       "edgeprof-profiles"
#define SHOWN      "/memfd:" NAME " "
#define PAGE_BYTES 4096u

static void *page; /* NULL: not claimed */

static bool is_other(const struct ep_linux_mapping *mapping, void *found)
{
    *(bool *)found = strstr(mapping->path, SHOWN) != NULL;
    return !*(bool *)found;
}

static bool is_mapped(void)
{
    bool found = false;

    (void)ep_linux_maps_each(is_other, &found);
    return found;
}

extern void ep_notice_line(const char *line) __attribute__((weak)); /* if the program has ep_notice_to() */

/* Without the file, which a filter may refuse and kernels before 3.17 lack, two profilers do not notice each other. */
bool ep_linux_claim(void)
{
    if (!page && is_mapped()) {
        if (ep_notice_line)
            ep_notice_line(
                "another library of this process contains edgeprof and counts its CPU time; this profiler does "
                "not count it again");
        return false;
    }
    const int fd = page ? -1 : memfd_create(NAME, MFD_CLOEXEC);
    if (fd < 0)
        return true;
    page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (page == MAP_FAILED)
        page = NULL;
    else
        (void)madvise(page, PAGE_BYTES, MADV_DONTFORK);
    return true;
}

void ep_linux_claim_end(void)
{
    if (page)
        (void)munmap(page, PAGE_BYTES);
    page = NULL;
}

void ep_linux_claim_forked(void)
{
    page = NULL;
}
