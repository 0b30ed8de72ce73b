/*
 * Interposes prctl() and syscall(), so that edgeprof sees seccomp filters come; see filter.c. libseccomp and systemd
 * set theirs by these two.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "filter.h"
#include "preload.h"

FUNCTION(int, prctl, (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d))
{
    if (option == PR_SET_SECCOMP || option == PR_SET_TSC)
        ep_linux_filter_prctl(option, a, (const void *)b);
    return next_prctl()(option, a, b, c, d);
}

/* What syscall() does first. Not static: the code below calls it. */
__attribute__((visibility("hidden"), used)) void ep_preload_call_seen(long number, long a, long b, const void *c);

void ep_preload_call_seen(long number, long a, long b, const void *c)
{
    if (number == SYS_seccomp)
        ep_linux_filter_syscall((unsigned long)a, (unsigned long)b, c);
    else
        ep_linux_filter_prctl((int)a, (unsigned long)b, c);
}

__attribute__((visibility("hidden"), used)) long ep_preload_call_failed(long error);

long ep_preload_call_failed(long error)
{
    errno = (int)-error;
    return -1;
}

/*
 * syscall() itself, in assembler: it is called before anything can be looked up, and a system call that makes a thread
 * comes back on another stack, so nothing may be on this one.
 */
#if defined __x86_64__
/* What waits goes to preload_waits_calls.c, and comes back to ep_preload_call: futex, io_uring_enter, epoll_pwait2 and
 * futex_waitv. */
_Static_assert(SYS_seccomp == 317 && SYS_prctl == 157 && SYS_futex == 202 && SYS_io_uring_enter == 426, "as below");
_Static_assert(SYS_sigaltstack == 131 && SYS_unshare == 272 && SYS_setns == 308, "as below");
__asm__(".text\n\t.p2align 4\n\t.globl syscall\n\t.type syscall, @function\n"
        "syscall:\n\t.cfi_startproc\n\tendbr64\n"
        "\tcmp $317, %rdi\n\tje 2f\n\tcmp $157, %rdi\n\tje 2f\n"
        "\tcmp $202, %rdi\n\tje ep_preload_call_waits\n\tcmp $426, %rdi\n\tje ep_preload_call_waits\n"
        "\tcmp $441, %rdi\n\tje ep_preload_call_waits\n\tcmp $449, %rdi\n\tje ep_preload_call_waits\n"
        "\tcmp $131, %rdi\n\tje ep_preload_call_stack\n"
        "\tcmp $272, %rdi\n\tje ep_preload_call_alone\n\tcmp $308, %rdi\n\tje ep_preload_call_alone\n"
        "\t.globl ep_preload_call\n\t.hidden ep_preload_call\nep_preload_call:\n"
        "1:\tmov %rdi, %rax\n\tmov %rsi, %rdi\n\tmov %rdx, %rsi\n\tmov %rcx, %rdx\n\tmov %r8, %r10\n\tmov %r9, %r8\n"
        "\tmov 8(%rsp), %r9\n\tsyscall\n\tcmp $-4095, %rax\n\tjae 3f\n\tret\n"
        "2:\tpush %rdi\n\t.cfi_adjust_cfa_offset 8\n\tpush %rsi\n\t.cfi_adjust_cfa_offset 8\n"
        "\tpush %rdx\n\t.cfi_adjust_cfa_offset 8\n\tpush %rcx\n\t.cfi_adjust_cfa_offset 8\n"
        "\tpush %r8\n\t.cfi_adjust_cfa_offset 8\n\tpush %r9\n\t.cfi_adjust_cfa_offset 8\n"
        "\tsub $8, %rsp\n\t.cfi_adjust_cfa_offset 8\n\tcall ep_preload_call_seen\n"
        "\tadd $8, %rsp\n\t.cfi_adjust_cfa_offset -8\n"
        "\tpop %r9\n\t.cfi_adjust_cfa_offset -8\n\tpop %r8\n\t.cfi_adjust_cfa_offset -8\n"
        "\tpop %rcx\n\t.cfi_adjust_cfa_offset -8\n\tpop %rdx\n\t.cfi_adjust_cfa_offset -8\n"
        "\tpop %rsi\n\t.cfi_adjust_cfa_offset -8\n\tpop %rdi\n\t.cfi_adjust_cfa_offset -8\n\tjmp 1b\n"
        "3:\tmov %rax, %rdi\n\tjmp ep_preload_call_failed\n"
        "\t.cfi_endproc\n\t.size syscall, . - syscall");
#elif defined __aarch64__
_Static_assert(SYS_seccomp == 277 && SYS_prctl == 167, "as below");
_Static_assert(SYS_sigaltstack == 132 && SYS_unshare == 97 && SYS_setns == 268, "as below");
__asm__(
    ".text\n\t.p2align 4\n\t.globl syscall\n\t.type syscall, %function\n"
    "syscall:\n\t.cfi_startproc\n\thint 34\n"
    "\tcmp x0, #277\n\tb.eq 2f\n\tcmp x0, #167\n\tb.eq 2f\n\tcmp x0, #132\n\tb.eq 4f\n"
    "\tcmp x0, #97\n\tb.eq 5f\n\tcmp x0, #268\n\tb.eq 5f\n"
    "\t.globl ep_preload_call\n\t.hidden ep_preload_call\nep_preload_call:\n"
    "1:\tmov x8, x0\n\tmov x0, x1\n\tmov x1, x2\n\tmov x2, x3\n\tmov x3, x4\n\tmov x4, x5\n\tmov x5, x6\n"
    "\tsvc #0\n\tcmn x0, #4095\n\tb.cs 3f\n\tret\n"
    "2:\tstp x29, x30, [sp, #-80]!\n\t.cfi_def_cfa_offset 80\n\t.cfi_offset 29, -80\n\t.cfi_offset 30, -72\n"
    "\tmov x29, sp\n\tstp x0, x1, [sp, #16]\n\tstp x2, x3, [sp, #32]\n\tstp x4, x5, [sp, #48]\n\tstr x6, [sp, #64]\n"
    "\tbl ep_preload_call_seen\n"
    "\tldp x0, x1, [sp, #16]\n\tldp x2, x3, [sp, #32]\n\tldp x4, x5, [sp, #48]\n\tldr x6, [sp, #64]\n"
    "\tldp x29, x30, [sp], #80\n\t.cfi_def_cfa_offset 0\n\t.cfi_restore 29\n\t.cfi_restore 30\n\tb 1b\n"
    "3:\tb ep_preload_call_failed\n4:\tb ep_preload_call_stack\n5:\tb ep_preload_call_alone\n"
    "\t.cfi_endproc\n\t.size syscall, . - syscall");
#else
_Static_assert(SYS_seccomp == 383 && SYS_prctl == 172, "as below");
_Static_assert(SYS_sigaltstack == 186 && SYS_unshare == 337 && SYS_setns == 375, "as below");
__asm__(
    ".text\n\t.syntax unified\n\t.arm\n\t.p2align 2\n\t.globl syscall\n\t.type syscall, %function\n"
    "syscall:\n\t.fnstart\n\t.cfi_startproc\n"
    "\tmovw ip, #383\n\tcmp r0, ip\n\tbeq 2f\n\tcmp r0, #172\n\tbeq 2f\n\tcmp r0, #186\n\tbeq ep_preload_call_stack\n"
    "\tmovw ip, #337\n\tcmp r0, ip\n\tbeq ep_preload_call_alone\n\tmovw ip, #375\n\tcmp r0, ip\n\tbeq "
    "ep_preload_call_alone\n"
    "\t.globl ep_preload_call\n\t.hidden ep_preload_call\nep_preload_call:\n"
    "1:\tmov ip, sp\n\tpush {r4, r5, r6, r7}\n\t.save {r4, r5, r6, r7}\n\t.cfi_adjust_cfa_offset 16\n"
    "\t.cfi_offset 4, -16\n\t.cfi_offset 5, -12\n\t.cfi_offset 6, -8\n\t.cfi_offset 7, -4\n"
    "\tmov r7, r0\n\tmov r0, r1\n\tmov r1, r2\n\tmov r2, r3\n\tldmia ip, {r3, r4, r5, r6}\n\tsvc #0\n"
    "\tpop {r4, r5, r6, r7}\n\t.cfi_adjust_cfa_offset -16\n\t.cfi_restore 4\n\t.cfi_restore 5\n"
    "\t.cfi_restore 6\n\t.cfi_restore 7\n\tcmn r0, #4096\n\tbxcc lr\n\tb ep_preload_call_failed\n"
    "2:\tpush {r0, r1, r2, r3, ip, lr}\n\t.cfi_adjust_cfa_offset 24\n\t.cfi_offset 14, -4\n"
    "\tbl ep_preload_call_seen\n"
    "\tpop {r0, r1, r2, r3, ip, lr}\n\t.cfi_adjust_cfa_offset -24\n\t.cfi_restore 14\n\tb 1b\n"
    "\t.cfi_endproc\n\t.fnend\n\t.size syscall, . - syscall");
#endif

/* Programs that this one executes start below the filter, so the preload library is not for them. The string is changed
 * in place, for copies of the environment's pointers too. Colons separate names and may be repeated. */
static void preload_no_more(void)
{
    char *at = getenv("LD_PRELOAD");
    Dl_info self;

    if (!at || dladdr((void *)(uintptr_t)preload_no_more, &self) == 0)
        return;
    const char *slash = strrchr(self.dli_fname, '/'), *name = slash ? slash + 1 : self.dli_fname;
    while (*at) {
        const size_t size = strcspn(at, ": "), own = strlen(name);
        if (size >= own && memcmp(at + size - own, name, own) == 0)
            memset(at, ':', size);
        at += size + strspn(at + size, ": ");
    }
}

static void filter_end(void)
{
    ep_preload_filter_end();
    preload_no_more();
}

__attribute__((constructor)) static void follow(void)
{
    ep_linux_filter_end = filter_end;
}
