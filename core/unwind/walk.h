/*
 * Private to core/unwind: a walk on its way, and the rules that it follows.
 */
#ifndef EP_UNWIND_WALK_H
#define EP_UNWIND_WALK_H

#include "core/unwind/unwind.h"

#include <string.h>

/* Bytes between the end of a stack and its outermost frame, at most. */
#define EP_ROOT_NEAR 1024u

/* A rule says how to get from a frame to its caller. Offsets are in words, [a] is the word at a. The caller's sp is the
 * CFA. Unless a row says otherwise, the caller has
 *     pc = [CFA - 1 - ra_extra]   fp = fp_slot ? [CFA - fp_slot] : fp   base = base_slot ? [CFA - base_slot] : base
 *
 *     kind     CFA         differs in                                          valid for
 *     SP       sp + cfa
 *     FP       fp + cfa
 *     BASE     base + cfa
 *     FP_LOAD  [fp + cfa]  fp = fp_slot ? [fp] : fp                            realigned stacks
 *     GUESS    fp + cfa    a guess: nothing says that fp is a frame pointer    code without a table
 *     RESTART  fp + cfa    a guess: fp is the frame pointer of some caller     behind a gap
 *     LINK     sp + cfa    pc = lr; ra_extra (enum ep_link) names another      interrupted frames
 *                          register than sp
 *     CHAIN    fp + cfa    fp = [fp], pc = [fp + 1]; fp 0: the root; cfa 0:    frame records
 *                          a guess, and the CFA stays unknown
 *     RECORD   sp + cfa    the same with the record at sp + fp_slot            frame records found from sp
 *     APART    sp + cfa    pc = [CFA - base_slot], base unchanged; ra_extra 1: return address away from the CFA
 *                          pc = [sp + base_slot - 1], fp = fp_slot ? [sp + fp_slot - 1] : fp
 *     SIGNAL               all registers from the kernel's signal frame at sp
 *     FAULT    sp + cfa    all registers from .NET's record of a hardware fault, which ends at the CFA;
 *                          fp_slot 1: CFA = fp + cfa; base_slot 1: no record yet, pc = argument, others unchanged
 *              base_slot and ra_extra 1: likewise, and CFA = n + cfa / 16 as for AWAY
 *     AWAY     n + cfa / 16, where n is the register cfa % 16;             x86-64: assembly that aligns its stack
 *              of rsp and rbp [n + cfa / 16] + 1
 *     ROOT     no caller
 *     STOP     the caller cannot be found
 *     SAVED    no step: base_slot as above; fp_slot 1: not if the return address has been saved
 *
 * A guess makes base unknown, and the stack's quality EP_STACK_GAP. */
enum ep_rule_kind {
    EP_RULE_EMPTY = 0,
    EP_RULE_SP,
    EP_RULE_FP,
    EP_RULE_BASE,
    EP_RULE_FP_LOAD,
    EP_RULE_GUESS,
    EP_RULE_LINK,
    EP_RULE_CHAIN,
    EP_RULE_RECORD,
    EP_RULE_APART,
    EP_RULE_SIGNAL,
    EP_RULE_FAULT,
    EP_RULE_ROOT,
    EP_RULE_STOP,
    EP_RULE_RESTART,
    EP_RULE_SAVED,
    EP_RULE_AWAY = EP_RULE_SAVED, /* the one is aarch64's alone, the other x86-64's */
};

/* The register that the CFA of EP_RULE_LINK is counted from: ra_extra. */
enum ep_link { EP_LINK_SP, EP_LINK_FP, EP_LINK_BASE };

struct ep_rule {
    uint8_t kind;
    uint8_t fp_slot;   /* caller's fp is at CFA - fp_slot words; 0: fp is unchanged */
    uint8_t base_slot; /* likewise */
    uint8_t ra_extra;  /* the return address is at CFA - (1 + ra_extra) words */
    int16_t cfa;       /* words */
};

#define EP_AWAY_REGISTERS 16
#define EP_AWAY_FP        6
#define EP_AWAY_SP        7

/* Of EP_RULE_AWAY: the CFA is read from the stack. */
static inline bool ep_away_is_load(struct ep_rule rule)
{
    const unsigned number = (unsigned)rule.cfa % EP_AWAY_REGISTERS;

    return number == EP_AWAY_FP || number == EP_AWAY_SP;
}

/* A frame's registers while walking. */
struct ep_frame {
    uintptr_t pc, sp, fp, lr, base;
    uintptr_t argument; /* of an interrupted frame, see struct ep_registers */
};

/* A walk on its way to the root. */
struct ep_walk {
    struct ep_unwinder *unwinder;
    const struct ep_registers *registers;
    struct ep_frame frame;
    uintptr_t end;  /* of the stack that frame.sp is on; 0: unknown */
    unsigned turns; /* how often the outer half of the stack's room was filled */
    bool exact;     /* frame.pc is where execution stands, not a return address */
    bool guessed;
    bool sp_lost; /* frame.sp is only a lower bound */
    bool foreign; /* the stack is not the thread's own, such as a coroutine's; end grows as far as it can be read */
};

/* Returns true if only the frames that start the thread fit between sp and the end of the stack. Context: signal. */
static inline bool ep_is_outermost(const struct ep_walk *walk, uintptr_t sp)
{
    if (walk->foreign)
        return false;
    return walk->registers->stack_root ? sp >= walk->registers->stack_root : walk->end - sp <= EP_ROOT_NEAR;
}

/* Returns true if the frame is above the thread's first own one, so no frame of the thread can be missing.
 * Context: signal. */
static inline bool ep_starts_thread(const struct ep_walk *walk)
{
    return !walk->foreign && walk->registers->stack_root && walk->frame.sp >= walk->registers->stack_root;
}

/* A stack that nobody announced may be the program's data, between which AddressSanitizer has zones of its own.
 * Context: signal. */
static inline __attribute__((no_sanitize("address"))) void ep_foreign_word(uintptr_t at, uintptr_t *word)
{
    memcpy(word, (const void *)at, sizeof *word);
}

/* Reads a word of the stack, of which the walk may read from its frame's sp to its end. False: it is not there.
 * Context: signal. */
static inline bool ep_walk_load(const struct ep_walk *walk, uintptr_t at, uintptr_t *word)
{
    if (at < walk->frame.sp || at >= walk->end || walk->end - at < sizeof *word || at % sizeof *word)
        return false;
    if (walk->foreign)
        ep_foreign_word(at, word);
    else
        memcpy(word, (const void *)(at + walk->registers->moved), sizeof *word);
    return true;
}

/* Finds the CFA of EP_RULE_AWAY. False: the register is not known, or the word is not there. Context: signal. */
bool ep_away_cfa(const struct ep_walk *walk, struct ep_rule rule, uintptr_t *cfa);
/* The second argument of an interrupted frame, if it has just been called; 0: unknown. Context: signal. */
uintptr_t ep_frame_argument(const struct ep_frame *frame);

/* Context: signal. */
static inline bool ep_is_guess(struct ep_rule rule)
{
    return rule.kind == EP_RULE_GUESS || rule.kind == EP_RULE_RESTART || (rule.kind == EP_RULE_CHAIN && rule.cfa == 0);
}

/* Goes to the caller. False: there is no way, and the walk stays. Context: signal. */
bool ep_walk_step(struct ep_walk *walk, struct ep_rule rule);

/* Searches the stack for the caller of the walk's frame, which is generated code or has lost its frame pointer
 * (search_x86_64.c). EP_HAS_SEARCH says whether the architecture has it. False: there is none within EP_SEARCH_BYTES of
 * the stack. Context: signal. */
bool ep_search_caller(const struct ep_walk *walk, struct ep_frame *caller);
/* The same for a frame in code without a table that keeps frame pointers, and on aarch64 for any frame of a thread that
 * sleeps (search_aarch64.c). Context: signal. */
bool ep_search_record(const struct ep_walk *walk, struct ep_frame *caller);

#define EP_SEARCH_BYTES 4096u
#define EP_HAS_SEARCH   (sizeof(uintptr_t) == 8 && EP_RULE_PLAIN == EP_RULE_SP)
#define EP_HAS_AWAY     EP_HAS_SEARCH
#define EP_HAS_RECORDS  (EP_RULE_PLAIN == EP_RULE_CHAIN)
#define EP_HAS_RESTART  (sizeof(uintptr_t) == 4)

enum ep_cached { EP_CACHED_NOTHING, EP_CACHED_STEPS, EP_CACHED_ROOT };

/* Makes as many steps of a walk as cached rules of the common kinds allow, and ends it when they lead to the root. The
 * walk's sp and end are known, its stack is not moved. Adds the frames that it leaves to *stack. Context: signal. */
enum ep_cached ep_unwind_cached(struct ep_walk *walk, struct ep_stack *stack);

/* Finds the rule for the code at pc, from the cache or from the module's tables. exact: pc is where the frame
 * was interrupted, not a return address - 1. Adds to stack->hits or ->misses. Context: signal. */
struct ep_rule ep_rule_get(struct ep_unwinder *unwinder, uintptr_t pc, bool exact, struct ep_stack *stack);

/* Derives the rule from code and tables; one per architecture (unwind_<arch>.c). Context: signal. */
struct ep_rule ep_rule_derive(const struct ep_modules *modules, uintptr_t pc, bool exact);

/* The same two with less stack, for ep_unwind_caller(): EP_RULE_STOP where no cached rule is and following code to a
 * return would be needed. Context: signal. */
struct ep_rule ep_rule_get_by_table(struct ep_unwinder *unwinder, uintptr_t pc, bool exact, unsigned *misses);
struct ep_rule ep_rule_derive_by_table(const struct ep_modules *modules, uintptr_t pc, bool exact);

/* The key of a rule for base on aarch64, where the rules of calls have no room for it. The keys of return addresses and
 * of interrupted addresses differ. */
#define EP_RULE_SAVED_AT(pc) (((pc) & ~(uintptr_t)3) | 2)

/* Takes the registers out of the kernel's signal frame at frame->sp, or out of the record of a hardware fault in front
 * of cfa; all words that it reads lie in [frame->sp, end). False when they do not fit. One per architecture and OS.
 * Context: signal. */
bool ep_signal_frame(struct ep_frame *frame, uintptr_t end);
bool ep_fault_frame(struct ep_frame *frame, uintptr_t cfa, uintptr_t end);

/* The rule where the thread that faulted has only reached .NET's function, and the record is still to be written: the
 * frame was interrupted, and pushed words are on the stack. */
static inline struct ep_rule ep_fault_begun(int16_t pushed)
{
    return (struct ep_rule){.kind = EP_RULE_FAULT, .base_slot = 1, .cfa = pushed};
}

#endif
