/*
 * The truth about stacks in code that Microsoft compiled: the library's function under the shadow call stack.
 *
 *   shadow_main LIBRARY STEPS PLACES
 *
 * The library is stripped. Its sections tell managed code from the runtime's, and its unwind tables tell the runtime's
 * assembly from its C++, which has none; libgcc is asked, not the profiler's own reader.
 */
#include "host.h"
#include "tests/arm/shadow/shadow.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODE_MOST (4u << 20)

struct dwarf_eh_bases {
    void *text, *data, *function;
};
extern const void *_Unwind_Find_FDE(void *pc, struct dwarf_eh_bases *bases);

static struct {
    uintptr_t start, end;
    uint8_t place[CODE_MOST];
} code;

static enum shadow_place classify(uintptr_t pc)
{
    return pc >= code.start && pc < code.end ? (enum shadow_place)code.place[pc - code.start] : SHADOW_PLACES;
}

static int find_library(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    if (!strstr(info->dlpi_name, "NodeApi"))
        return 0;
    *(uintptr_t *)context = info->dlpi_addr;
    return 1;
}

static void place_section(uintptr_t bias, const Elf64_Shdr *section, const char *name)
{
    const bool managed = strcmp(name, "__managedcode") == 0 || strcmp(name, "__unbox") == 0;
    const uintptr_t start = bias + section->sh_addr;

    for (uintptr_t pc = start; pc < start + section->sh_size; pc++) {
        struct dwarf_eh_bases bases;
        const bool table = _Unwind_Find_FDE((void *)pc, &bases) != NULL; /* NOLINT(performance-no-int-to-ptr) */
        code.place[pc - code.start] = managed ? SHADOW_MANAGED : table ? SHADOW_ASSEMBLY : SHADOW_PROGRAM;
    }
}

/* 0, or 1 when the file is not what the test was written for. */
static int read_sections(const char *path)
{
    static uint8_t file[CODE_MOST];
    uintptr_t bias = 0;
    FILE *in = fopen(path, "rb");
    const size_t size = in ? fread(file, 1, sizeof file, in) : 0;

    if (in)
        (void)fclose(in);
    if (size < sizeof(Elf64_Ehdr) || size == sizeof file || dl_iterate_phdr(find_library, &bias) == 0)
        return 1;
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    const Elf64_Shdr *section = (const Elf64_Shdr *)(file + header->e_shoff);
    const char *names = (const char *)file + section[header->e_shstrndx].sh_offset;
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (section[i].sh_flags & SHF_EXECINSTR) {
            code.start = code.start ? code.start : bias + section[i].sh_addr;
            code.end = bias + section[i].sh_addr + section[i].sh_size;
        }
    if (code.end - code.start > CODE_MOST)
        return 1;
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (section[i].sh_flags & SHF_EXECINSTR)
            place_section(bias, &section[i], names + section[i].sh_name);
    return 0;
}

static void calls(void *count)
{
    for (long i = 0; i < *(long *)count; i++)
        host_call();
}

int main(int argc, char **argv)
{
    long count = argc == 4 ? atol(argv[2]) : 0;

    if (count < 1 || host_load(argv[1]) != 0 || read_sections(argv[1]) != 0 || shadow_start("core") != 0) {
        fprintf(stderr, "usage: shadow_main LIBRARY CALLS PLACES\n");
        return 2;
    }
    shadow_classify(classify);
    host_call();
    shadow_run(calls, &count, UINT64_MAX);
    return shadow_report_to(argv[3], count < 5 ? 60000 * (double)count : 300000); /* a round has 86,000 */
}
