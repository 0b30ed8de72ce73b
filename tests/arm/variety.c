/*
 * Pieces of work in C: each shapes the stack in another way. They are single-stepped on every architecture, and
 * compiled more than once on ARM (guest.h); VARIETY names the table.
 */
#include "../program.h"
#include "guest.h"

#include <alloca.h>
#include <setjmp.h>

#define NOINLINE __attribute__((noinline, noclone))

#ifndef VARIETY
#define VARIETY guest_variety
#endif

static volatile int sink, never;

static NOINLINE int leaf(int a, int b)
{
    return a * b + (a ^ b);
}

static NOINLINE int recurse(int depth)
{
    return depth == 0 ? leaf(depth, 3) : recurse(depth - 1) + leaf(depth, 7);
}

static int compare(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return leaf(x, 1) < leaf(y, 1) ? -1 : x > y;
}

static NOINLINE int sorting(int count)
{
    int values[40];
    for (int i = 0; i < count; i++)
        values[i] = (i * 7919) % 101;
    qsort(values, (size_t)count, sizeof values[0], compare);
    const int key = values[count / 2];
    return *(int *)bsearch(&key, values, (size_t)count, sizeof values[0], compare);
}

static NOINLINE int vformat(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length;
}

static NOINLINE int formatting(int n)
{
    char text[200];
    snprintf(text, sizeof text, "%d %-10s %c %#x", -n, "name", 'x', 0xbeefU);
    return vformat(text + 50, 50, "%s|%5.1f|%i", "abc", 2.5, 7) + (int)strtol(text, NULL, 10) + (int)strlen(text);
}

static NOINLINE int copying(int most)
{
    static char from[2000], to[2000];
    int sum = 0;
    memset(from, 0, sizeof from);
    memset(to, 0, sizeof to);
    for (int size = 1; size < most; size = size * 3 + 1) {
        memcpy(to, from, (size_t)size);
        memset(from, size, (size_t)size / 2);
        memmove(to + 1, to, (size_t)size / 2);
        sum += memcmp(from, to, (size_t)size) > 0;
    }
    return sum;
}

static NOINLINE int moving_stack(int n)
{
    int sum = 0;
    for (int i = 1; i < n; i++) {
        char *block = alloca((size_t)(i * 24));
        memset(block, i, (size_t)(i * 24));
        sum += block[i] + leaf(i, block[0]);
    }
    return sum;
}

static NOINLINE int aligned_frame(int n)
{
    _Alignas(64) volatile int block[16];
    for (int i = 0; i < 16; i++)
        block[i] = leaf(i, n);
    return block[n & 15] + recurse(3);
}

static NOINLINE int aligned_and_moving(int n)
{
    _Alignas(64) volatile char block[64];
    char *more = alloca((size_t)n * 16);
    memset(more, 1, (size_t)n * 16);
    block[n] = more[n];
    return block[n] + leaf(n, 2);
}

static NOINLINE int large_frame(int n)
{
    volatile char block[70000];
    block[0] = 1;
    block[69999] = (char)leaf(n, 2);
    return block[0] + block[69999];
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

static NOINLINE int jumping(int depth)
{
    if (setjmp(jump_target) == 0)
        jump(depth);
    return leaf(5, depth);
}

static NOINLINE _Noreturn void leave(void)
{
    longjmp(jump_target, 2);
}

/* The call is the function's last instruction: its return address lies in the next function. */
static NOINLINE _Noreturn void ends_with_call(int n)
{
    never = leaf(n - n, 0);
    leave();
}

static NOINLINE int no_return(int n)
{
    if (setjmp(jump_target) == 0)
        ends_with_call(n);
    return leaf(n, 2);
}

static NOINLINE int tail(int n)
{
    return leaf(n, n); /* a jump */
}

static NOINLINE int many(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j)
{
    return leaf(a + b, c + d) + tail(e + f) + leaf(g, h) + leaf(i, j);
}

static NOINLINE double floats(double a, double b, int n)
{
    double c = a * b, d = a + b, e = a - b, f = 1;
    for (int i = 0; i < n; i++) {
        f += c * leaf(i, n) + d;
        c += e;
    }
    return f + c + d + e;
}

static NOINLINE int pointers(int n)
{
    static int (*const table[])(int) = {tail, abs, recurse};
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += table[i % 3](i);
    return sum + many(1, 2, 3, 4, 5, 6, 7, 8, 9, n) + (int)floats(1.5, 2.5, n);
}

static NOINLINE __attribute__((cold)) int unlikely(void)
{
    return recurse(2);
}

static NOINLINE int one_branch(int n)
{
    if (__builtin_expect(n == 3, 0))
        return unlikely();
    if (n > 5) /* returns before anything is saved */
        return n;
    switch (n) {
    case 0:
        return leaf(n, 1);
    case 1:
        return recurse(1) + sink;
    case 2:
        return moving_stack(3);
    default:
        return many(n, n, n, n, n, n, n, n, n, n) - 1;
    }
}

static NOINLINE int branches(int most)
{
    int sum = 0;
    for (int n = 0; n < most; n++)
        sum += one_branch(n);
    return sum;
}

/* Jumps inside itself that look like those to other functions. */
static NOINLINE int interpreting(int n)
{
    __extension__ static const void *const does[] = {&&add, &&call, &&halve, &&end};
    static const uint8_t program[] = {0, 1, 0, 2, 1, 2, 0, 1, 3};
    const uint8_t *at = program;
    int value = n;

    __extension__({ goto *does[*at]; });
add:
    value += n;
    __extension__({ goto *does[*++at]; });
call:
    value += leaf(value & 7, n);
    __extension__({ goto *does[*++at]; });
halve:
    value /= 2;
    __extension__({ goto *does[*++at]; });
end:
    return value + recurse(value & 3);
}

static NOINLINE int library(int n)
{
    struct tm parts;
    char text[100];
    const time_t when = 86400L * 365;
    gmtime_r(&when, &parts);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    void *block = malloc((size_t)n);
    block = realloc(block, (size_t)n * 10);
    free(block);
    char words[] = "one two three";
    int sum = (int)strtod(text, NULL);
    for (char *state = NULL, *word = strtok_r(words, " ", &state); word != NULL; word = strtok_r(NULL, " ", &state))
        sum += (int)strlen(word);
    return sum;
}

const struct guest_work VARIETY[] = {
    {"c_sorting", sorting, 10, 44},
    {"c_formatting", formatting, 17, 17},
    {"c_copying", copying, 500, 4},
    {"c_moving_stack", moving_stack, 4, 20},
    {"c_aligned", aligned_frame, 5, 85},
    {"c_large", large_frame, 4, 15},
    {"c_jumping", jumping, 8, 53},
    {"c_pointers", pointers, 6, 544},
    {"c_branches", branches, 8, 481},
    {"c_library", library, 300, 1982},
    {"c_aligned_and_moving", aligned_and_moving, 5, 18},
    {"c_no_return", no_return, 5, 17},
    {"c_recursion", recurse, 30, 3723},
    {"c_interpreting", interpreting, 9, 127},
    {0},
};
