/* See trampoline_x86_64.S. */
        .syntax unified
        .thumb
        .text

        .macro THROWING name, again
        .weak   __real_\name
        .globl  __wrap_\name
        .hidden __wrap_\name
        .type   __wrap_\name, %function
        .thumb_func
        .p2align 4
__wrap_\name:
        .fnstart
        push    {r0, r1, r2, lr}
        .save   {r0, r1, r2, lr}
        sub     sp, #8
        .pad    #8
        str     r7, [sp]
        mov     r0, #\again
        bic     r1, lr, #1
        add     r2, sp, #24
        mov     r3, r11
        bl      ep_dotnet_throwing
        add     sp, #8
        pop     {r0, r1, r2, lr}
        b.w     __real_\name
        .fnend
        .size   __wrap_\name, . - __wrap_\name
        .endm

        THROWING RhThrowEx, 0
        THROWING RhThrowHwEx, 0
        THROWING RhRethrow, 1

        .weak   __real_OnFirstChanceException
        .globl  __wrap_OnFirstChanceException
        .hidden __wrap_OnFirstChanceException
        .type   __wrap_OnFirstChanceException, %function
        .thumb_func
        .p2align 4
__wrap_OnFirstChanceException:
        .fnstart
        push    {r0, lr}
        .save   {r0, lr}
        bl      ep_dotnet_first_chance
        pop     {r0, lr}
        b.w     __real_OnFirstChanceException
        .fnend
        .size   __wrap_OnFirstChanceException, . - __wrap_OnFirstChanceException

        .section .note.GNU-stack, "", %progbits
