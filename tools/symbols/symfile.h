/*
 * One ELF file with symbols: its symbol table and DWARF, asked by ELF address.
 */
#ifndef ET_SYMFILE_H
#define ET_SYMFILE_H

#include "tools/lib/util.h"

struct et_symfile;

/* Opens a regular file for reading. Returns a descriptor, -EINVAL: not a regular file; -ENOEXEC: not ELF (it may leave
 * that to the caller); or another negative errno value. Senders name paths: it waits for no pipe and opens no device.
 */
int et_symfile_open_file(const char *path);
/* Lets another function do that for all functions here (opener.h). Context: before other threads use them. */
void et_symfile_set_opener(int (*open_file)(const char *path));

/* How good a file's symbols are: 0 none, 1 dynamic ones, 2 .symtab, 4 DWARF; added up. */
unsigned et_symfile_quality(const char *path);

/* Reads the file's GNU build id as hex into id. 0; -ENOENT: it has none; -EINVAL: no (sound) ELF file; else errno. */
int et_symfile_build_id(const char *path, char id[129]);

/* Name of the file with its debugging information, as .gnu_debuglink says it, without a folder. False: none. */
bool et_symfile_debuglink(const char *path, char *name, size_t size);

/* NULL: *why says what is wrong. */
struct et_symfile *et_symfile_open(const char *path, const char **why);
/* The kernel's own code of this machine, when it is the one with that build id; else NULL. */
struct et_symfile *et_symfile_open_vdso(const char *build_id);
void et_symfile_close(struct et_symfile *file);
/* Bytes of the file: about what it takes in memory. */
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
