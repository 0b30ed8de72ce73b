/* ask: entered at any instruction of the program, with that instruction's registers; saves them all below sp (nothing
   of the program's lies there), calls guest_answer() and has them all back at `asked`, where the debugger takes over. */

#include "pairs_aarch64.S"

#define SIZE 816

        .text
        .globl  ask
        .type   ask, %function
ask:
        sub     sp, sp, #SIZE
        pairs   stp, x, 0, 29, sp, 0
        add     x0, sp, #SIZE
        stp     x30, x0, [sp, #240]
        mrs     x0, nzcv
        mrs     x1, fpcr
        mrs     x2, fpsr
        stp     x0, x1, [sp, #256]
        str     x2, [sp, #272]
        pairs   stp, q, 0, 31, sp, 288
        mov     x0, sp
        bl      guest_answer
        pairs   ldp, q, 0, 31, sp, 288
        ldp     x0, x1, [sp, #256]
        ldr     x2, [sp, #272]
        msr     nzcv, x0
        msr     fpcr, x1
        msr     fpsr, x2
        pairs   ldp, x, 0, 29, sp, 0
        ldr     x30, [sp, #240]
        add     sp, sp, #SIZE
        b       asked
        .size   ask, . - ask

/* On a page of its own: code that shares one with a breakpoint is slow in QEMU. */
        .balign 4096
        .globl  asked
asked:
        nop
        b       asked
        .balign 4096

/* What ILC's code calls with a convention of its own: *x14++ = x15. The runtime's has tables too. */
        .globl  RhpAssignRefArm64
        .type   RhpAssignRefArm64, %function
RhpAssignRefArm64:
        .cfi_startproc
        str     x15, [x14], #8
        ret
        .cfi_endproc
        .size   RhpAssignRefArm64, . - RhpAssignRefArm64

/* The frame that .NET throws a hardware fault from, in the words, the order and with the table of RhpThrowHwEx in its
   src/coreclr/nativeaot/Runtime/arm64/ExceptionHandling.S (read, not linked: the runtime's libraries for ARM are not to
   be had here). x0: exception code, x1: where; sp, x29 and the rest are the fault's. Where .NET's goes on with a catch
   block, this one lets the thread go on behind the instruction at fault. */
#define EXCEPTION_INFO 0x290
        .globl  RhpThrowHwEx
        .type   RhpThrowHwEx, %function
RhpThrowHwEx:
        .cfi_startproc
        mov     x3, sp
        sub     sp, sp, #0x50
        .cfi_adjust_cfa_offset 0x50
        stp     x3, x1, [sp]
        pairs   stp, d, 8, 15, sp, 16
        stp     x29, x30, [sp, #-0x70]!
        .cfi_adjust_cfa_offset 0x70
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        mov     x29, sp
        .cfi_def_cfa_register x29
        stp     xzr, xzr, [sp, #0x10]
        pairs   stp, x, 19, 28, sp, 32
        sub     sp, sp, #EXCEPTION_INFO
        stp     x0, x1, [sp, #-16]!
        bl      zero_thread
        ldp     x0, x1, [sp], #16
        mov     x1, sp
        bl      RhThrowHwEx
        b       fault_resume
        .cfi_endproc
        .size   RhpThrowHwEx, . - RhpThrowHwEx

        .globl  fault_resume
        .type   fault_resume, %function
fault_resume:
        pairs   ldp, x, 19, 28, x29, 32
        ldp     x2, x1, [x29, #0x70]
        pairs   ldp, d, 8, 15, x29, 128
        ldp     x29, x30, [x29]
        add     x1, x1, #4
        mov     sp, x2
        br      x1
        .size   fault_resume, . - fault_resume

        .section .note.GNU-stack, "", %progbits
