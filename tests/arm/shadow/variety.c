/*
 * A C program to be single-stepped (see shadow.h), built with -O2 and without frame pointers: each function shapes the
 * stack in another way. Prints the share of instructions at which the unwinder had the whole stack right.
 *
 *   shadow-c [core|fp [PLACES]]      PLACES: file for the list of wrong places, for report.py
 */
#include "shadow.h"

#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
#define LIMIT    3000000

static volatile long sink;
static volatile int never;

static NOINLINE long leaf(long a, long b)
{
    return a * b + (a ^ b);
}

static NOINLINE long recurse(int depth)
{
    return depth == 0 ? leaf(depth, 3) : recurse(depth - 1) + leaf(depth, 7);
}

static int compare(const void *a, const void *b)
{
    const long x = *(const long *)a, y = *(const long *)b;
    return leaf(x, 1) < leaf(y, 1) ? -1 : x > y;
}

static NOINLINE void sorting(void)
{
    long values[40];
    for (int i = 0; i < 40; i++)
        values[i] = (i * 7919) % 101;
    qsort(values, 40, sizeof values[0], compare);
    const long key = values[17];
    sink += bsearch(&key, values, 40, sizeof values[0], compare) != NULL;
}

static NOINLINE void formatting(void)
{
    char text[200];
    snprintf(text, sizeof text, "%d %-10s %08.3f %#lx %c %zu %g", -17, "name", 3.14159, 0xbeefUL, 'x', sizeof text,
             1e-9);
    sink += (long)strtod(text + 16, NULL) + (long)strlen(text) + atoi(text);
}

static NOINLINE int vformat(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length;
}

static NOINLINE void copying(void)
{
    static char from[5000], to[5000];
    for (size_t size = 1; size < sizeof to; size = size * 3 / 2 + 1) {
        memcpy(to, from, size);
        memset(from, (int)size, size / 2);
        memmove(to + 1, to, size / 2);
        sink += memcmp(from, to, size);
    }
}

static NOINLINE void moving_stack(int n)
{
    for (int i = 1; i < n; i++) {
        char *block = alloca((size_t)(i * 24));
        memset(block, i, (size_t)(i * 24));
        sink += block[i] + leaf(i, block[0]);
    }
}

static NOINLINE void aligned_frame(long n)
{
    _Alignas(64) volatile long block[16];
    for (long i = 0; i < 16; i++)
        block[i] = leaf(i, n);
    sink += block[n & 15] + recurse(3);
}

static NOINLINE void aligned_and_moving(int n)
{
    _Alignas(64) volatile char block[64];
    char *more = alloca((size_t)n * 16);
    memset(more, 1, (size_t)n * 16);
    block[n] = more[n];
    sink += block[n] + leaf(n, 2);
}

static NOINLINE void large_frame(void)
{
    volatile char block[20000];
    block[0] = 1;
    block[19999] = (char)leaf(1, 2);
    sink += block[0] + block[19999];
}

static jmp_buf jump_target;

static NOINLINE void jump(int depth)
{
    if (depth == 0)
        longjmp(jump_target, 1);
    if (never == 0)
        jump(depth - 1);
    sink++;
}

static NOINLINE void jumping(void)
{
    if (setjmp(jump_target) == 0)
        jump(8);
    else
        sink += leaf(5, 6);
}

static NOINLINE long tail(long n)
{
    return leaf(n, n); /* a jump */
}

static NOINLINE long six(long a, long b, long c, long d, long e, long f, long g, long h)
{
    return leaf(a + b, c + d) + tail(e + f) + leaf(g, h);
}

static NOINLINE _Noreturn void leave(void)
{
    longjmp(jump_target, 2);
}

/* The call is the function's last instruction: its return address lies in the next function. */
static NOINLINE _Noreturn void ends_with_call(void)
{
    leaf(1, 1);
    leave();
}

static NOINLINE void no_return(void)
{
    if (setjmp(jump_target) == 0)
        ends_with_call();
}

static NOINLINE void pointers(void)
{
    static long (*const table[])(long) = {tail, labs, tail};
    for (int i = 0; i < 9; i++)
        sink += table[i % 3](i);
    sink += six(1, 2, 3, 4, 5, 6, 7, 8);
}

static NOINLINE __attribute__((cold)) void unlikely(void)
{
    sink += recurse(2);
}

static NOINLINE void branches(int n)
{
    if (__builtin_expect(n == 3, 0))
        unlikely();
    switch (n) {
    case 0:
        sink += leaf(n, 1);
        break;
    case 1:
        sink += recurse(1);
        break;
    case 2:
        moving_stack(2);
        break;
    case 3:
        large_frame();
        break;
    default:
        formatting();
        break;
    }
}

static NOINLINE void library(void)
{
    char text[100];
    struct tm parts;
    const time_t when = 86400L * 365;
    gmtime_r(&when, &parts);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %A", &parts);
    sink += vformat(text + 50, 50, "%s|%5.1f|%i", "abc", 2.5, 7);
    void *block = malloc(300);
    block = realloc(block, 3000);
    free(block);
    char words[] = "one two three";
    for (char *state = NULL, *word = strtok_r(words, " ", &state); word != NULL; word = strtok_r(NULL, " ", &state))
        sink += (long)strlen(word);
    if (never)
        abort();
}

static void everything(void *argument)
{
    (void)argument;
    for (int i = 0; i < 3; i++) { /* the first round binds the PLT */
        sorting();
        formatting();
        copying();
        moving_stack(6);
        aligned_frame(i);
        aligned_and_moving(3 + i);
        large_frame();
        jumping();
        no_return();
        pointers();
        library();
        sink += recurse(30);
        for (int n = 0; n < 5; n++)
            branches(n);
    }
}

int main(int argc, char **argv)
{
    const char *walker = argc > 1 ? argv[1] : "core";
    const int err = shadow_start(walker);
    if (err != 0) {
        fprintf(stderr, "shadow-c: walker %s does not start: %s (core or fp)\n", walker, strerror(-err));
        return 2;
    }
    shadow_run(everything, NULL, LIMIT);
    FILE *places = argc > 2 ? fopen(argv[2], "w") : NULL;
    shadow_report(stdout, places);
    if (places != NULL)
        fclose(places);
    const struct shadow_figures figures = shadow_figures();
    uint64_t steps = 0, exact = 0;
    for (int place = 0; place < SHADOW_PLACES; place++) {
        steps += figures.steps[place];
        exact += figures.exact[place];
    }
    printf("figure exact_steps_c_x86_64_pct %.3f pct\n", 100.0 * (double)exact / (double)steps);
    return 0;
}
