/* ask: entered at any instruction of the program, with that instruction's registers; saves them all below sp (nothing
   of the program's lies there), calls guest_answer() and has them all back at `asked`, where the debugger takes over.
   The flags are the debugger's: it sets ARM state here and the program's own cpsr afterwards. */

        .syntax unified
        .arch   armv7-a
        .fpu    vfpv3
        .text
        .arm
        .globl  ask
        .type   ask, %function
ask:
        sub     sp, sp, #64
        stmia   sp, {r0-r12}
        add     r0, sp, #64
        str     r0, [sp, #52]
        str     lr, [sp, #56]
        mov     r4, sp
        vmrs    r5, fpscr
        bic     sp, sp, #7
        vpush   {d0-d15}
        vpush   {d16-d31}
        mov     r0, r4
        blx     guest_answer
        vpop    {d16-d31}
        vpop    {d0-d15}
        vmsr    fpscr, r5
        mov     sp, r4
        ldr     lr, [sp, #56]
        ldmia   sp, {r0-r12}
        add     sp, sp, #64
        b       asked
        .size   ask, . - ask

/* On a page of its own: code that shares one with a breakpoint is slow in QEMU. */
        .balign 4096
        .globl  asked
        .type   asked, %object
asked:
        nop
        b       asked
        .balign 4096

        .thumb
        .thumb_func
        .globl  RhpAssignRef
        .type   RhpAssignRef, %function
RhpAssignRef:                           /* *r0 = r1; the runtime's has tables too */
        .fnstart
        str     r1, [r0]
        bx      lr
        .fnend
        .size   RhpAssignRef, . - RhpAssignRef

        .thumb_func
        .globl  RhpStackProbe
        .type   RhpStackProbe, %function
RhpStackProbe:                          /* every register is the caller's */
        .fnstart
        bx      lr
        .fnend
        .size   RhpStackProbe, . - RhpStackProbe

/* The frame that .NET throws a hardware fault from, in the words, the order and with the table of RhpThrowHwEx in its
   src/coreclr/nativeaot/Runtime/arm/ExceptionHandling.S (read, not linked: the runtime's libraries for ARM are not to
   be had here). r0: exception code, r1: where; sp, r11 and the rest are the fault's, lr is lost. Where .NET's goes on
   with a catch block, this one lets the thread go on behind the instruction at fault. */
#define EXCEPTION_INFO 0x168
        .thumb_func
        .globl  RhpThrowHwEx
        .type   RhpThrowHwEx, %function
RhpThrowHwEx:
        .fnstart
        mov     r2, r0
        mov     r0, sp
        mov     lr, r1
        vpush   {d8-d15}
        .vsave  {d8-d15}
        push    {r0, lr}
        .save   {r0, lr}
        push    {r0, r4-r11, lr}
        .save   {r0, r4-r11, lr}
        sub     sp, sp, #EXCEPTION_INFO
        .pad    #EXCEPTION_INFO
        mov     r4, r2
        bl      zero_thread
        mov     r1, sp
        mov     r0, r4
        bl      RhThrowHwEx
        b       fault_resume
        .fnend
        .size   RhpThrowHwEx, . - RhpThrowHwEx

        .thumb_func
        .globl  fault_resume
        .type   fault_resume, %function
fault_resume:
        .fnstart
        .cantunwind
        add     r0, sp, #EXCEPTION_INFO
        ldr     r1, [r0, #44]
        ldrh    r2, [r1]
        lsrs    r2, r2, #11
        cmp     r2, #0x1d
        ite     hs
        addhs   r1, #4
        addlo   r1, #2
        orr     r1, r1, #1
        add     r2, r0, #48
        vldm    r2, {d8-d15}
        ldr     r3, [r0, #40]
        add     r2, r0, #4
        ldm     r2, {r4-r11}
        mov     sp, r3
        bx      r1
        .fnend
        .size   fault_resume, . - fault_resume

        .section .note.GNU-stack, "", %progbits
