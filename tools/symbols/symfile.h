/*
 * One ELF file with symbols: its symbol table and DWARF, asked by ELF address.
 */
#ifndef ET_SYMFILE_H
#define ET_SYMFILE_H

#include "tools/lib/util.h"

struct et_symfile;

/* Opens a regular file for reading. Returns a descriptor, -EINVAL: not a regular file; or another negative errno value.
 * Senders name paths: it waits for no pipe and opens no device. */
int et_symfile_open_file(const char *path);

struct et_symfile_facts {
    unsigned quality;   /* 0 no symbols, 1 dynamic ones, 2 .symtab, 4 DWARF; added up */
    char build_id[129]; /* in hexadecimal digits; "": none */
    char
        debuglink[256]; /* name of the file with debugging information, of .gnu_debuglink, without a folder; "": none */
};

/* Reads an open file's headers. 0; -EINVAL: no (sound) ELF file. */
int et_symfile_examine(int fd, struct et_symfile_facts *facts);

/* NULL: *why says what is wrong. map: reads it as it is needed; if somebody cuts it meanwhile, this process ends.
 * Otherwise it is copied. The descriptor stays the caller's, and is not needed any more. */
struct et_symfile *et_symfile_open(int fd, bool map, const char **why);
/* The kernel's own code of this machine, when it is the one with that build id; else NULL. */
struct et_symfile *et_symfile_open_vdso(const char *build_id);
void et_symfile_close(struct et_symfile *file);
/* Bytes of the file. */
uint64_t et_symfile_bytes(const struct et_symfile *file);

/* Symbol that covers address, still mangled, or NULL; a program's entry is _start without one. Valid as long as the
 * file is open. */
const char *et_symfile_symbol(struct et_symfile *file, uint64_t address);

/* Where the function begins that covers address, as unwind tables tell it, which stripped files keep; else address. */
uint64_t et_symfile_function(struct et_symfile *file, uint64_t address);

/* Whether there is a symbol that consists of the first `size` characters of name and of ending. */
bool et_symfile_has(const struct et_symfile *file, const char *name, size_t size, const char *ending);

/* Whether address is code that .NET's ahead-of-time compiler has made. */
bool et_symfile_managed(const struct et_symfile *file, uint64_t address);

/* Calls line() for what DWARF says of address, innermost function first; function is still mangled. The last call,
 * for the function that is not inlined, has function NULL when DWARF has no better name than the symbol table.
 * Returns the number of calls. */
int et_symfile_lines(struct et_symfile *file, uint64_t address,
                     void (*line)(void *context, const char *function, const char *source, uint32_t line),
                     void *context);

#endif
