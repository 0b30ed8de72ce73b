/*
 * Tags: the key=value labels of a thread's work, as one small number.
 *
 * A set consists of a parent set and one more pair. Its id is its place in a hash table of 64-bit words (parent, key,
 * value). So the same labels have the same id on every thread, and adding one is a look-up. A second hash table keeps
 * each text once, as a place in a fixed buffer. Both only grow. One compare-and-swap fills a slot, which never changes
 * afterwards, so readers need no lock. If a pair does not fit, the set stays as it was, and that is counted. The sets
 * directly under 0 record the values of each key. Beyond EP_TAG_VALUES values a key's value becomes "other".
 *
 *   ep_tag_push, ep_tags_add -> set_add -> tag_value_find -> string_find, set_find
 */
#include "core/sample/capture.h"

#include <errno.h>
#include <string.h>

#if EP_TAG_STRINGS < 16 || EP_TAG_STRINGS > 1024 || (EP_TAG_STRINGS & (EP_TAG_STRINGS - 1)) != 0
#error "EP_TAG_STRINGS must be a power of two, 16..1024"
#endif
#if EP_TAG_BYTES < 256 || EP_TAG_BYTES > 32768
#error "EP_TAG_BYTES must be 256..32768"
#endif
#if EP_TAG_SETS < 16 || EP_TAG_SETS > 4096 || (EP_TAG_SETS & (EP_TAG_SETS - 1)) != 0
#error "EP_TAG_SETS must be a power of two, 16..4096"
#endif
#if EP_TAG_VALUES < 1 || EP_TAG_VALUES > 255
#error "EP_TAG_VALUES must be 1..255"
#endif

#define TEXT_MOST  96u /* longer values are cut */
#define SET_IN_USE (UINT64_C(1) << 63)

/* ---- texts ---- */

/* FNV-1a (Fowler, Noll, Vo). */
static uint32_t hash_of(const char *text, unsigned size)
{
    uint32_t hash = 2166136261u;

    for (unsigned i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static bool equals(const struct ep_tags *tags, unsigned place, const char *text, unsigned size)
{
    const char *known = &tags->text[place - 1];

    return memcmp(known, text, size) == 0 && known[size] == 0;
}

/* Returns the place + 1 of a copy, 0: no room. A copy that loses the race for its slot is wasted. */
static unsigned text_keep(struct ep_tags *tags, const char *text, unsigned size)
{
    unsigned used = atomic_load(&tags->used);

    do
        if (used + size + 1 > EP_TAG_BYTES - TEXT_MOST) /* equals() reads that far */
            return 0;
    while (!atomic_compare_exchange_weak(&tags->used, &used, used + size + 1));
    memcpy(&tags->text[used], text, size);
    tags->text[used + size] = 0;
    return used + 1;
}

/* Returns the slot + 1 of the text, 0: absent and not created. */
static unsigned string_find(struct ep_tags *tags, const char *text, unsigned size, bool make)
{
    unsigned hash = hash_of(text, size), place;
    unsigned short none = 0;

    for (unsigned i = 0; i < EP_TAG_STRINGS; i++) {
        atomic_ushort *slot = &tags->string[(hash + i) % EP_TAG_STRINGS];
        none = atomic_load_explicit(slot, memory_order_acquire);
        if (!none) {
            if (!make || (place = text_keep(tags, text, size)) == 0)
                return 0;
            if (atomic_compare_exchange_strong(slot, &none, (unsigned short)place))
                return (hash + i) % EP_TAG_STRINGS + 1;
        }
        if (equals(tags, none, text, size))
            return (hash + i) % EP_TAG_STRINGS + 1;
    }
    return 0;
}

const char *ep_tags_text(const struct ep_tags *tags, unsigned place)
{
    unsigned text = atomic_load_explicit(&tags->string[place], memory_order_acquire);

    return text ? &tags->text[text - 1] : "";
}

unsigned ep_tags_string(const struct ep_tags *tags, const char *text)
{
    unsigned place = 0;

    while (place < EP_TAG_STRINGS && ep_tags_text(tags, place) != text)
        place++;
    return place;
}

/* ---- sets ---- */

/* Returns the id of the set, 0: absent and not created. *made: this call created it. */
static unsigned set_find(struct ep_tags *tags, unsigned parent, unsigned key, unsigned value, bool make, bool *made)
{
    uint64_t word = SET_IN_USE | (uint64_t)value << 32 | (uint64_t)key << 16 | parent;
    unsigned hash = (unsigned)((word * UINT64_C(0x9e3779b97f4a7c15)) >> 40);

    *made = false;
    for (unsigned i = 0; i < EP_TAG_SETS; i++) {
        _Atomic uint64_t *slot = &tags->set[(hash + i) % EP_TAG_SETS];
        uint64_t known = atomic_load_explicit(slot, memory_order_acquire);
        if (!known) {
            if (!make)
                return 0;
            *made = atomic_compare_exchange_strong(slot, &known, word);
        }
        if (*made || known == word)
            return (hash + i) % EP_TAG_SETS + 1;
    }
    return 0;
}

bool ep_tags_pair(const struct ep_tags *tags, unsigned set, struct ep_tag_pair *pair)
{
    uint64_t word = set && set <= EP_TAG_SETS ? atomic_load_explicit(&tags->set[set - 1], memory_order_acquire) : 0;

    if (!word)
        return false;
    *pair = (struct ep_tag_pair){.parent = word & 0xffff,
                                 .key = ep_tags_text(tags, (unsigned)(word >> 16 & 0xffff) - 1),
                                 .value = ep_tags_text(tags, (unsigned)(word >> 32 & 0xffff) - 1)};
    return true;
}

bool ep_tags_hidden(const struct ep_tags *tags, unsigned set, unsigned inner)
{
    struct ep_tag_pair pair, met;

    if (!ep_tags_pair(tags, inner, &pair))
        return false;
    for (; set != inner && ep_tags_pair(tags, set, &met); set = met.parent)
        if (met.key == pair.key)
            return true;
    return false;
}

/* ---- adding a pair ---- */

/* The string of the value, or of "other" if the key has EP_TAG_VALUES values already. 0: no room. */
static unsigned tag_value_find(struct ep *ep, unsigned key, const char *text, unsigned size)
{
    struct ep_tags *tags = &ep->tags;
    bool made = false;
    unsigned value = string_find(tags, text, size, false);

    if (value && set_find(tags, 0, key, value, false, &made))
        return value;
    if (atomic_load(&tags->values[key - 1]) < EP_TAG_VALUES && (value = string_find(tags, text, size, true)) != 0 &&
        set_find(tags, 0, key, value, true, &made)) {
        if (made)
            (void)atomic_fetch_add(&tags->values[key - 1], 1);
        return value;
    }
    ep_lose(ep, EP_LOSS_TAGS, 1, 0);
    return string_find(tags, "other", 5, true);
}

/* As much of a text as is kept, not ending inside a character of UTF-8. */
static unsigned kept_size(const char *text, unsigned size)
{
    if (size <= TEXT_MOST)
        return size;
    for (size = TEXT_MOST; size && ((uint8_t)text[size] & 0xc0) == 0x80; size--) {
    }
    return size;
}

static unsigned set_add(struct ep *ep, unsigned set, const char *key_text, unsigned key_size, const char *value_text,
                        unsigned value_size)
{
    struct ep_tags *tags = &ep->tags;
    bool made;
    unsigned key = string_find(tags, key_text, kept_size(key_text, key_size), true);
    unsigned value = key ? tag_value_find(ep, key, value_text, kept_size(value_text, value_size)) : 0;
    unsigned id = value ? set_find(tags, set, key, value, true, &made) : 0;

    if (!id && value)
        ep_lose(ep, EP_LOSS_TAGS, 1, 0);
    return id;
}

static uint32_t tags_add(uint32_t set, const char *key, unsigned key_size, const char *value, unsigned value_size)
{
    struct ep *ep = ep_hold();

    if (!ep)
        return 0;
    unsigned id = set_add(ep, set <= EP_TAG_SETS ? set : 0, key, key_size, value, value_size);
    ep_release();
    return id ? id : set;
}

uint32_t ep_tags_add(uint32_t set, const char *key, unsigned key_size, const char *value, unsigned value_size)
{
    const uint32_t result = tags_add(set, key, key_size, value, value_size);

    if (ep_tag_added && result != set)
        ep_tag_added(key, key_size);
    return result;
}

unsigned ep_tags_copy(struct ep_tags *tags, unsigned set, const char *key, unsigned key_size, const char *value,
                      unsigned value_size)
{
    bool made;
    unsigned key_string = string_find(tags, key, kept_size(key, key_size), true);
    unsigned value_string = key_string ? string_find(tags, value, kept_size(value, value_size), true) : 0;

    return value_string ? set_find(tags, set, key_string, value_string, true, &made) : 0;
}

/* ---- what the calling thread works for ---- */

/* A signal handler on this thread may interrupt between any two stores. It then finds an odd guard and uses no
 * span. */
static void toggle_guard(struct ep_work *work)
{
    atomic_store_explicit(&work->guard, atomic_load_explicit(&work->guard, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

static void work_store(uint32_t tags, uint64_t span_id, uint64_t trace_high, uint64_t trace_low)
{
    struct ep_work *work = ep_port_work();

    toggle_guard(work);
    work->run = atomic_load_explicit(&ep_run, memory_order_relaxed);
    work->tags = tags;
    work->span_id = span_id;
    work->trace_high = trace_high;
    work->trace_low = trace_low;
    atomic_signal_fence(memory_order_seq_cst);
    toggle_guard(work);
}

/* Tells who shows the thread's span and tags to others. */
static void work_changed(void)
{
    if (ep_work_changed)
        ep_work_changed(ep_port_work());
}

void ep_work_set(uint32_t tags, uint64_t span_id, uint64_t trace_high, uint64_t trace_low)
{
    work_store(tags, span_id, trace_high, trace_low);
    work_changed();
}

uint32_t ep_work_tags(void)
{
    const struct ep_work *work = ep_port_work();

    return work->run == atomic_load_explicit(&ep_run, memory_order_relaxed) ? work->tags : 0;
}

void ep_span_set(uint64_t span_id, uint64_t trace_high, uint64_t trace_low)
{
    ep_work_set(ep_work_tags(), span_id, trace_high, trace_low);
}

/* Tags of an earlier run of the profiler are invalid. */
static struct ep_work *work_of_run(uint32_t run)
{
    struct ep_work *work = ep_port_work();

    if (work->run != run) {
        work_store(0, work->span_id, work->trace_high, work->trace_low);
        work->pushed_beyond = 0;
    }
    return work;
}

int ep_tag_push(const char *key, const char *value)
{
    uint32_t run = atomic_load_explicit(&ep_run, memory_order_relaxed);
    size_t size = strlen(key);
    bool good = size > 0 && ep_tag_key_size(key) == size;

    if (run == 0)
        return good ? 0 : -EINVAL;
    struct ep_work *work = work_of_run(run);
    uint32_t set = work->tags;
    /* Pops come in reverse order, so after a push without room later pushes are not stored either. */
    if (good && !work->pushed_beyond)
        set = ep_tags_add(set, key, (unsigned)size, value, (unsigned)strlen(value));
    if (set == work->tags)
        work->pushed_beyond++;
    else
        work->tags = set;
    work_changed();
    return good ? 0 : -EINVAL;
}

static void tag_pop(void)
{
    uint32_t run = atomic_load_explicit(&ep_run, memory_order_relaxed);
    struct ep_work *work = run ? work_of_run(run) : NULL;
    struct ep_tag_pair pair;

    if (!work)
        return;
    if (work->pushed_beyond) {
        work->pushed_beyond--;
        return;
    }
    struct ep *ep = ep_hold();
    if (!ep)
        return;
    work->tags = ep_tags_pair(&ep->tags, work->tags, &pair) ? pair.parent : 0;
    ep_release();
}

void ep_tag_pop(void)
{
    tag_pop();
    work_changed();
}
