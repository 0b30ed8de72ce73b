/* Pieces of .eh_frame: instructions with operands that mean something to cfi.c. */
#include <string.h>

#include "pieces_cfi.h"

static const uint8_t no_operand[] = {0x00, 0x0a, 0x0b, 0x2d, 0x41, 0x42, 0x44, 0x48};
static const uint8_t of_register[] = {0x06, 0x07, 0x08, 0x0d};
static const uint8_t of_offset[] = {0x02, 0x0e, 0x13, 0x2e};
static const uint8_t of_both[] = {0x05, 0x09, 0x0c, 0x11, 0x12};

unsigned fuzz_cfi(uint8_t *to, uint32_t random, const struct ep_cfi_registers *registers)
{
    const uint8_t numbers[] = {registers->sp, registers->fp, registers->base, registers->ra, 1, 2};
    const uint8_t offsets[] = {0, 1, 2, 3, 4, 6, 8, 16, 32, 64, 0x70, 0x7e};
    uint8_t number = numbers[(random >> 8) % sizeof numbers] & 0x7f, offset = offsets[(random >> 16) % sizeof offsets];
    uint8_t which = (uint8_t)(random >> 24);

    switch (random % 10) {
    case 0:
    case 1:
        to[0] = no_operand[which % sizeof no_operand];
        return 1;
    case 2:
        memcpy(to, (uint8_t[]){of_register[which % sizeof of_register], number}, 2);
        return 2;
    case 3:
        memcpy(to, (uint8_t[]){of_offset[which % sizeof of_offset], offset}, 2);
        return 2;
    case 4:
        memcpy(to, (uint8_t[]){of_both[which % sizeof of_both], number, offset}, 3);
        return 3;
    case 5:
        memcpy(to, (uint8_t[]){(uint8_t)(which & 1 ? 0x80 : 0xc0) | (number & 0x3f), offset}, 2);
        return which & 1 ? 2 : 1;
    case 6: /* advance_loc2, _loc4, set_loc */
        memcpy(to, (uint8_t[]){which % 3 == 0 ? 1 : 2 + which % 3, offset, 0, 0, 0}, 5);
        return which % 3 == 1 ? 3 : 5;
    case 7: /* the CFA in memory */
        memcpy(to, (uint8_t[]){0x0f, 3, 0x70 + registers->fp, offset, 0x06}, 5);
        return 5;
    case 8: /* a register at fp */
        memcpy(to, (uint8_t[]){0x10, number, 2, 0x70 + registers->fp, which & 1 ? 0 : offset}, 5);
        return 5;
    default: /* .plt */
        memcpy(to,
               (uint8_t[]){0x0f, 11, 0x70 + registers->sp, 8, 0x80, 0, 0x3f, 0x1a, 0x30 + which % 16, 0x2a, 0x33, 0x24,
                           0x22},
               13);
        return 13;
    }
}
