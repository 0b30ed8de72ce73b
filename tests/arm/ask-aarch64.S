/* ask: entered at any instruction of the program, with that instruction's registers; saves them all below sp (nothing
   of the program's lies there), calls guest_answer() and has them all back at `asked`, where the debugger takes over. */

#define SIZE 816

        .text
        .globl  ask
        .type   ask, %function
ask:
        sub     sp, sp, #SIZE
        stp     x0, x1, [sp, #0]
        stp     x2, x3, [sp, #16]
        stp     x4, x5, [sp, #32]
        stp     x6, x7, [sp, #48]
        stp     x8, x9, [sp, #64]
        stp     x10, x11, [sp, #80]
        stp     x12, x13, [sp, #96]
        stp     x14, x15, [sp, #112]
        stp     x16, x17, [sp, #128]
        stp     x18, x19, [sp, #144]
        stp     x20, x21, [sp, #160]
        stp     x22, x23, [sp, #176]
        stp     x24, x25, [sp, #192]
        stp     x26, x27, [sp, #208]
        stp     x28, x29, [sp, #224]
        add     x0, sp, #SIZE
        stp     x30, x0, [sp, #240]
        mrs     x0, nzcv
        mrs     x1, fpcr
        mrs     x2, fpsr
        stp     x0, x1, [sp, #256]
        str     x2, [sp, #272]
        stp     q0, q1, [sp, #288]
        stp     q2, q3, [sp, #320]
        stp     q4, q5, [sp, #352]
        stp     q6, q7, [sp, #384]
        stp     q8, q9, [sp, #416]
        stp     q10, q11, [sp, #448]
        stp     q12, q13, [sp, #480]
        stp     q14, q15, [sp, #512]
        stp     q16, q17, [sp, #544]
        stp     q18, q19, [sp, #576]
        stp     q20, q21, [sp, #608]
        stp     q22, q23, [sp, #640]
        stp     q24, q25, [sp, #672]
        stp     q26, q27, [sp, #704]
        stp     q28, q29, [sp, #736]
        stp     q30, q31, [sp, #768]
        mov     x0, sp
        bl      guest_answer
        ldp     q0, q1, [sp, #288]
        ldp     q2, q3, [sp, #320]
        ldp     q4, q5, [sp, #352]
        ldp     q6, q7, [sp, #384]
        ldp     q8, q9, [sp, #416]
        ldp     q10, q11, [sp, #448]
        ldp     q12, q13, [sp, #480]
        ldp     q14, q15, [sp, #512]
        ldp     q16, q17, [sp, #544]
        ldp     q18, q19, [sp, #576]
        ldp     q20, q21, [sp, #608]
        ldp     q22, q23, [sp, #640]
        ldp     q24, q25, [sp, #672]
        ldp     q26, q27, [sp, #704]
        ldp     q28, q29, [sp, #736]
        ldp     q30, q31, [sp, #768]
        ldp     x0, x1, [sp, #256]
        ldr     x2, [sp, #272]
        msr     nzcv, x0
        msr     fpcr, x1
        msr     fpsr, x2
        ldp     x0, x1, [sp, #0]
        ldp     x2, x3, [sp, #16]
        ldp     x4, x5, [sp, #32]
        ldp     x6, x7, [sp, #48]
        ldp     x8, x9, [sp, #64]
        ldp     x10, x11, [sp, #80]
        ldp     x12, x13, [sp, #96]
        ldp     x14, x15, [sp, #112]
        ldp     x16, x17, [sp, #128]
        ldp     x18, x19, [sp, #144]
        ldp     x20, x21, [sp, #160]
        ldp     x22, x23, [sp, #176]
        ldp     x24, x25, [sp, #192]
        ldp     x26, x27, [sp, #208]
        ldp     x28, x29, [sp, #224]
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
        stp     d8, d9, [sp, #0x10]
        stp     d10, d11, [sp, #0x20]
        stp     d12, d13, [sp, #0x30]
        stp     d14, d15, [sp, #0x40]
        stp     x29, x30, [sp, #-0x70]!
        .cfi_adjust_cfa_offset 0x70
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        mov     x29, sp
        .cfi_def_cfa_register x29
        stp     xzr, xzr, [sp, #0x10]
        stp     x19, x20, [sp, #0x20]
        stp     x21, x22, [sp, #0x30]
        stp     x23, x24, [sp, #0x40]
        stp     x25, x26, [sp, #0x50]
        stp     x27, x28, [sp, #0x60]
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
        ldp     x19, x20, [x29, #0x20]
        ldp     x21, x22, [x29, #0x30]
        ldp     x23, x24, [x29, #0x40]
        ldp     x25, x26, [x29, #0x50]
        ldp     x27, x28, [x29, #0x60]
        ldp     x2, x1, [x29, #0x70]
        ldp     d8, d9, [x29, #0x80]
        ldp     d10, d11, [x29, #0x90]
        ldp     d12, d13, [x29, #0xa0]
        ldp     d14, d15, [x29, #0xb0]
        ldp     x29, x30, [x29]
        add     x1, x1, #4
        mov     sp, x2
        br      x1
        .size   fault_resume, . - fault_resume

        .section .note.GNU-stack, "", %progbits
