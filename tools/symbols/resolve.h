/* What a symbol file says of one address, as it is shown. */
#ifndef ET_RESOLVE_H
#define ET_RESOLVE_H

#include "tools/symbols/symfile.h"

/* Of one address: functions inlined into each other, innermost first. */
struct et_resolved {
    struct et_resolved_line {
        char *function, *source; /* clean text; function NULL: the file has no name */
        uint32_t line;
        uint64_t start; /* without a name: where the function begins, as far as it is known */
    } * lines;
    size_t count, capacity;
};

/* At least one line. The symbol table names the function itself, DWARF what was inlined into it and all lines. path:
 * of the module. file: not used by another thread meanwhile. */
void et_resolve(struct et_symfile *file, const char *path, uint64_t address, struct et_resolved *out);
void et_resolved_free(struct et_resolved *resolved);

#endif
