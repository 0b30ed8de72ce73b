/*
 * Function names from the dynamic linker: exports of shared objects, and of a program linked with -rdynamic. Those of
 * the vdso: it is no shared object for a static program.
 */
#include "linux.h"

#include <dlfcn.h>

uintptr_t ep_port_symbol(uintptr_t pc, char *name, size_t size)
{
    struct ep_port_function function;
    Dl_info info;

    if (ep_port_function_next(pc, pc + 1, &function)) {
        ep_linux_text_copy(name, size, function.name);
        return function.start;
    }
    if (!dladdr((const void *)pc, &info) || !info.dli_sname || !info.dli_saddr)
        return 0;
    ep_linux_text_copy(name, size, info.dli_sname);
    return (uintptr_t)info.dli_saddr & ~(uintptr_t)(sizeof(void *) == 4); /* ARM's Thumb bit */
}
