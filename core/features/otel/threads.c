/*
 * The thread context (OTEP 4947): a thread-local pointer, `otel_thread_ctx_v1`, to a record of the thread's own. The
 * pointer is set once; `valid` is 0 while nothing is known or the record is being written. Readers look at a thread
 * that stands still, so compiler fences are enough.
 *
 *   ep_work_set, ep_tag_push, ep_tag_pop -> ep_work_changed -> show -> labels_show -> labels_write
 *   ep_tags_add                          -> ep_tag_added    -> keys_learn -> ep_context_renew
 */
#include "core/features/otel/context.h"
#include "core/sample/capture.h"

#include <errno.h>
#include <string.h>

#define ATTRIBUTES_MOST 228u
#define ENTRY_MOST      255u

/* Readers find this symbol in the dynamic symbol table of a module. They know no 32-bit ARM. */
#ifdef __arm__
#define MODEL "initial-exec"
#else
#define MODEL "global-dynamic"
#endif
extern __attribute__((visibility("default"), tls_model(MODEL))) _Thread_local void *otel_thread_ctx_v1;
_Thread_local void *otel_thread_ctx_v1;

static struct ep_context_keys keys;
static atomic_flag learning;
static atomic_bool missed, on, full;

struct own_record {
    struct ep_thread_record head;
    uint8_t attributes[ATTRIBUTES_MOST];
    uint32_t run, tags; /* what the attributes are of */
};

_Static_assert(sizeof(struct own_record) <= EP_PART_OTEL_BYTES, "room in a thread's memory");

/* ---- keys ---- */

/* The index of a key; `most`: it is not known. */
static unsigned key_find(const char *key, size_t size, unsigned most)
{
    const char *at = keys.name;

    for (unsigned i = 0; i < most; i++, at += strlen(at) + 1)
        if (strncmp(at, key, size) == 0 && at[size] == 0)
            return i;
    return most;
}

/* Keys stay: the list may only grow. A key that readers do not know hides nothing but its own label. */
static void key_add(const char *key)
{
    const unsigned count = atomic_load(&keys.count);
    const size_t size = strlen(key);

    if (size == 0 || key_find(key, size, count) < count)
        return;
    if (count == EP_CONTEXT_KEYS || size >= sizeof keys.name - keys.size) {
        atomic_store(&full, true);
        return;
    }
    memcpy(keys.name + keys.size, key, size + 1);
    keys.size += (unsigned)size + 1;
    atomic_store(&keys.count, count + 1);
}

static void keys_add_all(void)
{
    struct ep_tag_pair pair;
    struct ep *ep = ep_hold();

    for (unsigned set = 1; ep && set <= EP_TAG_SETS; set++)
        if (ep_tags_pair(&ep->tags, set, &pair))
            key_add(pair.key);
    if (ep)
        ep_release();
}

/* The keys of all labels. One thread at a time adds them. Another one, which finds it at it, leaves `missed`. */
static void keys_learn(void)
{
    atomic_store(&missed, true);
    while (atomic_load(&missed) && !atomic_flag_test_and_set(&learning)) {
        while (atomic_exchange(&missed, false))
            keys_add_all();
        (void)ep_context_renew();
        atomic_flag_clear(&learning);
    }
}

/* ---- the record ---- */

static void big_endian(uint8_t *bytes, uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    memcpy(bytes, &value, sizeof value);
}

/* Inner labels come first and hide outer ones of the same key. Returns the size. */
static unsigned labels_write(struct own_record *record, const struct ep_tags *tags, unsigned set)
{
    struct ep_tag_pair pair;
    uint64_t seen = 0;
    unsigned size = 0, count = atomic_load(&keys.count);

    for (unsigned i = 0; i < EP_CONTEXT_KEYS && ep_tags_pair(tags, set, &pair); i++, set = pair.parent) {
        const unsigned key = key_find(pair.key, strlen(pair.key), count);
        const size_t length = strlen(pair.value);
        if (key == count || seen >> key & 1)
            continue;
        seen |= UINT64_C(1) << key;
        if (length > ENTRY_MOST || size + 2 + length > ATTRIBUTES_MOST)
            continue;
        record->attributes[size] = (uint8_t)key;
        record->attributes[size + 1] = (uint8_t)length;
        memcpy(&record->attributes[size + 2], pair.value, length);
        size += 2 + (unsigned)length;
    }
    return size;
}

/* The labels are written anew only if they have changed. */
static void labels_show(struct own_record *record, uint32_t tags)
{
    uint32_t run = atomic_load_explicit(&ep_run, memory_order_relaxed);
    struct ep *ep = NULL;

    if (record->tags == tags && (tags == 0 || record->run == run))
        return;
    record->head.attributes_size = 0;
    if (tags && (ep = ep_hold()) != NULL) {
        record->head.attributes_size = (uint16_t)labels_write(record, &ep->tags, tags);
        ep_release();
    }
    record->run = run;
    record->tags = tags;
}

static void valid_set(struct own_record *record, bool valid)
{
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile uint8_t *)&record->head.valid = valid;
    atomic_signal_fence(memory_order_seq_cst);
}

/* A span needs both ids. */
static void show(const struct ep_work *work)
{
    const bool whole = work->span_id && (work->trace_high | work->trace_low);
    struct own_record *record = ep_port_thread_part(EP_PART_OTEL);

    if (!record)
        return;
    valid_set(record, false);
    big_endian(record->head.trace_id, whole ? work->trace_high : 0);
    big_endian(record->head.trace_id + 8, whole ? work->trace_low : 0);
    big_endian(record->head.span_id, whole ? work->span_id : 0);
    labels_show(record, ep_work_tags());
    otel_thread_ctx_v1 = &record->head;
    valid_set(record, whole || record->head.attributes_size);
}

/* ---- start, fork ---- */

/* In the child, on its only thread. */
static void forked(void)
{
    struct own_record *record = ep_port_thread_part(EP_PART_OTEL);

    atomic_flag_clear(&learning);
    if (record)
        valid_set(record, false);
    otel_thread_ctx_v1 = NULL;
}

int ep_otel_threads(void)
{
    void *memory;

    (void)ep_refuse(0, "");
    if (atomic_load(&on))
        return -EALREADY;
    if (!ep_port_context_mine(&memory))
        return ep_refuse(-EINVAL, "thread contexts need ep_otel_publish()");
    int error = ep_port_context_symbol("otel_thread_ctx_v1");
    if (error == -EEXIST)
        return ep_refuse(error, "another library publishes thread contexts");
    if (error)
        return ep_refuse(error, "otel_thread_ctx_v1 is not exported: link with "
                                "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1");
    error = ep_port_forks(forked);
    if (error)
        return ep_refuse(error, "cannot follow forks");
    ep_context_keys_are(&keys);
    keys_learn();
    atomic_store(&on, true);
    show(ep_port_work());
    return 0;
}

/* ---- changes ---- */

void ep_work_changed(const struct ep_work *work)
{
    if (atomic_load_explicit(&on, memory_order_relaxed))
        show(work);
}

/* Learning takes a look at all sets, and a system call: not at each label whose key has no room. */
void ep_tag_added(const char *key, unsigned size)
{
    const unsigned count = atomic_load(&keys.count);

    if (atomic_load_explicit(&on, memory_order_relaxed) && !atomic_load(&full) && key_find(key, size, count) == count)
        keys_learn();
}
