/* What a fatal signal says about the crash: its information, the registers, and the bounds of the stack. */
#include "linux.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static void registers_copy(struct ep_crash_event *event, const ucontext_t *uc)
{
#if defined __x86_64__
    event->values = 23; /* gregs[NGREG] */
    for (unsigned i = 0; i < event->values; i++)
        event->value[i] = (uint64_t)uc->uc_mcontext.gregs[i];
    event->lr = 0;
#elif defined __aarch64__
    event->values = 34;
    for (unsigned i = 0; i < 31; i++)
        event->value[i] = uc->uc_mcontext.regs[i];
    event->value[31] = uc->uc_mcontext.sp;
    event->value[32] = uc->uc_mcontext.pc;
    event->value[33] = uc->uc_mcontext.pstate;
    event->lr = uc->uc_mcontext.regs[30];
#elif defined __arm__
    event->values = 17; /* r0 .. r10, fp, ip, sp, lr, pc, cpsr follow one another */
    for (unsigned i = 0; i < event->values; i++)
        event->value[i] = (&uc->uc_mcontext.arm_r0)[i];
    event->lr = uc->uc_mcontext.arm_lr;
#endif
}

static uintptr_t hex_read(const char **at)
{
    uintptr_t value = 0;

    for (; (**at >= '0' && **at <= '9') || (**at >= 'a' && **at <= 'f'); (*at)++)
        value = value << 4 | ep_linux_hex_digit(**at);
    return value;
}

/* Bounds of a stack that nobody announced, from a line "start-end ..." of /proc/self/maps. */
static bool line_has(const char *line, uintptr_t sp, struct ep_registers *registers)
{
    uintptr_t start = hex_read(&line);

    line++;
    uintptr_t end = hex_read(&line);
    if (sp < start || sp >= end)
        return false;
    registers->stack_start = start;
    registers->stack_end = end;
    registers->stack_root = 0;
    return true;
}

static void bounds_find(struct ep_registers *registers)
{
    static char line[64];
    char bytes[256];
    size_t used = 0;
    ssize_t got;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && (got = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (used < sizeof line - 1)
                line[used++] = bytes[i];
            if (bytes[i] != '\n')
                continue;
            line[used] = 0;
            used = 0;
            if (line_has(line, registers->sp, registers))
                goto done;
        }
    }
done:
    if (fd >= 0)
        (void)close(fd);
}

static void context_read(struct ep_registers *registers, const ucontext_t *uc)
{
    ep_linux_context(uc, registers);
    const uintptr_t alt_start = registers->alt_start, alt_end = registers->alt_end;
    (void)ep_port_bounds(registers);
    registers->alt_start = alt_start;
    registers->alt_end = alt_end;
    if ((registers->sp < registers->stack_start || registers->sp >= registers->stack_end) &&
        (registers->sp < alt_start || registers->sp >= alt_end))
        bounds_find(registers);
}

void ep_linux_crash_event(struct ep_crash_event *event, int signal, const siginfo_t *info, const void *ucontext)
{
    memset(event, 0, sizeof *event);
    event->signal = signal;
    event->code = info->si_code;
    event->error = info->si_errno;
    event->tid = (uint32_t)syscall(SYS_gettid);
    event->sender = info->si_code <= 0 ? (uint32_t)info->si_pid : 0;
    event->address = info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr : 0;
    event->time_ns = ep_port_uptime_ns();
    context_read(&event->registers, ucontext);
    registers_copy(event, ucontext);
}
