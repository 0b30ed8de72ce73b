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

enum et_quality { ET_QUALITY_DYNAMIC = 1, ET_QUALITY_SYMTAB = 2, ET_QUALITY_DWARF = 4 };

struct et_symfile_facts {
    unsigned quality;   /* what its headers promise: enum et_quality, added up; 0 no symbols */
    char build_id[129]; /* in hexadecimal digits; "": none */
    char
        debuglink[256]; /* name of the file with debugging information, of .gnu_debuglink, without a folder; "": none */
};

/* Reads an open file's headers. 0; -EINVAL: no (sound) ELF file. */
int et_symfile_examine(int fd, struct et_symfile_facts *facts);

/* Another file that has a part of a file's debugging information. */
struct et_companion {
    enum et_companion_kind {
        ET_COMPANION_NONE,
        ET_COMPANION_COMMON,  /* what dwz took out of several files */
        ET_COMPANION_PACKAGE, /* .dwp: functions of all units of split DWARF */
        ET_COMPANION_SPLIT,   /* .dwo: functions of one unit */
    } kind;
    char id[129];     /* COMMON: its build id; else the unit's id */
    char name[512];   /* as the file has it, maybe with folders; PACKAGE: "" */
    char folder[512]; /* where the unit was compiled */
};

/* NULL: *why says what is wrong. map: reads it as it is needed; if somebody cuts it meanwhile, this process ends.
 * Otherwise it is copied. The descriptor stays the caller's, and is not needed any more. */
struct et_symfile *et_symfile_open(int fd, bool map, const char **why);
/* The kernel's own code of this machine, when it is the one with that build id; else NULL. */
struct et_symfile *et_symfile_open_vdso(const char *build_id);
void et_symfile_close(struct et_symfile *file);
/* Bytes of the file. */
uint64_t et_symfile_bytes(const struct et_symfile *file);
/* What was really read of it: enum et_quality, added up. */
unsigned et_symfile_quality(const struct et_symfile *file);
/* Why it has no DWARF although it looks as if; NULL: nothing is wrong. */
const char *et_symfile_trouble(const struct et_symfile *file);
/* How much a file of so many bytes may have when its debugging information is unpacked. */
uint64_t et_symfile_unpacked_most(uint64_t bytes);

/* Whether et_symfile_lacks() may be true. */
bool et_symfile_has_companions(const struct et_symfile *file);
/* A file that is missing for what DWARF says of the address, and was not asked for before. */
bool et_symfile_lacks(struct et_symfile *file, uint64_t address, struct et_companion *lacked);
/* Room for a companion's bytes, until the file is closed; NULL: it is too large. */
char *et_symfile_room(struct et_symfile *file, uint64_t size);
/* Takes it in that room. False: it is not the right one, or not sound. */
bool et_symfile_supply(struct et_symfile *file, const struct et_companion *companion, char *bytes, uint64_t size);

/* Symbol that covers address, still mangled, or NULL; a program's entry is _start without one. Valid as long as the
 * file is open. */
const char *et_symfile_symbol(struct et_symfile *file, uint64_t address);

/* Where the function begins that covers address, as unwind tables tell it, which stripped files keep; else address.
 * Entries of .ARM.exidx that may stand for several functions tell nothing. */
uint64_t et_symfile_function(struct et_symfile *file, uint64_t address);

/* Whether .NET's state machine whose mangled name is the first `size` characters is an iterator's. */
bool et_symfile_is_iterator(struct et_symfile *file, const char *name, size_t size);

/* Whether address is code that .NET's ahead-of-time compiler has made. */
bool et_symfile_managed(const struct et_symfile *file, uint64_t address);

/* Calls line() for what DWARF says of address, innermost function first; function is still mangled. The last call,
 * for the function that is not inlined, has function NULL when DWARF has no better name than the symbol table.
 * Returns the number of calls. */
int et_symfile_lines(struct et_symfile *file, uint64_t address,
                     void (*line)(void *context, const char *function, const char *source, uint32_t line),
                     void *context);

#endif
