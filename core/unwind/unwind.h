/*
 * Stack unwinding: turns a thread's registers into a list of code addresses.
 *
 *   the caller provides   registers and stack bounds (struct ep_registers), a struct ep_unwinder with the loaded
 * modules and the rule cache, and memory for EP_MAX_DEPTH addresses ep_unwind() returns   the addresses, innermost
 * first, and how far they can be trusted (enum ep_quality) it guarantees         no lock, no allocation, no variable
 * outside the unwinder. It reads stack memory only inside the given bounds, so a wrong register ends the walk and never
 * faults it does not           look up names, or restore registers that no return address depends on
 *
 * README.md has the files of this folder. noreturn.c is for crashes.
 */
#ifndef EP_UNWIND_H
#define EP_UNWIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/options.h>
#include <edgeprof/registers.h>
#include "core/unwind/frames.h"

enum ep_quality {
    EP_STACK_EXACT = 0, /* to the root, every frame by a rule */
    EP_STACK_GAP = 1,   /* to the root, with a guess in between */
    EP_STACK_CUT = 2,   /* not to the root */
};

struct ep_stack {
    atomic_uintptr_t *pc; /* the caller's, EP_MAX_DEPTH words: [0] as interrupted, then return addresses - 1 */
    uint16_t depth;
    uint8_t quality;       /* enum ep_quality */
    uint8_t end;           /* EP_FRAME_NONE, _CUT, _DEEP or _HIJACK: what stands in for the missing root side */
    bool outside;          /* a frame is in code of no known module: generated, or loaded since the last look */
    uint16_t hits, misses; /* of the rule cache */
};

/* The bits that a code address has: not ARM's Thumb bit, nor those where arm64 keeps pointer authentication. Linux for
 * arm64 has 39, 42, 48 or 52 bits of user space, which hint 7 (xpaclri) tells on a machine that authenticates: it
 * clears the others. Elsewhere it does nothing. Programs get more than 48 only when they ask for them. Context: signal.
 */
static inline uintptr_t ep_code_mask(void)
{
    if (sizeof(uintptr_t) == 4)
        return ~(uintptr_t)1;
#ifdef __aarch64__
    register uintptr_t bits __asm__("x30") = 0x7fffffffffffffu;
    __asm__("hint #7" : "+r"(bits));
    return bits & 0xffffffffffffu;
#else
    return (uintptr_t)0xffffffffffffu;
#endif
}

static inline uintptr_t ep_code_address(uintptr_t word)
{
    return word & ep_code_mask();
}

/* Where .eh_frame_hdr's table was found to hold an address's function: some of the address's bits << EP_NEAR_BITS |
 * index. */
#define EP_NEAR_SHIFT 16u /* an entry is for so many low bits of addresses */
#define EP_NEAR_BITS  20u
#define EP_NEAR       (sizeof(uintptr_t) == 8 ? 64u : 1u)

struct ep_module {
    uintptr_t start, end;
    uintptr_t bias;
    uintptr_t table;
    size_t table_size;
    uintptr_t image_start, image_end;
    const uint8_t *build_id;
    const char *path;
    uint32_t near; /* bytes from here to struct ep_modules' near; 0: there is none */
    uint32_t base; /* in the linear address space */
    uint16_t build_id_size;
    bool data;         /* types, not code */
    bool execute_only; /* nobody may read the code: rules come from tables alone */
    bool declared;     /* in the current segment */
    bool wanted;       /* by a message that is being encoded */
};

struct ep_modules {
    atomic_uint count; /* published; slots below it never change but for declared */
    uint32_t next_base;
    unsigned refused, counted; /* had no room: in this look, and in any */
    uint64_t generation;
    struct ep_module slot[EP_MAX_MODULES];
    _Atomic uint32_t near[EP_NEAR]; /* only hints, also after a module has gone */
};

/* Everything that a walk reads besides the stack. */
struct ep_unwinder {
    uintptr_t hijack_stub; /* where .NET's runtime makes a hijacked frame return to; 0: there is no such runtime */
    struct ep_modules modules;
    atomic_bool thorough;                              /* ep_unwind_thorough() */
    _Alignas(64) _Atomic uint64_t rule[EP_RULE_CACHE]; /* no bucket in two cache lines */
};

/* Walks a stack from the registers in *registers. Reads stack memory only inside the bounds that *registers gives, and
 * everything else through `unwinder`: it stays valid as long as the caller holds it, whatever ep_stop() does meanwhile.
 * Context: signal. */
void ep_unwind(struct ep_unwinder *unwinder, const struct ep_registers *registers, struct ep_stack *stack);

/* From here on, or no longer, walks search the stack for the caller of a function that never returns and has no table
 * (noreturn.c), which takes too long for samples. Context: signal. */
void ep_unwind_thorough(struct ep_unwinder *unwinder, bool on);

/* Goes to the frame's caller. All registers in it are certain, or it returns false and
 * the frame stays: at the root, at an interrupted frame, or in code without a table. base may be 0 instead: not known.
 * Context: signal. */
bool ep_unwind_caller(struct ep_unwinder *unwinder, struct ep_caller *frame);

/* The module whose code holds pc, or NULL. Context: signal. */
const struct ep_module *ep_module_find(const struct ep_modules *modules, uintptr_t pc);

/* ep_module_linear() of an address outside the module *hint. Context: collect. */
uint32_t ep_module_linear_elsewhere(const struct ep_modules *modules, uintptr_t pc, unsigned *hint);

/* Linear address of pc, EP_FRAME_UNKNOWN outside all modules. *hint is the last hit. Context: collect. */
static inline uint32_t ep_module_linear(const struct ep_modules *modules, uintptr_t pc, unsigned *hint)
{
    const struct ep_module *module = &modules->slot[*hint]; /* an unused slot holds no address */
    uintptr_t offset = pc - module->start;

    return offset < module->end - module->start ? module->base + (uint32_t)offset
                                                : ep_module_linear_elsewhere(modules, pc, hint);
}

/* The module that holds a linear address, or NULL. Context: collect. */
struct ep_module *ep_module_of_linear(struct ep_modules *modules, uint32_t address);

/* End of the function that starts there, by its table; 0: none. One per architecture. Context: collect. */
uintptr_t ep_function_end(const struct ep_modules *modules, uintptr_t function);

/* Start of the function that holds pc, likewise; 0 as well where tables do not tell functions apart. Context: signal.
 */
uintptr_t ep_function_start(const struct ep_module *module, uintptr_t pc);

#endif
