/* See demangle.h. tools/lib/native_name.c reads C++, Rust and D names. */
#include "tools/symbols/demangle.h"
#include "tools/lib/native_name.h"

#include <stdlib.h>
#include <string.h>

static bool has_only(const char *text, size_t size, const char *more)
{
    for (size_t i = 0; i < size; i++) {
        char c = text[i], small = (char)(c | 0x20);
        if (!((small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') || strchr(more, c))) {
            return false;
        }
    }
    return size > 0;
}

/* The size of the symbol without the version that linkers append, __libc_start_main@@GLIBC_2.34. Other @ are a part of
 * the name, as in Crystal's *Array(Int32)@Enumerable(Int32)#sum. */
static size_t before_version(const char *symbol)
{
    size_t size = strcspn(symbol, "@"), at = size + strspn(symbol + size, "@");
    bool version =
        at - size <= 3 && has_only(symbol, size, "_.$") && has_only(symbol + at, strlen(symbol + at), "_.-+");
    return version ? size : strlen(symbol);
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

void et_demangle(const char *symbol, const char *executable, enum et_code code, struct et_buf *out)
{
    const char *type = type_of(symbol);
    struct et_buf name = {0};
    et_buf_add(&name, symbol, before_version(symbol));
    if (type) {
        et_demangle_type(type, executable, out);
    } else if (!et_native_readable(name.data, out) && !helper(symbol, out)) {
        if (code == ET_CODE_NATIVE) {
            et_buf_add(out, name.data, et_native_size(name.data));
        } else {
            et_demangle_dotnet(symbol, executable, code == ET_CODE_ITERATOR, out);
        }
    }
    et_buf_free(&name);
}

size_t et_demangle_state_machine(const char *symbol)
{
    static const char ending[] = "__MoveNext";
    size_t size = strlen(symbol), tail = sizeof ending - 1;
    return size > tail && strcmp(symbol + size - tail, ending) == 0 ? size - tail : 0;
}
