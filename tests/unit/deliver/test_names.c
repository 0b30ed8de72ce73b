/*
 * names.c: the order of sources for a name. A module is identified by its build id at any address. A name keeps its
 * number. A full store is emptied. linux_names.c tests the runtime's side.
 */
#include "account.h"
#include <edgeprof/hooks.h>
#include "core/profile/naming.h"
#include "unit.h"

#define MS 1000000ull

static const uint8_t ids[2][4] = {{0x00, 0xff, 0x12, 0xab}, {0x01}};
static struct ep_module_info modules[3];
static unsigned looked_up, runs;

/* Two mappings of the synthetic code, and one of data that belongs to the first. */
static void begin(uintptr_t hijack_stub)
{
    struct ep_config c = {.memory = account_memory(EP_MEMORY_DEFAULT),
                          .memory_size = EP_MEMORY_DEFAULT,
                          .rate_hz = 100,
                          .transport = &receiver_transport,
                          .flags = EP_MANUAL};

    account_afresh();
    for (unsigned i = 0; i < 3; i++)
        modules[i] = (struct ep_module_info){.start = ep_sim_pc(1000 * i) - EP_SIM_FUNCTION / 2,
                                             .end = ep_sim_pc(1000 * (i + 1)) - EP_SIM_FUNCTION / 2,
                                             .path = i == 1 ? "lib.so" : "/usr/bin/service",
                                             .build_id = ids[i == 1],
                                             .build_id_size = i == 1 ? 0 : 4,
                                             .data = i == 2};
    for (unsigned i = 0; i < 3; i++)
        modules[i].bias = modules[0].start - 0x10000;
    ep_sim.modules = modules;
    ep_sim.module_count = 3;
    ep_sim.hijack_stub = hijack_stub;
    looked_up = 0;
    ep_sim.random_state = ++runs; /* each run has its own number */
    assert_int_equal(ep_start(&c), 0);
}

static void end(void)
{
    assert_int_equal(ep_stop(0), 0);
    account_memory_gone();
}

static void begin_message(void)
{
    static struct ep_deadline deadline = {.at_ns = UINT64_MAX};

    assert_non_null(ep_names_process.memory());
    ep_names_process.begin(&deadline);
}

static struct ep_place place(const char *build_id, const char *path, uint64_t address)
{
    static uint8_t bytes[8];
    size_t size = strlen(build_id) / 2;

    for (size_t i = 0; i < size; i++) {
        unsigned byte;
        assert_int_equal(sscanf(build_id + 2 * i, "%2x", &byte), 1);
        bytes[i] = (uint8_t)byte;
    }
    return (struct ep_place){.build_id = bytes, .build_id_size = size, .path = path, .address = address};
}

static const char *name_at(const char *build_id, const char *path, uint64_t address)
{
    struct ep_place at = place(build_id, path, address);
    unsigned name = ep_names_process.find(&at);

    assert_in_range(name, 0, EP_NAMED_MOST);
    return name ? ep_names_process.text(name) : "(none)";
}

TEST(test_addresses)
{
    begin(0);
    begin_message();
    assert_string_equal(name_at("00ff12ab", "elsewhere/service", 0x10008), "service+0x10008");
    assert_string_equal(name_at("00ff12ab", "", 0x10009), "service+0x10009"); /* no tables: separate names */
    assert_string_equal(name_at("", "lib.so", 0x10000 + 16000 + 5), "lib.so+0x13e85");
    assert_string_equal(name_at("00ff12ac", "/usr/bin/service", 0x10008), "(none)"); /* another build */
    assert_string_equal(name_at("00ff12", "/usr/bin/service", 0x10008), "(none)");
    assert_string_equal(name_at("", "/usr/bin/service", 0x10008), "(none)");
    assert_string_equal(name_at("", "other.so", 0x10000 + 16000 + 5), "(none)");
    assert_string_equal(name_at("00ff12ab", "", 0xffff), "(none)"); /* before it, and after everything */
    assert_string_equal(name_at("00ff12ab", "", 0x10000 + 16000 + 5), "(none)");
    assert_string_equal(name_at("00ff12ab", "", UINT64_MAX), "(none)");
    end();
}

static uintptr_t symbol(uintptr_t pc, char *name, size_t size)
{
    looked_up++;
    const unsigned offset = (unsigned)(pc - modules[0].start);
    if (offset % 32 >= 16)
        return 0;
    snprintf(name, size, "f%u", offset / 32);
    return pc - offset % 32;
}

TEST(test_symbols)
{
    begin(0);
    ep_sim.symbol = symbol;
    begin_message();
    assert_string_equal(name_at("00ff12ab", "", 0x10000 + 8), "f0");
    assert_string_equal(name_at("00ff12ab", "", 0x10000 + 32 + 20), "service+0x10034");
    looked_up = 1;
    assert_int_equal(looked_up, 1);
    (void)name_at("00ff12ab", "", 0x10000 + 8); /* is known now */
    begin_message();
    (void)name_at("00ff12ab", "", 0x10000 + 8);
    assert_int_equal(looked_up, 1);
    end();
    begin(0); /* another run: addresses have other meanings */
    ep_sim.symbol = symbol;
    begin_message();
    (void)name_at("00ff12ab", "", 0x10000 + 8);
    assert_int_equal(looked_up, 1);
    assert_string_equal(name_at("00ff12ab", "", 0x10000 + 32008), "service+0x17d08"); /* data has no functions */
    assert_int_equal(looked_up, 1);
    end();
}

/* With the hint from the mapping's last place. */
TEST(test_hint)
{
    struct ep_place at = place("00ff12ab", "", 0x10008);

    begin(0);
    begin_message();
    unsigned first = ep_names_process.find(&at);
    assert_int_equal(at.hint, 1);
    at.address = 0x10000 + 32008;
    unsigned data = ep_names_process.find(&at);
    assert_int_equal(at.hint, 3);
    at.address = 0x10008;
    assert_int_equal(ep_names_process.find(&at), first);
    assert_true(first && data && first != data);
    end();
}

/* Names up to the limit; then none, until the store is emptied between two messages. */
TEST(test_full)
{
    unsigned named = 0, messages = 0;

    begin(0);
    begin_message();
    for (unsigned i = 0; i < 4000; i++)
        named += name_at("00ff12ab", "", 0x10000 + i)[0] != '(';
    assert_int_equal(named, EP_NAMED_MOST);
    assert_string_equal(name_at("00ff12ab", "", 0x10000), "service+0x10000");
    assert_string_equal(name_at("00ff12ab", "", 0x10000 + 3999), "(none)");
    for (; messages < 1000 && strcmp(name_at("00ff12ab", "", 0x10000 + 3999), "(none)") == 0; messages++)
        begin_message();
    assert_in_range(messages, 10, 200);
    end();
}

/* Without a serving thread the runtime is not asked. A request after its end is released. */
TEST(test_runtime)
{
    uintptr_t address;
    int type;

    begin(ep_sim_pc(5));
    begin_message();
    uint64_t before = ep_sim.uptime_ns;
    assert_string_equal(name_at("00ff12ab", "", 0x10008), "service+0x10008");
    assert_int_equal(ep_sim.uptime_ns, before);
    ep_names_end();
    assert_int_equal(ep_names_next(NULL, 0, &address, &type), -ESRCH);
    end();
}

TEST_MAIN
