/* A program with known functions, lines and inlined calls. Tests read the numbers of marked lines from this file. */
#include <stdlib.h>

static volatile double sink;

__attribute__((noinline)) static void hot(long turns)
{
    for (long i = 0; i < turns; i++) {
        sink += (double)i * 1.5; /* mark: hot */
    }
}

__attribute__((noinline)) static void warm(long turns)
{
    for (long i = 0; i < turns; i++) {
        sink += (double)i * 2.5;
    }
}

static inline __attribute__((always_inline)) void inner(long turns)
{
    sink += 1; /* mark: inner */
    hot(3 * turns);
}

static inline __attribute__((always_inline)) void middle(long turns)
{
    inner(turns); /* mark: middle */
    warm(turns);
}

__attribute__((noinline)) void outer(long turns)
{
    middle(turns); /* mark: outer */
    sink += 2;
}

/* Imitates the output of .NET's ahead-of-time compiler: its own section, a funclet with only a label, and the methods
 * of an iterator. */
__asm__(".section __managedcode,\"ax\"\n"
        "App_Shop__Buy: .skip 32\n.type App_Shop__Buy, %function\n.size App_Shop__Buy, 32\n"
        "_fram1App_Shop__Buy: .skip 32\n"
        "App_Shop__Items_d__4__MoveNext: .skip 32\n.type App_Shop__Items_d__4__MoveNext, %function\n"
        ".size App_Shop__Items_d__4__MoveNext, 32\n"
        "App_Shop__Items_d__4__System_IDisposable_Dispose: .skip 32\n"
        ".type App_Shop__Items_d__4__System_IDisposable_Dispose, %function\n"
        ".size App_Shop__Items_d__4__System_IDisposable_Dispose, 32\n"
        ".previous\n");

/* What is no function, though its value is an address among them or before them: a library's own version, as linkers
 * write it, a constant, a variable of each thread, and data without a size in front of the code. */
__asm__(".globl V1.0\n.type V1.0, %object\nV1.0 = 0\n"
        ".globl CONSTANT\n.type CONSTANT, %function\n.size CONSTANT, 0x100000\nCONSTANT = 0x10\n"
        ".section .tdata,\"awT\"\n.globl each_thread\n.type each_thread, %object\neach_thread: .skip 8\n.previous\n"
        ".section .note.sample,\"a\",%note\n.globl no_size\n.type no_size, %object\nno_size: .skip 8\n.previous\n"
        ".section unnamed_code,\"ax\"\n.skip 64\n.previous\n");

/* The linker makes it for whoever asks; it names the section, not the function that begins there. */
extern const char __start_unnamed_code[];
const char *const sample_unnamed_code = __start_unnamed_code;

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    for (long i = 0; i < rounds; i++) {
        outer(100000);
    }
    return argc > 2 ? atoi(argv[2]) : 0;
}
