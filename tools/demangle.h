/*
 * Readable names out of linkers' ones: C++ (_ZN...), Rust's are left to the same library, and .NET NativeAOT's.
 */
#ifndef ET_DEMANGLE_H
#define ET_DEMANGLE_H

#include "util.h"

/* Appends a readable form of symbol to *out. executable: path of the file that it is from; its name tells which
 * assembly a NativeAOT program is ("" or NULL: unknown). managed: the file holds NativeAOT code. What is not
 * understood is appended as it is. */
void et_demangle(const char *symbol, const char *executable, bool managed, struct et_buf *out);

/* Whether a symbol is one that only a NativeAOT program has. */
bool et_demangle_is_managed(const char *symbol);

#endif
