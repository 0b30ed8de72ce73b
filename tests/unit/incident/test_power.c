/*
 * The power fails while an incident is on its way, at every call to the disk: in its tail, between its parts, while one
 * is written. After the next start each part that arrives is whole, comes once, and is of an incident that was asked
 * for. The history of the tail is in memory and lost with it. A device whose disk is gone goes on to send from memory,
 * so later parts may come before those that are on the disk.
 */
#include "deliver/spool_model.h"
#include "tests/unit/test.h"

#include <limits.h>

#define MOST  64u
#define ROUND (10 * SECOND)

static _Alignas(8) uint8_t memory[128 * 1024];

static struct {
    struct {
        uint64_t id;
        uint64_t seen; /* a bit for each part */
        uint64_t all;  /* 0: the last one has not come */
    } incident[MOST];
    unsigned incidents, parts, whole;
    uint64_t asked; /* triggers */
} got;

static unsigned torn; /* incidents whose first parts were safe when the power failed, and whose last were not */

/* Numbers of a packed column, all below `most`. Returns how many. */
static unsigned column_size(struct wire bytes, uint64_t most)
{
    unsigned count = 0;
    uint64_t value;

    for (; bytes.at < bytes.end; count++) {
        assert_true(wire_varint(&bytes, &value));
        assert_true(value < most);
    }
    return count;
}

static void part_note(uint64_t id, uint64_t part, bool more)
{
    unsigned i = 0;

    while (i < got.incidents && got.incident[i].id != id)
        i++;
    assert_true(i < MOST);
    got.incident[i].id = id;
    got.incidents += i == got.incidents;
    assert_true(part < 63 && !(got.incident[i].seen >> part & 1));
    got.incident[i].seen |= UINT64_C(1) << part;
    if (!more)
        got.incident[i].all = (UINT64_C(2) << part) - 1;
    got.whole += got.incident[i].seen == got.incident[i].all;
    got.parts++;
}

static void timeline_check(struct wire bytes, unsigned nodes)
{
    uint64_t number[20] = {0};
    unsigned count[20] = {0};
    struct wire_field f;
    char name[40] = "";

    while (wire_next(&bytes, &f)) {
        if (f.tag < 20 && f.type != 2)
            number[f.tag] = f.number;
        if (f.tag == 5)
            (void)snprintf(name, sizeof name, "%.*s", (int)(f.bytes.end - f.bytes.at), (const char *)f.bytes.at);
        if (f.tag >= 15 && f.tag <= 18)
            count[f.tag] = column_size(f.bytes, f.tag == 17 ? nodes + 1 : UINT64_MAX);
    }
    assert_false(bytes.bad);
    assert_string_equal(name, "order");
    assert_true(count[15] == count[16] && count[16] == count[17] && count[17] == count[18] && count[15] > 0);
    part_note(number[1], number[2], number[3]);
}

static void on_send(const struct ep_message *message, const struct ep_deadline *deadline)
{
    struct wire wire = wire_open(message->data, message->size);
    struct wire_field f, inner;
    unsigned nodes = 0;

    (void)deadline;
    while (wire_next(&wire, &f)) {
        while (f.tag == 5 && wire_next(&f.bytes, &inner))
            nodes += inner.tag == 1 ? column_size(inner.bytes, UINT64_MAX) : 0;
        if (f.tag == 14)
            timeline_check(f.bytes, nodes);
    }
    assert_false(wire.bad);
}

static void run_start(void)
{
    struct ep_spool_config spool = spool_config();
    struct ep_config c = config();
    const struct ep_incident_config incident = {.memory = memory,
                                                .memory_size = sizeof memory,
                                                .tail_ms = 15000,
                                                .gap_ms = 1,
                                                .per_day = 1000,
                                                .day_bytes = UINT32_MAX};

    spool.memory_size = EP_SPOOL_MEMORY_MIN;
    spool.cap_bytes = 1024 * EP_SPOOL_MEMORY_MIN;
    c.memory_size = EP_MEMORY_MIN + 32768;
    assert_int_equal(ep_incident_start(&incident), 0);
    start_with(&spool, &c);
}

static void live(uint64_t dice, unsigned rounds)
{
    for (unsigned i = 0; i < rounds && !ep_sim_disk.off; i++) {
        model.down = unit_random(&dice) % 2;
        for (unsigned k = 0; k < 400; k++) {
            const uint16_t stack[] = {(uint16_t)(unit_random(&dice) % 900), 10, 11, 12};
            (void)ep_sim_tick(71, 1, stack, 4);
            ep_sim_run(ROUND / 400);
        }
        got.asked += ep_incident("order") == 0;
    }
}

/* False: the n-th call was not reached. */
static bool cut_once(unsigned n, uint64_t dice)
{
    afresh();
    memset(&got, 0, sizeof got);
    receiver.on_send = on_send;
    ep_sim_disk.cut_at = n;
    ep_sim_disk.dice = dice;
    run_start();
    live(dice, 24);
    const bool cut = ep_sim_disk.off;
    if (cut) {
        ep_sim_fork(); /* it runs no more */
        ep_sim.identity.pid--;
        ep_sim_disk_restart();
        model.down = false;
        run_start();
    }
    model.down = false;
    ep_sim_run(20 * MINUTE);
    assert_null(receiver.broken);
    assert_int_equal(ep_stop(1000), 0);
    assert_true(got.incidents <= got.asked);
    torn += got.incidents - got.whole;
    return cut;
}

TEST(test_power_cut_around_an_incident)
{
    unsigned n = 1, cuts = 0;

    for (; cut_once(n, 4711 + n); n += 3 * unit_step())
        cuts++;
    assert_true(n > 20 && (torn > 0 || cuts < 30)); /* few cuts may all be between incidents */
    assert_false(cut_once(UINT_MAX, 4711));
    assert_true(got.whole == got.incidents && got.parts > got.incidents && got.incidents > 3);
    assert_int_equal(ep_incident_start(NULL), 0);
    assert_int_equal(ep_spool_start(NULL), 0);
}

TEST_MAIN
