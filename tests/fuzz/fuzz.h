/* What a fuzz input is, and what the targets' architectures know: shared by the target (fuzz_unwind.c), its mutations
 * (mutate.c) and arch_<arch>.c. */
#ifndef EP_FUZZ_H
#define EP_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "tests/unit/core_rooms.h"

#define IMAGE_MOST 65536u
#define STACK_MOST 8192u
#define ALT_MOST   1024u

/* An input: struct head | stack (head.stack bytes) | image (the rest). */
struct head {
    uint16_t table, table_size; /* in the image */
    uint16_t code, code_size;
    uint16_t pc;           /* in the code */
    uint16_t sp, fp, base; /* in the stack, or a little beyond */
    uint16_t stack;
    uint8_t relocate; /* stack words whose low bits say so become addresses */
    uint8_t flags;    /* enum flags */
    uint16_t lr;      /* in the code */
    uint16_t alt;     /* the stack's last bytes are those of the signal stack */
    uint16_t root;    /* stack_root, in the stack */
    uint16_t hijack;  /* hijack stub, in the code */
    uint16_t gap;     /* so many bytes of zeros are put into the stack */
    uint16_t gap_at;
};

enum flags {
    FLAG_SP_ALT = 1,  /* sp is on the signal stack */
    FLAG_SP_WILD = 2, /* sp is anywhere: with FLAG_SP_ALT near the end of the address space, else near 0 */
    FLAG_FP_ALT = 4,  /* likewise */
    FLAG_FP_WILD = 8,
    FLAG_ROOT = 16,
    FLAG_HIJACK = 32,
};

/* The table's row for pc, as the architecture's unwinder asks for it. */
int fuzz_row(const struct ep_module *module, uintptr_t pc, struct ep_cfi_row *row);

/* A pc as the processor can have it, from any number. */
uintptr_t fuzz_pc(uintptr_t any);

/* A few instructions that unwinders look at, or bytes of a table that mean something. Return their size, at most
 * FUZZ_PIECE. */
#define FUZZ_PIECE 16u
unsigned fuzz_code(uint8_t *to, uint32_t random);
unsigned fuzz_table(uint8_t *to, uint32_t random);

#endif
