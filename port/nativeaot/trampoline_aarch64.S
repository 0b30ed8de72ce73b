/* See trampoline_x86_64.S. hint 34 is bti c: a landing pad, should the program's pages be guarded. */
        .text

        .macro THROWING name, again
        .weak   __real_\name
        .globl  __wrap_\name
        .hidden __wrap_\name
        .type   __wrap_\name, %function
        .p2align 4
__wrap_\name:
        .cfi_startproc
        hint    #34
        stp     x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset x29, -32
        .cfi_offset x30, -24
        stp     x0, x1, [sp, #16]
        mov     x3, x29
        mov     x29, sp
        mov     x0, #\again
        mov     x1, x30
        add     x2, sp, #32
        mov     x4, #0
        bl      ep_dotnet_throwing
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        b       __real_\name
        .cfi_endproc
        .size   __wrap_\name, . - __wrap_\name
        .endm

        THROWING RhThrowEx, 0
        THROWING RhThrowHwEx, 0
        THROWING RhRethrow, 1

        .weak   __real_OnFirstChanceException
        .globl  __wrap_OnFirstChanceException
        .hidden __wrap_OnFirstChanceException
        .type   __wrap_OnFirstChanceException, %function
        .p2align 4
__wrap_OnFirstChanceException:
        .cfi_startproc
        hint    #34
        stp     x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset x29, -32
        .cfi_offset x30, -24
        str     x0, [sp, #16]
        mov     x29, sp
        bl      ep_dotnet_first_chance
        ldr     x0, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        b       __real_OnFirstChanceException
        .cfi_endproc
        .size   __wrap_OnFirstChanceException, . - __wrap_OnFirstChanceException

        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000000, 4, 1, 0 /* GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI */

        .section .note.GNU-stack, "", %progbits
