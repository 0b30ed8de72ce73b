/*
 * Private to core/unwind: one row of a call frame information table, from .eh_frame or .ARM.exidx.
 */
#ifndef EP_UNWIND_CFI_H
#define EP_UNWIND_CFI_H

#include "core/unwind/unwind.h"

/* Registers by their DWARF numbers. base is one that a few functions hang their frame on (rbx in the dynamic linker).
 */
struct ep_cfi_registers {
    uint8_t sp, fp, base, ra;
};

/* The architecture's. */
extern const struct ep_cfi_registers ep_cfi_registers;

#define EP_CFI_REGISTERS 16

enum ep_cfi_cfa { EP_CFI_SP, EP_CFI_FP, EP_CFI_FP_LOAD, EP_CFI_BASE, EP_CFI_OTHER };

/* Where the caller's value of a register is. */
enum ep_cfi_state { EP_CFI_KEPT, EP_CFI_SAVED, EP_CFI_SAVED_AT_FP, EP_CFI_UNDEFINED };

enum { EP_CFI_REG_FP, EP_CFI_REG_BASE, EP_CFI_REG_RA, EP_CFI_REGS };

/* How a frame is described at one address. */
struct ep_cfi_rules {
    int32_t cfa_offset;          /* bytes */
    int32_t offset[EP_CFI_REGS]; /* EP_CFI_SAVED: bytes from the CFA */
    uint8_t state[EP_CFI_REGS];  /* enum ep_cfi_state */
    uint8_t cfa;                 /* enum ep_cfi_cfa */
    /* EP_CFI_OTHER: the register that cfa_offset is added to; of sp and fp the CFA is one word above what is read
     * there. EP_CFI_REGISTERS: not understood. */
    uint8_t other;
};

/* One row of a call frame information table, reduced to what a stack walk needs. */
struct ep_cfi_row {
    struct ep_cfi_rules rules;
    bool signal_frame;
    uintptr_t start, end; /* of the function */
    uintptr_t since;      /* where in it the row begins */
};

/* The same from .ARM.exidx; registers are core registers there, EP_CFI_REG_BASE is the base. -ENOENT also when the
 * table says that the function cannot be unwound. Context: signal. */
int ep_exidx_find(const struct ep_module *module, const struct ep_cfi_registers *registers, uintptr_t pc,
                  struct ep_cfi_row *row);

/* Evaluates the module's .eh_frame at pc, in place. 0, -ENOENT: no entry, -EINVAL: not understood or broken.
 * Context: signal. */
int ep_cfi_find(const struct ep_module *module, const struct ep_cfi_registers *registers, uintptr_t pc,
                struct ep_cfi_row *row);

/* Returns true if a function of .eh_frame starts at pc, by its index alone. Context: signal. */
bool ep_cfi_starts(const struct ep_module *module, uintptr_t pc);

#endif
