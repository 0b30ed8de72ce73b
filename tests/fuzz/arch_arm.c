/* What the fuzz target knows of 32-bit ARM. */
#include <string.h>

#include "fuzz.h"

static const struct ep_cfi_registers registers = {.sp = 13, .fp = 11, .base = 7, .ra = 14};

int fuzz_row(const struct ep_module *module, uintptr_t pc, struct ep_cfi_row *row)
{
    return ep_exidx_find(module, &registers, pc, row);
}

uintptr_t fuzz_pc(uintptr_t any)
{
    return any & 1 ? any : any & ~(uintptr_t)3;
}

/* Random bits as `mask` says. */
struct piece {
    uint32_t code, mask;
};

static unsigned thumb16(uint8_t *to, uint32_t which, uint32_t random)
{
    static const struct piece pieces[] = {
        {0xb400, 0x1ff}, /* push */
        {0xbc00, 0x1ff}, /* pop */
        {0xbd80, 0x0},   /* pop {r7, pc} */
        {0xb000, 0xff},  /* add, sub sp */
        {0x46bd, 0x0},   /* mov sp, r7 */
        {0x4600, 0xff},  /* mov */
        {0xaf00, 0x1f},  /* add r7, sp, #n */
        {0x3700, 0xff},  /* adds r7, #n */
        {0x4770, 0x0},   /* bx lr */
        {0x4700, 0x78},  /* bx */
        {0x4780, 0x78},  /* blx */
        {0xe000, 0x7ff}, /* b */
        {0xbf00, 0x0},   /* nop */
        {0xdf00, 0x0},   /* svc 0 */
        {0x27ad, 0x0},   /* movs r7, #173 */
        {0x2777, 0x0},   /* movs r7, #119 */
    };
    which %= sizeof pieces / sizeof pieces[0];
    uint16_t code = (uint16_t)(pieces[which].code | (random & pieces[which].mask));

    memcpy(to, &code, sizeof code);
    return sizeof code;
}

static unsigned thumb32(uint8_t *to, uint32_t which, uint32_t random)
{
    static const struct piece pieces[] = {
        {0xe92d0000, 0x5fff},     /* push.w */
        {0xe8bd0000, 0xdfff},     /* pop.w */
        {0xf84d0d04, 0xf000},     /* str rt, [sp, #-4]! */
        {0xf85d0b04, 0xf000},     /* ldr rt, [sp], #4 */
        {0xed2d8b00, 0x40000e},   /* vpush */
        {0xecbd8b00, 0x40000e},   /* vpop */
        {0xf10d0d00, 0x040070ff}, /* add.w sp, sp, #n */
        {0xf1ad0d00, 0x040070ff}, /* sub.w sp, sp, #n */
        {0xf20d0d00, 0x040070ff}, /* addw sp, sp, #n */
        {0xf2ad0d00, 0x040070ff}, /* subw sp, sp, #n */
        {0xf10d0b00, 0x70},       /* add.w r11, sp, #n */
        {0xf1a70d00, 0xff},       /* sub.w sp, r7, #n */
        {0xf1ab0d00, 0xff},       /* sub.w sp, r11, #n */
        {0xebad0d03, 0x0},        /* sub.w sp, sp, r3 */
        {0xf000f800, 0x000107ff}, /* bl */
        {0xf000b800, 0x000107ff}, /* b.w */
        {0xf7ffbfe0, 0x1f},       /* b.w, backwards */
        {0xf04f07ad, 0x0},        /* mov.w r7, #173 */
        {0xf04f0777, 0x0},        /* mov.w r7, #119 */
    };
    which %= sizeof pieces / sizeof pieces[0];
    uint32_t code = pieces[which].code | (random & pieces[which].mask);
    uint16_t half[] = {(uint16_t)(code >> 16), (uint16_t)code, 0xdf00};

    memcpy(to, half, sizeof half);
    return (code & 0xffff0000) == 0xf04f0000 ? 6 : 4;
}

static unsigned arm(uint8_t *to, uint32_t which, uint32_t random)
{
    static const struct piece pieces[] = {
        {0xe92d0000, 0xdfff},   /* push */
        {0xe8bd0000, 0xdfff},   /* pop */
        {0xe8bd8800, 0x7ff},    /* pop {..., r11, pc} */
        {0xe52d0004, 0xf000},   /* push of one */
        {0xe49d0004, 0xf000},   /* pop of one */
        {0xed2d8b00, 0x40000e}, /* vpush */
        {0xecbd8b00, 0x40000e}, /* vpop */
        {0xe28dd000, 0xfff},    /* add sp, sp, #n */
        {0xe24dd000, 0xfff},    /* sub sp, sp, #n */
        {0xe28db000, 0x3c},     /* add r11, sp, #n */
        {0xe24bd000, 0x3c},     /* sub sp, r11, #n */
        {0xe1a0d00b, 0x0},      /* mov sp, r11 */
        {0xe1a0d007, 0x0},      /* mov sp, r7 */
        {0xe04dd003, 0x0},      /* sub sp, sp, r3 */
        {0xe12fff1e, 0x0},      /* bx lr */
        {0xe12fff30, 0xf},      /* blx */
        {0xeb000000, 0x3f},     /* bl */
        {0xea000000, 0x80003f}, /* b */
        {0xe28fc600, 0xff},     /* add ip, pc, #n */
        {0xe28cca00, 0xff},     /* add ip, ip, #n */
        {0xe5bcf000, 0xfff},    /* ldr pc, [ip, #n]! */
        {0xe3a070ad, 0x0},      /* mov r7, #173 */
        {0xe3a07077, 0x0},      /* mov r7, #119 */
    };
    which %= sizeof pieces / sizeof pieces[0];
    uint32_t code[] = {pieces[which].code | (random & pieces[which].mask), 0xef000000};

    memcpy(to, code, sizeof code);
    return (code[0] & 0xffff0000) == 0xe3a00000 ? 8 : 4;
}

unsigned fuzz_code(uint8_t *to, uint32_t random)
{
    uint32_t which = random >> 24, bits = random * 2654435761u;

    return random % 3 == 0   ? thumb16(to, which, bits)
           : random % 3 == 1 ? thumb32(to, which, bits)
                             : arm(to, which, bits);
}

/* Words of the index or of .ARM.extab. */
unsigned fuzz_table(uint8_t *to, uint32_t random)
{
    static const uint8_t codes[] = {0x00, 0x3f, 0x40, 0x7f, 0x80, 0x84, 0x88, 0x9b, 0x97, 0x99, 0x9d, 0xa0, 0xa8,
                                    0xa3, 0xab, 0xaf, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb8, 0xc0, 0xc8, 0xc9, 0xd0};
    uint32_t word[2];
    uint8_t byte[4];

    for (unsigned i = 0; i < 4; i++)
        byte[i] = (uint8_t)(random >> 31 ? codes[(random >> 6 * i) % sizeof codes] : random >> 8 * i);
    word[1] = (uint32_t)byte[0] << 16 | (uint32_t)byte[1] << 8 | byte[2] | (uint32_t)byte[3] << 24;
    switch (random >> 3 & 7) {
    case 0: /* this function cannot be unwound */
        word[0] = 1;
        break;
    case 1: /* somewhere near */
        word[0] = (uint32_t)((int32_t)(random & 0xfff) - 0x800) & 0x7fffffff;
        break;
    case 2: /* a personality routine of its own */
        word[0] = random & 0x7fffffff;
        word[1] &= 0x01ffffff;
        break;
    case 3:
        word[0] = 0x81000000u | (random & 3) << 16 | (word[1] & 0xffff);
        break;
    default:
        word[0] = 0x80000000u | (word[1] & 0xffffff);
    }
    memcpy(to, word, sizeof word);
    return random & 4 ? 8 : 4;
}
