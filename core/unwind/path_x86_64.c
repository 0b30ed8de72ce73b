/*
 * x86-64 code without tables (the .NET runtime's C++): a function leads back to its caller on every way through it, so
 * any way from pc to a return tells where sp will be then, and where rbp and rbx will have been loaded from.
 *
 *   ep_x86_path -> advance   one instruction after the other; at conditional jumps straight on, the other way is kept
 *               -> way_rule  what a way that has come to a return amounts to
 *
 * A call that never returns runs on into the next function, and so may a computed jump. So behind one a return counts
 * only if the way has removed a frame that was there at the call: the next function removes only what it has made
 * itself. Where sp comes from rbp, rbp must have been loaded from the word below the return address, where code with
 * frame pointers keeps it. A way that sets up such a frame there ends. The same holds for a return address, which is
 * behind a call. Where sp has just been set from elsewhere (longjmp), a jump through memory does not prove that a
 * return address is on the stack: it goes to where that stack belongs. Bounded by EP_PATH_STEPS_MOST instructions in
 * all.
 */
#include "core/unwind/path_x86_64.h"

#include "core/unwind/cfi.h"
#include "core/unwind/code_x86_64.h"
#include "core/unwind/path.h"

#define WORD      8
#define FP_SLOT   2 /* of the caller's rbp, below the CFA, in code with frame pointers */
#define RBX       3
#define RBP       5
#define ALIGNMENT 16 /* of functions' starts */

struct loaded {
    bool done, own; /* own: the way had pushed it itself, the register is unchanged */
    int32_t offset;
};

/* Offsets are from sp at pc, or from rbp there when from_fp. */
struct way {
    const uint8_t *at;
    int32_t offset, highest; /* of sp, and where it has been at most */
    int32_t frame;           /* where rbp points since the way set it, or EP_PATH_NOWHERE */
    int32_t called_at;       /* called: where sp has been at most when another function may have begun */
    bool from_fp, called;    /* called: what follows may be another function */
    bool switched;           /* sp may be another stack's */
    struct loaded fp, base;
};

struct ways {
    struct way kept[EP_PATH_WAYS_MOST];
    unsigned count;
    struct ep_path_seen seen;
};

enum outcome { ON, RETURNS, ENDS };

/* A word below the highest sp of the path was pushed by the path itself. */
static void load(struct way *way, uint8_t reg, int32_t offset)
{
    struct loaded loaded = {.done = true, .own = !way->from_fp && offset < way->highest, .offset = offset};

    if (reg == RBP)
        way->fp = loaded;
    else if (reg == RBX)
        way->base = loaded;
}

/* A loaded register has the caller's value. */
static enum outcome push(struct way *way, uint8_t reg)
{
    way->offset -= WORD;
    return (reg == RBP && way->fp.done) || (reg == RBX && way->base.done) ? ENDS : ON;
}

static enum outcome pop(struct way *way, uint8_t reg)
{
    load(way, reg, way->offset);
    way->offset += WORD;
    return ON;
}

static enum outcome from_fp(struct way *way, int32_t amount)
{
    if (way->frame != EP_PATH_NOWHERE) {
        way->offset = way->frame + amount;
        return ON;
    }
    if (way->fp.done || way->base.done || way->offset < way->highest)
        return ENDS;
    way->offset = amount;
    way->from_fp = true;
    return ON;
}

static void keep(const struct way *way, struct ways *ways, uintptr_t target)
{
    if (ways->count == EP_PATH_WAYS_MOST || !ep_path_is_new(&ways->seen, target))
        return;
    ways->kept[ways->count] = *way;
    ways->kept[ways->count++].at = (const uint8_t *)target;
}

/* Returns true if the instruction before `at`, a jump to where a register says, adds to a register: a jump table's. */
static bool is_table_jump(const struct ep_module *module, const uint8_t *at)
{
    return (uintptr_t)at - module->start >= 8 && (at[-3] & 0xf8) == 0x48 && (at[-2] == 0x01 || at[-2] == 0x03) &&
           at[-1] >= 0xc0;
}

static void may_be_another(struct way *way)
{
    if (!way->called || way->offset > way->called_at)
        way->called_at = way->offset;
    way->called = true;
}

/* A jump with the frame gone is a call in disguise: what it leads to returns for this function. Behind a jump table's
 * jump (target 0) mostly its first case follows, and behind a loop's the rest of the function. */
static enum outcome go(const struct ep_module *module, struct way *way, struct ways *ways,
                       const struct ep_x86_effect *e)
{
    const uint8_t *jump = way->at - e->size;
    uintptr_t target = e->target;

    if ((way->fp.done && way->fp.offset < way->offset) || (target && ep_cfi_starts(module, target)))
        return RETURNS;
    if (target == 0 && !is_table_jump(module, jump))
        return ENDS;
    if (target == 0 || !ep_path_is_new(&ways->seen, target))
        may_be_another(way);
    else
        way->at = (const uint8_t *)target;
    return ON;
}

static enum outcome follow(const struct ep_module *module, struct way *way, struct ways *ways,
                           const struct ep_x86_effect *e)
{
    switch (e->kind) {
    case EP_X86_OTHER:
        return ON;
    case EP_X86_PUSH:
        return push(way, e->reg);
    case EP_X86_POP:
        return pop(way, e->reg);
    case EP_X86_MOVE_SP:
        way->offset += e->amount;
        return ON;
    case EP_X86_FROM_FP:
        return from_fp(way, e->amount);
    case EP_X86_LEAVE:
        return from_fp(way, 0) == ON ? pop(way, RBP) : ENDS;
    case EP_X86_SET_FP:
        way->frame = way->offset + e->amount;
        return way->called ? ENDS : ON;
    case EP_X86_LOAD_FP:
        load(way, RBP, way->offset + e->amount);
        return ON;
    case EP_X86_CALL:
        may_be_another(way);
        return ON;
    case EP_X86_FORK:
        keep(way, ways, e->target);
        return ON;
    case EP_X86_JUMP:
        return go(module, way, ways, e);
    case EP_X86_RETURN:
        return way->switched && e->reg == EP_X86_NO_REG ? ENDS : RETURNS;
    default:
        return ENDS;
    }
}

static bool is_sane(int32_t offset)
{
    return offset <= EP_PATH_FRAME_MOST && offset >= -EP_PATH_FRAME_MOST;
}

/* One instruction further. */
static enum outcome advance(const struct ep_module *module, struct way *way, struct ways *ways)
{
    if ((uintptr_t)way->at - module->start >= module->end - module->start)
        return ENDS;
    struct ep_x86_effect e = ep_x86_decode(way->at, (const uint8_t *)module->end);
    if (e.size == 0 || !is_sane(e.amount))
        return ENDS;
    way->at += e.size;
    enum outcome outcome = follow(module, way, ways, &e);
    if (way->offset > way->highest && !way->from_fp)
        way->highest = way->offset;
    return is_sane(way->offset) ? outcome : ENDS;
}

static bool slot(const struct loaded *loaded, int32_t cfa, uint8_t *found)
{
    int32_t words = loaded->done && !loaded->own ? (cfa - loaded->offset) / WORD : 0;

    *found = (uint8_t)words;
    return words >= 0 && words <= UINT8_MAX;
}

/* Returns true if the return at the end of the path is the function's own. */
static bool is_own_return(const struct way *way)
{
    if (!way->called || (way->fp.done && way->offset + WORD - way->fp.offset == FP_SLOT * WORD))
        return true;
    return !way->from_fp && way->offset > way->called_at;
}

/* The rule of a path that has come to a return. */
static bool way_rule(const struct way *way, struct ep_rule *rule)
{
    int32_t cfa = way->offset + WORD;

    if (cfa % WORD || cfa / WORD > INT16_MAX || cfa / WORD < -INT16_MAX || (!way->from_fp && way->offset < 0))
        return false;
    *rule = (struct ep_rule){.kind = way->from_fp ? EP_RULE_FP : EP_RULE_SP, .cfa = (int16_t)(cfa / WORD)};
    return slot(&way->fp, cfa, &rule->fp_slot) && slot(&way->base, cfa, &rule->base_slot) && is_own_return(way);
}

/* A function that only jumps to where a register says (musl's qsort has one around the program's comparison). */
static bool is_only_jump(const struct ep_module *module, uintptr_t pc)
{
    const uint8_t *b = (const uint8_t *)pc;

    return pc % ALIGNMENT == 0 && module->end - pc >= 2 && b[0] == 0xff && (b[1] & 0xf8) == 0xe0 &&
           !is_table_jump(module, b);
}

bool ep_x86_path(const struct ep_module *module, uintptr_t pc, bool interrupted, struct ep_rule *rule)
{
    struct way way = {.at = (const uint8_t *)pc, .frame = EP_PATH_NOWHERE, .called = !interrupted};
    struct ways ways;

    way.switched = interrupted && ep_x86_set_sp(module->start, pc, false);
    ways.count = ways.seen.count = 0;
    if (interrupted && !way.switched && is_only_jump(module, pc)) {
        *rule = (struct ep_rule){.kind = EP_RULE_SP, .cfa = 1};
        return true;
    }
    for (int i = 0, steps = 0; i < EP_PATH_STEPS_MOST; i++) {
        enum outcome outcome = advance(module, &way, &ways);
        if (outcome == RETURNS && way_rule(&way, rule))
            return true;
        if (outcome != ON || ++steps == EP_PATH_WAY_MOST) {
            if (ways.count == 0)
                return false;
            way = ways.kept[--ways.count];
            steps = 0;
        }
    }
    return false;
}
