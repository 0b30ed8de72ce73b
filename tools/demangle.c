#include "demangle.h"
#include <stdlib.h>
#include <string.h>
#include <libiberty/demangle.h>
bool et_demangle_is_managed(const char *symbol)
{
    return strncmp(symbol, "S_P_", 4) == 0;
}

void et_demangle(const char *symbol, const char *executable, bool managed, struct et_buf *out)
{
    (void)executable;
    (void)managed;
    char *cxx = strncmp(symbol, "_Z", 2) == 0 ? cplus_demangle_v3(symbol, DMGL_PARAMS | DMGL_ANSI) : NULL;
    et_buf_text(out, cxx ? cxx : symbol);
    free(cxx);
}
