/*
 * Modules that the dynamic linker loads while the profiler runs: code that cannot be read is never read, and stacks
 * through it are walked by its tables.
 */
#include "linux_test.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
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
    (void)snprintf(copy_path, sizeof copy_path, "/tmp/ep-plugin-%d.so", (int)getpid());
    return 0;
}

/* Copies the plugin and takes PF_R from its code. */
static void copy_execute_only(void)
{
    static char bytes[1 << 20];
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
        if (header.p_type == PT_LOAD && header.p_flags & PF_X)
            header.p_flags = PF_X;
        memcpy(bytes + elf.e_phoff + i * sizeof header, &header, sizeof header);
    }
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(in) | fclose(out), 0);
}

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

static void test_execute_only_code_is_not_read(void **state)
{
    struct text text = {0};
    struct ep_stats s;

    (void)state;
    copy_execute_only();
    void *plugin = dlopen(copy_path, RTLD_NOW);
    assert_non_null(plugin);
    (void)unlink(copy_path);
    unsigned (*call)(void (*)(void *), void *) = 0;
    *(void **)&call = dlsym(plugin, "plugin_call");
    assert_non_null(call);
    text.at = (uintptr_t)call;
    assert_int_equal(dl_iterate_phdr(find_text, &text), 1);
    receiver_reset();
    assert_int_equal(begin_profile(RATE, 100), 0);
    assert_int_equal(call(burn_with_code_closed, &text), 1);
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    print_message("             %u stacks exact, %u with a gap, %u cut\n", (unsigned)s.exact, (unsigned)s.gap,
                  (unsigned)s.cut);
    assert_true(s.exact > 50);
    assert_true(s.cut + s.gap <= s.exact / 8);
    (void)dlclose(plugin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_execute_only_code_is_not_read),
    };

    return cmocka_run_group_tests(tests, find_plugin, NULL);
}
