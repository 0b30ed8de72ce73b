/* What compiled C# needs from below: the zero runtime's memory, its handler of hardware faults, and C functions to call
 * into. */
#include "../program.h"
#include "guest.h"

#define NOINLINE __attribute__((noinline, noclone))

void *zero_allocate(uint32_t size);
void zero_fail(void);
void *zero_thread(void);
void RhpThrowHwEx(void);
int native_leaf(int a, int b);
int native_quick(int a, int b);
int native_call_back(int (*function)(int), int argument);
int native_format(char *text, size_t size, int value);
int native_eight(int a, int64_t b, double c, int d, int e, int f, int64_t g, int h);
void *RhSpanHelpers_MemCopy(void *to, const void *from, size_t size);
void *RhSpanHelpers_MemZero(void *to, size_t size);
int64_t RhpLMul(int64_t a, int64_t b);

int RhpTrapThreads;
uintptr_t __security_cookie = 0x5ec0de;

static _Alignas(8) uint8_t heap[1 << 22];
static uint32_t heap_used;

NOINLINE void *zero_allocate(uint32_t size)
{
    const uint32_t at = heap_used;
    heap_used += (size + 7) & ~7u;
    if (heap_used > sizeof heap)
        zero_fail();
    return &heap[at];
}

NOINLINE void zero_fail(void)
{
    fputs("arm-truth: the C# code failed fast\n", stderr);
    exit(3);
}

NOINLINE int native_leaf(int a, int b)
{
    return a * 5 + b;
}

NOINLINE int native_quick(int a, int b)
{
    return a - b;
}

NOINLINE int native_call_back(int (*function)(int), int argument)
{
    return function(argument) + 1;
}

NOINLINE int native_format(char *text, size_t size, int value)
{
    return snprintf(text, size, "%d %s %#x", value, "text", (unsigned)value) + (int)strtol(text, NULL, 10);
}

NOINLINE int native_eight(int a, int64_t b, double c, int d, int e, int f, int64_t g, int h)
{
    return native_leaf(a + d + e + f + h, (int)(b + g)) + (int)c;
}

NOINLINE void *RhSpanHelpers_MemCopy(void *to, const void *from, size_t size)
{
    return memmove(to, from, size);
}

NOINLINE void *RhSpanHelpers_MemZero(void *to, size_t size)
{
    return memset(to, 0, size);
}

NOINLINE int64_t RhpLMul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Called as the runtime calls for its thread, to no purpose. */
NOINLINE void *zero_thread(void)
{
    return heap;
}

/* As .NET's handler: the thread goes on in RhpThrowHwEx, told where the fault was, with sp as it was there. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    const uintptr_t thrower = (uintptr_t)&RhpThrowHwEx;
    const unsigned code = 3;

    (void)info;
    if (signal != SIGSEGV)
        zero_fail();
#if defined(__aarch64__)
    machine->regs[0] = code;
    machine->regs[1] = machine->pc;
    machine->pc = thrower;
#else
    const unsigned long thumb = 1ul << 5, if_then = 0x0600fc00;
    machine->arm_r0 = code;
    machine->arm_r1 = machine->arm_pc;
    machine->arm_pc = thrower & ~(uintptr_t)1;
    machine->arm_cpsr = (machine->arm_cpsr & ~if_then) | thumb;
#endif
}

int guest_catch_faults(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};

    return sigaction(SIGSEGV, &action, NULL) == 0 ? 0 : -errno;
}
