/*
 * aarch64 code without tables (the .NET runtime's C++): a function leads back to its caller on every way through it, so
 * any way from pc to a return tells where sp will be then, and where x29 and x30 will have been loaded from.
 *
 *   ep_aarch64_path -> advance   one instruction after the other; at conditional branches straight on, the other way is
 *                                kept
 *                   -> way_rule  what a way that has come to a return amounts to
 *
 * A call that never returns runs on into the next function, and so may a computed branch. So behind one a return counts
 * only with a frame record, x29 and x30 loaded from neighbouring words, and a way that stores lr there ends. The same
 * holds for a return address, which is behind a call. Bounded by EP_PATH_STEPS_MOST instructions in all.
 * Encodings are from the Arm Architecture Reference Manual for A-profile, C4.1.
 */
#include "core/unwind/path_aarch64.h"

#include <string.h>

#include "core/unwind/cfi.h"
#include "core/unwind/path.h"

#define WORD       8
#define FP         29
#define LR         30
#define LARGE_BACK 12 /* instructions between the value of x12 and its use */
#define SP         31
#define TABLE_MOST 10 /* instructions before a jump */
#define PASS_STEPS (EP_PATH_STEPS_MOST / 2)

/* A register: where the way has stored it, and where it has loaded it from, or EP_PATH_NOWHERE. From where it had
 * stored it itself, the register is unchanged. */
struct saved {
    int32_t stored, loaded;
};

/* Offsets are from sp at pc, or from x29 there when from_fp. */
struct way {
    uintptr_t at;
    int32_t offset; /* of sp */
    int32_t frame;  /* where x29 points since the way set it, or EP_PATH_NOWHERE */
    struct saved fp, lr;
    bool from_fp;
    bool called; /* what follows may be another function */
};

struct ways {
    const struct ep_module *module;
    const struct ep_aarch64_code *code;
    struct way kept[EP_PATH_WAYS_MOST];
    unsigned count;
    bool far;
    struct ep_path_seen seen;
};

enum outcome { ON, RETURNS, ENDS };

static int32_t field(uint32_t code, unsigned low, unsigned bits)
{
    return (int32_t)(code << (32 - low - bits)) >> (32 - bits);
}

static bool is_loaded(const struct saved *saved)
{
    return saved->loaded != EP_PATH_NOWHERE;
}

static bool is_own(const struct saved *saved)
{
    return saved->stored == saved->loaded;
}

static void load(struct way *way, uint32_t reg, int32_t offset)
{
    if (reg == FP)
        way->fp.loaded = offset;
    else if (reg == LR)
        way->lr.loaded = offset;
}

/* lr is the return address only before the first call, and what was loaded is the caller's. */
static enum outcome store(struct way *way, uint32_t reg, int32_t offset)
{
    struct saved *saved = reg == FP ? &way->fp : &way->lr;

    if (reg != FP && reg != LR)
        return ON;
    if (is_loaded(saved) || (reg == LR && way->called))
        return ENDS;
    saved->stored = offset;
    return ON;
}

static enum outcome access_word(struct way *way, uint32_t code, uint32_t reg, int32_t offset)
{
    if (!(code >> 22 & 1))
        return store(way, reg, offset);
    load(way, reg, offset);
    return ON;
}

/* ldp and stp, of any registers. */
static enum outcome pair(struct way *way, uint32_t code)
{
    bool vector = code >> 26 & 1, words = !vector && code >> 30 == 2;
    unsigned scale = vector ? 4u << (code >> 30) : words ? WORD : 4;
    int32_t amount = field(code, 15, 7) * (int32_t)scale;
    unsigned form = code >> 23 & 3; /* 1: behind the access, 2: none, 3: before it */
    int32_t at = way->offset + (form == 1 ? 0 : amount);
    enum outcome outcome = ON;

    if ((code >> 5 & 31) != SP)
        return words && code >> 22 & 1 && ((code & 31) == LR || (code >> 10 & 31) == LR) ? ENDS : ON;
    if (form == 1 || form == 3)
        way->offset += amount;
    if (words && access_word(way, code, code & 31, at) == ENDS)
        return ENDS;
    if (words)
        outcome = access_word(way, code, code >> 10 & 31, at + WORD);
    return outcome;
}

/* ldr and str of one register: [sp, #n], [sp, #n]!, [sp], #n. */
static enum outcome single(struct way *way, uint32_t code)
{
    bool scaled = code >> 24 & 1, words = code >> 30 == 3 && !(code >> 26 & 1) && code >> 23 < 0x1f3;
    bool indexed = !scaled && !(code >> 21 & 1) && code >> 10 & 1;
    int32_t amount = scaled ? (int32_t)(code >> 10 & 0xfff) * WORD : field(code, 12, 9);
    bool behind = indexed && !(code >> 11 & 1);

    if ((code >> 5 & 31) != SP || (!scaled && code >> 21 & 1))
        return words && code >> 22 & 1 && (code & 31) == LR ? ENDS : ON;
    int32_t at = way->offset + (behind ? 0 : amount);
    if (indexed)
        way->offset += amount;
    return words ? access_word(way, code, code & 31, at) : ON;
}

static enum outcome from_fp(struct way *way, int32_t amount)
{
    if (way->frame != EP_PATH_NOWHERE) {
        way->offset = way->frame + amount;
        return ON;
    }
    if (is_loaded(&way->fp) || is_loaded(&way->lr) || way->fp.stored != EP_PATH_NOWHERE ||
        way->lr.stored != EP_PATH_NOWHERE)
        return ENDS;
    way->offset = amount;
    way->from_fp = true;
    return ON;
}

/* add and sub with an immediate. */
static enum outcome add(struct way *way, uint32_t code)
{
    uint32_t to = code & 31, from = code >> 5 & 31;
    int32_t amount = (int32_t)(code >> 10 & 0xfff) << (code >> 22 & 1 ? 12 : 0);

    if (code >> 29 & 1) /* sets flags: 31 is no register */
        return ON;
    if (code >> 30 & 1)
        amount = -amount;
    if (to == FP && from == SP)
        way->frame = way->offset + amount;
    if (to != SP)
        return ON;
    if (from == SP) {
        way->offset += amount;
        return ON;
    }
    return from == FP ? from_fp(way, amount) : ENDS;
}

/* Of the kept ways that which is furthest on, or the nearest. */
static struct way *choose(struct ways *ways, bool furthest)
{
    struct way *found = &ways->kept[0];

    for (unsigned i = 1; i < ways->count; i++)
        if ((ways->kept[i].at > found->at) == furthest)
            found = &ways->kept[i];
    return found;
}

/* Out of line: its stack is not that of the search for tables. */
static __attribute__((noinline)) void exchange(struct way *one, struct way *other)
{
    struct way kept = *one;

    *one = *other;
    *other = kept;
}

static enum outcome fork(const struct way *way, struct ways *ways, int32_t words)
{
    uintptr_t target = way->at - 4 + (uintptr_t)(intptr_t)(words * 4);
    struct way *kept = &ways->kept[ways->count];

    if (ways->count == EP_PATH_WAYS_MOST)
        kept = ways->far ? choose(ways, false) : NULL;
    if (!kept || (ways->count == EP_PATH_WAYS_MOST && kept->at >= target) || !ep_path_is_new(&ways->seen, target))
        return ON;
    ways->count += ways->count < EP_PATH_WAYS_MOST;
    *kept = *way;
    kept->at = target;
    return ON;
}

/* b: with the frame gone a call in disguise, else to elsewhere in the function. Behind a loop's the rest of it follows.
 */
static enum outcome branch(struct way *way, struct ways *ways, uint32_t code)
{
    uintptr_t target = way->at - 4 + (uintptr_t)(intptr_t)(field(code, 0, 26) * 4);

    if (is_loaded(&way->lr) || (!ways->code->function && ep_cfi_starts(ways->module, target)))
        return RETURNS;
    if (ep_path_is_new(&ways->seen, target)) {
        way->at = target;
        return ON;
    }
    way->called = true;
    if (ways->far && ways->count > 0)
        exchange(way, choose(ways, true));
    return ON;
}

/* ldp x29, x30, [sp, #n]; ldp x29, x30, [sp], #n; ldr x30, [sp, #n]; ldr x30, [sp], #n. */
static bool restores_lr(uint32_t code)
{
    return (code & 0xffc07fff) == 0xa9407bfd || (code & 0xffc07fff) == 0xa8c07bfd ||
           (code & 0xffc003ff) == 0xf94003fe || (code & 0xffe00fff) == 0xf84007fe;
}

/* Returns true if sp becomes another stack's: mov, or add or sub with an immediate, from neither sp nor x29. */
static bool switches_stack(uint32_t code)
{
    uint32_t from = code >> 5 & 31;

    return (code & 0xbf80001f) == 0x9100001f && from != SP && from != FP;
}

/* br, with the frame not restored on the way: what stands before it tells, on the same stack. A jump table's adds to
 * the address of its first case, which adr has loaded. A call in disguise behind an epilogue returns to lr. Others lead
 * nowhere: what follows them may be a part of the function with another frame. */
static enum outcome jump(struct way *way, struct ways *ways, uint32_t reg)
{
    uint32_t from = SP; /* the register that a jump table's address is in */
    uintptr_t at = way->at - 4;
    bool table = false;

    for (int i = 0; i < TABLE_MOST && at - ways->code->start >= 4; i++) {
        uint32_t before;
        memcpy(&before, (const void *)(at -= 4), sizeof before);
        if ((before & 0x1c000000) == 0x14000000 || switches_stack(before))
            break;
        if (restores_lr(before))
            return RETURNS;
        if (from == SP && (before & 0xff00001f) == (0x8b000000 | reg))
            from = before >> 5 & 31;
        else if (from == SP && (before & 0xffe00c1f) == (0xf8600800 | reg)) /* ldr of an address out of the table */
            table = true;
        else if (from != SP && (before & 0x9f00001f) == (0x10000000 | from)) {
            uintptr_t first = at + (uintptr_t)(intptr_t)(field(before, 5, 19) * 4);
            if (!ep_path_is_new(&ways->seen, first))
                return ENDS;
            way->at = first;
            return ON;
        }
    }
    if (!table && from == SP)
        return ENDS;
    way->called = true; /* the first case mostly follows */
    return ON;
}

/* br, blr, ret and their like with pointer authentication. */
static enum outcome to_register(struct way *way, struct ways *ways, uint32_t code)
{
    unsigned operation = code >> 21 & 3;

    if (operation == 2)
        return (code >> 5 & 31) == LR || code >> 10 & 3 ? RETURNS : ENDS;
    if (operation == 0)
        return is_loaded(&way->lr) ? RETURNS : jump(way, ways, code >> 5 & 31);
    way->called = true;
    return operation == 1 ? ON : ENDS;
}

static enum outcome branches(struct way *way, struct ways *ways, uint32_t code)
{
    switch (code >> 24 & 0xff) {
    case 0x54: /* b.cond */
        return fork(way, ways, field(code, 5, 19));
    case 0x34:
    case 0x35:
    case 0xb4:
    case 0xb5: /* cbz, cbnz */
        return fork(way, ways, field(code, 5, 19));
    case 0x36:
    case 0x37:
    case 0xb6:
    case 0xb7: /* tbz, tbnz */
        return fork(way, ways, field(code, 5, 14));
    case 0xd6:
    case 0xd7:
        return to_register(way, ways, code);
    case 0xd4: /* svc goes on; brk, hlt */
        return (code & 0xffe0001f) == 0xd4000001 ? ON : ENDS;
    case 0xd5: /* hints, barriers, system registers */
        return ON;
    default:
        break;
    }
    if (code >> 26 == 0x25) { /* bl */
        way->called = true;
        return ON;
    }
    return code >> 26 == 5 ? branch(way, ways, code) : ENDS;
}

/* What else has sp for its destination: and with an immediate, add and sub with a register. */
static bool sets_sp(uint32_t code)
{
    return (code & 31) == SP && (((code & 0x1f800000) == 0x12000000 && (code & 0x60000000) != 0x60000000) ||
                                 ((code & 0x1fe00000) == 0x0b200000 && !(code >> 29 & 1)));
}

/* add or sub sp, sp, x12: how compilers make a frame that no immediate can say. */
static bool is_large(uint32_t code)
{
    return (code & 0xbfffffff) == 0x8b2c63ff;
}

/* The value of x12 comes from mov, and movk for its upper half, with nothing but loads and stores of pairs in between.
 */
static enum outcome add_large(struct way *way, const struct ways *ways, uint32_t code)
{
    uintptr_t at = way->at - sizeof code;
    uint32_t upper = 0;

    for (unsigned i = 0; i < LARGE_BACK && at - ways->code->start >= sizeof code; i++) {
        uint32_t before;
        at -= sizeof before;
        memcpy(&before, (const void *)at, sizeof before);
        uint32_t value = before >> 5 & 0xffff;
        if ((before & 0xffe0001f) == 0xd280000c && (upper | value) <= EP_PATH_FRAME_MOST) {
            way->offset += (int32_t)(upper | value) * (code >> 30 & 1 ? -1 : 1);
            return ON;
        }
        if ((before & 0xffe0001f) == 0xf2a0000c)
            upper = value << 16;
        else if ((before & 0x3a000000) != 0x28000000 || (before & 31) == 12 || (before >> 10 & 31) == 12)
            return ENDS;
    }
    return ENDS;
}

/* One instruction further. */
static enum outcome advance(struct way *way, struct ways *ways)
{
    uint32_t code;
    enum outcome outcome = ON;

    if (way->at < ways->code->start || way->at >= ways->code->end || ways->code->end - way->at < sizeof code ||
        way->at % 4)
        return ENDS;
    memcpy(&code, (const void *)way->at, sizeof code);
    way->at += sizeof code;
    if ((code & 0x1c000000) == 0x14000000)
        outcome = branches(way, ways, code);
    else if ((code & 0x3a000000) == 0x28000000)
        outcome = pair(way, code);
    else if ((code & 0x3a000000) == 0x38000000)
        outcome = single(way, code);
    else if ((code & 0x1f800000) == 0x11000000)
        outcome = code >> 31 ? add(way, code) : ON;
    else if (is_large(code))
        outcome = add_large(way, ways, code);
    else if (code >> 16 == 0 || sets_sp(code)) /* udf */
        outcome = ENDS;
    return way->offset <= EP_PATH_FRAME_MOST && way->offset >= -EP_PATH_FRAME_MOST ? outcome : ENDS;
}

/* x29 and x30 from neighbouring words. */
static bool record_rule(const struct way *way, struct ep_rule *rule)
{
    int32_t record = way->fp.loaded;

    *rule =
        (struct ep_rule){.kind = way->from_fp ? EP_RULE_CHAIN : EP_RULE_RECORD, .cfa = (int16_t)(way->offset / WORD)};
    if (way->from_fp)
        return record == 0 && rule->cfa >= 2;
    rule->fp_slot = (uint8_t)(record / WORD);
    if (record / WORD > UINT8_MAX) { /* a large frame: it is nearer to the CFA */
        int32_t slot = (way->offset - record) / WORD;
        if (slot < 2 || slot > UINT8_MAX)
            return false;
        rule->kind = EP_RULE_APART;
        rule->fp_slot = (uint8_t)slot;
        rule->base_slot = (uint8_t)(slot - 1);
    }
    return record >= 0 && record % WORD == 0;
}

/* lr from the stack, x29 from elsewhere there or unchanged. */
static bool apart_rule(const struct way *way, struct ep_rule *rule)
{
    int32_t lr = (way->offset - way->lr.loaded) / WORD;
    int32_t fp = is_loaded(&way->fp) && !is_own(&way->fp) ? (way->offset - way->fp.loaded) / WORD : 0;

    *rule = (struct ep_rule){
        .kind = EP_RULE_APART, .fp_slot = (uint8_t)fp, .base_slot = (uint8_t)lr, .cfa = (int16_t)(way->offset / WORD)};
    return !way->from_fp && lr > 0 && lr <= UINT8_MAX && fp >= 0 && fp <= UINT8_MAX;
}

static bool way_rule(const struct way *way, bool function, struct ep_rule *rule)
{
    bool has_lr = is_loaded(&way->lr), own = is_own(&way->lr);
    bool record = has_lr && is_loaded(&way->fp) && way->lr.loaded == way->fp.loaded + WORD && is_own(&way->fp) == own;

    if (way->offset % WORD || way->offset / WORD > INT16_MAX || way->offset < 0 ||
        (way->called && !record && !(function && has_lr)))
        return false;
    if (record && !own)
        return record_rule(way, rule);
    if (has_lr && !own)
        return apart_rule(way, rule);
    *rule = (struct ep_rule){.kind = EP_RULE_LINK, .cfa = (int16_t)(way->offset / WORD)};
    return !way->from_fp && (!is_loaded(&way->fp) || is_own(&way->fp));
}

static void begin(struct way *way, struct ways *ways, uintptr_t pc, bool interrupted)
{
    way->at = pc;
    way->offset = 0;
    way->frame = EP_PATH_NOWHERE;
    way->fp = way->lr = (struct saved){EP_PATH_NOWHERE, EP_PATH_NOWHERE};
    way->from_fp = false;
    way->called = !interrupted;
    ways->count = ways->seen.count = 0;
}

/* Twice: the second time out of loops by the way that is furthest on, which finds the end of large functions. */
bool ep_aarch64_path(const struct ep_module *module, struct ep_aarch64_code code, uintptr_t pc, bool interrupted,
                     struct ep_rule *rule)
{
    struct way way;
    struct ways ways;

    ways.module = module;
    ways.code = &code;
    for (int i = 0, steps = 0; i < 2 * PASS_STEPS; i++) {
        ways.far = i >= PASS_STEPS;
        if (i % PASS_STEPS == 0)
            begin(&way, &ways, pc, interrupted), steps = 0;
        enum outcome outcome = advance(&way, &ways);
        if (outcome == RETURNS && way_rule(&way, code.function, rule) && (interrupted || rule->kind != EP_RULE_LINK))
            return true;
        if (outcome == ON && ++steps < EP_PATH_WAY_MOST)
            continue;
        steps = 0;
        if (ways.count > 0)
            way = ways.kept[--ways.count];
        else if (ways.far)
            return false;
        else
            i = PASS_STEPS - 1;
    }
    return false;
}
