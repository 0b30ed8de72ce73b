/* See account.h. */
#include "account.h"

#include <sys/mman.h>

#include "unit.h"

#define BLOCK (4u << 20)

static void *block;

void *account_memory(size_t size)
{
    if (!block) {
        block = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(block, MAP_FAILED);
    }
    assert_true(size <= BLOCK);
    assert_int_equal(mprotect(block, BLOCK, PROT_READ | PROT_WRITE), 0);
    memset(block, 0xa5, size);
    return block;
}

void account_memory_gone(void)
{
    assert_int_equal(mprotect(block, BLOCK, PROT_NONE), 0);
}

void account_afresh(void)
{
    if (ep_running())
        ep_sim_fork();
    ep_sim_reset();
    unit_pprof(false);
    receiver_reset();
}

void account_start(struct ep_config c)
{
    c.memory = account_memory(c.memory_size);
    c.interval_ms = c.interval_ms ? c.interval_ms : 1000;
    c.transport = c.transport ? c.transport : &receiver_transport;
    assert_int_equal(ep_start(&c), 0);
}

void account_end(void)
{
    assert_int_equal(ep_stop(1000), 0);
    assert_null(receiver.broken);
    account_memory_gone();
}

struct ep_stats account_stats(void)
{
    struct ep_stats s;

    assert_int_equal(ep_stats_get(&s), 0);
    return s;
}

void account_check(const struct account *given, int exact)
{
    const struct ep_stats s = account_stats();
    uint64_t period = ep_sim.period_ns;

    if (receiver.broken)
        print_error("the format was broken: %s\n", receiver.broken);
    assert_null(receiver.broken);

    uint64_t ring = s.lost_ns[EP_LOSS_RING_FULL];
    assert_int_equal(given->samples, s.samples + s.lost_count[EP_LOSS_RING_FULL]);
    /* What a full ring carried to the end is residual CPU time. */
    assert_true(given->ticks * period <= s.weight_ns + ring + s.thread_exit_ns);
    assert_int_equal(s.exact + s.gap + s.cut, s.samples);
    int64_t rest_left = given->rest_ns - (int64_t)(s.thread_exit_ns + (s.weight_ns + ring - given->ticks * period));
    assert_true(rest_left < (int64_t)period);

    uint64_t in = s.weight_ns + s.thread_exit_ns + ring;
    uint64_t out = receiver.ns + s.lost_ns[EP_LOSS_STOPPED] + s.lost_ns[EP_LOSS_TOO_LARGE];
    uint64_t again = s.lost_ns[EP_LOSS_REFUSED] + s.lost_ns[EP_LOSS_SEGMENT];
    if (in < out || in - out > again || (exact && in != out))
        print_error("in %llu out %llu refused or stale %llu\n", (unsigned long long)in, (unsigned long long)out,
                    (unsigned long long)again);
    assert_true(in >= out && in - out <= again);
    assert_true(!exact || in == out);
    /* Each ns arrived unchanged or was counted as lost, once. */
    uint64_t shown = 0;
    for (unsigned frame = 0; frame < RECEIVER_SPECIALS; frame++)
        shown += ep_is_lost(frame) ? receiver.special_ns[frame] : 0;
    if (receiver.segments) /* for pprof the receiver has no frames */
        assert_int_equal(in, receiver.ns - shown + ring + again + s.lost_ns[EP_LOSS_STOPPED] +
                                 s.lost_ns[EP_LOSS_TOO_LARGE]);
    uint64_t lost = s.lost_count[EP_LOSS_REFUSED] + s.lost_count[EP_LOSS_SEGMENT] + s.lost_count[EP_LOSS_STOPPED] +
                    s.lost_count[EP_LOSS_TOO_LARGE];
    assert_int_equal(s.samples, receiver.samples + lost);
    assert_int_equal(s.delivered, receiver.accepted);
    assert_int_equal(s.delivered_bytes, receiver.bytes);
}
