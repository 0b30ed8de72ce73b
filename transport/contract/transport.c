/*
 * The tests of a transport, each from open to close; see contract.h.
 *
 *   ep_contract_transport -> test_open, test_sizes, test_order, test_slow, test_results, test_failures, test_deadline,
 *                            test_reopen
 *                         -> send_size -> send_once
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define LARGEST  300000u
#define ATTEMPTS 3 /* attempts in which a transport must recover from a failure */

static const struct ep_contract_transport *test;
static void *state;
static uint8_t message[LARGEST], heard[LARGEST + 1];
static uint32_t sequence;

static const char *const parts[EP_FARS] = {
    "that takes it",         "that is slow", "that is silent",          "that is deaf",
    "that hangs up",         "that resets",  "that is absent",          "that talks nonsense",
    "that knows no segment", "that refuses", "that finds it too large", "that asks for patience",
};

static bool can(enum ep_far part)
{
    return test->far.can & EP_FAR_BIT(part);
}

static void play(enum ep_far part)
{
    if (test->far.play)
        test->far.play(test->far.context, part);
}

/* `size`, or the maximum that the transport accepts. */
static size_t fitting(size_t size)
{
    return test->largest && test->largest < size ? test->largest : size;
}

/* ---- sending ---- */

/* Fills in message number `sequence`, with unique contents. */
static void fill(size_t size)
{
    uint32_t x = sequence * 2654435761u + 1;

    for (size_t i = 0; i < size; i++) {
        x = x * 1664525u + 1013904223u;
        message[i] = (uint8_t)(x >> 24);
    }
}

/* Sends the message of fill(). */
static int send_once(size_t size, uint64_t in_ns, bool nearer, uint64_t *took)
{
    static uint8_t copy[LARGEST];
    struct ep_message m = {.data = message, .size = size, .segment = 0x8877665544332211, .sequence = sequence};
    uint64_t retry_ns = 0;

    memcpy(copy, message, size);
    const struct ep_deadline *test_deadline = bench_watch(in_ns, nearer);
    int result = test->transport->send(state, &m, test_deadline, &retry_ns);
    *took = bench_done();
    bench_holds(result <= 0, "send returned %d: 0 or a negative errno value", result);
    bench_holds(retry_ns == 0 || result == -EAGAIN, "*retry_ns was set although send returned %d", result);
    bench_holds(memcmp(copy, message, size) == 0, "send has changed the message");
    bench_holds(bench_guarded(), "send wrote outside its state");
    return result;
}

static int send_size(size_t size)
{
    uint64_t took;

    sequence++;
    fill(size);
    return send_once(size, BENCH_LONG_NS, false, &took);
}

/* True for results after which the message is sent again. */
static bool is_retried(int result)
{
    return result < 0 && result != -ESTALE && result != -EBADMSG && result != -EMSGSIZE;
}

static bool was_kept(size_t size)
{
    if (!test->far.kept)
        return true;
    long n = test->far.kept(test->far.context, heard, sizeof heard);
    return n == (long)size && memcmp(heard, message, size) == 0;
}

/* Sends the same bytes again after a failure. Nothing else may arrive. */
static void check_recovery(size_t size, const char *after)
{
    int result = -1;
    uint64_t took;
    unsigned copies = 0;

    play(EP_FAR_TAKES);
    for (int i = 0; i < ATTEMPTS && result != 0; i++)
        result = send_once(size, BENCH_LONG_NS, false, &took);
    bench_holds(result == 0, "after a far end %s it does not recover: %d", after, result);
    for (long n; test->far.kept && (n = test->far.kept(test->far.context, heard, sizeof heard)) >= 0; copies++)
        bench_holds(n == (long)size && memcmp(heard, message, size) == 0,
                    "after a far end %s something else arrived, %ld bytes", after, n);
    bench_holds(result != 0 || copies > 0 || !test->far.kept, "after a far end %s what was accepted has not arrived",
                after);
}

/* ---- open ---- */

/* Discards what earlier tests have left at the far end. */
static bool open_it(void)
{
    while (test->far.kept && test->far.kept(test->far.context, heard, sizeof heard) >= 0)
        ;
    state = bench_state();
    int err = test->transport->open ? test->transport->open(state, &test->target) : 0;
    bench_holds(bench_guarded(), "open wrote outside its state");
    return bench_holds(err == 0, "open of %s: %d", test->target.endpoint ? test->target.endpoint : "NULL", err);
}

static void close_it(void)
{
    if (test->transport->close)
        test->transport->close(state);
    bench_holds(bench_guarded(), "close wrote outside its state");
}

static void test_open(void)
{
    struct ep_target bad = test->target;

    for (size_t i = 0; test->bad_endpoints && test->bad_endpoints[i]; i++) {
        bad.endpoint = test->bad_endpoints[i];
        int err = test->transport->open(bench_state(), &bad);
        bench_holds(err == -EINVAL, "open of the endpoint '%s' returned %d, not -EINVAL", bad.endpoint, err);
    }
    bad.endpoint = NULL;
    state = bench_state();
    int err = test->transport->open ? test->transport->open(state, &bad) : 0;
    bench_holds(err == 0 || err == -EINVAL, "open without an endpoint returned %d", err);
    if (err == 0)
        close_it();
    if (open_it())
        close_it(); /* without a send */
}

/* ---- accepted messages ---- */

static void test_sizes(void)
{
    static const size_t all[] = {1, 2, 255, 256, 1000, 4096, 24000, 65535, 65536, LARGEST};

    if (!open_it())
        return;
    play(EP_FAR_TAKES);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bool fits = test->largest == 0 || all[i] <= test->largest;
        int result = send_size(all[i]), wanted = fits ? 0 : -EMSGSIZE;
        bench_holds(result == wanted, "a message of %zu bytes: %d, not %d", all[i], result, wanted);
        if (result == 0)
            bench_holds(was_kept(all[i]), "a message of %zu bytes has not arrived as it is", all[i]);
    }
    close_it();
}

static void test_order(void)
{
    if (!open_it())
        return;
    play(EP_FAR_TAKES);
    for (unsigned i = 0; i < 50; i++) {
        size_t size = fitting(20 + i);
        int result = send_size(size);
        if (!bench_holds(result == 0 && was_kept(size), "message %u of 50 in a row: %d", i, result))
            break;
    }
    if (test->far.kept)
        bench_holds(test->far.kept(test->far.context, heard, sizeof heard) < 0, "a message arrived twice");
    close_it();
}

/* With interrupted system calls: with EP_MANUAL the service's signals arrive. */
static void test_slow(void)
{
    if (!can(EP_FAR_SLOW) || !open_it())
        return;
    play(EP_FAR_SLOW);
    bench_interrupt(true);
    int result = send_size(fitting(2000));
    bench_interrupt(false);
    bench_holds(result == 0 && was_kept(fitting(2000)), "a far end that is slow, and interruptions: %d", result);
    close_it();
}

/* ---- refusals and failures ---- */

static void test_result(enum ep_far part, int wanted)
{
    if (!can(part) || !open_it())
        return;
    play(part);
    size_t size = fitting(1000);
    int result = send_size(size);
    bench_holds(result == wanted, "a far end %s: %d, not %d", parts[part], result, wanted);
    sequence++;
    fill(size);
    check_recovery(size, parts[part]);
    close_it();
}

static void test_results(void)
{
    test_result(EP_FAR_STALE, -ESTALE);
    test_result(EP_FAR_REFUSES, -EBADMSG);
    test_result(EP_FAR_BUSY, -EAGAIN);
    test_result(EP_FAR_TOO_LARGE, -EMSGSIZE);
}

/* Tests a failure on a new connection, or on one that has worked before. */
static void test_failure(enum ep_far part, bool worked_before)
{
    size_t size = fitting(5000);
    uint64_t took;

    if (!can(part) || !open_it())
        return;
    play(EP_FAR_TAKES);
    if (worked_before)
        bench_holds(send_size(size) == 0 && was_kept(size), "the first message, before a far end %s", parts[part]);
    play(part);
    sequence++;
    fill(size);
    int result =
        send_once(size, BENCH_LONG_NS, part == EP_FAR_SILENT || part == EP_FAR_DEAF || part == EP_FAR_GARBAGE, &took);
    bench_holds(is_retried(result), "a far end %s: %d", parts[part], result);
    check_recovery(size, parts[part]);
    close_it();
}

static void test_failures(void)
{
    static const enum ep_far all[] = {EP_FAR_HANGS_UP, EP_FAR_RESETS, EP_FAR_ABSENT,
                                      EP_FAR_GARBAGE,  EP_FAR_SILENT, EP_FAR_DEAF};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        test_failure(all[i], false);
        test_failure(all[i], true);
    }
}

/* ---- time ---- */

/* A slow far end may have accepted the message before. */
static bool is_in_time(enum ep_far part, int result, uint64_t took)
{
    return (is_retried(result) || (result == 0 && part == EP_FAR_SLOW)) && took < BENCH_EARLY_NS;
}

static void test_deadline(enum ep_far part)
{
    size_t size = fitting(LARGEST);
    uint64_t took;

    if (!can(part) || !open_it())
        return;
    play(part);
    sequence++;
    fill(size);
    int result = send_once(size, BENCH_LONG_NS, true, &took);
    bench_holds(is_in_time(part, result, took), "a far end %s, and the deadline came nearer: %d after %llu ms",
                parts[part], result, (unsigned long long)(took / BENCH_MS));
    result = send_once(size, 100 * BENCH_MS, false, &took);
    bench_holds(is_in_time(part, result, took), "a far end %s, 100 ms: %d after %llu ms", parts[part], result,
                (unsigned long long)(took / BENCH_MS));
    result = send_once(size, 0, false, &took);
    bench_holds(is_in_time(part, result, took), "a far end %s, a deadline that has passed: %d after %llu ms",
                parts[part], result, (unsigned long long)(took / BENCH_MS));
    close_it(); /* while bytes are still on their way */
}

/* ---- reopening ---- */

static void test_reopen(void)
{
    int inherited_before, inherited, before;

    play(can(EP_FAR_ABSENT) ? EP_FAR_ABSENT : EP_FAR_TAKES);
    before = bench_descriptors(&inherited_before);
    play(EP_FAR_TAKES);
    for (unsigned i = 0; i < 20; i++) {
        if (!open_it())
            return;
        int result = send_size(fitting(100));
        bench_holds(result == 0 && was_kept(fitting(100)), "opened for the %u. time: %d", i + 2, result);
        if (i == 0 && bench_descriptors(&inherited) >= 0)
            bench_holds(inherited <= inherited_before, "%d descriptors do not close on exec",
                        inherited - inherited_before);
        close_it();
    }
    play(can(EP_FAR_ABSENT) ? EP_FAR_ABSENT : EP_FAR_TAKES);
    bench_holds(before < 0 || bench_descriptors_back(before), "descriptors are left open after close");
    play(EP_FAR_TAKES);
}

unsigned ep_contract_transport(const struct ep_contract_transport *contract)
{
    test = contract;
    bench_begin(test->transport->name, test->transport->state_size);
    if (bench_holds(test->transport->send != NULL, "it has a send function")) {
        test_open();
        test_sizes();
        test_order();
        test_slow();
        test_results();
        test_failures();
        test_deadline(EP_FAR_SILENT);
        test_deadline(EP_FAR_DEAF);
        test_deadline(EP_FAR_SLOW);
        test_reopen();
    }
    return bench_end();
}
