/*
 * Private to tests/arm/shadow: what makes single steps (step_<arch>.c), and what keeps the shadow stack (shadow.c).
 *
 *   shadow_run() -> shadow_step_run() -> shadow_step() before each instruction -> shadow_follow()
 */
#ifndef SHADOW_STEP_H
#define SHADOW_STEP_H

#include "shadow.h"

/* An open call. */
struct shadow_call {
    uintptr_t slot; /* x86-64: where the return address lies; aarch64: sp when the call was made */
    uintptr_t to;   /* the return address */
    bool fault;     /* no call: a hardware exception at `to`, which the runtime turns into a throw; slot is sp then */
    bool left;      /* fault: sp has been below slot since */
};

#ifdef __aarch64__
#define SHADOW_ARCH "aarch64"
#else
#define SHADOW_ARCH "x86_64"
#endif

/* ---- step_<arch>.c ---- */

/* 0 or a negative errno value. Context: init. */
int shadow_step_prepare(void);

/* Calls function(argument); shadow_step() is called before each instruction until it answers false, or the function
 * returns. Context: init. */
void shadow_step_run(void (*function)(void *), void *argument);

/* Follows on the shadow stack what the instruction at `before` did. Context: signal. */
void shadow_follow(const struct ep_registers *before, const struct ep_registers *now);

/* ---- shadow.c ---- */

/* *now: the registers; the bounds of the stack are filled in here. False: step no more. Context: signal. */
bool shadow_step(struct ep_registers *now);

/* The innermost open call, or NULL. Context: signal. */
struct shadow_call *shadow_top(void);

void shadow_push(uintptr_t slot, uintptr_t to, bool fault);
void shadow_pop(void);

/* A return was executed; right: it went where the shadow says. */
void shadow_returned(bool right);

/* Authenticated return addresses that had a code in them. */
extern uint64_t shadow_signed;

/* Where the .NET runtime's handlers of SIGSEGV and SIGFPE let the thread go on; NULL: nowhere. */
extern const char shadow_throw_hardware[] __asm__("RhpThrowHwEx") __attribute__((weak, visibility("hidden")));

#endif
