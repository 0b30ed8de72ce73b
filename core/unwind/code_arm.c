/*
 * 32-bit ARM instructions, as far as they move the stack pointer, save registers or lead elsewhere: decoded one by one
 * (thumb, arm), and followed forwards from an interrupted pc (epilogue) or from the function's start up to it
 * (prologue).
 *
 * Instructions that do neither are passed over in prologues, where compilers mix them in, and end an epilogue.
 */
#include "core/unwind/code_arm.h"

#include <errno.h>

#define WORD          4
#define EPILOGUE_MOST 16
#define POPPED_FAR    16 /* bytes */
#define PROLOGUE_MOST 512
#define START_MOST    80 /* bytes, of _start */

static struct ep_arm_effect effect(enum ep_arm_kind kind, int32_t amount)
{
    return (struct ep_arm_effect){.kind = (uint8_t)kind, .amount = amount};
}

static struct ep_arm_effect registers_effect(enum ep_arm_kind kind, uint32_t mask)
{
    return (struct ep_arm_effect){.kind = (uint8_t)kind, .mask = (uint16_t)mask};
}

static struct ep_arm_effect jump(enum ep_arm_kind kind, uintptr_t from, int32_t distance)
{
    return (struct ep_arm_effect){.kind = (uint8_t)kind, .target = from + (uintptr_t)(intptr_t)distance};
}

static struct ep_arm_effect lr_spoiled(bool spoils)
{
    return (struct ep_arm_effect){.kind = EP_ARM_OTHER, .spoils_lr = spoils};
}

static uint32_t rotated(uint32_t value, unsigned by)
{
    by &= 31;
    return by ? value >> by | value << (32 - by) : value;
}

/* rd = rn + amount, of which one may be sp. No frame is as large as some immediates. */
static struct ep_arm_effect add(unsigned rd, unsigned rn, int32_t amount)
{
    if (amount > EP_ARM_FRAME_MOST || amount < -EP_ARM_FRAME_MOST)
        return rd == EP_ARM_SP || rd == EP_ARM_PC ? effect(EP_ARM_UNKNOWN, 0) : lr_spoiled(rd == EP_ARM_LR);
    if (rd == EP_ARM_SP)
        return rn == EP_ARM_SP     ? effect(EP_ARM_MOVE_SP, amount)
               : rn == EP_ARM_FP   ? effect(EP_ARM_FROM_FP, amount)
               : rn == EP_ARM_BASE ? effect(EP_ARM_FROM_BASE, amount)
                                   : effect(EP_ARM_UNKNOWN, 0);
    if (rn == EP_ARM_SP && rd == EP_ARM_FP)
        return effect(EP_ARM_SET_FP, amount);
    if (rn == EP_ARM_SP && rd == EP_ARM_BASE)
        return effect(EP_ARM_SET_BASE, amount);
    if (rn == EP_ARM_BASE && rd == EP_ARM_BASE)
        return effect(EP_ARM_ADD_BASE, amount);
    if (rd == EP_ARM_PC)
        return effect(rn == EP_ARM_LR && amount == 0 ? EP_ARM_RETURN : EP_ARM_COMPUTED, 0);
    return lr_spoiled(rd == EP_ARM_LR);
}

static struct ep_arm_effect thumb16(uintptr_t at, uint32_t half)
{
    switch (half >> 8) {
    case 0xb4:
    case 0xb5:
        return registers_effect(EP_ARM_PUSH, (half & 0xff) | (half & 0x100) << 6);
    case 0xbc:
    case 0xbd:
        return registers_effect(EP_ARM_POP, (half & 0xff) | (half & 0x100) << 7);
    case 0xb0:
        return effect(EP_ARM_MOVE_SP, (int32_t)(half & 0x7f) * WORD * (half & 0x80 ? -1 : 1));
    case 0x44:
        if ((half & 0x87) == 0x85)
            return effect(EP_ARM_LOSE_SP, 0);
        return (half & 0x87) == 0x87 ? effect(EP_ARM_COMPUTED, 0) : lr_spoiled((half & 0x87) == 0x86);
    case 0x46:
        return add((half & 7) | (half >> 4 & 8), half >> 3 & 15, 0);
    case 0xaf:
        return effect(EP_ARM_SET_BASE, (int32_t)(half & 0xff) * WORD);
    case 0x37:
        return effect(EP_ARM_ADD_BASE, (int32_t)(half & 0xff));
    case 0x47:
        if (half == 0x4778) { /* bx pc */
            struct ep_arm_effect veneer = jump(EP_ARM_BRANCH, (at + 4) & ~(uintptr_t)3, 0);
            veneer.to_arm = true;
            return veneer;
        }
        return effect(half == 0x4770 ? EP_ARM_RETURN : half & 0x80 ? EP_ARM_CALL : EP_ARM_COMPUTED, 0);
    case 0xb1: /* cbz, cbnz */
    case 0xb3:
    case 0xb9:
    case 0xbb:
        return jump(EP_ARM_FORK, at + 4, (int32_t)((half >> 3 & 0x1f) << 1 | (half >> 9 & 1) << 6));
    case 0xbe: /* bkpt */
    case 0xde: /* udf */
        return effect(EP_ARM_END, 0);
    case 0xdf: /* svc */
        return effect(EP_ARM_OTHER, 0);
    default:
        break;
    }
    if (half >> 11 == 0x1c)
        return jump(EP_ARM_BRANCH, at + 4, (int32_t)(half << 21) >> 20);
    if (half >> 12 == 0xd)
        return jump(EP_ARM_FORK, at + 4, (int32_t)(half << 24) >> 23);
    return effect(EP_ARM_OTHER, 0);
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

/* b.w, encodings T4 and T3; everything else of that group calls, or is about the system. */
static struct ep_arm_effect thumb_branch(uintptr_t at, uint32_t code)
{
    uint32_t s = code >> 26 & 1, i1 = !((code >> 13 & 1) ^ s), i2 = !((code >> 11 & 1) ^ s);
    uint32_t offset = s << 24 | i1 << 23 | i2 << 22 | (code >> 16 & 0x3ff) << 12 | (code & 0x7ff) << 1;
    uint32_t near =
        s << 20 | (code >> 11 & 1) << 19 | (code >> 13 & 1) << 18 | (code >> 16 & 0x3f) << 12 | (code & 0x7ff) << 1;

    if ((code & 0xd000) == 0x9000)
        return jump(EP_ARM_BRANCH, at + 4, (int32_t)(offset << 7) >> 7);
    if ((code & 0xd000) == 0x8000 && (code >> 22 & 0xe) != 0xe)
        return jump(EP_ARM_FORK, at + 4, (int32_t)(near << 11) >> 11);
    if ((code & 0xfff0f000) == 0xf7f0a000) /* udf.w */
        return effect(EP_ARM_END, 0);
    return effect(code & 0x4000 ? EP_ARM_CALL : EP_ARM_OTHER, 0);
}

/* Returns true if a register is one of those that are followed. */
static bool matters(unsigned reg)
{
    return reg == EP_ARM_FP || reg == EP_ARM_BASE || reg == EP_ARM_LR || reg == EP_ARM_PC;
}

/* Loads and stores that move sp, or pc: what push and pop of this group are has been seen. */
static struct ep_arm_effect thumb_memory(uint32_t code)
{
    uint32_t high = code >> 16, rt = code >> 12 & 15, rt2 = code >> 8 & 15;
    bool on_sp = (high & 15) == EP_ARM_SP, on_lr = (high & 15) == EP_ARM_LR;

    if ((high & 0xff60) == 0xf840 && (high & 0xff00) == 0xf800) { /* ldr, str */
        int32_t amount = (int32_t)(code & 0xff) * (code & 0x200 ? 1 : -1);
        if (on_sp && !(high & 0x80) && (code & 0x900) == 0x900)
            return effect(matters(rt) ? EP_ARM_UNKNOWN : EP_ARM_MOVE_SP, amount);
        if ((high & 0x10) && rt == EP_ARM_PC)
            return effect(EP_ARM_BRANCH, 0);
        return lr_spoiled(on_lr || ((high & 0x10) && rt == EP_ARM_LR));
    }
    if ((high & 0xfe40) == 0xe840 && (high & 0x120)) { /* ldrd, strd */
        int32_t amount = (int32_t)(code & 0xff) * WORD * (high & 0x80 ? 1 : -1);
        if (on_sp && (high & 0x20))
            return effect(matters(rt) || matters(rt2) ? EP_ARM_UNKNOWN : EP_ARM_MOVE_SP, amount);
        return lr_spoiled(on_lr || ((high & 0x10) && (rt == EP_ARM_LR || rt2 == EP_ARM_LR)));
    }
    if ((high & 0xfff0) == 0xe8d0 && (code & 0xffe0) == 0xf000) /* tbb, tbh */
        return effect(EP_ARM_BRANCH, 0);
    if ((high & 0xfe50) == 0xe810) { /* ldm */
        if (on_sp && (high & 0x20))
            return effect(EP_ARM_UNKNOWN, 0);
        return code & 0x8000 ? effect(EP_ARM_BRANCH, 0) : lr_spoiled(on_lr || (code >> EP_ARM_LR & 1));
    }
    if ((high & 0xfe50) == 0xe800) /* stm */
        return on_sp && (high & 0x20) ? effect(EP_ARM_UNKNOWN, 0) : lr_spoiled(on_lr);
    return lr_spoiled(on_lr || rt == EP_ARM_LR || rt2 == EP_ARM_LR); /* not all of these write a register */
}

static struct ep_arm_effect thumb32(uintptr_t at, uint32_t code)
{
    uint32_t high = code >> 16, rd = code >> 8 & 15, rn = high & 15;
    uint32_t bits = (code >> 15 & 0x800) | (code >> 4 & 0x700) | (code & 0xff);

    if (high == 0xe92d)
        return registers_effect(EP_ARM_PUSH, code & 0xffff);
    if (high == 0xe8bd)
        return registers_effect(EP_ARM_POP, code & 0xffff);
    if (high == 0xf84d && (code & 0xfff) == 0xd04)
        return registers_effect(EP_ARM_PUSH, 1u << (code >> 12 & 15));
    if (high == 0xf85d && (code & 0xfff) == 0xb04)
        return registers_effect(EP_ARM_POP, 1u << (code >> 12 & 15));
    if ((high & 0xffbf) == 0xed2d)
        return effect(EP_ARM_MOVE_SP, -(int32_t)(code & 0xff) * WORD);
    if ((high & 0xffbf) == 0xecbd)
        return effect(EP_ARM_MOVE_SP, (int32_t)(code & 0xff) * WORD);
    if ((high & 0xfbe0) == 0xf100 && !(code & 0x8000)) /* add.w */
        return add(rd, rn, (int32_t)thumb_immediate(bits));
    if ((high & 0xfbe0) == 0xf1a0 && !(code & 0x8000)) /* sub.w */
        return add(rd, rn, (int32_t)(0 - thumb_immediate(bits)));
    if ((high & 0xfbf0) == 0xf200 && !(code & 0x8000)) /* addw */
        return add(rd, rn, (int32_t)bits);
    if ((high & 0xfbf0) == 0xf2a0 && !(code & 0x8000)) /* subw */
        return add(rd, rn, -(int32_t)bits);
    if ((high & 0xfff0) == 0xebb0 || (high & 0xfff0) == 0xeba0 || (high & 0xfff0) == 0xeb00) /* sub, add of registers */
        return rd == EP_ARM_SP ? effect(rn == EP_ARM_SP ? EP_ARM_LOSE_SP : EP_ARM_UNKNOWN, 0)
                               : lr_spoiled(rd == EP_ARM_LR);
    if ((high & 0xf800) == 0xf000 && (code & 0x8000))
        return thumb_branch(at, code);
    if ((high & 0xfe00) == 0xe800 || (high & 0xfc00) == 0xec00 || (high & 0xfe00) == 0xf800)
        return thumb_memory(code);
    return lr_spoiled(rd == EP_ARM_LR || (code >> 12 & 15) == EP_ARM_LR);
}

/* Instructions of registers and immediates, and what shares their space: multiplications, ldrd, strd. */
static struct ep_arm_effect arm_data(uint32_t code)
{
    uint32_t rd = code >> 12 & 15, rn = code >> 16 & 15;
    bool extra = (code & 0x0e000090) == 0x90, writes_back = !(code & 1u << 24) || (code & 1u << 21);

    if (extra && (code & 0x60)) { /* ldrd, ldrh and so on */
        int32_t amount = (int32_t)((code >> 4 & 0xf0) | (code & 15)) * (code & 1u << 23 ? 1 : -1);
        if (rn == EP_ARM_SP && writes_back)
            return effect(matters(rd) || matters(rd + 1) ? EP_ARM_UNKNOWN : EP_ARM_MOVE_SP, amount);
        return lr_spoiled(rd == EP_ARM_LR || rd + 1 == EP_ARM_LR || rn == EP_ARM_LR);
    }
    if (extra) /* multiplications */
        return lr_spoiled(rd == EP_ARM_LR || rn == EP_ARM_LR);
    if ((code & 0x01800000) == 0x01000000) /* comparisons */
        return lr_spoiled(rd == EP_ARM_LR);
    return rd == EP_ARM_SP   ? effect(EP_ARM_UNKNOWN, 0)
           : rd == EP_ARM_PC ? effect(EP_ARM_COMPUTED, 0)
                             : lr_spoiled(rd == EP_ARM_LR);
}

/* Loads and stores of words, bytes and register lists, but for push and pop. */
static struct ep_arm_effect arm_memory(uint32_t code)
{
    uint32_t rd = code >> 12 & 15, rn = code >> 16 & 15;
    bool load = code >> 20 & 1, list = (code & 0x0e000000) == 0x08000000;
    int32_t amount = (int32_t)(code & 0xfff) * (code & 1u << 23 ? 1 : -1);

    if (list) {
        if (rn == EP_ARM_SP && (code & 1u << 21))
            return effect(EP_ARM_UNKNOWN, 0);
        return load && code >> EP_ARM_PC & 1 ? effect(EP_ARM_BRANCH, 0)
                                             : lr_spoiled(rn == EP_ARM_LR || (load && code >> EP_ARM_LR & 1));
    }
    if ((code & 0x0c000000) != 0x04000000) /* coprocessors */
        return lr_spoiled(rd == EP_ARM_LR || rn == EP_ARM_LR);
    if (rn == EP_ARM_SP && (!(code & 1u << 24) || (code & 1u << 21)))
        return effect(matters(rd) || (code & 1u << 25) ? EP_ARM_UNKNOWN : EP_ARM_MOVE_SP, amount);
    return load && rd == EP_ARM_PC ? effect(EP_ARM_BRANCH, 0)
                                   : lr_spoiled(rn == EP_ARM_LR || (load && rd == EP_ARM_LR));
}

static struct ep_arm_effect arm_always(uintptr_t at, uint32_t code)
{
    uint32_t rd = code >> 12 & 15, rn = code >> 16 & 15;
    int32_t immediate = (int32_t)rotated(code & 0xff, code >> 7 & 30);

    if ((code & 0xffff0000) == 0xe92d0000)
        return registers_effect(EP_ARM_PUSH, code & 0xffff);
    if ((code & 0xffff0000) == 0xe8bd0000)
        return registers_effect(EP_ARM_POP, code & 0xffff);
    if ((code & 0xffff0fff) == 0xe52d0004)
        return registers_effect(EP_ARM_PUSH, 1u << rd);
    if ((code & 0xffff0fff) == 0xe49d0004)
        return registers_effect(EP_ARM_POP, 1u << rd);
    if ((code & 0xffbf0f00) == 0xed2d0b00)
        return effect(EP_ARM_MOVE_SP, -(int32_t)(code & 0xfe) * WORD);
    if ((code & 0xffbf0f00) == 0xecbd0b00)
        return effect(EP_ARM_MOVE_SP, (int32_t)(code & 0xfe) * WORD);
    if ((code & 0xfff00000) == 0xe2800000)
        return add(rd, rn, immediate);
    if ((code & 0xfff00000) == 0xe2400000)
        return add(rd, rn, (int32_t)(0 - (uint32_t)immediate));
    if ((code & 0xffff0ff0) == 0xe1a00000)
        return add(rd, code & 15, 0);
    if (((code & 0xffe00010) == 0xe0400000 || (code & 0xffe00010) == 0xe0800000) && rd == EP_ARM_SP) /* sub, add */
        return effect(rn == EP_ARM_SP ? EP_ARM_LOSE_SP : EP_ARM_UNKNOWN, 0);
    /* bx lr; .plt's ldr pc, [ip, #n]! and ldr pc, [ip] */
    if (code == 0xe12fff1e || (code & 0xfffff000) == 0xe5bcf000 || code == 0xe59cf000)
        return effect(EP_ARM_RETURN, 0);
    if ((code & 0x0f000000) == 0x0b000000 || (code & 0x0ffffff0) == 0x012fff30)
        return effect(EP_ARM_CALL, 0);
    if ((code & 0x0ffffff0) == 0x012fff10) /* bx */
        return effect(EP_ARM_COMPUTED, 0);
    if ((code & 0x0f000000) == 0x0a000000)
        return jump(EP_ARM_BRANCH, at + 8, (int32_t)(code << 8) >> 6);
    return code >> 25 & 6 ? arm_memory(code) : arm_data(code);
}

static struct ep_arm_effect arm(uintptr_t at, uint32_t code)
{
    if (code >> 28 == 0xf) /* blx to Thumb; prefetches, vector code */
        return effect((code & 0xfe000000) == 0xfa000000 ? EP_ARM_CALL : EP_ARM_OTHER, 0);
    if (code >> 28 == 0xe)
        return arm_always(at, code);
    struct ep_arm_effect done = arm_always(at, (code & 0x0fffffff) | 0xe0000000);
    if (done.kind == EP_ARM_BRANCH && done.target != 0)
        done.kind = EP_ARM_FORK;
    done.conditional = true;
    return done;
}

struct ep_arm_effect ep_arm_decode(uintptr_t at, uintptr_t end, bool thumb)
{
    struct ep_arm_effect done;
    uint16_t half[2] = {0, 0};
    uint32_t code;

    if (end < at || end - at < 2u + 2u * !thumb)
        return effect(EP_ARM_UNKNOWN, 0);
    memcpy(&half[0], (const void *)at, sizeof half[0]);
    bool wide = !thumb || half[0] >> 11 >= 0x1d;
    if (wide && end - at < 4)
        return effect(EP_ARM_UNKNOWN, 0);
    if (wide)
        memcpy(&half[1], (const void *)(at + 2), sizeof half[1]);
    memcpy(&code, half, sizeof code);
    done = !thumb ? arm(at, code) : wide ? thumb32(at, (uint32_t)half[0] << 16 | half[1]) : thumb16(at, half[0]);
    done.size = wide ? 4 : 2;
    return done;
}

static void save(struct ep_cfi_rules *rules, unsigned reg, int32_t offset)
{
    unsigned at = reg == EP_ARM_FP                       ? EP_CFI_REG_FP
                  : reg == EP_ARM_BASE                   ? EP_CFI_REG_BASE
                  : reg == EP_ARM_LR || reg == EP_ARM_PC ? EP_CFI_REG_RA
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

/* A prologue, on its way from the function's start. */
struct prologue {
    int32_t depth; /* of sp below the CFA */
    bool framed, parted;
    bool done, ending; /* the frame has been complete; an epilogue has begun */
};

static bool is_complete(const struct prologue *prologue, const struct ep_cfi_row *row)
{
    return row->rules.cfa == EP_CFI_SP ? prologue->depth >= row->rules.cfa_offset : prologue->framed;
}

/* One instruction behind a complete frame. Linkers merge the entries of neighbours that unwind alike, so the search
 * goes on to where the function ends. */
static int pass(struct prologue *prologue, const struct ep_cfi_row *row, const struct ep_arm_effect *e)
{
    switch (e->kind) {
    case EP_ARM_POP:
    case EP_ARM_FROM_FP:
    case EP_ARM_FROM_BASE:
        prologue->ending = true;
        return 0;
    case EP_ARM_LOSE_SP:
        return 0;
    case EP_ARM_BRANCH:
        if (e->target >= row->start && e->target < row->end)
            return 0;
        prologue->parted |= prologue->ending;
        return -ENOENT;
    default:
        return -ENOENT;
    }
}

/* One instruction of it; anything but 0 ends it. */
static int grow(struct prologue *prologue, const struct ep_cfi_row *row, const struct ep_arm_effect *e,
                struct ep_cfi_rules *rules)
{
    if (e->kind == EP_ARM_RETURN || (e->kind == EP_ARM_POP && e->mask >> EP_ARM_PC & 1)) {
        prologue->parted = true;
        return e->conditional ? 0 : -EINVAL;
    }
    if (e->kind == EP_ARM_FORK)
        prologue->parted |= !is_complete(prologue, row);
    if (e->conditional || e->kind == EP_ARM_FORK || e->kind == EP_ARM_END)
        return 0;
    prologue->done |= is_complete(prologue, row);
    switch (e->kind) {
    case EP_ARM_OTHER:
    case EP_ARM_ADD_BASE:
        return 0;
    case EP_ARM_PUSH:
        prologue->depth += __builtin_popcount(e->mask) * WORD;
        (void)save_mask(rules, e->mask, -prologue->depth);
        return 0;
    case EP_ARM_MOVE_SP:
        prologue->depth -= e->amount;
        return 0;
    case EP_ARM_SET_FP:
    case EP_ARM_SET_BASE:
        prologue->framed |= row->rules.cfa == (e->kind == EP_ARM_SET_FP ? EP_CFI_FP : EP_CFI_BASE);
        return 0;
    case EP_ARM_CALL: /* the stack probe of a large frame */
        return rules->state[EP_CFI_REG_RA] == EP_CFI_SAVED ? 0 : -ENOENT;
    default:
        prologue->parted |= e->kind == EP_ARM_BRANCH && prologue->depth == 0;
        return prologue->done && !prologue->parted ? pass(prologue, row, e) : -ENOENT;
    }
}

int ep_arm_prologue(const struct ep_cfi_row *row, uintptr_t pc, bool thumb, struct ep_cfi_rules *rules)
{
    struct prologue prologue = {0};
    uintptr_t at = row->start;
    int error = 0;

    memset(rules, 0, sizeof *rules);
    for (int i = 0; i < PROLOGUE_MOST && at < pc && error == 0; i++) {
        struct ep_arm_effect e = ep_arm_decode(at, row->end, thumb);
        error = grow(&prologue, row, &e, rules);
        at += e.size;
    }
    rules->cfa = EP_CFI_SP;
    rules->cfa_offset = prologue.depth;
    if (error == 0 && at == pc && !is_complete(&prologue, row) && prologue.depth >= 0 && !prologue.ending)
        return 0;
    return prologue.parted ? -EINVAL : -ENOENT;
}

/* sp, as an epilogue moves it: an offset from a register's value at the interrupted pc. */
struct line {
    struct ep_cfi_rules rules; /* offsets from that register, until it returns */
    int32_t offset, base_added;
    bool lr_popped;
    bool moved, body; /* by instructions that take a frame down; by others */
};

static bool take(struct line *line, const struct ep_arm_effect *e)
{
    bool moved_fp = line->rules.state[EP_CFI_REG_FP] == EP_CFI_SAVED;
    bool moved_base = line->rules.state[EP_CFI_REG_BASE] == EP_CFI_SAVED;

    line->moved |= e->kind != EP_ARM_OTHER;
    switch (e->kind) {
    case EP_ARM_OTHER: /* where the frame is gone, or has never been made */
        line->body = true;
        return !e->spoils_lr;
    case EP_ARM_POP:
        line->offset = save_mask(&line->rules, e->mask, line->offset);
        line->lr_popped |= (e->mask >> EP_ARM_LR & 1) != 0;
        return !(e->mask >> EP_ARM_SP & 1);
    case EP_ARM_MOVE_SP:
        line->offset += e->amount;
        return e->amount >= 0;
    case EP_ARM_FROM_FP:
    case EP_ARM_FROM_BASE:
        line->rules.cfa = e->kind == EP_ARM_FROM_FP ? EP_CFI_FP : EP_CFI_BASE;
        line->offset = e->amount + (e->kind == EP_ARM_FROM_BASE ? line->base_added : 0);
        return !(e->kind == EP_ARM_FROM_FP ? moved_fp : moved_base);
    case EP_ARM_ADD_BASE:
        line->base_added += e->amount;
        return true;
    default:
        return false;
    }
}

static bool leaves(const struct line *line, const struct ep_arm_effect *e, const struct ep_cfi_row *row)
{
    if (e->kind == EP_ARM_RETURN || (e->kind == EP_ARM_POP && e->mask >> EP_ARM_PC & 1) || e->to_arm)
        return true;
    if (e->kind != EP_ARM_BRANCH || e->target == 0)
        return line->lr_popped && (e->kind == EP_ARM_BRANCH || e->kind == EP_ARM_COMPUTED);
    return row && (line->lr_popped || !line->moved) && (e->target < row->start || e->target >= row->end);
}

/* Returns true if execution comes to pc straight from a pop of lr: only a jump to another function remains. */
static bool has_popped_lr(const struct ep_module *module, uintptr_t pc, bool thumb)
{
    uintptr_t known = pc > module->start ? pc - module->start : 0;

    for (uintptr_t back = WORD; back <= POPPED_FAR && back <= known; back += thumb ? 2 : WORD) {
        uintptr_t at = pc - back;
        struct ep_arm_effect e = ep_arm_decode(at, pc, thumb);
        if (e.conditional || e.kind != EP_ARM_POP || !(e.mask >> EP_ARM_LR & 1))
            continue;
        do
            at += e.size;
        while (at < pc && (e = ep_arm_decode(at, pc, thumb)).kind == EP_ARM_OTHER && e.size && !e.spoils_lr);
        if (at == pc)
            return true;
    }
    return false;
}

bool ep_arm_epilogue(const struct ep_module *module, uintptr_t pc, bool thumb, const struct ep_cfi_row *row,
                     struct ep_cfi_rules *rules)
{
    struct line line;

    memset(&line, 0, sizeof line);
    line.rules.cfa = EP_CFI_SP;
    line.lr_popped = has_popped_lr(module, pc, thumb);
    for (int i = 0; i < EPILOGUE_MOST; i++) {
        struct ep_arm_effect e = ep_arm_decode(pc, module->end, thumb);
        if (e.size == 0 || e.conditional)
            return false;
        bool last = leaves(&line, &e, row);
        if (e.kind == EP_ARM_POP || !last) {
            if (!take(&line, &e))
                return false;
        }
        if (last && line.moved && line.body)
            return false;
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

bool ep_arm_will_call(const struct ep_module *module, uintptr_t pc, bool thumb)
{
    struct ep_arm_effect e = {0};

    for (int i = 0; i < EPILOGUE_MOST; i++) {
        e = ep_arm_decode(pc, module->end, thumb);
        if (e.kind != EP_ARM_OTHER || e.spoils_lr)
            break;
        pc += e.size;
    }
    return e.kind == EP_ARM_CALL && !e.conditional;
}

static bool has_code(const struct ep_module *module, uintptr_t at, const void *code, size_t size)
{
    return module->end - at >= size && memcmp((const void *)at, code, size) == 0;
}

/* Returns true if code leads from `at` to a return address, and calls nothing before. */
static bool is_first_call(uintptr_t at, uintptr_t pc, bool thumb)
{
    struct ep_arm_effect e = {0};

    while (at < pc && e.kind != EP_ARM_CALL && e.kind != EP_ARM_RETURN) {
        e = ep_arm_decode(at, pc, thumb);
        at += e.size ? e.size : pc - at;
    }
    return at == pc && e.kind == EP_ARM_CALL;
}

bool ep_arm_is_start(const struct ep_module *module, uintptr_t pc, bool thumb)
{
    static const uint16_t exits[][3] = {{0xf04f, 0x0701, 0xdf00}, {0x2701, 0xdf00}}; /* mov r7, #1; svc 0 */
    static const uint16_t start[] = {0xf04f, 0x0b00, 0xf04f, 0x0e00};                /* mov fp, #0; mov lr, #0 */
    static const uint32_t exits_arm[] = {0xe3a07001, 0xef000000}, start_arm[] = {0xe3a0b000, 0xe3a0e000};
    const void *code = thumb ? (const void *)start : start_arm;

    if (pc < module->start || pc >= module->end)
        return false;
    if (thumb ? has_code(module, pc, exits[0], 6) || has_code(module, pc, exits[1], 4)
              : has_code(module, pc, exits_arm, sizeof exits_arm))
        return true;
    for (uintptr_t back = sizeof start; back <= START_MOST && back <= pc - module->start; back += thumb ? 2 : WORD)
        if (has_code(module, pc - back, code, sizeof start))
            return is_first_call(pc - back, pc, thumb);
    return false;
}

bool ep_arm_follows_call(const struct ep_module *module, uintptr_t pc, bool *thumb)
{
    uint16_t half[2];
    uint32_t word;

    *thumb = true;
    if (pc - module->start < sizeof half)
        return false;
    memcpy(half, (const void *)(pc - sizeof half), sizeof half);
    if ((half[1] & 0xff87) == 0x4780) /* blx register */
        return true;
    if ((half[0] & 0xf800) == 0xf000 && (half[1] & 0xc000) == 0xc000) /* bl, blx */
        return true;
    *thumb = false;
    memcpy(&word, half, sizeof word);
    return pc % 4 == 0 && ((word & 0x0f000000) == 0x0b000000 || (word & 0xfe000000) == 0xfa000000 ||
                           (word & 0x0ffffff0) == 0x012fff30);
}
