/*
 * Function names from the dynamic linker: exports of shared objects, and of a program linked with -rdynamic.
 */
#include "linux.h"

#include <dlfcn.h>
#include <string.h>

uintptr_t ep_port_symbol(uintptr_t pc, char *name, size_t size)
{
    Dl_info info;

    if (!dladdr((const void *)pc, &info) || !info.dli_sname || !info.dli_saddr)
        return 0;
    size_t length = strlen(info.dli_sname);
    if (length >= size)
        length = size - 1;
    memcpy(name, info.dli_sname, length);
    name[length] = 0;
    return (uintptr_t)info.dli_saddr & ~(uintptr_t)(sizeof(void *) == 4); /* ARM's Thumb bit */
}
