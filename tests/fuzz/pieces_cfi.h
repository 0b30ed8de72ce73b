/* Pieces of .eh_frame, for the architectures that have it. */
#ifndef EP_FUZZ_PIECES_CFI_H
#define EP_FUZZ_PIECES_CFI_H

#include "fuzz.h"

/* One instruction for a call frame information program, as fuzz_table() returns it. */
unsigned fuzz_cfi(uint8_t *to, uint32_t random, const struct ep_cfi_registers *registers);

#endif
