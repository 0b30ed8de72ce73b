/* An open symbol file, for symfile.c and its parts: symfile_symbols.c and symfile_dwarf.c. */
#ifndef ET_SYMFILE_PARTS_H
#define ET_SYMFILE_PARTS_H

#include "tools/symbols/symfile.h"

#include <elfutils/libdw.h>
#include <gelf.h>

enum { ET_SYMFILE_RANGES = 1 << 21 }; /* of units and functions of a file: 64 MiB */

struct et_symfile_symbol {
    uint64_t start, end;
    uint64_t limit; /* the end of its section */
    const char *name;
    int rank; /* among symbols at one address: the better one is larger */
};

struct et_symfile_range {
    uint64_t start, end;
    Dwarf_Off die;
    size_t unit; /* ranges of units: index into units */
};

struct et_symfile_unit {
    Dwarf_Off die;
    bool loaded;
    struct et_symfile_range *functions;
    size_t count, capacity;
};

struct et_symfile {
    char *image; /* the whole file, and a guard */
    size_t bytes, mapped;
    Elf *elf;
    Dwarf *dwarf;
    Dwarf_CFI *tables; /* for unwinding; NULL: none in this file */
    uint64_t entry;
    struct span {
        uint64_t start, end;
    } managed[4]; /* sections __managedcode and __unbox */
    size_t managed_count;
    struct et_symfile_symbol *symbols;
    size_t symbol_count, symbol_capacity;
    struct et_symfile_unit *units;
    size_t unit_count, unit_capacity;
    struct et_symfile_range *ranges; /* of units */
    size_t range_count, range_capacity;
    size_t ranges_left; /* of units and functions, that may still be read */
};

/* The section's header; false: it has another name. */
bool et_symfile_section_is(Elf *elf, Elf_Scn *section, GElf_Shdr *header, const char *name);

void et_symfile_load_symbols(struct et_symfile *file);
/* Finds the sections of code that .NET's ahead-of-time compiler has made. */
void et_symfile_find_managed(struct et_symfile *file);
/* Finds the tables for unwinding. Files with debugging information alone keep the headers of tables that are elsewhere.
 */
void et_symfile_find_tables(struct et_symfile *file);
/* Reads the ranges of DWARF's compilation units. */
void et_symfile_load_units(struct et_symfile *file);

#endif
