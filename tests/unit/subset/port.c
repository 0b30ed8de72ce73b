/*
 * Level 1 of a port, made by port/template/README.md, for a system with the C library, POSIX clocks, signals and
 * setitimer(), one thread and a static ELF image: no sockets, no timer_create(), no /proc. template.c has all other
 * functions.
 */
#include <edgeprof/port_calls.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>

#define TID 1

extern char **environ;
extern const ElfW(Ehdr) __executable_start; /* of the linker: the image's first bytes in memory */

static uint64_t sample_ns;
static uint64_t held_back_ns; /* of samples without room: the next one stands for it */
static struct sigaction before;

/* ---- clocks ---- */

static uint64_t clock_read(clockid_t clock)
{
    struct timespec now = {0};

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t ep_port_uptime_ns(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

uint64_t ep_port_unix_ns(void)
{
    return clock_read(CLOCK_REALTIME);
}

/* ---- identity ---- */

void ep_port_random(void *bytes, size_t size)
{
    uint64_t state = ep_port_unix_ns() ^ (uint64_t)getpid() << 40;
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        const ssize_t got = read(fd, bytes, size);
        close(fd);
        if (got == (ssize_t)size)
            return;
    }
    for (uint8_t *at = bytes; size > 0; size--, at++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        *at = (uint8_t)(state >> 56);
    }
}

void ep_port_identity(struct ep_identity *identity)
{
    *identity = (struct ep_identity){.executable = "subset", .pid = (uint32_t)getpid()};
#if defined(__x86_64__)
    identity->arch = "x86_64";
#elif defined(__aarch64__)
    identity->arch = "aarch64";
#else
    identity->arch = "arm";
#endif
    (void)gethostname(identity->host, sizeof identity->host - 1);
}

/* ---- sampling: one timer of the process' CPU time ---- */

static void registers_of(const void *context, struct ep_registers *registers)
{
    const mcontext_t *m = &((const ucontext_t *)context)->uc_mcontext;

#if defined(__x86_64__)
    registers->pc = (uintptr_t)m->gregs[REG_RIP];
    registers->sp = (uintptr_t)m->gregs[REG_RSP];
    registers->fp = (uintptr_t)m->gregs[REG_RBP];
    registers->base = (uintptr_t)m->gregs[REG_RBX];
#elif defined(__aarch64__)
    registers->pc = m->pc;
    registers->sp = m->sp;
    registers->fp = m->regs[29];
    registers->lr = ep_lr_of(m->regs[30]);
    registers->base = m->regs[19];
#else
    registers->pc = m->arm_pc | (m->arm_cpsr >> 5 & 1);
    registers->sp = m->arm_sp;
    registers->fp = m->arm_fp;
    registers->lr = ep_lr_of(m->arm_lr);
    registers->base = m->arm_r7;
#endif
    /* The variables of the environment are behind the first frame of the only thread. */
    registers->stack_start = registers->sp;
    registers->stack_end = (uintptr_t)environ;
}

static void on_timer(int number, siginfo_t *info, void *context)
{
    const int error = errno;
    struct ep *ep = ep_hold();

    (void)number;
    (void)info;
    if (ep) {
        struct ep_registers registers = {0};
        registers_of(context, &registers);
        const uint64_t ns = sample_ns + held_back_ns;
        held_back_ns = ep_capture(ep, &registers, TID, ns) == -ENOSPC ? ns : 0;
        ep_release();
    }
    errno = error;
}

void ep_port_sampling_period(uint32_t period_ns)
{
    const struct timeval every = {.tv_sec = (time_t)(period_ns / 1000000000),
                                  .tv_usec = (suseconds_t)(period_ns % 1000000000 / 1000)};
    const struct itimerval timer = {.it_interval = every, .it_value = every};

    sample_ns = period_ns;
    (void)setitimer(ITIMER_PROF, &timer, NULL);
}

int ep_port_sampling_start(void *memory, unsigned threads, uint32_t period_ns, uint32_t clock)
{
    struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};

    (void)memory;
    (void)threads;
    (void)clock;
    if (sigaction(SIGPROF, &action, &before) != 0)
        return -errno;
    ep_port_sampling_period(period_ns);
    return period_ns ? 1 : 0;
}

void ep_port_sampling_stop(void)
{
    ep_port_sampling_period(0);
    (void)sigaction(SIGPROF, &before, NULL);
    if (held_back_ns)
        ep_thread_residual(TID, (int64_t)held_back_ns);
    held_back_ns = 0;
}

int ep_port_threads_scan(void)
{
    return 1;
}

/* ---- modules: the image, whose headers are in memory ---- */

static void note_read(const ElfW(Phdr) * header, struct ep_module_info *info)
{
    const char *at = (const char *)(uintptr_t)header->p_vaddr, *end = at + header->p_memsz;

    while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)at;
        const char *name = at + sizeof *note, *content = name + ((note->n_namesz + 3) & ~3u);
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
            info->build_id = (const uint8_t *)content;
            info->build_id_size = note->n_descsz;
        }
        at = content + ((note->n_descsz + 3) & ~3u);
    }
}

int ep_port_modules_scan(int pin)
{
    const ElfW(Ehdr) *image = &__executable_start;
    const ElfW(Phdr) *headers = (const void *)((const char *)image + image->e_phoff);
    struct ep_module_info info = {.path = "subset", .image_start = (uintptr_t)image};

    (void)pin;
    for (const ElfW(Phdr) *h = headers; h < headers + image->e_phnum; h++) {
        if (h->p_type == PT_LOAD)
            info.image_end = h->p_vaddr + h->p_memsz;
        if (h->p_type == PT_GNU_EH_FRAME || h->p_type == PT_ARM_EXIDX) {
            info.table = h->p_vaddr;
            info.table_size = h->p_memsz;
        }
        if (h->p_type == PT_NOTE)
            note_read(h, &info);
    }
    for (const ElfW(Phdr) *h = headers; h < headers + image->e_phnum; h++)
        if (h->p_type == PT_LOAD && h->p_flags & PF_X) {
            info.start = h->p_vaddr;
            info.end = h->p_vaddr + h->p_memsz;
            (void)ep_module_seen(&info);
        }
    return 0;
}
