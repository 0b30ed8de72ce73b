/* Between the stepper and the code that it steps: struct machine of step_aarch64.c. */

#include "../pairs_aarch64.S"

#define X    0
#define SP   248
#define NZCV 256
#define HOST 264
#define V    272

        .text

/* void shadow_enter(struct machine *machine, void *stack): runs shadow_loop(machine) on that stack. What is stepped has
   this stack for its own, and returns to shadow_back. */
        .balign 64
        .globl  shadow_enter
        .globl  shadow_back
        .hidden shadow_enter, shadow_back
        .type   shadow_enter, %function
shadow_enter:
        .cfi_startproc
        stp     x29, x30, [sp, #-160]!
        .cfi_def_cfa_offset 160
        .cfi_offset 29, -160
        .cfi_offset 30, -152
        mov     x29, sp
        pairs   stp, x, 19, 28, sp, 16
        pairs   stp, d, 8, 15, sp, 96
        mov     x19, sp
        str     x19, [x0, #SP]
        str     x29, [x0, #X + 29 * 8]
        adr     x2, shadow_back
        str     x2, [x0, #X + 30 * 8]
        mov     sp, x1
        bl      shadow_loop
        mov     sp, x29
        nop
shadow_back:
        pairs   ldp, x, 19, 28, sp, 16
        pairs   ldp, d, 8, 15, sp, 96
        ldp     x29, x30, [sp], #160
        ret
        .cfi_endproc
        .size   shadow_enter, . - shadow_enter

/* void shadow_out(struct machine *machine, const void *copy): executes a copy of an instruction. */
        .globl  shadow_out
        .hidden shadow_out
        .type   shadow_out, %function
shadow_out:
        stp     x29, x30, [sp, #-160]!
        pairs   stp, x, 19, 28, sp, 16
        pairs   stp, d, 8, 15, sp, 96
        mov     x2, sp
        str     x2, [x0, #HOST]
        mov     x16, x0
        mov     x17, x1
        ldp     x0, x1, [x16, #SP]
        mov     sp, x0
        msr     nzcv, x1
        pairs   ldp, q, 0, 31, x16, V
        pairs   ldp, x, 0, 15, x16, 0
        pairs   ldp, x, 18, 29, x16, 144
        ldr     x30, [x16, #240]
        br      x17
        .size   shadow_out, . - shadow_out

/* Where a copy goes on: x16 is the machine, x16 and x17 lie on the stack. */
        .globl  shadow_in
        .hidden shadow_in
        .type   shadow_in, %function
shadow_in:
        stp     x0, x1, [x16, #0]
        ldp     x0, x1, [sp], #16
        stp     x0, x1, [x16, #128]
        pairs   stp, x, 2, 15, x16, 16
        pairs   stp, x, 18, 29, x16, 144
        str     x30, [x16, #240]
        mov     x0, sp
        mrs     x1, nzcv
        stp     x0, x1, [x16, #SP]
        pairs   stp, q, 0, 31, x16, V
/* Where the handler of a copy's fault goes on: x16 is the machine. */
        .globl  shadow_faulted
        .hidden shadow_faulted
shadow_faulted:
        ldr     x1, [x16, #HOST]
        mov     sp, x1
        pairs   ldp, x, 19, 28, sp, 16
        pairs   ldp, d, 8, 15, sp, 96
        ldp     x29, x30, [sp], #160
        ret
        .size   shadow_in, . - shadow_in

        .section .note.GNU-stack, "", %progbits
