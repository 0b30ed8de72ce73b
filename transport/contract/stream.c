/*
 * The tests of a stream, each on a connection of its own; see contract.h.
 *
 *   ep_contract_stream -> test_echo, test_silence, test_deafness, test_arrived, test_end, test_absence, test_reconnects
 *                      -> connected, watched_read, watched_write
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define ECHOED  100000u
#define PORTION 3000u /* less than any connection buffers while the far end does not read */

static const struct ep_contract_stream *test;
static void *state;

static bool can(enum ep_far part)
{
    return test->far.can & EP_FAR_BIT(part);
}

static void play(enum ep_far part)
{
    test->far.play(test->far.context, part);
}

/* ---- calls ---- */

static int connect_once(uint64_t in_ns)
{
    state = bench_state();
    const struct ep_deadline *deadline = bench_watch(in_ns, false);
    int err = test->stream->connect(state, test->host, test->port, deadline);
    (void)bench_done();
    bench_holds(err <= 0, "connect returned %d", err);
    bench_holds(bench_guarded(), "connect wrote outside its state");
    return err;
}

static bool connected(enum ep_far part)
{
    if (!can(part))
        return false;
    play(part);
    int err = connect_once(BENCH_LONG_NS);
    return bench_holds(err == 0, "connect: %d", err);
}

/* Closes twice, which is allowed whether or not the far end has closed. */
static void close_twice(void)
{
    test->stream->close(state);
    test->stream->close(state);
    bench_holds(bench_guarded(), "close wrote outside its state");
}

static long watched_read(uint8_t *bytes, size_t size, uint64_t in_ns, bool nearer, uint64_t *took)
{
    long n = test->stream->read(state, bytes, size, bench_watch(in_ns, nearer));
    *took = bench_done();
    bench_holds(n <= (long)size, "read of %zu bytes returned %ld", size, n);
    bench_holds(bench_guarded(), "read wrote outside its state");
    return n;
}

static long watched_write(const uint8_t *bytes, size_t size, uint64_t in_ns, bool nearer, uint64_t *took)
{
    long n = test->stream->write(state, bytes, size, bench_watch(in_ns, nearer));
    *took = bench_done();
    bench_holds(n != 0 && n <= (long)size, "write of %zu bytes returned %ld", size, n);
    bench_holds(bench_guarded(), "write wrote outside its state");
    return n;
}

/* ---- echo ---- */

static bool write_all(const uint8_t *bytes, size_t size)
{
    uint64_t took;

    while (size > 0) {
        long n = watched_write(bytes, size, BENCH_LONG_NS, false, &took);
        if (!bench_holds(n > 0, "write: %ld", n))
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

static bool read_all(uint8_t *bytes, size_t size, size_t at_most)
{
    uint64_t took;

    while (size > 0) {
        long n = watched_read(bytes, size < at_most ? size : at_most, BENCH_LONG_NS, false, &took);
        if (!bench_holds(n > 0, "read: %ld", n))
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

/* Writes and reads portions of many sizes. */
static void test_echo(enum ep_far part, size_t all)
{
    static uint8_t out[PORTION], in[PORTION];
    size_t portion = 1;

    if (!connected(part))
        return;
    bench_interrupt(true);
    for (size_t done = 0; done < all; done += portion, portion = portion * 3 % PORTION + 1) {
        for (size_t i = 0; i < portion; i++)
            out[i] = (uint8_t)((done + i) * 2654435761u >> 13);
        if (!write_all(out, portion) || !read_all(in, portion, 1 + done % 700))
            break;
        if (!bench_holds(memcmp(in, out, portion) == 0, "what was written is not what came back"))
            break;
    }
    bench_interrupt(false);
    close_twice();
}

/* ---- deadlines ---- */

static void test_silence(void)
{
    uint64_t took;
    uint8_t byte;

    if (!connected(EP_FAR_SILENT))
        return;
    bench_holds(watched_read(&byte, 1, 0, false, &took) == -ETIMEDOUT,
                "read, long after the deadline, with nothing there");
    long n = watched_read(&byte, 1, 100 * BENCH_MS, false, &took);
    bench_holds(n == -ETIMEDOUT && took >= 100 * BENCH_MS && took < BENCH_EARLY_NS,
                "read for 100 ms: %ld after %llu ms", n, (unsigned long long)(took / BENCH_MS));
    n = watched_read(&byte, 1, BENCH_LONG_NS, true, &took);
    bench_holds(n == -ETIMEDOUT && took < BENCH_EARLY_NS, "read, and the deadline came nearer: %ld after %llu ms", n,
                (unsigned long long)(took / BENCH_MS));
    close_twice();
}

static void test_deafness(void)
{
    static uint8_t bytes[65536];
    uint64_t took;
    long n = 1;

    if (!connected(EP_FAR_DEAF))
        return;
    for (size_t sum = 0; n > 0 && sum < (size_t)64 << 20; sum += (size_t)(n > 0 ? n : 0))
        n = watched_write(bytes, sizeof bytes, 0, false, &took);
    bench_holds(n == -ETIMEDOUT, "write until nothing goes any more, long after the deadline: %ld", n);
    n = watched_write(bytes, sizeof bytes, BENCH_LONG_NS, true, &took);
    for (; n > 0; n = watched_write(bytes, sizeof bytes, BENCH_LONG_NS, true, &took))
        ; /* the system still had a little room */
    bench_holds(n == -ETIMEDOUT && took < BENCH_EARLY_NS, "write, and the deadline came nearer: %ld after %llu ms", n,
                (unsigned long long)(took / BENCH_MS));
    close_twice();
}

/* Bytes that have arrived must be readable after the deadline too. */
static void test_arrived(void)
{
    static const uint8_t out[] = "ping";
    uint8_t in[sizeof out];
    uint64_t took, waited = 0;
    long n = -ETIMEDOUT;

    if (!connected(EP_FAR_TAKES) || !write_all(out, sizeof out))
        return;
    for (size_t have = 0; have < sizeof out && waited < BENCH_EARLY_NS; waited += took) {
        n = watched_read(in + have, sizeof in - have, 0, false, &took);
        if (n > 0)
            have += (size_t)n;
        else if (!bench_holds(n == -ETIMEDOUT, "read, long after the deadline: %ld", n))
            break;
    }
    bench_holds(n > 0 && memcmp(in, out, sizeof out) == 0, "what is there is not had after the deadline: %ld", n);
    close_twice();
}

/* ---- ends ---- */

/* Reads until the end, which must be reported again afterwards. */
static void test_end(enum ep_far part)
{
    static uint8_t bytes[PORTION];
    uint64_t took;
    long n = 1, w = 1;

    if (!connected(part))
        return;
    (void)watched_write(bytes, 10, BENCH_LONG_NS, false, &took);
    while (n > 0)
        n = watched_read(bytes, sizeof bytes, BENCH_LONG_NS, false, &took);
    bench_holds((part == EP_FAR_HANGS_UP ? n == 0 : n < 0 || n == 0) && n != -ETIMEDOUT, "read at the end: %ld", n);
    for (unsigned i = 0; i < 1000 && w > 0; i++)
        w = watched_write(bytes, sizeof bytes, BENCH_LONG_NS, false, &took);
    bench_holds(w < 0 && w != -ETIMEDOUT, "write to nobody: %ld", w);
    n = watched_read(bytes, sizeof bytes, 0, false, &took);
    bench_holds(n <= 0 && n != -ETIMEDOUT, "read behind the end: %ld", n);
    close_twice();
}

static void test_absence(void)
{
    if (!can(EP_FAR_ABSENT))
        return;
    play(EP_FAR_ABSENT);
    for (int i = 0; i < 3; i++) {
        int err = connect_once(BENCH_LONG_NS);
        bench_holds(err < 0, "connect to nobody: %d", err);
        close_twice();
    }
    if (connected(EP_FAR_TAKES))
        close_twice();
}

static void test_reconnects(void)
{
    int inherited_before, inherited, before;

    play(can(EP_FAR_ABSENT) ? EP_FAR_ABSENT : EP_FAR_TAKES);
    before = bench_descriptors(&inherited_before);
    for (int i = 0; i < 20; i++) {
        if (!connected(EP_FAR_TAKES))
            return;
        if (bench_descriptors(&inherited) >= 0)
            bench_holds(inherited <= inherited_before, "%d descriptors do not close on exec",
                        inherited - inherited_before);
        close_twice();
    }
    play(can(EP_FAR_ABSENT) ? EP_FAR_ABSENT : EP_FAR_TAKES);
    bench_holds(before < 0 || bench_descriptors_back(before), "descriptors are left open after close");
}

unsigned ep_contract_stream(const struct ep_contract_stream *contract)
{
    test = contract;
    bench_begin(test->name, test->stream->state_size);
    test_echo(EP_FAR_TAKES, ECHOED);
    test_echo(EP_FAR_SLOW, PORTION);
    test_silence();
    test_deafness();
    test_arrived();
    test_end(EP_FAR_HANGS_UP);
    test_end(EP_FAR_RESETS);
    test_absence();
    test_reconnects();
    return bench_end();
}
