/*
 * Readable names of native functions, the same wherever a name comes from: a symbol table, a pprof, OTLP or folded
 * text.
 */
#ifndef ET_NATIVE_NAME_H
#define ET_NATIVE_NAME_H

#include "tools/lib/util.h"

/* Appends the readable form of a C++, Rust or D symbol: without hashes and, except for D, without parameters. False:
 * the symbol is no such name (Swift's are none), or its readable form is too long; nothing was appended. */
bool et_native_readable(const char *symbol, struct et_buf *out);

/* The size of the name without what compilers append for a part or a copy of the function: ".cold", ".part.0",
 * ".constprop.1", ".isra.0", ".llvm.123", ".lto_priv.0", ".__uniq.123", also several and in the forms of demanglers,
 * "f() [clone .cold]". Such a part counts as the function. */
size_t et_native_size(const char *symbol);

/* Returns the number, in the strings, of a sender's name for a function: printable, in the form that our own symbols
 * have. system_name: used if there is no other. file: of the function, "" if unknown; a language with dots in its names
 * may have a function called "x.cold". */
uint32_t et_sent_name(struct et_strings *strings, const char *name, const char *system_name, const char *file);

#endif
