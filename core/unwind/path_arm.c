/*
 * Code without tables (glibc and libgcc on 32-bit ARM): a function leads back to its caller on every way through it, so
 * any way from pc to a return tells where sp will be then and from where lr or pc will be loaded.
 *
 *   ep_arm_path -> advance  one instruction after the other; at conditional branches straight on, the other way is kept
 *               -> next_way where a way ends without a return (unknown jump, loop, next function): the last one kept
 *
 * What is not understood ends a way: sp set from a register that is none of the frame pointers, jumps through
 * registers. Where alloca() moves sp by a register, the way goes on without it until sp is set from a frame pointer. lr
 * is the return address only while nothing has called or written it, or after it was loaded from the stack. A function
 * that never returns runs on into whatever lies behind it: there lr is not the return address, and a push of it ends
 * the way. Bounded by STEPS_MOST instructions in all.
 */
#include "core/unwind/code_arm.h"

#define WORD       4
#define STEPS_MOST 2048
#define WAY_MOST   1024 /* of one way: in large functions another one is shorter */
#define WAYS_MOST  6
#define BACK_MOST  16
#define NOWHERE    INT32_MIN

/* Offsets are from the register that `rules.cfa` names, as it is at the first pc. */
struct way {
    struct ep_cfi_rules rules;
    uintptr_t at;
    bool thumb;
    int32_t offset, highest; /* of sp, and where it has been at most */
    int32_t fp, base;        /* where r11 and r7 point to since the way set them, or NOWHERE */
    int32_t base_added;      /* what was added to r7 otherwise */
    int32_t lr_pushed;       /* where the way has put lr, or NOWHERE */
    bool sp_lost;            /* moved by a register: until sp is set from a frame pointer */
    bool crossed;            /* a computed jump: what follows may be another function */
    bool lr_good, lr_loaded; /* lr is the return address; because the way has loaded it */
};

struct ways {
    struct way kept[WAYS_MOST];
    unsigned count, behind;    /* kept from the front, and ways back from the end */
    uintptr_t back[BACK_MOST]; /* where branches back came from */
    unsigned backs;
};

enum outcome { ON, RETURNS, ENDS };

/* Below where sp has been: only what the way itself has pushed is there. */
static bool is_pushed(const struct way *way, int32_t offset)
{
    return way->rules.cfa == EP_CFI_SP && offset < way->highest;
}

static void load(struct way *way, unsigned column, int32_t offset)
{
    way->rules.state[column] = EP_CFI_SAVED;
    way->rules.offset[column] = offset;
}

static enum outcome pop(struct way *way, uint32_t mask)
{
    for (unsigned reg = 0; mask >> reg; reg++) {
        int32_t at = way->offset;
        if (!(mask >> reg & 1))
            continue;
        if (reg == EP_ARM_SP)
            return ENDS;
        if (reg == EP_ARM_LR || reg == EP_ARM_PC) {
            if (is_pushed(way, at) && at != way->lr_pushed)
                return ENDS;
            if (!is_pushed(way, at))
                load(way, EP_CFI_REG_RA, at);
            way->lr_good = way->lr_loaded = true;
        } else if ((reg == EP_ARM_FP || reg == EP_ARM_BASE) && !is_pushed(way, at)) {
            load(way, reg == EP_ARM_FP ? EP_CFI_REG_FP : EP_CFI_REG_BASE, at);
        }
        way->offset += WORD;
    }
    return mask >> EP_ARM_PC & 1 ? RETURNS : ON;
}

/* A push of lr after it was loaded: another function, jumped to at the end of this one. */
static enum outcome push(struct way *way, uint32_t mask)
{
    way->offset -= __builtin_popcount(mask) * WORD;
    if (!(mask >> EP_ARM_LR & 1))
        return ON;
    if (way->lr_loaded) {
        way->offset += __builtin_popcount(mask) * WORD;
        return RETURNS;
    }
    way->lr_pushed = way->offset + __builtin_popcount(mask & ((1u << EP_ARM_LR) - 1)) * WORD;
    return way->lr_good && !way->crossed ? ON : ENDS;
}

/* sp from a frame pointer: relative to sp when the way has set it, else to what it holds. */
static enum outcome from_pointer(struct way *way, bool fp, int32_t amount)
{
    int32_t set = fp ? way->fp : way->base;

    way->sp_lost = false;
    if (set != NOWHERE) {
        way->offset = set + amount;
        return ON;
    }
    for (unsigned reg = 0; reg < EP_CFI_REGS; reg++)
        if (way->rules.state[reg] == EP_CFI_SAVED) /* relative to sp, so far */
            return ENDS;
    if (way->rules.cfa != EP_CFI_SP || way->lr_pushed != NOWHERE)
        return ENDS;
    way->rules.cfa = fp ? EP_CFI_FP : EP_CFI_BASE;
    way->offset = amount + (fp ? 0 : way->base_added);
    return ON;
}

/* Adds where a branch back comes from: each is followed once. */
static bool is_new(struct ways *ways, uintptr_t from)
{
    for (unsigned i = 0; i < ways->backs; i++)
        if (ways->back[i] == from)
            return false;
    if (ways->backs == BACK_MOST)
        return false;
    ways->back[ways->backs++] = from;
    return true;
}

static enum outcome go(struct way *way, struct ways *ways, const struct ep_arm_effect *e)
{
    uintptr_t target = e->target;

    if (target == 0)
        return way->lr_loaded ? RETURNS : ENDS;
    way->thumb &= !e->to_arm;
    if (target <= way->at && !is_new(ways, way->at))
        return ENDS;
    way->at = target;
    return ON;
}

/* Those back are tried last: most of their code has been seen. */
static void keep(const struct way *way, struct ways *ways, uintptr_t target)
{
    const bool back = target <= way->at;

    for (unsigned i = 0; i < ways->count; i++)
        if (ways->kept[i].at == target)
            return;
    if (ways->count + ways->behind == WAYS_MOST || (back && !is_new(ways, way->at)))
        return;
    struct way *place = &ways->kept[back ? WAYS_MOST - ++ways->behind : ways->count++];
    *place = *way;
    place->at = target;
}

/* Returns true if an instruction's effect depends on where sp is. */
static bool needs_sp(const struct ep_arm_effect *e)
{
    return e->kind == EP_ARM_PUSH || e->kind == EP_ARM_POP || e->kind == EP_ARM_SET_FP || e->kind == EP_ARM_SET_BASE;
}

static enum outcome follow(struct way *way, struct ways *ways, const struct ep_arm_effect *e)
{
    if (way->sp_lost && needs_sp(e))
        return ENDS;
    switch (e->kind) {
    case EP_ARM_OTHER:
        way->lr_good &= !e->spoils_lr;
        return ON;
    case EP_ARM_PUSH:
        return push(way, e->mask);
    case EP_ARM_POP:
        return pop(way, e->mask);
    case EP_ARM_MOVE_SP:
        way->offset += e->amount;
        return ON;
    case EP_ARM_LOSE_SP:
        way->sp_lost = true;
        return ON;
    case EP_ARM_FROM_FP:
    case EP_ARM_FROM_BASE:
        return from_pointer(way, e->kind == EP_ARM_FROM_FP, e->amount);
    case EP_ARM_SET_FP:
        way->fp = way->offset + e->amount;
        return ON;
    case EP_ARM_SET_BASE:
        way->base = way->offset + e->amount;
        return ON;
    case EP_ARM_ADD_BASE:
        *(way->base == NOWHERE ? &way->base_added : &way->base) += e->amount;
        return ON;
    case EP_ARM_CALL:
        way->lr_good = way->lr_loaded = false;
        return ON;
    case EP_ARM_COMPUTED:
        way->crossed = true;
        return way->lr_loaded ? RETURNS : ON;
    case EP_ARM_FORK:
        keep(way, ways, e->target);
        return ON;
    case EP_ARM_RETURN:
        return way->lr_good ? RETURNS : ENDS;
    default:
        return ENDS;
    }
}

static bool next_way(struct way *way, struct ways *ways)
{
    if (ways->count + ways->behind == 0)
        return false;
    *way = ways->kept[ways->count ? --ways->count : WAYS_MOST - ways->behind--];
    return true;
}

static bool is_sane(int32_t offset)
{
    return offset <= EP_ARM_FRAME_MOST && offset >= -EP_ARM_FRAME_MOST;
}

/* One instruction further. */
static enum outcome advance(const struct ep_module *module, struct way *way, struct ways *ways)
{
    if (way->at < module->start)
        return ENDS;
    struct ep_arm_effect e = ep_arm_decode(way->at, module->end, way->thumb);
    if (e.size == 0 || !is_sane(e.amount))
        return ENDS;
    if (e.kind == EP_ARM_BRANCH)
        return go(way, ways, &e);
    enum outcome outcome = follow(way, ways, &e);
    way->at += e.size;
    if (way->offset > way->highest)
        way->highest = way->offset;
    return is_sane(way->offset) ? outcome : ENDS;
}

bool ep_arm_path(const struct ep_module *module, uintptr_t pc, bool thumb, bool interrupted, struct ep_cfi_rules *rules)
{
    struct way way = {.at = pc,
                      .thumb = thumb,
                      .fp = NOWHERE,
                      .base = NOWHERE,
                      .lr_pushed = NOWHERE,
                      .lr_good = interrupted,
                      .rules.cfa = EP_CFI_SP};
    struct ways ways;

    ways.count = ways.behind = ways.backs = 0;
    for (int i = 0, steps = 0; i < STEPS_MOST; i++) {
        enum outcome outcome = advance(module, &way, &ways);
        if (outcome == RETURNS && !way.sp_lost && (way.rules.cfa != EP_CFI_SP || way.offset >= 0))
            break;
        if (outcome != ON || ++steps == WAY_MOST) {
            if (!next_way(&way, &ways))
                return false;
            steps = 0;
        }
        if (i == STEPS_MOST - 1)
            return false;
    }
    *rules = way.rules;
    rules->cfa_offset = way.offset;
    for (unsigned reg = 0; reg < EP_CFI_REGS; reg++)
        rules->offset[reg] -= way.offset;
    return true;
}
