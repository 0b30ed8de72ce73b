/*
 * Finds out whether the program has a sanitizer's runtime. Such a runtime lists the threads that it saw start and stops
 * them at the end of the program, so no thread that it knows may disappear (be parked).
 *
 * The runtime may be linked into the program, and dlsym() may then find no symbol. But its interface is always named in
 * a table of dynamic symbols.
 */
#include "preload.h"

#include <link.h>
#include <stdint.h>

static const char *const interface = "__sanitizer_";

/* glibc adds the load address to the pointers of most dynamic sections, but not of read-only ones. */
static const char *loaded(const struct dl_phdr_info *info, uintptr_t pointer)
{
    return (const char *)(pointer < info->dlpi_addr ? info->dlpi_addr + pointer : pointer);
}

static int names_interface(struct dl_phdr_info *info, size_t size, void *unused)
{
    const ElfW(Dyn) *entry = NULL;
    const char *names = NULL;
    size_t names_size = 0;

    (void)size;
    (void)unused;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            names = loaded(info, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_STRSZ)
            names_size = entry->d_un.d_val;
    }
    return names && memmem(names, names_size, interface, strlen(interface)) != NULL;
}

/* Looks once: the names of all libraries are many pages. */
bool ep_preload_sanitized(void)
{
    static int found = -1;

    if (found < 0)
        found = dl_iterate_phdr(names_interface, NULL) != 0;
    return found != 0;
}

static int is_valgrinds(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    return strstr(info->dlpi_name, "/vgpreload_") != NULL;
}

bool ep_preload_valgrind(void)
{
    return dl_iterate_phdr(is_valgrinds, NULL) != 0;
}
