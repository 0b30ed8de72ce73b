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

        .section .note.GNU-stack, "", %progbits
