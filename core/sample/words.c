/*
 * Names for users: of losses, special frames, kinds and units. core/proto/names.def has the first two; the host tool's
 * kinds are compared with these (make check-names).
 */
#include "core/sample/profiler.h"

#define EP_NAME_LOSS(identifier, number, name, meaning)                                                                \
    _Static_assert(EP_LOSS_##identifier == (number), "names.def and enum ep_loss have the same numbers");
#include "core/proto/names.def"

const char *ep_loss_name(unsigned reason)
{
    static const char names[EP_LOSS_REASONS][16] = {
#define EP_NAME_LOSS(identifier, number, name, meaning) [number] = name,
#include "core/proto/names.def"
    };

    return reason < EP_LOSS_REASONS ? names[reason] : NULL;
}

const char *ep_special_name(unsigned frame)
{
    static const char names[EP_FRAME_SPECIALS][20] = {
#define EP_NAME_FRAME(identifier, number, name, meaning) [number] = name,
#include "core/proto/names.def"
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
        [EP_KIND_HEAP] = {"heap", "bytes"},       [EP_KIND_WRITE] = {"write", "bytes"},
        [EP_KIND_SYNC] = {"sync", "nanoseconds"},
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
