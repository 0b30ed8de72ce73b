/*
 * The bounds of a new thread's stack. The C library puts the thread's block and static TLS at the top of the stack's
 * mapping, within the size given at creation; glibc and musl add the guard below. So end - size is never below the
 * stack.
 *
 * The end is the end of the page of the highest known address: on x86-64 the thread's block; on ARM static TLS, which
 * is above the block, followed by less than a page of the C library's data (ep_linux_tls_above).
 */
#include "thread_start.h"

#include <link.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Maximum gap between the static TLS of two modules, apart from alignment. */
#define TLS_GAP 4096u

/* Bytes of stack between where main()'s return address is kept (on aarch64 below main()'s variables) and the arguments,
 * and of code around the function that calls main(), at most. */
#define START_FRAMES 16384u
#define START_CODE   256u
/* Samples of the main thread before main() or without success, after which nobody looks for its caller any more. */
#define ROOT_TRIALS 32u

/* Maximum size of a main thread's stack, whatever the limit says. */
#define MAIN_STACK_MOST (64u << 20)

static struct {
    uintptr_t page;
    uintptr_t above; /* bytes of static TLS above the thread pointer */
    uintptr_t align; /* alignment of static TLS if larger than a page: the block may be lower by that */
} layout;

static const ElfW(Phdr) * tls_segment(const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            return &info->dlpi_phdr[i];
    return NULL;
}

/* Skips TLS of modules loaded later, which is elsewhere. */
static int tls_visit(struct dl_phdr_info *info, size_t size, void *argument)
{
    const ElfW(Phdr) *tls = tls_segment(info);
    uintptr_t block = (uintptr_t)__builtin_thread_pointer(), start = (uintptr_t)info->dlpi_tls_data;

    (void)size;
    (void)argument;
    if (!tls || !start)
        return 0;
    if (tls->p_align > layout.page && tls->p_align > layout.align)
        layout.align = tls->p_align;
    uintptr_t end = start - block + tls->p_memsz;
    if (ep_linux_tls_above && start >= block && start - block <= layout.above + tls->p_align + TLS_GAP &&
        end > layout.above)
        layout.above = end;
    return 0;
}

void ep_linux_stack_prepare(void)
{
    layout.page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)dl_iterate_phdr(tls_visit, NULL);
}

static uintptr_t page_end(uintptr_t address)
{
    return (address | (layout.page - 1)) + 1;
}

struct ep_linux_bounds ep_linux_stack_bounds(uintptr_t start, size_t size, uintptr_t here)
{
    uintptr_t end = start ? start + size : page_end((uintptr_t)__builtin_thread_pointer() + layout.above);
    uintptr_t low = start ? start : page_end(end - size - 1) + layout.align;

    if (here < low || here >= end) { /* an unknown C library */
        low = here & ~(layout.page - 1);
        end = page_end(here);
    }
    return (struct ep_linux_bounds){.start = low, .end = end, .root = here};
}

struct ep_linux_bounds ep_linux_main_bounds;
unsigned ep_linux_main_searches;
static unsigned root_trials;
static atomic_bool root_unreadable;

/* The C library's function that calls main(), or one beside it. Weak: nothing requires it. */
extern char __libc_start_main[] __attribute__((weak));

void ep_linux_main_root_unreadable(uintptr_t start, uintptr_t end)
{
    if ((uintptr_t)__libc_start_main - start < end - start)
        atomic_store_explicit(&root_unreadable, true, memory_order_relaxed);
}

/* Some C libraries have no tables that say that main()'s caller is the last: musl, and glibc on 32-bit ARM. Its frame
 * is above the place where main()'s return address is kept, which is the first such address below the arguments. */
__attribute__((no_sanitize("address"))) bool ep_linux_main_root_find(uintptr_t here)
{
    uintptr_t near = (uintptr_t)__libc_start_main, end = ep_linux_main_bounds.end;

    /* Not from another stack: under valgrind what the kernel says is not the program's. Nothing lies below `here`. */
    if (near == 0 || atomic_load_explicit(&root_unreadable, memory_order_relaxed) || end == 0 ||
        root_trials == ROOT_TRIALS)
        return false;
    if (end - here > MAIN_STACK_MOST)
        return true;
    root_trials++;
    uintptr_t low = end - here < START_FRAMES ? here : end - START_FRAMES;
    for (uintptr_t at = end; at > low; at -= sizeof at) {
        uintptr_t word = ((const volatile uintptr_t *)at)[-1];
        if (word - near + START_CODE < 2 * START_CODE && ep_linux_is_behind_call(word)) {
            ep_linux_main_bounds.root = at;
            return true;
        }
    }
    return true;
}

/* Reads the end of the main thread's stack from field 28, "startstack", of /proc/self/stat. */
void ep_linux_main_bounds_find(void)
{
    char text[512];
    struct rlimit limit;

    ep_linux_main_bounds = (struct ep_linux_bounds){0};
    ep_linux_main_searches++;
    if (ep_linux_read("/proc/self/stat", text, sizeof text) <= 0)
        return;
    const char *at = strrchr(text, ')'); /* the program's name may contain any character */
    for (int field = 2; at && field < 28; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    if (!at)
        return;
    uintptr_t end = (uintptr_t)ep_linux_number(&at) & ~(sizeof(uintptr_t) - 1);
    uintptr_t most = MAIN_STACK_MOST;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < most)
        most = (uintptr_t)limit.rlim_cur;
    if (end <= most)
        return;
    ep_linux_main_bounds = (struct ep_linux_bounds){.start = end - most, .end = end};
    root_trials = 0;
}
