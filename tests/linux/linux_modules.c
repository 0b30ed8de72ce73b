/*
 * Modules that the dynamic linker loads while the profiler runs: their tables are read ahead by edgeprof's own threads.
 * Code that cannot be read is never read, and stacks through it are walked by its tables. A library is kept once it has
 * been seen, or, with EP_NO_PIN, goes when the program closes it.
 */
#include "linux_test.h"

#include <elf.h>
#include <link.h>

#include "plugin.h"

#define RATE 499

static char plugin_path[512], copy_path[64];

/* The plugin that was built beside this program. */
static int find_plugin(void **state)
{
    ssize_t size = readlink("/proc/self/exe", plugin_path, sizeof plugin_path - 16);

    (void)state;
    assert_true(size > 0);
    plugin_path[size] = 0;
    (void)strcpy(strrchr(plugin_path, '/'), "/plugin.so");
    return 0;
}

/* A copy of the plugin is another module. execute_only: takes PF_R from its code. */
static void copy_plugin(bool execute_only)
{
    static char bytes[1 << 20];
    static unsigned copies;
    (void)snprintf(copy_path, sizeof copy_path, "/tmp/ep-plugin-%d-%u.so", (int)getpid(), copies++);
    FILE *in = fopen(plugin_path, "rb"), *out = fopen(copy_path, "wb");
    ElfW(Ehdr) elf;

    assert_non_null(in);
    assert_non_null(out);
    size_t size = fread(bytes, 1, sizeof bytes, in);
    assert_in_range(size, sizeof elf, sizeof bytes - 1);
    memcpy(&elf, bytes, sizeof elf);
    for (unsigned i = 0; i < elf.e_phnum; i++) {
        ElfW(Phdr) header;
        memcpy(&header, bytes + elf.e_phoff + i * sizeof header, sizeof header);
        if (execute_only && header.p_type == PT_LOAD && header.p_flags & PF_X)
            header.p_flags = PF_X;
        memcpy(bytes + elf.e_phoff + i * sizeof header, &header, sizeof header);
    }
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(in) | fclose(out), 0);
}

/* ---- madvise(): what the library asks for ---- */

static struct {
    uintptr_t start[64], end[64];
    uint32_t tid[64];
    unsigned count;
    bool refused;
} asked;

/* Instead of the C library's. */
int madvise(void *start, size_t size, int advice)
{
    if (advice == MADV_WILLNEED && asked.count < 64) {
        asked.start[asked.count] = (uintptr_t)start;
        asked.end[asked.count] = (uintptr_t)start + size;
        asked.tid[asked.count++] = tid_of();
    }
    if (asked.refused && advice == MADV_WILLNEED) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_madvise, start, size, advice);
}

/* The thread that asked for this page, 0: none. */
static uint32_t asked_for(uintptr_t at)
{
    for (unsigned i = 0; i < asked.count; i++)
        if (at - asked.start[i] < asked.end[i] - asked.start[i])
            return asked.tid[i];
    return 0;
}

/* The unwind index of the module with this code. */
struct index {
    uintptr_t code, start;
};

static int find_index(struct dl_phdr_info *info, size_t size, void *context)
{
    struct index *index = context;
    uintptr_t start = 0;
    bool here = false;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + header->p_vaddr;
        here |= header->p_type == PT_LOAD && index->code - at < header->p_memsz;
        if (header->p_type == PT_GNU_EH_FRAME || header->p_type == 0x70000001) /* PT_ARM_EXIDX */
            start = at;
    }
    if (here)
        index->start = start;
    return here;
}

static uintptr_t index_of(uintptr_t code)
{
    struct index index = {.code = code};

    assert_int_equal(dl_iterate_phdr(find_index, &index), 1);
    return index.start;
}

static void *open_plugin(bool execute_only, unsigned (**call)(void (*)(void *), void *))
{
    copy_plugin(execute_only);
    void *plugin = dlopen(copy_path, RTLD_NOW);
    assert_non_null(plugin);
    (void)unlink(copy_path);
    *(void **)call = dlsym(plugin, "plugin_call");
    assert_non_null(*call);
    return plugin;
}

static void burn_shortly(void *unused)
{
    (void)unused;
    burn(300 * MS);
}

static void run_with_tables(bool refused)
{
    unsigned (*call)(void (*)(void *), void *);
    struct ep_stats s;

    asked.count = 0;
    asked.refused = refused;
    receiver_reset();
    assert_int_equal(begin_profile(RATE, 100), 0);
    uintptr_t own = index_of((uintptr_t)burn_shortly);
    assert_int_equal(asked_for(own), tid_of());
    void *plugin = open_plugin(false, &call);
    uintptr_t table = index_of((uintptr_t)call);
    assert_int_equal(call(burn_shortly, NULL), 1);
    assert_int_equal(end_profile(5000), 0);
    uint32_t by = asked_for(table);
    assert_true(by != 0 && by != tid_of()); /* the collect thread, no handler */
    assert_int_equal(ep_stats_get(&s), 0);
    assert_true(s.samples > 20 && s.timed_samples > 0 && s.timed_samples <= s.samples);
    (void)dlclose(plugin);
}

TEST(test_tables_are_read_ahead)
{
    run_with_tables(false);
}

/* As a filter of system calls does. */
TEST(test_no_harm_if_madvise_is_refused)
{
    run_with_tables(true);
    asked.refused = false;
}

/* ---- execute-only code ---- */

/* The executable segment around an address. */
struct text {
    uintptr_t at;
    void *start;
    size_t size;
};

static int find_text(struct dl_phdr_info *info, size_t size, void *context)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct text *text = context;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type != PT_LOAD || text->at - start >= header->p_memsz)
            continue;
        text->start = (void *)(start & ~(page - 1));
        text->size = ((start + header->p_memsz + page - 1) & ~(page - 1)) - (start & ~(page - 1));
        return 1;
    }
    return 0;
}

/* Samples with the plugin's code on the stack, which no access is allowed to meanwhile. */
static void burn_with_code_closed(void *context)
{
    const struct text *text = context;

    assert_int_equal(mprotect(text->start, text->size, PROT_NONE), 0);
    burn(400 * MS);
    assert_int_equal(mprotect(text->start, text->size, PROT_EXEC), 0);
}

TEST(test_execute_only_code_is_not_read)
{
    struct text text = {0};
    struct ep_stats s;

    unsigned (*call)(void (*)(void *), void *);
    void *plugin = open_plugin(true, &call);
    text.at = (uintptr_t)call;
    assert_int_equal(dl_iterate_phdr(find_text, &text), 1);
    receiver_reset();
    assert_int_equal(begin_profile(RATE, 100), 0);
    assert_int_equal(call(burn_with_code_closed, &text), 1);
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    print_message("             %u stacks exact, %u with a gap, %u cut\n", (unsigned)s.exact, (unsigned)s.gap,
                  (unsigned)s.cut);
    assert_true(s.exact > 20);
    assert_true(s.cut + s.gap <= s.exact / 8);
    (void)dlclose(plugin);
}

/* ---- dlclose() ---- */

#define TIMES 40

static atomic_uint ended; /* destructors that ran */

static void watch(void *plugin)
{
    void (*watch_it)(atomic_uint *);

    *(void **)&watch_it = dlsym(plugin, "plugin_watch");
    assert_non_null(watch_it);
    watch_it(&ended);
}

static void burn_a_little(void *unused)
{
    (void)unused;
    burn(15 * MS);
}

static void *burn_beside(void *over)
{
    while (!atomic_load((atomic_bool *)over))
        burn(5 * MS);
    return NULL;
}

/* Samples of one thread see the library come and go, those of another one never do. */
TEST(test_libraries_come_and_go_unpinned)
{
    unsigned (*call)(void (*)(void *), void *);
    atomic_bool over = false;
    pthread_t beside;
    struct ep_stats s;

    atomic_store(&ended, 0);
    receiver_reset();
    assert_int_equal(begin_profile_with(RATE, 100, EP_NO_PIN), 0);
    assert_int_equal(pthread_create(&beside, NULL, burn_beside, &over), 0);
    for (unsigned i = 0; i < TIMES; i++) {
        void *plugin = open_plugin(i % 2, &call);
        watch(plugin);
        assert_int_equal(call(burn_a_little, NULL), 1);
        assert_int_equal(dlclose(plugin), 0);
        assert_int_equal(atomic_load(&ended), i + 1);
        burn(2 * MS);
    }
    atomic_store(&over, true);
    assert_int_equal(pthread_join(beside, NULL), 0);
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    print_message("             %u stacks exact, %u cut\n", (unsigned)s.exact, (unsigned)s.cut);
    assert_null(receiver.broken);
    assert_true(s.cut + s.gap > TIMES / 2 && s.exact > TIMES / 2); /* at the library's code, and beside it */
}

TEST(test_a_library_that_was_seen_stays)
{
    unsigned (*call)(void (*)(void *), void *), (*again)(void (*)(void *), void *);

    atomic_store(&ended, 0);
    receiver_reset();
    assert_int_equal(begin_profile(RATE, 100), 0);
    void *plugin = open_plugin(false, &call);
    watch(plugin);
    assert_int_equal(call(burn_shortly, NULL), 1);
    assert_int_equal(dlclose(plugin), 0);
    assert_int_equal(atomic_load(&ended), 0);
    plugin = dlopen(copy_path, RTLD_NOW); /* by its name alone: the file is gone */
    assert_non_null(plugin);
    *(void **)&again = dlsym(plugin, "plugin_call");
    assert_ptr_equal(again, call);
    assert_int_equal(end_profile(5000), 0);
}

/* In a namespace of its own, which dl_iterate_phdr() does not list: known all the same. */
TEST(test_other_namespace)
{
#if defined LM_ID_NEWLM && !defined __SANITIZE_ADDRESS__
    unsigned (*call)(void (*)(void *), void *);
    struct ep_stats s;

    receiver_reset();
    assert_int_equal(begin_profile(RATE, 3600000), 0);
    copy_plugin(false);
    void *plugin = dlmopen(LM_ID_NEWLM, copy_path, RTLD_NOW);
    assert_non_null(plugin);
    *(void **)&call = dlsym(plugin, "plugin_call");
    assert_non_null(*(void **)&call);
    assert_int_equal(call(burn_shortly, NULL), 1);
    (void)unlink(copy_path);
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    print_message("             %u exact, %u gap, %u cut\n", (unsigned)s.exact, (unsigned)s.gap, (unsigned)s.cut);
    assert_true(s.exact > 20);
    assert_in_range(s.cut + s.gap, 0, s.exact / 5);
    (void)dlclose(plugin);
#endif
}

static int (*test_begin)(void **state) = find_plugin;

TEST_MAIN
