/* How much memory a run of a fuzz target asks for, and that it gives all of it back. With the sanitizers' allocator. */
#ifndef EP_FUZZ_MEMORY_H
#define EP_FUZZ_MEMORY_H

#include <stddef.h>

/* From here on. */
void fuzz_memory_begin(void);

/* Bytes asked for since then, whether they were given back or not: no less than there ever were at a time. */
size_t fuzz_memory_asked(void);

/* Bytes that were asked for since then and are still held. */
size_t fuzz_memory_held(void);

#endif
