/* What the fuzz target knows of aarch64. */
#include <string.h>

#include "pieces_cfi.h"

static const struct ep_cfi_registers registers = {.sp = 31, .fp = 29, .base = 255, .ra = 30};

int fuzz_row(const struct ep_module *module, uintptr_t pc, struct ep_cfi_row *row)
{
    return ep_cfi_find(module, &registers, pc, row);
}

uintptr_t fuzz_pc(uintptr_t any)
{
    return any & ~(uintptr_t)3;
}

unsigned fuzz_code(uint8_t *to, uint32_t random)
{
    /* The random bits that `bits` of an instruction has are put to `shift`. */
    static const struct {
        uint32_t code;
        uint8_t bits, shift;
    } pieces[] = {
        {0xa9807bfd, 7, 15},  /* stp x29, x30, [sp, #n]! */
        {0xa8c07bfd, 7, 15},  /* ldp x29, x30, [sp], #n */
        {0xa8c07bfd, 3, 15},  /* the same, less */
        {0xa9407bfd, 7, 15},  /* ldp x29, x30, [sp, #n] */
        {0xa9407bfd, 2, 15},  /* the same, less */
        {0xa94053f3, 7, 15},  /* ldp x19, x20, [sp, #n] */
        {0x6d4027e8, 7, 15},  /* ldp d8, d9, [sp, #n] */
        {0x6cc027e8, 3, 15},  /* ldp d8, d9, [sp], #n */
        {0xf84007fe, 9, 12},  /* ldr x30, [sp], #n */
        {0xf94003fe, 12, 10}, /* ldr x30, [sp, #n] */
        {0xf94003fd, 2, 10},  /* ldr x29, [sp, #n] */
        {0xf94003f3, 12, 10}, /* ldr x19, [sp, #n] */
        {0x910003ff, 13, 10}, /* add sp, sp, #n */
        {0x910003ff, 6, 10},  /* the same, less */
        {0x910003bf, 13, 10}, /* add sp, x29, #n */
        {0x910003bf, 0, 0},   /* mov sp, x29 */
        {0xd10003bf, 6, 10},  /* sub sp, x29, #n */
        {0xd2800010, 16, 5},  /* mov x16, #n */
        {0xf2a00010, 16, 5},  /* movk x16, #n, lsl #16 */
        {0xf2a00010, 8, 5},   /* the same, less */
        {0x8b3063ff, 0, 0},   /* add sp, sp, x16 */
        {0xd503201f, 0, 0},   /* nop */
        {0xd50323bf, 0, 0},   /* autiasp */
        {0xd65f03c0, 0, 0},   /* ret */
        {0xd65f0bff, 0, 0},   /* retaa */
        {0xd61f0200, 0, 0},   /* br x16 */
        {0x14000000, 8, 0},   /* b */
        {0x94000000, 8, 0},   /* bl */
        {0x910003fd, 6, 10},  /* add x29, sp, #n */
        {0x90000010, 0, 0},   /* adrp x16 */
        {0xf9400211, 4, 10},  /* ldr x17, [x16, #n] */
        {0x91000210, 4, 10},  /* add x16, x16, #n */
        {0xd61f0220, 0, 0},   /* br x17 */
        {0xd10003ff, 13, 10}, /* sub sp, sp, #n */
        {0xa9007bfd, 7, 15},  /* stp x29, x30, [sp, #n] */
        {0xf8000ffe, 9, 12},  /* str x30, [sp, #n]! */
        {0xf940001d, 5, 5},   /* ldr x29, [x] */
        {0x54000000, 19, 5},  /* b.eq */
        {0xb4000000, 8, 5},   /* cbz */
        {0x36000000, 6, 5},   /* tbz */
        {0x17ffffc0, 6, 0},   /* b, backwards */
        {0xd63f0000, 0, 0},   /* blr x0 */
        {0xd4200000, 0, 0},   /* brk */
        {0xd2801168, 0, 0},   /* mov x8, #139; svc: rt_sigreturn */
    };
    unsigned which = random % (sizeof pieces / sizeof pieces[0]);
    uint32_t code[2] = {pieces[which].code, 0xd4000001};

    code[0] |= (random >> 8 & ((1u << pieces[which].bits) - 1)) << pieces[which].shift;
    memcpy(to, code, sizeof code);
    return code[0] == 0xd2801168 ? 8 : 4;
}

unsigned fuzz_table(uint8_t *to, uint32_t random)
{
    return fuzz_cfi(to, random, &registers);
}
