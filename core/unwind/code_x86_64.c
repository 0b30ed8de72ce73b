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
    int16_t half;

    if ((size_t)(p->end - p->at) < bytes)
        return false;
    *value = bytes == 1 ? (int8_t)*p->at : 0;
    if (bytes == 2) {
        memcpy(&half, p->at, sizeof half);
        *value = half;
    } else if (bytes >= sizeof *value) {
        memcpy(value, p->at, sizeof *value);
    }
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
        return effect(EP_X86_RETURN, EP_X86_NO_REG, 0);
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

static struct ep_x86_effect decode(const uint8_t *at, const uint8_t *end)
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

/* ---- the instructions that most code consists of ---- */

/* What the table below tells of opcodes: those of one byte, then those behind 0f. NO: not here. */
enum { NO, M, M1, MZ, MV, LEA, G, G1, GZ, J1, JZ, C };

/* M: a ModRM byte, then an immediate of no byte, 1, or a word (Z). MV, LEA: MOV and LEA, which matter with rbp too, LEA
 * with what it adds. G: what may be a register in the ModRM byte extends the opcode. J: a conditional jump. C: a call.
 */
/* clang-format off */
static const uint8_t usual[512] = {
    /* add ... cmp */
    [0x00] = M, M, M, M, [0x08] = M, M, M, M, [0x10] = M, M, M, M,
    [0x18] = M, M, M, M, [0x20] = M, M, M, M, [0x28] = M, M, M, M,
    [0x30] = M, M, M, M, [0x38] = M, M, M, M,
    /* movsxd, imul; jumps; groups; test, xchg, mov, lea */
    [0x63] = M, [0x69] = MZ, [0x6b] = M1, [0x70] = J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1,
    J1, [0x80] = G1, GZ, [0x83] = G1, M, M, M, M, MV, MV, MV, MV,
    [0x8d] = LEA,
    /* shifts, mov, call, test ... div, inc, dec */
    [0xc0] = G1, G1, [0xc6] = G1, GZ, [0xd0] = G, G, G, G, [0xe8] = C,
    /* behind 0f: SSE moves, nop, cmov, SSE, jumps, set, bit tests, imul, movzx, movsx */
    [0x110] = M, M, M, M, M, M, M, M, [0x11f] = G, [0x128] = M, M, M, M, M, M, M, M,
    [0x140] = M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, [0x151] = M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    M, [0x160] = M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M1, M1,
    [0x174] = M, M, M, [0x17e] = M, M, [0x180] = JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ, JZ,
    [0x190] = G, G, G, G, G, G, G, G, G, G, G, G, G, G, G, G, [0x1a3] = M,
    [0x1af] = M, [0x1b6] = M, M, [0x1be] = M, M,
};
/* clang-format on */

/* Bytes of a ModRM byte and what it calls for. */
static unsigned operand_size(const uint8_t *b)
{
    unsigned mod = b[0] >> 6, rm = b[0] & 7, sib = mod != 3 && rm == 4;
    bool absolute = mod == 0 && (sib ? b[1] & 7 : rm) == 5;

    return 1 + sib + (mod == 1 ? 1u : mod == 2 || absolute ? 4u : 0u);
}

/* What LEA adds, of a ModRM byte with all that it calls for. */
static int32_t added(const uint8_t *b, unsigned size)
{
    int32_t displacement;

    if (size < 5)
        return b[0] >> 6 == 1 ? (int8_t)b[size - 1] : 0;
    memcpy(&displacement, b + size - sizeof displacement, sizeof displacement);
    return displacement;
}

/* `b`: the ModRM byte of the instruction at `at`. */
static void quick_operand(const uint8_t *at, const uint8_t *b, unsigned class, uint8_t rex, struct ep_x86_effect *found)
{
    unsigned reg = (b[0] >> 3 & 7u) | (rex & 4u) << 1, rm = (b[0] & 7u) | (rex & 1u) << 3, size = operand_size(b);

    if ((b[0] >= 0xc0 && rm == RSP) || (class < G && reg == RSP) || ((class == MV || class == LEA) && reg == RBP))
        return;
    if (class == LEA)
        found->amount = added(b, size);
    b += size + (class == M1 || class == G1 ? 1u : class == MZ || class == GZ ? 4u : 0u);
    found->size = (uint8_t)(b - at);
}

/* The effect that reading the instruction in its parts would find, size 0 when that is to be done. Nothing here is
 * about the stack pointer, and nothing has a prefix that changes the size of a word. */
static struct ep_x86_effect quick(const uint8_t *at)
{
    const uint8_t *b = at;
    struct ep_x86_effect found = {.kind = EP_X86_OTHER};
    uint8_t rex = 0;

    if (*b == 0xf2 || *b == 0xf3)
        b++;
    if ((*b & 0xf0) == 0x40)
        rex = *b++;
    unsigned class = *b == 0x0f ? usual[0x100 + *++b] : usual[*b];
    b++;
    if (class != NO && class < J1) {
        quick_operand(at, b, class, rex, &found);
    } else if (class != NO) {
        int32_t distance = (int8_t)*b;
        if (class != J1)
            memcpy(&distance, b, sizeof distance);
        b += class == J1 ? 1 : 4;
        found.kind = class == C ? EP_X86_CALL : EP_X86_FORK;
        found.target = class == C ? 0 : (uintptr_t)b + (uintptr_t)(intptr_t)distance;
        found.size = (uint8_t)(b - at);
    }
    return found;
}

struct ep_x86_effect ep_x86_decode(const uint8_t *at, const uint8_t *end)
{
    struct ep_x86_effect likely = {.size = 0};

    if (end - at >= 16)
        likely = quick(at);
    return likely.size ? likely : decode(at, end);
}

bool ep_x86_set_sp(uintptr_t start, uintptr_t pc, bool last)
{
    uint32_t code;

    for (uintptr_t back = 3; back <= EP_X86_SP_NEAR && back <= pc - start; back++) {
        memcpy(&code, (const void *)(pc - back), sizeof code);
        /* REX.W 8b with rsp in the ModRM byte's register; REX.W 89 with it in the other, and not mov %rbp,%rsp */
        if (((code & 0x38fffc) == 0x208b48 || ((code & 0xc7fffb) == 0xc48948 && (code & 0xffffff) != 0xec8948)) &&
            (!last || ep_x86_decode((const uint8_t *)(pc - back), (const uint8_t *)pc).size == back))
            return true;
    }
    return false;
}
