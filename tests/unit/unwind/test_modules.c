/*
 * modules.c: an address belongs to the module whose range contains it, and to no other. Linear addresses are unique,
 * map back to their module, and never wrap. Modules that do not fit are counted. A module that is added twice exists
 * once.
 */
#include "account.h"
#include "unit.h"

static struct ep_module_info infos[EP_MAX_MODULES + 20];

static struct ep *start_with(unsigned count)
{
    struct ep_config c = {
        .memory = account_memory(EP_MEMORY_DEFAULT), .memory_size = EP_MEMORY_DEFAULT, .flags = EP_MANUAL};

    ep_sim_reset();
    ep_sim.modules = infos;
    ep_sim.module_count = count;
    assert_int_equal(ep_start(&c), 0);
    return ep_running();
}

static void random_infos(uint64_t *dice, unsigned count)
{
    uintptr_t at = 0x10000;

    for (unsigned i = 0; i < count; i++) {
        at += unit_random(dice) % 3 ? unit_random(dice) % 100000 : 0;
        uintptr_t size = 1 + unit_random(dice) % 100000;
        infos[i] = (struct ep_module_info){.start = at, .end = at + size, .path = "/m"};
        at += size;
    }
    for (unsigned i = count; i-- > 1;) { /* in random order */
        unsigned j = unit_random(dice) % (i + 1);
        struct ep_module_info swap = infos[i];
        infos[i] = infos[j];
        infos[j] = swap;
    }
}

static void check_address(struct ep *ep, uintptr_t pc, unsigned count)
{
    const struct ep_module *found = ep_module_find(&ep->unwinder.modules, pc);
    unsigned hint = (unsigned)(pc % EP_MAX_MODULES), at = 0;
    uint32_t linear = ep_module_linear(&ep->unwinder.modules, pc, &hint);

    while (at < count && !(pc >= infos[at].start && pc < infos[at].end))
        at++;
    if (at == count) {
        assert_null(found);
        assert_int_equal(linear, pc && pc < EP_FRAME_SPECIALS ? pc : EP_FRAME_UNKNOWN); /* a frame's number */
        return;
    }
    assert_non_null(found);
    assert_int_equal(found->start, infos[at].start);
    assert_int_equal(linear, found->base + (pc - found->start));
    assert_ptr_equal(ep_module_of_linear(&ep->unwinder.modules, linear), found);
    assert_int_equal(ep_module_linear(&ep->unwinder.modules, pc, &hint), linear);
}

TEST(test_addresses)
{
    uint64_t dice = 11;

    for (unsigned count = 1; count <= EP_MAX_MODULES; count += 9) {
        random_infos(&dice, count);
        struct ep *ep = start_with(count);
        for (unsigned i = 0; i < count; i++) {
            const uintptr_t edges[] = {infos[i].start - 1, infos[i].start, infos[i].end - 1, infos[i].end};
            for (unsigned e = 0; e < 4; e++)
                check_address(ep, edges[e], count);
        }
        for (unsigned i = 0; i < 2000; i++)
            check_address(ep, unit_random(&dice) % 8000000, count);
        check_address(ep, 0, count);
        check_address(ep, UINTPTR_MAX, count);
        assert_int_equal(ep_module_of_linear(&ep->unwinder.modules, EP_FRAME_FIRST_ADDRESS - 1) != NULL, 0);
        assert_int_equal(ep_stop(1), 0);
    }
}

/* Base addresses in a 32-bit space: neither one range nor their sum may exceed it. */
TEST(test_linear_space_runs_out)
{
    struct ep_stats s;

    if (sizeof(uintptr_t) < 8)
        skip(); /* no module of a 32-bit process is too large */
    for (unsigned i = 0; i < 6; i++)
        infos[i] = (struct ep_module_info){.start = (uintptr_t)((i + 1) * 0x1000000000u),
                                           .end = (uintptr_t)((i + 1) * 0x1000000000u + 0x40000000u),
                                           .path = "/large"};
    infos[6] = (struct ep_module_info){.start = 0x100, .end = 0x300, .path = "/small"};
    infos[7] = (struct ep_module_info){
        .start = (uintptr_t)0x200000000000u, .end = (uintptr_t)0x200200000000u, .path = "/huge"};
    infos[8] = (struct ep_module_info){.start = 500, .end = 500, .path = "/empty"};
    infos[9] = (struct ep_module_info){.start = 600, .end = 599, .path = "/inverted"};
    struct ep *ep = start_with(10);
    assert_int_equal(ep_stats_get(&s), 0);
    assert_int_equal(s.modules, 4); /* three of 1 GiB, and the small one */
    assert_int_equal(s.lost_count[EP_LOSS_MODULES_FULL], 4);
    for (unsigned i = 0; i < s.modules; i++) {
        const struct ep_module *m = &ep->unwinder.modules.slot[i];
        assert_true((uint64_t)m->base + (m->end - m->start) <= UINT32_MAX);
    }
    assert_int_equal(ep_stop(1), 0);
}

TEST(test_table_full)
{
    uint64_t dice = 5;
    struct ep_stats s;

    random_infos(&dice, EP_MAX_MODULES + 20);
    struct ep *ep = start_with(EP_MAX_MODULES + 20);
    assert_int_equal(ep_stats_get(&s), 0);
    assert_int_equal(s.modules, EP_MAX_MODULES);
    assert_int_equal(s.lost_count[EP_LOSS_MODULES_FULL], 20);
    for (unsigned i = 0; i < 5; i++) { /* further modules */
        ep_sim.modules_generation++;
        assert_int_equal(ep_collect(), 0);
    }
    assert_int_equal(account_stats().lost_count[EP_LOSS_MODULES_FULL], 20);
    check_address(ep, infos[3].start, EP_MAX_MODULES);
    assert_null(ep_module_find(&ep->unwinder.modules, infos[EP_MAX_MODULES].start));
    assert_int_equal(ep_stop(1), 0);
}

/* Repeated scans while modules appear: each is added once, and known ones stay. */
TEST(test_growing)
{
    uint64_t dice = 8;
    uint32_t bases[EP_MAX_MODULES];

    random_infos(&dice, 40);
    struct ep *ep = start_with(1);
    for (unsigned count = 2; count <= 40; count++) {
        for (unsigned i = 0; i + 1 < count; i++)
            bases[i] = ep->unwinder.modules.slot[i].base;
        ep_sim.module_count = count;
        ep_sim.modules_generation++;
        assert_int_equal(ep_collect(), 0);
        assert_int_equal(ep_sim.module_scans, count);
        assert_int_equal(ep_collect(), 0); /* no change: no scan */
        assert_int_equal(ep_sim.module_scans, count);
        assert_int_equal(atomic_load(&ep->unwinder.modules.count), count);
        for (unsigned i = 0; i + 1 < count; i++)
            assert_int_equal(bases[i], ep->unwinder.modules.slot[i].base);
    }
    assert_int_equal(ep_stop(1), 0);
}

/* A failed scan is repeated. */
TEST(test_scan_fails_once)
{
    uint64_t dice = 8;

    random_infos(&dice, 2);
    struct ep *ep = start_with(1);
    ep_sim.module_count = 2;
    ep_sim.modules_generation++;
    ep_sim.fail_at = ep_sim.calls + 1;
    assert_int_equal(ep_collect(), 0);
    assert_string_equal(ep_sim.failed, "modules_scan");
    assert_int_equal(atomic_load(&ep->unwinder.modules.count), 1);
    assert_int_equal(ep_collect(), 0);
    assert_int_equal(atomic_load(&ep->unwinder.modules.count), 2);
    assert_int_equal(ep_stop(1), 0);
}

TEST(test_long_build_id)
{
    static const uint8_t id[200] = {1, 2, 3};

    infos[0] = (struct ep_module_info){.start = 0x1000, .end = 0x2000, .path = "/m", .build_id = id};
    infos[0].build_id_size = sizeof id;
    struct ep *ep = start_with(1);
    assert_int_equal(ep->unwinder.modules.slot[0].build_id_size, 64);
    assert_int_equal(ep_stop(1), 0);
}

TEST_MAIN
