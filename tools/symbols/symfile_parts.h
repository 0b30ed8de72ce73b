/* An open symbol file, for symfile.c and its parts, symfile_*.c. */
#ifndef ET_SYMFILE_PARTS_H
#define ET_SYMFILE_PARTS_H

#include "tools/symbols/symfile.h"

#include <elfutils/libdw.h>
#include <gelf.h>

enum { ET_SYMFILE_RANGES = 1 << 21 }; /* of units and functions of a file: 64 MiB */
/* Zeros behind all that libdw reads, since it looks for the end of a text beyond the end of its section. */
enum { ET_SYMFILE_GUARD = 4096 };
/* A corrupt file may describe endless lists, and many entries may share a long one. */
enum { ET_SYMFILE_RANGES_OF_A_DIE = 1 << 16 };

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

struct et_symfile_split;

struct et_symfile_unit {
    Dwarf_Off die;
    bool loaded;
    bool skeleton, asked; /* its functions are elsewhere; its file was asked for */
    struct et_symfile_split *split;
    struct et_symfile_range *functions;
    size_t count, capacity;
};

struct et_symfile {
    char *image; /* the whole file, and a guard */
    size_t bytes, mapped;
    Elf *elf;
    Elf *mini;      /* within it, in .gnu_debugdata; NULL: none */
    char **buffers; /* of what was unpacked */
    size_t buffer_count, buffer_capacity;
    uint64_t unpacked_left; /* bytes */
    unsigned quality;
    const char *trouble;
    Dwarf *dwarf;
    Dwarf_CFI *tables; /* for unwinding; NULL: none in this file */
    struct et_symfile_index {
        const uint8_t *bytes; /* .ARM.exidx; NULL: none */
        size_t count;         /* of entries, of 8 bytes */
        uint64_t address;
    } index;
    uint64_t entry;
    struct span {
        uint64_t start, end;
    } managed[4]; /* sections __managedcode and __unbox */
    size_t managed_count;
    struct et_symfile_symbol *symbols;
    size_t symbol_count, symbol_capacity;
    struct et_map iterators; /* hashes of names of state machines */
    bool iterators_found;
    struct et_symfile_unit *units;
    size_t unit_count, unit_capacity;
    size_t partials;                 /* units that others refer to, as in the common file of dwz */
    struct et_symfile_range *ranges; /* of units */
    size_t range_count, range_capacity;
    struct et_companion common; /* of dwz */
    Dwarf *common_dwarf;
    bool common_asked, package_asked;
    size_t skeletons;
    Elf **elfs; /* of companions */
    size_t elf_count, elf_capacity;
    size_t ranges_left; /* of units and functions, that may still be read */
};

/* The section's header; false: it has another name. */
bool et_symfile_section_is(Elf *elf, Elf_Scn *section, GElf_Shdr *header, const char *name);

/* ---- symfile_packed.c ---- */

enum et_packing { ET_PLAIN, ET_PACKED_ZLIB, ET_PACKED_ZSTD, ET_PACKED_STRANGE };
/* How a section is compressed, and the bytes that it says it has. gnu: its name begins with ".zdebug_". */
enum et_packing et_symfile_packing(Elf_Scn *section, const GElf_Shdr *header, bool gnu, uint64_t *size);
/* Unpacks the debugging information of an ELF file that belongs to this one. False: it cannot be read, *why. */
bool et_symfile_unpack(struct et_symfile *file, Elf *elf, const char **why);
/* Opens the ELF file of .gnu_debugdata, a symbol table; NULL: there is none. */
Elf *et_symfile_open_mini(struct et_symfile *file);

/* Memory with a guard behind it, until the file is closed. */
char *et_symfile_buffer(struct et_symfile *file, size_t size);
/* The section ".debug_NAME", in any of its forms, unpacked; NULL: there is none. */
const Elf_Data *et_symfile_debug_data(Elf *elf, const char *name);

/* ---- symfile_companions.c ---- */

void et_symfile_find_common(struct et_symfile *file);
void et_symfile_close_companions(struct et_symfile *file);

/* ---- symfile_split.c ---- */

/* The id that a skeleton shares with its other half. */
bool et_symfile_split_id(Dwarf_Die *unit, uint64_t *id);
bool et_symfile_lacks_split(struct et_symfile *file, uint64_t address, struct et_companion *lacked);
bool et_symfile_take_split(struct et_symfile *file, const struct et_companion *companion, Elf *elf);
void et_symfile_close_splits(struct et_symfile *file);
/* The other half's unit; NULL: it has none. */
Dwarf *et_symfile_split_unit(const struct et_symfile_split *split, Dwarf_Die *unit);
/* Calls range() for each of an entry's ranges, until it returns false. */
void et_symfile_split_ranges(const struct et_symfile_split *split, Dwarf_Die *die,
                             bool (*range)(void *context, uint64_t start, uint64_t end), void *context);

/* ---- the other parts ---- */

/* The unit of an address; NULL: none. */
struct et_symfile_unit *et_symfile_unit_at(struct et_symfile *file, uint64_t address);

void et_symfile_load_symbols(struct et_symfile *file);
/* How many symbols begin at the address or below. */
size_t et_symfile_symbols_up_to(const struct et_symfile *file, uint64_t address);
/* Finds the sections of code that .NET's ahead-of-time compiler has made. */
void et_symfile_find_managed(struct et_symfile *file);
/* Finds the tables for unwinding. Files with debugging information alone keep the headers of tables that are elsewhere.
 */
void et_symfile_find_tables(struct et_symfile *file);
/* Reads the ranges of DWARF's compilation units. */
void et_symfile_load_units(struct et_symfile *file);

#endif
