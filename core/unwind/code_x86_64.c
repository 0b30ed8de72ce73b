/*
 * Decodes x86-64 instructions one by one: how long they are, for all of them, and what the few do to the stack.
 *
 *   ep_x86_decode -> read_prefixes, read_operand, read_immediate     how long it is
 *                 -> effect_one, effect_0f                           what it does
 */
#include "core/unwind/code_x86_64.h"

#include <string.h>

enum { MAP_ONE, MAP_0F, MAP_38, MAP_3A };
enum { RBX = 3, RSP = 4, RBP = 5 };

/* An instruction in its parts. */
struct parts {
    const uint8_t *at, *end;
    uint8_t rex, opcode, map, reg, rm; /* reg and rm with the bits of REX; rm: of a memory operand its base */
    bool short_operand, vex, has_modrm, memory, fixed; /* fixed: the operand's address is relative to rip */
    int32_t displacement, immediate;
};

/* A bit for every opcode that has a ModRM byte. */
static const uint32_t modrm_one[8] = {0x0f0f0f0f, 0x0f0f0f0f, 0, 0x00000a08, 0x0000ffff, 0, 0xff0f00c3, 0xc0c00000};
static const uint32_t modrm_0f[8] = {0xffff200f, 0x0000ff0f, 0xffffffff, 0xff7fffff,
                                     0xffff0000, 0xfffff838, 0xffff00ff, 0xffffffff};

static bool has_bit(const uint32_t *bits, uint8_t opcode)
{
    return bits[opcode / 32] >> opcode % 32 & 1;
}

static bool byte(struct parts *p, uint8_t *value)
{
    if (p->at >= p->end)
        return false;
    *value = *p->at++;
    return true;
}

/* Signed, of 0, 1, 2, 4 or 8 bytes; of eight the lower half. */
static bool number(struct parts *p, unsigned bytes, int32_t *value)
{
    if ((size_t)(p->end - p->at) < bytes)
        return false;
    *value = 0;
    memcpy(value, p->at, bytes > sizeof *value ? sizeof *value : bytes);
    if (bytes == 1)
        *value = (int8_t)*value;
    else if (bytes == 2)
        *value = (int16_t)*value;
    p->at += bytes;
    return true;
}

/* VEX and EVEX: which table the opcode is in, and REX' bits, which they hold inverted. */
static bool vector_prefix(struct parts *p, uint8_t first)
{
    uint8_t payload[3] = {0};

    for (unsigned i = 0; i < (first == 0xc5 ? 1u : first == 0xc4 ? 2u : 3u); i++)
        if (!byte(p, &payload[i]))
            return false;
    p->vex = true;
    p->rex = (uint8_t)((~payload[0] >> 5 & 4) | (first == 0xc5 ? 0 : ~payload[0] >> 5 & 1));
    p->map = first == 0xc5 ? MAP_0F : payload[0] & (first == 0xc4 ? 31 : 7);
    return p->map >= MAP_0F && p->map <= MAP_3A && byte(p, &p->opcode);
}

static bool read_prefixes(struct parts *p)
{
    uint8_t b;

    for (;;) {
        if (!byte(p, &b))
            return false;
        if (b == 0x66)
            p->short_operand = true;
        else if (b != 0x67 && b != 0xf2 && b != 0xf3 && b != 0xf0 && b != 0x2e && b != 0x36 && b != 0x3e && b != 0x26 &&
                 b != 0x64 && b != 0x65)
            break;
    }
    if ((b & 0xf0) == 0x40) {
        p->rex = b & 15;
        if (!byte(p, &b))
            return false;
    }
    if (b == 0xc4 || b == 0xc5 || b == 0x62)
        return vector_prefix(p, b);
    p->map = MAP_ONE;
    if (b == 0x0f) {
        p->map = MAP_0F;
        if (!byte(p, &b))
            return false;
        if (b == 0x38 || b == 0x3a) {
            p->map = b == 0x38 ? MAP_38 : MAP_3A;
            if (!byte(p, &b))
                return false;
        }
    }
    p->opcode = b;
    return true;
}

static bool read_operand(struct parts *p)
{
    uint8_t modrm, sib;

    p->has_modrm = p->map >= MAP_38 || has_bit(p->map == MAP_ONE ? modrm_one : modrm_0f, p->opcode);
    if (!p->has_modrm)
        return true;
    if (!byte(p, &modrm))
        return false;
    unsigned mod = modrm >> 6;
    p->reg = (uint8_t)((modrm >> 3 & 7) | (p->rex & 4) << 1);
    p->rm = (uint8_t)((modrm & 7) | (p->rex & 1) << 3);
    p->memory = mod != 3;
    if (!p->memory)
        return true;
    if ((modrm & 7) == 4) {
        if (!byte(p, &sib))
            return false;
        bool indexed = (sib >> 3 & 7) != 4 || (p->rex & 2);
        bool absolute = (sib & 7) == 5 && mod == 0;
        p->rm = (uint8_t)(indexed || absolute ? EP_X86_NO_REG : (sib & 7u) | (p->rex & 1u) << 3);
        return number(p, mod == 1 ? 1 : mod == 2 || absolute ? 4 : 0, &p->displacement);
    }
    if ((modrm & 7) == 5 && mod == 0) { /* relative to rip */
        p->rm = EP_X86_NO_REG;
        p->fixed = true;
        return number(p, 4, &p->displacement);
    }
    return number(p, mod == 1 ? 1 : mod == 2 ? 4 : 0, &p->displacement);
}

static unsigned immediate_one(const struct parts *p)
{
    uint8_t op = p->opcode;
    unsigned word = p->short_operand ? 2 : 4;

    if (op < 0x40)
        return (op & 7) == 4 ? 1 : (op & 7) == 5 ? word : 0;
    if ((op >= 0x70 && op < 0x80) || (op >= 0xb0 && op < 0xb8) || (op >= 0xe0 && op < 0xe8))
        return 1;
    if (op >= 0xb8 && op < 0xc0)
        return p->rex & 8 ? 8 : word;
    if (op == 0xf6)
        return (p->reg & 7) < 2 ? 1 : 0;
    if (op == 0xf7)
        return (p->reg & 7) < 2 ? word : 0;
    switch (op) {
    case 0x6a:
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xa8:
    case 0xc0:
    case 0xc1:
    case 0xc6:
    case 0xcd:
    case 0xeb:
        return 1;
    case 0xc2:
        return 2;
    case 0x68:
    case 0x69:
    case 0x81:
    case 0xa9:
    case 0xc7:
        return word;
    case 0xe8:
    case 0xe9:
        return 4;
    case 0xa0:
    case 0xa1:
    case 0xa2:
    case 0xa3:
        return 8;
    default:
        return 0;
    }
}

static unsigned immediate_0f(const struct parts *p)
{
    uint8_t op = p->opcode;

    if (!p->vex && op >= 0x80 && op < 0x90)
        return 4;
    return (op >= 0x70 && op < 0x74) || op == 0xa4 || op == 0xac || op == 0xba || op == 0xc2 ||
           (op >= 0xc4 && op <= 0xc6);
}

static bool read_immediate(struct parts *p)
{
    unsigned bytes = p->map == MAP_3A    ? 1
                     : p->map == MAP_ONE ? immediate_one(p)
                     : p->map == MAP_0F  ? immediate_0f(p)
                                         : 0;

    return number(p, bytes, &p->immediate);
}

static struct ep_x86_effect effect(enum ep_x86_kind kind, uint8_t reg, int32_t amount)
{
    return (struct ep_x86_effect){.kind = (uint8_t)kind, .reg = reg, .amount = amount};
}

static struct ep_x86_effect jump(enum ep_x86_kind kind, const struct parts *p)
{
    return (struct ep_x86_effect){.kind = (uint8_t)kind,
                                  .target = (uintptr_t)p->at + (uintptr_t)(intptr_t)p->immediate};
}

/* A register is set to another one plus an amount. */
static struct ep_x86_effect set(uint8_t to, uint8_t from, int32_t amount)
{
    if (to == RSP)
        return from == RSP   ? effect(EP_X86_MOVE_SP, 0, amount)
               : from == RBP ? effect(EP_X86_FROM_FP, 0, amount)
                             : effect(EP_X86_UNKNOWN, 0, 0);
    return effect(to == RBP && from == RSP ? EP_X86_SET_FP : EP_X86_OTHER, 0, amount);
}

/* op immediate, register: add, or, adc, sbb, and, sub, xor, cmp. */
static struct ep_x86_effect arithmetic(const struct parts *p)
{
    unsigned operation = p->reg & 7;

    if (p->memory || p->rm != RSP || operation == 7)
        return effect(EP_X86_OTHER, 0, 0);
    if (operation == 0 || operation == 5)
        return effect(EP_X86_MOVE_SP, 0, operation == 0 ? p->immediate : (int32_t)(0 - (uint32_t)p->immediate));
    return effect(EP_X86_UNKNOWN, 0, 0);
}

/* Those that have a ModRM byte. */
static struct ep_x86_effect effect_operand(const struct parts *p)
{
    uint8_t op = p->opcode;

    if (op == 0x81 || op == 0x83)
        return arithmetic(p);
    if (op == 0x8d)
        return set(p->reg, p->memory ? p->rm : EP_X86_NO_REG, p->displacement);
    if (op == 0x89 && !p->memory)
        return set(p->rm, p->reg, 0);
    if (op == 0x8b && !p->memory)
        return set(p->reg, p->rm, 0);
    if (op == 0x8b && p->reg == RBP && p->rm == RSP)
        return effect(EP_X86_LOAD_FP, 0, p->displacement);
    if (op == 0x8f)
        return effect(EP_X86_POP, EP_X86_NO_REG, 0);
    if (op == 0xff && (p->reg & 7) == 4 && p->memory && (p->fixed || p->rm != EP_X86_NO_REG))
        return effect(EP_X86_RETURN, 0, 0);
    if (op == 0xff && (p->reg & 7) >= 2)
        return (p->reg & 7) < 4   ? effect(EP_X86_CALL, 0, 0)
               : (p->reg & 7) < 6 ? effect(EP_X86_JUMP, 0, 0)
                                  : effect(EP_X86_PUSH, EP_X86_NO_REG, 0);
    /* Whatever else has rsp for its destination: arithmetic with registers, exchanges, loads. */
    bool to_rm = op < 0x40 ? (op & 7) < 2 : op == 0x86 || op == 0x87 || op == 0xc7;
    bool to_reg =
        op < 0x40 ? (op & 7) >= 2 && (op & 7) < 4 : op == 0x8b || op == 0x63 || op == 0x69 || op == 0x6b || op == 0x87;
    bool compares = (op & 0xf8) == 0x38;
    return effect(!compares && ((to_rm && !p->memory && p->rm == RSP) || (to_reg && p->reg == RSP)) ? EP_X86_UNKNOWN
                                                                                                    : EP_X86_OTHER,
                  0, 0);
}

static struct ep_x86_effect effect_one(const struct parts *p)
{
    uint8_t op = p->opcode, reg = (uint8_t)((op & 7) | (p->rex & 1) << 3);

    if ((op & 0xf8) == 0x50)
        return effect(EP_X86_PUSH, reg, 0);
    if ((op & 0xf8) == 0x58)
        return effect(reg == RSP ? EP_X86_UNKNOWN : EP_X86_POP, reg, 0);
    if ((op & 0xf0) == 0x70 || (op & 0xfc) == 0xe0)
        return jump(EP_X86_FORK, p);
    if (p->has_modrm)
        return effect_operand(p);
    switch (op) {
    case 0x68:
    case 0x6a:
    case 0x9c:
        return effect(EP_X86_PUSH, EP_X86_NO_REG, 0);
    case 0x9d:
        return effect(EP_X86_POP, EP_X86_NO_REG, 0);
    case 0xc9:
        return effect(EP_X86_LEAVE, 0, 0);
    case 0xe8:
        return effect(EP_X86_CALL, 0, 0);
    case 0xe9:
    case 0xeb:
        return jump(EP_X86_JUMP, p);
    case 0xc3:
        return effect(EP_X86_RETURN, 0, 0);
    /* ret n, enter, int3, hlt, and what is no instruction in 64-bit mode */
    case 0xc2:
    case 0xc8:
    case 0xca:
    case 0xcb:
    case 0xcc:
    case 0xcf:
    case 0xf4:
    case 0x06:
    case 0x07:
    case 0x0e:
    case 0x16:
    case 0x17:
    case 0x1e:
    case 0x1f:
    case 0x27:
    case 0x2f:
    case 0x37:
    case 0x3f:
    case 0x60:
    case 0x61:
    case 0x9a:
    case 0xce:
    case 0xd6:
    case 0xea:
    case 0xbc:
        return effect(op == 0xbc && (p->rex & 1) ? EP_X86_OTHER : EP_X86_UNKNOWN, 0, 0);
    default:
        return effect(EP_X86_OTHER, 0, 0);
    }
}

static struct ep_x86_effect effect_0f(const struct parts *p)
{
    uint8_t op = p->opcode;

    if (op >= 0x80 && op < 0x90)
        return jump(EP_X86_FORK, p);
    if (op == 0x0b || op == 0x0f || op == 0x04 || op == 0x0a || op == 0x0c || op == 0x07 || op == 0xb9 || op == 0xff)
        return effect(EP_X86_UNKNOWN, 0, 0);
    /* cmov, movzx, movsx, imul, bsf, popcnt and the like: to rsp */
    bool to_reg = (op & 0xf0) == 0x40 || op == 0xaf || (op >= 0xb6 && op <= 0xbf && op != 0xba);
    return effect(to_reg && p->reg == RSP ? EP_X86_UNKNOWN : EP_X86_OTHER, 0, 0);
}

struct ep_x86_effect ep_x86_decode(const uint8_t *at, const uint8_t *end)
{
    struct parts p = {.at = at, .end = end - at > 15 ? at + 15 : end};
    struct ep_x86_effect found = {.kind = EP_X86_UNKNOWN};

    if (!read_prefixes(&p) || !read_operand(&p) || !read_immediate(&p))
        return found;
    if (p.map == MAP_ONE)
        found = effect_one(&p);
    else if (p.map == MAP_0F && !p.vex)
        found = effect_0f(&p);
    else
        found.kind = EP_X86_OTHER;
    found.size = (uint8_t)(p.at - at);
    return found;
}
