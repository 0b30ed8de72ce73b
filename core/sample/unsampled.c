/*
 * Threads that are not sampled: their number, the names of the first three of each reason, and the limit that was
 * reached.
 *
 *   ep_thread_refused          any thread reports a thread without a timer, or with a useless one
 *   ep_unsampled_look          the collect thread reads names again, since threads name themselves after their start
 *   ep_thread_unsampled_ends   a thread that ends has its name read a last time
 */
#include "core/sample/profiler.h"

#include <string.h>

#include <edgeprof/transport.h>

#define GONE UINT32_MAX

static const uint8_t reasons[EP_UNSAMPLED] = {EP_LOSS_NO_TIMER, EP_LOSS_NO_SLOT, EP_LOSS_SIGNAL_BLOCKED};

unsigned ep_unsampled_index(unsigned reason)
{
    unsigned index = 0;

    while (index < EP_UNSAMPLED && reasons[index] != reason)
        index++;
    return index;
}

/* Makes a name valid for web pages, JSON and protobuf strings. */
static void name_sanitize(char *name)
{
    size_t size = strlen(name);

    for (size_t run; (run = ep_utf8_run(name, size)) < size;)
        name[run] = '?';
    for (char *at = name; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127 || *at == '"' || *at == '\\')
            *at = '?';
}

/* Reads the thread's name. False: the thread is gone, and the last name stays. */
static bool name_read(struct ep_unsampled_thread *thread, uint32_t tid)
{
    union {
        char text[16];
        uint64_t word[2];
    } name = {.word = {0}};

    ep_port_thread_name(tid, name.text, sizeof name.text);
    if (!name.text[0])
        return false;
    name_sanitize(name.text);
    for (unsigned i = 0; i < 2; i++)
        atomic_store_explicit(&thread->name[i], name.word[i], memory_order_relaxed);
    return true;
}

static void note_name(struct ep_unsampled_reason *why, uint32_t tid)
{
    for (unsigned i = 0, none = 0; i < 3; i++, none = 0) {
        if (atomic_compare_exchange_strong(&why->thread[i].tid, &none, tid)) {
            (void)name_read(&why->thread[i], tid);
            return;
        }
    }
}

void ep_thread_refused(unsigned reason, uint32_t tid, int error, uint64_t limit)
{
    unsigned index = ep_unsampled_index(reason);
    struct ep *ep = index < EP_UNSAMPLED ? ep_hold() : NULL;

    if (!ep)
        return;
    struct ep_unsampled_reason *why = &ep->unsampled[index];
    (void)atomic_fetch_add_explicit(&ep->refused[reason], 1, memory_order_relaxed);
    atomic_store_explicit(&why->error, error, memory_order_relaxed);
    atomic_store_explicit(&why->limit, limit, memory_order_relaxed);
    note_name(why, tid);
    ep_release();
}

/* tid 0: all threads. */
static void names_read_again(struct ep *ep, uint32_t tid, bool ends)
{
    for (unsigned i = 0; i < EP_UNSAMPLED * 3; i++) {
        struct ep_unsampled_thread *thread = &ep->unsampled[i / 3].thread[i % 3];
        uint32_t of = atomic_load(&thread->tid);
        if (of && of != GONE && (!tid || of == tid) && (!name_read(thread, of) || ends))
            atomic_store(&thread->tid, GONE);
    }
}

void ep_thread_unsampled_ends(uint32_t tid)
{
    struct ep *ep = ep_hold();

    if (!ep)
        return;
    names_read_again(ep, tid, true);
    ep_release();
}

void ep_unsampled_look(struct ep *ep)
{
    int64_t ns = (int64_t)atomic_load_explicit(&ep->unsampled_ns, memory_order_relaxed);

    names_read_again(ep, 0, false);
    atomic_store_explicit(&ep->counter[EP_COUNT_UNSAMPLED_NS], ns > 0 ? (uint64_t)ns : 0, memory_order_relaxed);
}

void ep_unsampled_read(struct ep *ep, unsigned index, struct ep_unsampled *unsampled)
{
    struct ep_unsampled_reason *why = &ep->unsampled[index];

    *unsampled = (struct ep_unsampled){.reason = reasons[index],
                                       .error = atomic_load_explicit(&why->error, memory_order_relaxed),
                                       .limit = atomic_load_explicit(&why->limit, memory_order_relaxed)};
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t name[2] = {atomic_load_explicit(&why->thread[i].name[0], memory_order_relaxed),
                                  atomic_load_explicit(&why->thread[i].name[1], memory_order_relaxed)};
        memcpy(unsampled->name[i], name, sizeof name - 1); /* halves of two readings may be mixed */
    }
}
