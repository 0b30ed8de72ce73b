/*
 * Names for users: of losses, special frames, kinds and units. Hosts have the same lists (make check-names).
 */
#include "core/sample/profiler.h"

const char *ep_loss_name(unsigned reason)
{
    static const char names[EP_LOSS_REASONS][16] = {
        "ring full",    "no timer",      "no slot",         "tree full",      "entries full",
        "modules full", "refused",       "segment",         "stopped",        "too large",
        "tags full",    "contexts full", "live heap full",  "waiters full",   "no stack",
        "spool full",   "spool damaged", "refused too old", "signal blocked",
    };

    return reason < EP_LOSS_REASONS ? names[reason] : NULL;
}

const char *ep_special_name(unsigned frame)
{
    static const char names[EP_FRAME_SPECIALS][20] = {
        "[none]",          "[truncated]",
        "[stack cut]",     "[deeper frames]",
        "[thread exit]",   "[lost: ring full]",
        "[lost: refused]", "[lost: segment]",
        "[gc hijack]",     "[unknown]",
        "[gap]",           "[wait]",
        "[lock]",          "[sleep]",
        "[network]",       "[disk]",
        "[idle]",          "[gc gen0]",
        "[gc gen1]",       "[gc gen2]",
        "[gc background]", "[lost: stopped]",
        "[no stack]",      "[gc loh]",
        "[gc poh]",        "[gc fragmentation]",
        "[gc unused]",     "[lost: spool]",
        "[edgeprof]",      "[unsampled]",
        "[kernel]",        "[awaited by]",
        "[native]",        "[mmap]",
    };

    return names[frame < EP_FRAME_SPECIALS ? frame : EP_FRAME_UNKNOWN];
}

struct kind_words {
    char name[12], unit[12];
};

static const struct kind_words *kind_words(unsigned kind)
{
    static const struct kind_words words[EP_KINDS] = {
        [EP_KIND_CPU] = {"cpu", "nanoseconds"},   [EP_KIND_WAIT] = {"wait", "nanoseconds"},
        [EP_KIND_LOCK] = {"lock", "nanoseconds"}, [EP_KIND_ALLOC] = {"alloc", "bytes"},
        [EP_KIND_LIVE] = {"live", "bytes"},       [EP_KIND_EXCEPTION] = {"exception", "count"},
        [EP_KIND_GC] = {"gc", "nanoseconds"},     [EP_KIND_THREAD] = {"thread", "count"},
        [EP_KIND_HEAP] = {"heap", "bytes"},
    };

    return kind >= EP_KIND_CPU && kind < EP_KINDS ? &words[kind] : NULL;
}

const char *ep_kind_name(unsigned kind)
{
    return kind_words(kind) ? kind_words(kind)->name : NULL;
}

const char *ep_kind_unit(unsigned kind)
{
    return kind_words(kind) ? kind_words(kind)->unit : NULL;
}
