/*
 * 32-bit ARM instructions, as far as they move the stack pointer or save registers: decoded one by one (thumb, arm),
 * and followed forwards from an interrupted pc (epilogue) or from the function's start up to it (prologue).
 *
 * Instructions that do neither are passed over in prologues, where compilers mix them in, and end an epilogue.
 */
#include "code_arm.h"

#define WORD          4
#define FP            EP_ARM_FP
#define BASE          EP_ARM_BASE
#define SP            13
#define LR            14
#define PC            15
#define EPILOGUE_MOST 16
#define PROLOGUE_MOST 64

enum effect_kind {
    OTHER,
    PUSH,      /* mask */
    POP,       /* mask */
    MOVE_SP,   /* sp += amount */
    FROM_FP,   /* sp = r11 + amount */
    FROM_BASE, /* sp = r7 + amount */
    ADD_BASE,  /* r7 += amount */
    SET_FP,
    SET_BASE,
    RETURN, /* bx lr */
    BRANCH, /* to target, 0: unknown */
    CALL,
    UNKNOWN, /* sp changes by we do not know what */
};

struct effect {
    uint8_t kind, size;
    uint16_t mask;
    int32_t amount;
    uintptr_t target;
};

static struct effect effect(enum effect_kind kind, int32_t amount)
{
    return (struct effect){.kind = (uint8_t)kind, .amount = amount};
}

static struct effect registers_effect(enum effect_kind kind, uint32_t mask)
{
    return (struct effect){.kind = (uint8_t)kind, .mask = (uint16_t)mask};
}

static uint32_t rotated(uint32_t value, unsigned by)
{
    by &= 31;
    return by ? value >> by | value << (32 - by) : value;
}

/* rd = rn + amount, of which one is sp. */
static struct effect add(unsigned rd, unsigned rn, int32_t amount)
{
    if (rd == SP)
        return rn == SP     ? effect(MOVE_SP, amount)
               : rn == FP   ? effect(FROM_FP, amount)
               : rn == BASE ? effect(FROM_BASE, amount)
                            : effect(UNKNOWN, 0);
    if (rn == SP && rd == FP)
        return effect(SET_FP, amount);
    if (rn == SP && rd == BASE)
        return effect(SET_BASE, amount);
    return effect(OTHER, 0);
}

static struct effect thumb16(uintptr_t at, uint32_t half)
{
    switch (half >> 8) {
    case 0xb4:
    case 0xb5:
        return registers_effect(PUSH, (half & 0xff) | (half & 0x100) << 6);
    case 0xbc:
    case 0xbd:
        return registers_effect(POP, (half & 0xff) | (half & 0x100) << 7);
    case 0xb0:
        return effect(MOVE_SP, (int32_t)(half & 0x7f) * WORD * (half & 0x80 ? -1 : 1));
    case 0x46:
        return add((half & 7) | (half >> 4 & 8), half >> 3 & 15, 0);
    case 0xaf:
        return effect(SET_BASE, (int32_t)(half & 0xff) * WORD);
    case 0x37:
        return effect(ADD_BASE, (int32_t)(half & 0xff));
    case 0x47:
        return half == 0x4770 ? effect(RETURN, 0) : effect(half & 0x80 ? CALL : BRANCH, 0);
    default:
        break;
    }
    if (half >> 11 == 0x1c) {
        struct effect branch = effect(BRANCH, 0);
        branch.target = at + 4 + (uintptr_t)(intptr_t)((int32_t)(half << 21) >> 20);
        return branch;
    }
    return effect(OTHER, 0);
}

/* ThumbExpandImm of 12 bits i:imm3:imm8. */
static uint32_t thumb_immediate(uint32_t bits)
{
    uint32_t byte = bits & 0xff;

    switch (bits >> 8) {
    case 0:
        return byte;
    case 1:
        return byte << 16 | byte;
    case 2:
        return byte << 24 | byte << 8;
    case 3:
        return byte * 0x01010101u;
    default:
        return rotated(0x80 | (bits & 0x7f), bits >> 7);
    }
}

/* b.w, encoding T4; everything else of that group calls or is conditional. */
static struct effect thumb_branch(uintptr_t at, uint32_t code)
{
    uint32_t s = code >> 26 & 1, i1 = !((code >> 13 & 1) ^ s), i2 = !((code >> 11 & 1) ^ s);
    uint32_t offset = s << 24 | i1 << 23 | i2 << 22 | (code >> 16 & 0x3ff) << 12 | (code & 0x7ff) << 1;
    struct effect branch = effect(BRANCH, 0);

    if ((code & 0xd000) != 0x9000)
        return effect(code & 0x4000 ? CALL : OTHER, 0);
    branch.target = at + 4 + (uintptr_t)(intptr_t)((int32_t)(offset << 7) >> 7);
    return branch;
}

static struct effect thumb32(uintptr_t at, uint32_t code)
{
    uint32_t high = code >> 16, rd = code >> 8 & 15, rn = high & 15;
    uint32_t bits = (code >> 15 & 0x800) | (code >> 4 & 0x700) | (code & 0xff);

    if (high == 0xe92d)
        return registers_effect(PUSH, code & 0xffff);
    if (high == 0xe8bd)
        return registers_effect(POP, code & 0xffff);
    if (high == 0xf84d && (code & 0xfff) == 0xd04)
        return registers_effect(PUSH, 1u << (code >> 12 & 15));
    if (high == 0xf85d && (code & 0xfff) == 0xb04)
        return registers_effect(POP, 1u << (code >> 12 & 15));
    if ((high & 0xffbf) == 0xed2d)
        return effect(MOVE_SP, -(int32_t)(code & 0xff) * WORD);
    if ((high & 0xffbf) == 0xecbd)
        return effect(MOVE_SP, (int32_t)(code & 0xff) * WORD);
    if ((high & 0xfbe0) == 0xf100 && !(code & 0x8000)) /* add.w */
        return add(rd, rn, (int32_t)thumb_immediate(bits));
    if ((high & 0xfbe0) == 0xf1a0 && !(code & 0x8000)) /* sub.w */
        return add(rd, rn, -(int32_t)thumb_immediate(bits));
    if ((high & 0xfbf0) == 0xf200 && !(code & 0x8000)) /* addw */
        return add(rd, rn, (int32_t)bits);
    if ((high & 0xfbf0) == 0xf2a0 && !(code & 0x8000)) /* subw */
        return add(rd, rn, -(int32_t)bits);
    if ((high & 0xfff0) == 0xebb0 || (high & 0xfff0) == 0xeba0 || (high & 0xfff0) == 0xeb00) /* sub, add of registers */
        return effect(rd == SP ? UNKNOWN : OTHER, 0);
    if ((high & 0xf800) == 0xf000 && (code & 0x8000))
        return thumb_branch(at, code);
    return effect(OTHER, 0);
}

static struct effect arm(uintptr_t at, uint32_t code)
{
    uint32_t rd = code >> 12 & 15, rn = code >> 16 & 15;
    int32_t immediate = (int32_t)rotated(code & 0xff, code >> 7 & 30);
    struct effect branch = effect(BRANCH, 0);

    if (code >> 28 != 0xe)
        return effect(OTHER, 0);
    if ((code & 0xffff0000) == 0xe92d0000)
        return registers_effect(PUSH, code & 0xffff);
    if ((code & 0xffff0000) == 0xe8bd0000)
        return registers_effect(POP, code & 0xffff);
    if ((code & 0xffff0fff) == 0xe52d0004)
        return registers_effect(PUSH, 1u << rd);
    if ((code & 0xffff0fff) == 0xe49d0004)
        return registers_effect(POP, 1u << rd);
    if ((code & 0xffbf0f00) == 0xed2d0b00)
        return effect(MOVE_SP, -(int32_t)(code & 0xfe) * WORD);
    if ((code & 0xffbf0f00) == 0xecbd0b00)
        return effect(MOVE_SP, (int32_t)(code & 0xfe) * WORD);
    if ((code & 0xfff00000) == 0xe2800000)
        return add(rd, rn, immediate);
    if ((code & 0xfff00000) == 0xe2400000)
        return add(rd, rn, -immediate);
    if ((code & 0xffff0ff0) == 0xe1a00000)
        return add(rd, code & 15, 0);
    if ((code & 0xffe00010) == 0xe0400000 && rd == SP)
        return effect(UNKNOWN, 0);
    if (code == 0xe12fff1e)
        return effect(RETURN, 0);
    if ((code & 0x0f000000) == 0x0b000000)
        return effect(CALL, 0);
    branch.target = at + 8 + (uintptr_t)(intptr_t)((int32_t)(code << 8) >> 6);
    return (code & 0x0f000000) == 0x0a000000 ? branch : effect(OTHER, 0);
}

/* The instruction at `at`; size 0 when it does not end before `end`. */
static struct effect decode(uintptr_t at, uintptr_t end, bool thumb)
{
    struct effect done;
    uint16_t half[2] = {0, 0};
    uint32_t code;

    if (end < at || end - at < 2u + 2u * !thumb)
        return effect(UNKNOWN, 0);
    memcpy(&half[0], (const void *)at, sizeof half[0]);
    bool wide = !thumb || half[0] >> 11 >= 0x1d;
    if (wide && end - at < 4)
        return effect(UNKNOWN, 0);
    if (wide)
        memcpy(&half[1], (const void *)(at + 2), sizeof half[1]);
    memcpy(&code, half, sizeof code);
    done = !thumb ? arm(at, code) : wide ? thumb32(at, (uint32_t)half[0] << 16 | half[1]) : thumb16(at, half[0]);
    done.size = wide ? 4 : 2;
    return done;
}

static void save(struct ep_cfi_rules *rules, unsigned reg, int32_t offset)
{
    unsigned at = reg == FP                ? EP_CFI_REG_FP
                  : reg == BASE            ? EP_CFI_REG_BASE
                  : reg == LR || reg == PC ? EP_CFI_REG_RA
                                           : EP_CFI_REGS;

    if (at < EP_CFI_REGS) {
        rules->state[at] = EP_CFI_SAVED;
        rules->offset[at] = offset;
    }
}

/* Registers of a mask lie in ascending order from `offset` on. Returns where they end. */
static int32_t save_mask(struct ep_cfi_rules *rules, unsigned mask, int32_t offset)
{
    for (unsigned reg = 0; mask; reg++, mask >>= 1) {
        if (!(mask & 1))
            continue;
        save(rules, reg, offset);
        offset += WORD;
    }
    return offset;
}

bool ep_arm_prologue(const struct ep_cfi_row *row, uintptr_t pc, bool thumb, struct ep_cfi_rules *rules)
{
    int32_t depth = 0; /* of sp below the CFA */
    bool framed = false;
    uintptr_t at = row->start;

    memset(rules, 0, sizeof *rules);
    for (int i = 0; i < PROLOGUE_MOST && at < pc; i++) {
        struct effect e = decode(at, row->end, thumb);
        if (e.kind == PUSH) {
            depth += __builtin_popcount(e.mask) * WORD;
            (void)save_mask(rules, e.mask, -depth);
        } else if (e.kind == MOVE_SP) {
            depth -= e.amount;
        } else if (e.kind == SET_FP || e.kind == SET_BASE) {
            framed |= row->rules.cfa == (e.kind == SET_FP ? EP_CFI_FP : EP_CFI_BASE);
        } else if (e.kind != OTHER && e.kind != ADD_BASE) {
            return false;
        }
        at += e.size;
    }
    rules->cfa = EP_CFI_SP;
    rules->cfa_offset = depth;
    bool complete = row->rules.cfa == EP_CFI_SP ? depth >= row->rules.cfa_offset : framed;
    return at == pc && !complete && depth >= 0;
}

/* sp, as an epilogue moves it: an offset from a register's value at the interrupted pc. */
struct line {
    struct ep_cfi_rules rules; /* offsets from that register, until it returns */
    int32_t offset, base_added;
    bool lr_popped;
};

static bool take(struct line *line, const struct effect *e)
{
    bool moved_fp = line->rules.state[EP_CFI_REG_FP] == EP_CFI_SAVED;
    bool moved_base = line->rules.state[EP_CFI_REG_BASE] == EP_CFI_SAVED;

    switch (e->kind) {
    case POP:
        line->offset = save_mask(&line->rules, e->mask, line->offset);
        line->lr_popped |= (e->mask >> LR & 1) != 0;
        return !(e->mask >> SP & 1);
    case MOVE_SP:
        line->offset += e->amount;
        return e->amount >= 0;
    case FROM_FP:
    case FROM_BASE:
        line->rules.cfa = e->kind == FROM_FP ? EP_CFI_FP : EP_CFI_BASE;
        line->offset = e->amount + (e->kind == FROM_BASE ? line->base_added : 0);
        return !(e->kind == FROM_FP ? moved_fp : moved_base);
    case ADD_BASE:
        line->base_added += e->amount;
        return true;
    default:
        return false;
    }
}

static bool leaves(const struct line *line, const struct effect *e, const struct ep_cfi_row *row)
{
    if (e->kind == RETURN || (e->kind == POP && e->mask >> PC & 1))
        return true;
    if (e->kind != BRANCH || !line->lr_popped)
        return false;
    return e->target == 0 || (row && (e->target < row->start || e->target >= row->end));
}

bool ep_arm_epilogue(const struct ep_module *module, uintptr_t pc, bool thumb, const struct ep_cfi_row *row,
                     struct ep_cfi_rules *rules)
{
    struct line line;

    memset(&line, 0, sizeof line);
    line.rules.cfa = EP_CFI_SP;
    for (int i = 0; i < EPILOGUE_MOST; i++) {
        struct effect e = decode(pc, module->end, thumb);
        if (e.size == 0)
            return false;
        bool last = leaves(&line, &e, row);
        if (e.kind == POP || !last) {
            if (!take(&line, &e))
                return false;
        }
        if (last) {
            *rules = line.rules;
            rules->cfa_offset = line.offset;
            for (unsigned reg = 0; reg < EP_CFI_REGS; reg++)
                rules->offset[reg] -= line.offset;
            return true;
        }
        pc += e.size;
    }
    return false;
}

bool ep_arm_follows_call(const struct ep_module *module, uintptr_t pc)
{
    uint16_t half[2];
    uint32_t word;

    if (pc - module->start < sizeof half)
        return false;
    memcpy(half, (const void *)(pc - sizeof half), sizeof half);
    if ((half[1] & 0xff87) == 0x4780) /* blx register */
        return true;
    if ((half[0] & 0xf800) == 0xf000 && (half[1] & 0xc000) == 0xc000) /* bl, blx */
        return true;
    memcpy(&word, half, sizeof word);
    return pc % 4 == 0 && ((word & 0x0f000000) == 0x0b000000 || (word & 0xfe000000) == 0xfa000000 ||
                           (word & 0x0ffffff0) == 0x012fff30);
}
