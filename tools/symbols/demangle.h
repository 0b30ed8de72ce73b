/*
 * Readable names out of linkers' ones: C++, Rust, D (tools/lib/native_name.h) and .NET NativeAOT's.
 */
#ifndef ET_DEMANGLE_H
#define ET_DEMANGLE_H

#include "tools/lib/util.h"

enum et_code {
    ET_CODE_NATIVE,   /* C, C++, assembly */
    ET_CODE_MANAGED,  /* made by .NET's ahead-of-time compiler */
    ET_CODE_ITERATOR, /* the same, and the symbol is a method of an iterator, which looks like an async method's */
};

/* Appends a readable form of symbol to *out. executable: path of the file that it is from; its name tells which
 * assembly a NativeAOT program is ("": unknown). What is not understood is appended nearly as it is. */
void et_demangle(const char *symbol, const char *executable, enum et_code code, struct et_buf *out);

/* For ..._d__7__MoveNext, the name's length up to the state machine's type; 0: the symbol is no such method. */
size_t et_demangle_state_machine(const char *symbol);

/* demangle_dotnet.c: a type's mangled name, "Boxed_Int32" as "System.Int32(boxed)", "__Array<UInt8>" as
 * "System.Byte[]". */
void et_demangle_type(const char *type, const char *executable, struct et_buf *out);

/* demangle_dotnet.c: a NativeAOT symbol. */
void et_demangle_dotnet(const char *symbol, const char *executable, bool iterator, struct et_buf *out);

#endif
