/* Hooks between the runtime's assembly and its managed code. They leave no frame, because the runtime recognises its own
 * return addresses; see exception_hooks.c. They are aligned, because managed code reads the second lowest bit of a
 * function's address as a flag. */
        .text

/* NAME(object, info) -> ep_dotnet_throwing(again, return address, sp after it, rbp, rbx) -> the real one */
        .macro THROWING name, again
        .weak   __real_\name
        .globl  __wrap_\name
        .hidden __wrap_\name
        .type   __wrap_\name, @function
        .p2align 4
__wrap_\name:
        .cfi_startproc
        push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        sub     $8, %rsp
        .cfi_adjust_cfa_offset 8
        mov     $\again, %edi
        mov     24(%rsp), %rsi
        lea     32(%rsp), %rdx
        mov     %rbp, %rcx
        mov     %rbx, %r8
        call    ep_dotnet_throwing
        add     $8, %rsp
        .cfi_adjust_cfa_offset -8
        pop     %rsi
        .cfi_adjust_cfa_offset -8
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        jmp     __real_\name
        .cfi_endproc
        .size   __wrap_\name, . - __wrap_\name
        .endm

        THROWING RhThrowEx, 0
        THROWING RhThrowHwEx, 0
        THROWING RhRethrow, 1

        .weak   __real_OnFirstChanceException
        .globl  __wrap_OnFirstChanceException
        .hidden __wrap_OnFirstChanceException
        .type   __wrap_OnFirstChanceException, @function
        .p2align 4
__wrap_OnFirstChanceException:
        .cfi_startproc
        push    %rdi
        .cfi_adjust_cfa_offset 8
        call    ep_dotnet_first_chance
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        jmp     __real_OnFirstChanceException
        .cfi_endproc
        .size   __wrap_OnFirstChanceException, . - __wrap_OnFirstChanceException

        .section .note.GNU-stack, "", @progbits
