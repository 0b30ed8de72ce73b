/*
 * From abort() to its caller, where a C library has no tables: no way leads from there to a return, so path_<arch>.c
 * finds nothing.
 *
 * The stack has the answer. Of the words above sp that are return addresses, the one of this frame lies behind a call
 * of the function that holds pc, and as far above sp as that function's instructions between its start and pc say. Both
 * must agree, so an old return address that was left on the stack is not taken for it. It takes too long for samples.
 */
#include "core/unwind/noreturn.h"

#include <string.h>

#define WORD       sizeof(uintptr_t)
#define WORDS_MOST 512u  /* of a frame */
#define CODE_MOST  8192u /* bytes from the function's start to pc */
#define READS_MOST 16u   /* of a function's code */

void ep_unwind_thorough(struct ep_unwinder *unwinder, bool on)
{
    atomic_store(&unwinder->thorough, on);
}

static bool load(const struct ep_walk *walk, unsigned index, uintptr_t *word)
{
    const uintptr_t at = walk->frame.sp + index * WORD;

    if (at >= walk->end || walk->end - at < WORD || at % WORD)
        return false;
    memcpy(word, (const void *)(at + walk->registers->moved), WORD);
    return true;
}

/* Whether a word of the stack is a return address into code that has called what holds pc. */
static uintptr_t start_of(const struct ep_walk *walk, const struct ep_module *module, uintptr_t pc, uintptr_t word)
{
    const struct ep_module *caller = ep_module_find(&walk->unwinder->modules, ep_code_address(word) - 1);
    const uintptr_t start = caller && !caller->execute_only ? ep_noreturn_called(caller, word) : 0;

    return ep_code_address(start) >= module->start && pc - ep_code_address(start) < CODE_MOST ? start : 0;
}

static bool search(const struct ep_walk *walk, struct ep_rule *rule)
{
    const uintptr_t pc = ep_code_address(walk->exact ? walk->frame.pc : walk->frame.pc - 1);
    const struct ep_module *module = ep_module_find(&walk->unwinder->modules, pc);
    uintptr_t word, start, known = 0;
    unsigned index = 0, reads = 0;

    if (!module || module->execute_only || walk->sp_lost || walk->frame.sp >= walk->end)
        return false;
    for (unsigned i = 0; i < WORDS_MOST && reads < READS_MOST && load(walk, i, &word); i++) {
        start = start_of(walk, module, pc, word);
        if (start && start != known) {
            known = ep_noreturn_frame(module, start, pc, rule, &index) ? start : 0;
            reads++;
        }
        if (start && start == known && index == i)
            return true;
    }
    return false;
}

struct ep_rule ep_noreturn_rule(const struct ep_walk *walk, struct ep_rule rule)
{
    struct ep_rule found;

    if ((rule.kind != EP_RULE_STOP && !ep_is_guess(rule)) ||
        !atomic_load_explicit(&walk->unwinder->thorough, memory_order_relaxed) || ep_starts_thread(walk) ||
        !search(walk, &found))
        return rule;
    return found;
}
