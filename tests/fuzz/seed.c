/* Functions with frames of all kinds, for seed.py to make inputs of: compiled for each architecture, never run. */
#include <stdarg.h>

int seed_far(int, ...);
void seed_use(void *);
void seed_stop(void) __attribute__((noreturn));

int seed_leaf(int a)
{
    return a * 3;
}

int seed_small(int a)
{
    return seed_far(a) + a;
}

int seed_many(int a, int b, int c, int d)
{
    int e = seed_far(a), f = seed_far(b), g = seed_far(c), h = seed_far(d), i = seed_far(e);
    return seed_far(a, b, c, d, e, f, g, h, i) + a * b + c * d + e * f + g * h + i;
}

int seed_large(int a)
{
    char room[300000];
    seed_use(room);
    return room[a];
}

int seed_open(int a)
{
    char room[a];
    seed_use(room);
    return seed_far(a) + room[0];
}

double seed_real(double a, double b)
{
    seed_far(1);
    double c = a * b;
    seed_far(2);
    return c + a + b;
}

int seed_tail(int a)
{
    seed_far(a);
    return seed_far(a, a);
}

int seed_list(int a, ...)
{
    va_list list;
    va_start(list, a);
    int b = seed_far(va_arg(list, int));
    va_end(list);
    return a + b;
}

void seed_end(int a)
{
    if (a)
        seed_stop();
    seed_far(a);
}

/* What a signal handler returns to; a return address - 1 lies in front of it. */
#if defined __x86_64__
#define SEED_RETURN "nop\n mov $15, %eax\n syscall\n"
#elif defined __aarch64__
#define SEED_RETURN "nop\n mov x8, #139\n svc #0\n"
#elif defined __thumb__
#define SEED_RETURN ".syntax unified\n .thumb\n .thumb_func\n nop\n nop\n movs r7, #173\n svc #0\n nop\n nop\n"
#else
#define SEED_RETURN ".arm\n nop\n mov r7, #173\n svc #0\n"
#endif
#ifdef __arm__
#define SEED_OPEN  ".fnstart\n"
#define SEED_CLOSE ".cantunwind\n .fnend\n"
#else
#define SEED_OPEN  ".cfi_startproc simple\n .cfi_signal_frame\n .cfi_def_cfa 7, 8\n"
#define SEED_CLOSE ".cfi_endproc\n"
#endif
__asm__(".text\n .balign 4\n .globl seed_return\n seed_return:\n" SEED_OPEN SEED_RETURN SEED_CLOSE);
