/*
 * Names in a real process: functions known to the dynamic linker, and names from a runtime's thread. A late answer is
 * not awaited, and never used for another address. This program imitates one with .NET's runtime by defining its
 * symbol.
 */
#include "core/profile/naming.h"
#include "linux_test.h"

#include <sys/auxv.h>

#include "tests/unit/core_rooms.h"
#include <edgeprof/hooks.h>

/* The symbol by which the port detects the runtime, and the start of managed code. */
__attribute__((noinline, visibility("hidden"))) void RhpGcProbeHijack(void);
void RhpGcProbeHijack(void)
{
    __asm__ volatile("");
}

/* Code without a dynamic symbol. */
#define PLACE(n)                                                                                                       \
    __attribute__((noinline)) static void place_##n(void)                                                              \
    {                                                                                                                  \
        __asm__ volatile("" ::"i"(n));                                                                                 \
    }
PLACE(0)
PLACE(1)
PLACE(2)
PLACE(3)
static void (*const places[])(void) = {place_0, place_1, place_2, place_3};

static atomic_uint questions;
static atomic_bool held; /* the runtime accepts requests but delays its answers */

static void *runtime(void *unused)
{
    char name[64];
    uintptr_t address;
    int type;
    size_t size = 0;

    while (ep_names_next(name, size, &address, &type) == 0) {
        atomic_fetch_add(&questions, 1);
        while (atomic_load(&held))
            usleep(1000);
        size = 0;
        for (unsigned i = 0; i < 4; i++)
            if (address == (uintptr_t)places[i])
                size = (size_t)snprintf(name, sizeof name, "Managed.Place%u", i);
    }
    return unused;
}

static const struct ep_module *module_of(uintptr_t pc)
{
    const struct ep_module *module = ep_module_find(&ep_running()->unwinder.modules, pc);

    assert_non_null(module);
    return module;
}

static const char *name_of(uintptr_t pc)
{
    const struct ep_module *module = module_of(pc);
    struct ep_place place = {.build_id = module->build_id,
                             .build_id_size = module->build_id_size,
                             .path = module->path,
                             .address = pc - module->bias};
    const unsigned name = ep_names_process.find(&place);
    return name ? ep_names_process.text(name) : "(none)";
}

static void begin_message(void)
{
    static struct ep_deadline deadline = {.at_ns = UINT64_MAX};

    assert_non_null(ep_names_process.memory());
    ep_names_process.begin(&deadline);
}

static void begin(void)
{
    static uint64_t memory[EP_MEMORY_DEFAULT / sizeof(uint64_t)];
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .endpoint = "null:"};

    assert_int_equal(ep_start(&config), 0);
    begin_message();
}

TEST(test_dynamic_symbols)
{
    begin();
    assert_string_equal(name_of((uintptr_t)dlsym(RTLD_DEFAULT, "getenv") + 3), "getenv");
    assert_non_null(strstr(name_of((uintptr_t)place_3), "linux_names+0x"));
    assert_int_equal(ep_stop(0), 0);
}

/* The kernel's code has names on every architecture, that which signal handlers return to on arm64 too. */
TEST(test_vdso)
{
    struct ep_port_function function;
    uintptr_t at = getauxval(AT_SYSINFO_EHDR);
    const uintptr_t end = at + (1u << 20);
    unsigned clocks = 0, returns = 0;

    if (!at)
        skip();
    begin();
    for (; ep_port_function_next(at, end, &function); at = function.start + function.size) {
        assert_true(function.start >= at && function.size > 0);
        assert_string_equal(module_of(function.start)->path, "[vdso]");
        assert_string_equal(name_of(function.start), function.name);
        clocks += strstr(function.name, "clock_gettime") != NULL;
        returns += strcmp(function.name, "__kernel_rt_sigreturn") == 0;
    }
    assert_int_equal(ep_stop(0), 0);
    assert_true(clocks > 0);
#ifdef __aarch64__
    assert_int_equal(returns, 1);
#endif
    assert_false(ep_port_function_next((uintptr_t)place_0, (uintptr_t)place_0 + 64, &function));
}

/* Asks again until the runtime answers, because a busy machine may be slow. */
static const char *name_in_time(uintptr_t pc)
{
    const char *name = "(none)";

    for (unsigned i = 0; i < 100 && strcmp(name, "(none)") == 0; i++) {
        begin_message();
        name = name_of(pc);
    }
    return name;
}

static void wait_served(void)
{
    for (unsigned i = 0; i < 1000 && strcmp(name_in_time((uintptr_t)place_0), "Managed.Place0") != 0; i++) {
        assert_int_equal(ep_stop(0), 0); /* names stay known while the run lasts */
        usleep(10000);
        begin();
    }
    assert_string_equal(name_of((uintptr_t)place_0), "Managed.Place0");
}

TEST(test_runtime)
{
    pthread_t thread;

    pthread_create(&thread, NULL, runtime, NULL);
    begin();
    wait_served();
    assert_string_equal(name_in_time((uintptr_t)place_1), "Managed.Place1");
    unsigned asked = atomic_load(&questions);
    assert_string_equal(name_of((uintptr_t)place_1), "Managed.Place1");
    assert_int_equal(atomic_load(&questions), asked); /* it is known now */

    atomic_store(&held, true);
    assert_string_equal(name_of((uintptr_t)place_2), "(none)"); /* too late */
    atomic_store(&held, false);
    assert_string_equal(name_in_time((uintptr_t)place_3), "Managed.Place3"); /* not confused with place 2's answer */
    assert_string_equal(name_in_time((uintptr_t)place_2), "Managed.Place2"); /* a repeated request is answered */
    ep_names_end();
    pthread_join(thread, NULL);
    assert_int_equal(ep_stop(0), 0);
}

int main(void)
{
    RhpGcProbeHijack();
    return test_run();
}
