/*
 * The modules that the dynamic linker has loaded: their executable ranges, unwind tables and build ids.
 *
 * Each module found is pinned (dlopen with RTLD_NODELETE), so dlclose() no longer unmaps it and handlers can read its
 * tables without a lock. The price is the address space of plug-ins that the program unloads. Pinning may allocate a
 * little, once a module, at start or on the collect thread. The program, the vdso and the dynamic linker are never
 * unloaded. With EP_NO_PIN a module that appears after the start is not pinned and not reported: nothing of it is read,
 * and a stack through it is cut there.
 *
 * Never call dlopen() inside dl_iterate_phdr(): that could deadlock with the service's dlopen(). So each module is
 * visited twice: the first time its name is copied, then it is pinned by name (pin.c), and the second time it is
 * reported if still there.
 */
#include "linux.h"
#include "namespaces.h"
#include "own_threads.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef NT_GNU_BUILD_ID
#define NT_GNU_BUILD_ID 3
#endif

/* Defined in .NET's NativeAOT runtime only. */
extern char RhpGcProbeHijack[] __attribute__((weak, visibility("hidden")));

#define PATH_MOST    1024
#define HEADERS_MOST 4096 /* of a file, with the notes behind them */
#define ID_LEAST     4    /* bytes of a build id */
#define ID_MOST      64
#define DATA_MOST    (64u << 20) /* saves linear addresses: a program may have large tables */

static char program_path[256];

struct image {
    uintptr_t bias;
    const ElfW(Phdr) * headers;
    unsigned count;
};

uintptr_t ep_port_hijack_stub(void)
{
    return (uintptr_t)RhpGcProbeHijack;
}

static const ElfW(Phdr) * header_find(const struct image *image, uint32_t type)
{
    for (unsigned i = 0; i < image->count; i++)
        if (image->headers[i].p_type == type)
            return &image->headers[i];
    return NULL;
}

/* The loaded segment around an address, NULL if that cannot be read: code may be execute-only. */
static const ElfW(Phdr) * readable_find(const struct image *image, uintptr_t at)
{
    for (unsigned i = 0; i < image->count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        if (header->p_type == PT_LOAD && header->p_flags & PF_R && at - image->bias - header->p_vaddr < header->p_memsz)
            return header;
    }
    return NULL;
}

static void tables_find(const struct image *image, struct ep_module_info *info)
{
    const ElfW(Phdr) *header = header_find(image, ep_linux_table_segment);

    if (!header)
        return;
    const ElfW(Phdr) *around = readable_find(image, image->bias + header->p_vaddr); /* limits reads of tables */
    if (!around || header->p_memsz > around->p_memsz - (header->p_vaddr - around->p_vaddr))
        return;
    info->table = image->bias + header->p_vaddr;
    info->table_size = header->p_memsz;
    info->image_start = image->bias + around->p_vaddr;
    info->image_end = info->image_start + around->p_memsz;
}

/* The note at `at`: how many bytes it has with its padding; 0: no note that ends at `end`. */
static size_t note_size(const uint8_t *at, const uint8_t *end, ElfW(Nhdr) * note)
{
    size_t left = (size_t)(end - at);
    if (left < sizeof *note)
        return 0;
    memcpy(note, at, sizeof *note);
    left -= sizeof *note;
    if (note->n_namesz > left || note->n_descsz > left) /* the sums below would be too large for 32 bits */
        return 0;
    size_t name = (note->n_namesz + 3u) & ~(size_t)3, size = (note->n_descsz + 3u) & ~(size_t)3;
    return left < name + size ? 0 : sizeof *note + name + size;
}

static bool build_id_take(const uint8_t *at, const ElfW(Nhdr) * note, struct ep_module_info *info)
{
    const uint8_t *text = at + sizeof *note;

    if (note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 || memcmp(text, "GNU", 4) != 0)
        return false;
    info->build_id = text + 4;
    info->build_id_size = note->n_descsz;
    return true;
}

/* Some linkers make a note that no segment of notes covers, near the file's headers. */
static void build_id_search(const struct image *image, struct ep_module_info *info)
{
    for (unsigned i = 0; i < image->count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        if (header->p_type != PT_LOAD || header->p_offset != 0 || !(header->p_flags & PF_R))
            continue;
        const uint8_t *at = (const uint8_t *)(image->bias + header->p_vaddr);
        const uint8_t *end = at + (header->p_filesz < HEADERS_MOST ? header->p_filesz : HEADERS_MOST);
        for (; (size_t)(end - at) >= sizeof(ElfW(Nhdr)); at += 4) {
            ElfW(Nhdr) note;
            if (note_size(at, end, &note) > 0 && note.n_descsz >= ID_LEAST && note.n_descsz <= ID_MOST &&
                build_id_take(at, &note, info))
                return;
        }
    }
}

static void build_id_find(const struct image *image, struct ep_module_info *info)
{
    for (unsigned i = 0; i < image->count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        if (header->p_type != PT_NOTE || !readable_find(image, image->bias + header->p_vaddr))
            continue;
        const uint8_t *at = (const uint8_t *)(image->bias + header->p_vaddr), *end = at + header->p_memsz;
        ElfW(Nhdr) note;
        size_t size;
        while ((size = note_size(at, end, &note)) > 0) {
            if (build_id_take(at, &note, info))
                return;
            at += size;
        }
    }
    build_id_search(image, info);
}

/* musl names the program like a library: by its path, or "/proc/self/exe" if it is static. */
static bool is_program(const struct dl_phdr_info *info)
{
    return (uintptr_t)info->dlpi_phdr == getauxval(AT_PHDR);
}

/* The kernel's link names the dynamic linker, where that was started with the program as its argument. Then the kernel
 * has loaded no linker for it (AT_BASE). */
void ep_linux_program_path(char *path, size_t size)
{
    if (getauxval(AT_BASE) == 0 && ep_linux_path_at(getauxval(AT_PHDR), path, size))
        return;
    ssize_t got = readlink("/proc/self/exe", path, size - 1);
    path[got > 0 ? got : 0] = 0;
}

static const char *path_of(const struct dl_phdr_info *info)
{
    if (is_program(info) || !info->dlpi_name || !info->dlpi_name[0])
        return program_path;
    return strchr(info->dlpi_name, '/') ? info->dlpi_name : "[vdso]"; /* linux-vdso.so.1 */
}

/* The module at `index` of the list of loaded modules; afterwards the one with this bias and path. */
struct found {
    unsigned index;
    uintptr_t bias;
    bool own; /* the program, the vdso: never unloaded */
    char path[PATH_MOST];
};

static int copy_at_index(struct dl_phdr_info *dl, size_t size, void *context)
{
    struct found *found = context;
    const char *path = path_of(dl);

    (void)size;
    if (found->index-- > 0)
        return 0;
    found->bias = dl->dlpi_addr;
    found->own = path == program_path || path[0] == '[';
    size_t length = strlen(path);
    if (length >= sizeof found->path)
        length = 0; /* cannot be pinned */
    memcpy(found->path, path, length);
    found->path[length] = 0;
    return 1;
}

/* Reports the program's writable segment, which has the descriptors of .NET's types. */
static void data_seen(const struct image *image, struct ep_module_info info)
{
    info.data = 1;
    info.table = info.table_size = info.image_start = info.image_end = 0;
    for (unsigned i = 0; i < image->count; i++) {
        const ElfW(Phdr) *header = &image->headers[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_W) || header->p_memsz > DATA_MOST)
            continue;
        info.start = image->bias + header->p_vaddr;
        info.end = info.start + header->p_memsz;
        (void)ep_module_seen(&info);
    }
}

/* `context`: only if it is this module; NULL: in any case. */
static int module_report(struct dl_phdr_info *dl, size_t size, void *context)
{
    const struct found *found = context;
    struct image image = {.bias = dl->dlpi_addr, .headers = dl->dlpi_phdr, .count = dl->dlpi_phnum};
    struct ep_module_info info = {.bias = dl->dlpi_addr, .path = path_of(dl)};

    (void)size;
    if (found && (image.bias != found->bias || strcmp(info.path, found->path) != 0))
        return 0;
    info.path = ep_linux_absolute_path(info.path, (uintptr_t)image.headers);
    tables_find(&image, &info);
    build_id_find(&image, &info);
    for (unsigned i = 0; i < image.count; i++) {
        if (image.headers[i].p_type != PT_LOAD || !(image.headers[i].p_flags & PF_X))
            continue;
        info.start = image.bias + image.headers[i].p_vaddr;
        info.end = info.start + image.headers[i].p_memsz;
        info.execute_only = !(image.headers[i].p_flags & PF_R);
        if (info.execute_only)
            ep_linux_main_root_unreadable(info.start, info.end);
        if (ep_module_seen(&info))
            ep_linux_tables_fetch(&info);
    }
    if (info.path == program_path)
        data_seen(&image, info);
    return 1;
}

/* By the kernel's word, since musl's list in a static program has the program only. */
static void vdso_report(void)
{
    const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);

    if (!header)
        return;
    struct dl_phdr_info dl = {.dlpi_addr = (ElfW(Addr))header, .dlpi_name = "linux-vdso.so.1"};
    dl.dlpi_phdr = (const void *)((const char *)header + header->e_phoff);
    dl.dlpi_phnum = header->e_phnum;
    (void)module_report(&dl, sizeof dl, NULL);
}

static int generation_visit(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    *(uint64_t *)context = (uint64_t)info->dlpi_adds << 32 ^ info->dlpi_subs;
    return 1;
}

uint64_t ep_port_modules_generation(void)
{
    uint64_t value = 0;

    (void)dl_iterate_phdr(generation_visit, &value);
    return value;
}

static bool find_at(unsigned index, struct found *found)
{
    found->index = index;
    return dl_iterate_phdr(copy_at_index, found) != 0;
}

void ep_linux_modules_each(void (*each)(const char *path, uintptr_t bias))
{
    struct found found;

    for (unsigned index = 0; find_at(index, &found); index++)
        if (!found.own)
            each(found.path, found.bias);
}

static void other_report(struct dl_phdr_info *dl)
{
    (void)module_report(dl, sizeof *dl, NULL);
}

/* Reports what is pinned. Returns whether there is a module that is not. */
static bool report_all(int pin)
{
    static struct found found;
    bool more = false;

    for (unsigned index = 0; find_at(index, &found); index++) {
        const bool usable = found.own || (pin && ep_linux_is_pinned(found.bias));
        if (usable)
            (void)dl_iterate_phdr(module_report, &found);
        more |= pin && !usable && found.path[0];
    }
    if (pin)
        ep_linux_namespaces_each(other_report);
    return more || (pin && ep_linux_namespaces_more());
}

int ep_port_modules_scan(int pin)
{
    if (!program_path[0])
        ep_linux_program_path(program_path, sizeof program_path);
    vdso_report();
    if (!report_all(pin))
        return 0;
    ep_linux_pin();
    return report_all(pin) && ep_linux_here_is(EP_ROLE_COLLECT) ? -EAGAIN : 0;
}
