/* Between the stepper and the code that it steps: struct machine of step_aarch64.c. */

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
        stp     x19, x20, [sp, #16]
        stp     x21, x22, [sp, #32]
        stp     x23, x24, [sp, #48]
        stp     x25, x26, [sp, #64]
        stp     x27, x28, [sp, #80]
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
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
        ldp     x19, x20, [sp, #16]
        ldp     x21, x22, [sp, #32]
        ldp     x23, x24, [sp, #48]
        ldp     x25, x26, [sp, #64]
        ldp     x27, x28, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
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
        stp     x19, x20, [sp, #16]
        stp     x21, x22, [sp, #32]
        stp     x23, x24, [sp, #48]
        stp     x25, x26, [sp, #64]
        stp     x27, x28, [sp, #80]
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        mov     x2, sp
        str     x2, [x0, #HOST]
        mov     x16, x0
        mov     x17, x1
        ldp     x0, x1, [x16, #SP]
        mov     sp, x0
        msr     nzcv, x1
        ldp     q0, q1, [x16, #V]
        ldp     q2, q3, [x16, #V + 32]
        ldp     q4, q5, [x16, #V + 64]
        ldp     q6, q7, [x16, #V + 96]
        ldp     q8, q9, [x16, #V + 128]
        ldp     q10, q11, [x16, #V + 160]
        ldp     q12, q13, [x16, #V + 192]
        ldp     q14, q15, [x16, #V + 224]
        ldp     q16, q17, [x16, #V + 256]
        ldp     q18, q19, [x16, #V + 288]
        ldp     q20, q21, [x16, #V + 320]
        ldp     q22, q23, [x16, #V + 352]
        ldp     q24, q25, [x16, #V + 384]
        ldp     q26, q27, [x16, #V + 416]
        ldp     q28, q29, [x16, #V + 448]
        ldp     q30, q31, [x16, #V + 480]
        ldp     x0, x1, [x16, #0]
        ldp     x2, x3, [x16, #16]
        ldp     x4, x5, [x16, #32]
        ldp     x6, x7, [x16, #48]
        ldp     x8, x9, [x16, #64]
        ldp     x10, x11, [x16, #80]
        ldp     x12, x13, [x16, #96]
        ldp     x14, x15, [x16, #112]
        ldp     x18, x19, [x16, #144]
        ldp     x20, x21, [x16, #160]
        ldp     x22, x23, [x16, #176]
        ldp     x24, x25, [x16, #192]
        ldp     x26, x27, [x16, #208]
        ldp     x28, x29, [x16, #224]
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
        stp     x2, x3, [x16, #16]
        stp     x4, x5, [x16, #32]
        stp     x6, x7, [x16, #48]
        stp     x8, x9, [x16, #64]
        stp     x10, x11, [x16, #80]
        stp     x12, x13, [x16, #96]
        stp     x14, x15, [x16, #112]
        stp     x18, x19, [x16, #144]
        stp     x20, x21, [x16, #160]
        stp     x22, x23, [x16, #176]
        stp     x24, x25, [x16, #192]
        stp     x26, x27, [x16, #208]
        stp     x28, x29, [x16, #224]
        str     x30, [x16, #240]
        mov     x0, sp
        mrs     x1, nzcv
        stp     x0, x1, [x16, #SP]
        stp     q0, q1, [x16, #V]
        stp     q2, q3, [x16, #V + 32]
        stp     q4, q5, [x16, #V + 64]
        stp     q6, q7, [x16, #V + 96]
        stp     q8, q9, [x16, #V + 128]
        stp     q10, q11, [x16, #V + 160]
        stp     q12, q13, [x16, #V + 192]
        stp     q14, q15, [x16, #V + 224]
        stp     q16, q17, [x16, #V + 256]
        stp     q18, q19, [x16, #V + 288]
        stp     q20, q21, [x16, #V + 320]
        stp     q22, q23, [x16, #V + 352]
        stp     q24, q25, [x16, #V + 384]
        stp     q26, q27, [x16, #V + 416]
        stp     q28, q29, [x16, #V + 448]
        stp     q30, q31, [x16, #V + 480]
/* Where the handler of a copy's fault goes on: x16 is the machine. */
        .globl  shadow_faulted
        .hidden shadow_faulted
shadow_faulted:
        ldr     x1, [x16, #HOST]
        mov     sp, x1
        ldp     x19, x20, [sp, #16]
        ldp     x21, x22, [sp, #32]
        ldp     x23, x24, [sp, #48]
        ldp     x25, x26, [sp, #64]
        ldp     x27, x28, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        ldp     x29, x30, [sp], #160
        ret
        .size   shadow_in, . - shadow_in

        .section .note.GNU-stack, "", %progbits
