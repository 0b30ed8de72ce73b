/* _start of a program whose every page is guarded (BTI): that of the C library may have no landing pad. */
        .text
        .globl  _start
        .type   _start, %function
_start:
        .cfi_startproc
        .cfi_undefined x30
        hint    #34             /* bti c */
        mov     x29, #0
        mov     x30, #0
        mov     x5, x0
        ldr     x1, [sp]
        add     x2, sp, #8
        mov     x6, sp
        adrp    x0, main
        add     x0, x0, :lo12:main
        mov     x3, #0
        mov     x4, #0
        bl      __libc_start_main
        bl      abort
        .cfi_endproc
        .size   _start, . - _start

        .data
        .globl  __dso_handle
        .hidden __dso_handle
__dso_handle:
        .xword  0

        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000000, 4, 1, 0     /* GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI */

        .section .note.GNU-stack, "", %progbits
