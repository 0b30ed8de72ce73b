/* See demangle.h. C++ and Rust names are libiberty's business; they are shown without parameters and hashes. */
#include "tools/symbols/demangle.h"

#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

/* The dynamic linker's version is no part of a name: __libc_start_main@@GLIBC_2.34; nor are the compiler's clones. */
static void plain(const char *symbol, struct et_buf *out)
{
    size_t size = strcspn(symbol, "@");
    et_buf_add(out, symbol, size ? size : strlen(symbol));
}

/* ILC's helpers carry the whole name of what they look up; one frame for each kind of them says enough. */
static bool helper(const char *symbol, struct et_buf *out)
{
    static const char *const helpers[] = {"__GenericLookupFromType_", "__GenericLookupFromDict_", "__GetGCStaticBase_",
                                          "__GetNonGCStaticBase_",    "__GetThreadStaticBase_",   "__DelegateCtor_"};
    for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++) {
        size_t size = strlen(helpers[i]);
        if (strncmp(symbol, helpers[i], size) == 0) {
            et_buf_add(out, symbol, size - 1);
            return true;
        }
    }
    return false;
}

/* _ZTV6String, descriptor of a type, is called as C++ calls its vtables: the type's name, or NULL. ILC does not keep to
 * C++'s alphabet. */
static const char *type_of(const char *symbol)
{
    static const char start[] = "_ZTV";
    char *name;
    if (strncmp(symbol, start, sizeof start - 1) != 0 || symbol[4] < '1' || symbol[4] > '9') {
        return NULL;
    }
    unsigned long size = strtoul(symbol + sizeof start - 1, &name, 10);
    return size == strlen(name) ? name : NULL;
}

/* To be freed, or NULL. Rust's older names look like C++'s. */
static char *foreign(const char *symbol)
{
    bool rust = strncmp(symbol, "_R", 2) == 0, cxx = strncmp(symbol, "_Z", 2) == 0;
    struct et_buf name = {0};
    if (!rust && !cxx) {
        return NULL;
    }
    plain(symbol, &name);
    char *readable = rust_demangle(name.data, DMGL_NO_OPTS);
    et_buf_free(&name);
    return readable || rust ? readable : cplus_demangle_v3(symbol, DMGL_ANSI);
}

void et_demangle(const char *symbol, const char *executable, enum et_code code, struct et_buf *out)
{
    const char *type = type_of(symbol);
    char *readable = type ? NULL : foreign(symbol);
    if (type) {
        et_demangle_type(type, executable, out);
    } else if (readable) {
        et_buf_text(out, readable);
    } else if (!helper(symbol, out)) {
        if (code == ET_CODE_NATIVE) {
            plain(symbol, out);
        } else {
            et_demangle_dotnet(symbol, executable, code == ET_CODE_ITERATOR, out);
        }
    }
    free(readable);
}

size_t et_demangle_state_machine(const char *symbol)
{
    static const char ending[] = "__MoveNext";
    size_t size = strlen(symbol), tail = sizeof ending - 1;
    return size > tail && strcmp(symbol + size - tail, ending) == 0 ? size - tail : 0;
}
