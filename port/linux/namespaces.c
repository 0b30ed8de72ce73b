/*
 * Modules of other namespaces than the program's own (dlmopen()), which dl_iterate_phdr() does not list: found by their
 * executable mappings, pinned like others (pin.c), and reported. An address that was asked for once is not asked for
 * again. Only glibc has such namespaces.
 */
#include "namespaces.h"

#include <link.h>

#include "linux.h"

#ifdef __GLIBC__
#include <dlfcn.h>
#include <stdatomic.h>

#define ASKED_MOST 64u

static struct asked {
    uintptr_t start;            /* of the mapping */
    const struct link_map *map; /* NULL: no module, or it cannot be pinned */
    const char *base;
} asked[ASKED_MOST];
static atomic_uint asked_count;

static int covers(struct dl_phdr_info *info, size_t size, void *address)
{
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            *(uintptr_t *)address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return 1;
    return 0;
}

static bool is_open(const struct ep_linux_mapping *mapping)
{
    uintptr_t start = mapping->start;
    const unsigned count = atomic_load(&asked_count);

    if (mapping->access[2] != 'x' || mapping->path[0] != '/' || count == ASKED_MOST)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (asked[i].start == start)
            return false;
    return dl_iterate_phdr(covers, &start) == 0;
}

static bool look(const struct ep_linux_mapping *mapping, void *more)
{
    *(bool *)more |= is_open(mapping);
    return true;
}

struct count {
    unsigned long long loaded; /* modules of all namespaces */
    unsigned listed;
};

static int count_visit(struct dl_phdr_info *info, size_t size, void *context)
{
    struct count *count = context;

    (void)size;
    count->loaded = info->dlpi_adds - info->dlpi_subs;
    count->listed++;
    return 0;
}

/* The C library counts the modules of all namespaces and lists those of one. */
static bool is_one(void)
{
    struct count count = {0};

    (void)dl_iterate_phdr(count_visit, &count);
    return count.loaded == count.listed;
}

bool ep_linux_namespaces_more(void)
{
    bool more = false;

    if (!is_one())
        (void)ep_linux_maps_each(look, &more);
    return more;
}

/* A handle is the link map. */
static bool ask(const struct ep_linux_mapping *mapping, void *unused)
{
    struct link_map *map = NULL;
    Dl_info info;
    Lmid_t space;

    (void)unused;
    if (!is_open(mapping))
        return true;
    struct asked *at = &asked[atomic_load(&asked_count)];
    *at = (struct asked){.start = mapping->start};
    if (dladdr1((const void *)mapping->start, &info, (void **)&map, RTLD_DL_LINKMAP) && map &&
        dlinfo(map, RTLD_DI_LMID, &space) == 0 && space != LM_ID_BASE &&
        dlmopen(space, map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == map) {
        at->map = map;
        at->base = info.dli_fbase;
    }
    (void)atomic_fetch_add(&asked_count, 1);
    return true;
}

void ep_linux_namespaces_pin(void)
{
    if (!is_one())
        (void)ep_linux_maps_each(ask, NULL);
}

void ep_linux_namespaces_each(void (*each)(struct dl_phdr_info *info))
{
    const unsigned count = atomic_load(&asked_count);

    for (unsigned i = 0; i < count; i++) {
        if (!asked[i].map)
            continue;
        const ElfW(Ehdr) *header = (const void *)asked[i].base;
        struct dl_phdr_info info = {.dlpi_addr = asked[i].map->l_addr,
                                    .dlpi_name = asked[i].map->l_name,
                                    .dlpi_phdr = (const void *)(asked[i].base + header->e_phoff),
                                    .dlpi_phnum = header->e_phnum};
        each(&info);
    }
}
#else
bool ep_linux_namespaces_more(void)
{
    return false;
}

void ep_linux_namespaces_pin(void) {}

void ep_linux_namespaces_each(void (*each)(struct dl_phdr_info *info))
{
    (void)each;
}
#endif
