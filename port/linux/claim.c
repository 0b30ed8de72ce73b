/*
 * One profiler a process. Two libraries of a process may each contain edgeprof; both would count the whole process. The
 * first that starts maps a page of a file with a name that /proc/self/maps shows. The others find it and have no CPU
 * samples, but the events of their own library. A forked child does not have the page. Context: init.
 */
#include "linux.h"
#include "sampler.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define NAME       "edgeprof-profiles"
#define SHOWN      "/memfd:" NAME " "
#define PAGE_BYTES 4096u
#define TRIALS     12u
#define PAUSE_NS   100000u /* at most; doubled with each trial */

static void *page; /* NULL: not claimed */

static bool is_other(const struct ep_linux_mapping *mapping, void *found)
{
    *(bool *)found = strstr(mapping->path, SHOWN) != NULL && mapping->start != (uintptr_t)page;
    return !*(bool *)found;
}

static bool is_mapped_by_other(void)
{
    bool found = false;

    (void)ep_linux_maps_each(is_other, &found);
    return found;
}

/* Without the file, which a filter may refuse and kernels before 3.17 lack, two profilers do not notice each other. */
static bool map_page(void)
{
    const int fd = memfd_create(NAME, MFD_CLOEXEC);
    if (fd < 0)
        return false;
    page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (page == MAP_FAILED)
        page = NULL;
    else
        (void)madvise(page, PAGE_BYTES, MADV_DONTFORK);
    return page != NULL;
}

/* The address of a copy's own data differs from that of every other copy in the process. */
static void pause_differently(unsigned trial)
{
    const uint64_t mixed = ((uintptr_t)&page ^ ep_port_uptime_ns()) * 0x9e3779b97f4a7c15u;
    const struct timespec pause = {.tv_nsec = (long)((mixed >> 40) % (PAUSE_NS << trial))};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* Looks once its own page is there: of two that start at the same moment, one or both see the other and go back. A page
 * that is there before a look stays for the look, so two never both stay. After the first trial, which mostly is the
 * only one, a look without a page comes first. One that gives up there has no page itself, so not all of them do. */
static bool claim(void)
{
    for (unsigned trial = 0; trial < TRIALS; trial++) {
        if (trial > 0 && is_mapped_by_other())
            return false;
        if (page || !map_page() || !is_mapped_by_other())
            return true;
        ep_linux_claim_end();
        pause_differently(trial);
    }
    return false;
}

extern void ep_notice_line(const char *line) __attribute__((weak)); /* if the program has ep_notice_to() */

bool ep_linux_claim(void)
{
    if (claim())
        return true;
    if (ep_notice_line)
        ep_notice_line("another library of this process contains edgeprof and counts its CPU time; this profiler does "
                       "not count it again");
    return false;
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
