/*
 * Every compile-time option. Each can be set with -D; state/profiler.h and the files that use them check their limits.
 * The ring, the tree, the contexts and the outbox are sized at run time, from ep_config.memory_size.
 */
#ifndef EP_CONFIG_H
#define EP_CONFIG_H

/* Frames kept of a stack, counted from the leaf. Each takes one word of the handler's stack: 128 costs 1 KiB on 64
 * bits. Range: 8..512. */
#ifndef EP_MAX_DEPTH
#define EP_MAX_DEPTH 128
#endif

/* Threads that are sampled at the same time. 64 bytes each. Range: 4..4096. */
#ifndef EP_MAX_THREADS
#define EP_MAX_THREADS 96
#endif

/* Executable ranges of loaded modules. 88 bytes each on 64 bits. Range: 4..1024. */
#ifndef EP_MAX_MODULES
#define EP_MAX_MODULES 48
#endif

/* Entries of the cache that maps a program counter to its unwind rule. A power of two, 8 bytes each. Range:
 * 64..65536. A small cache makes samples slower, never wrong. */
#ifndef EP_RULE_CACHE
#define EP_RULE_CACHE 1024
#endif

/* Tags: distinct strings (keys and values), their bytes, distinct tag sets, values of one key. All but the last and
 * the bytes are powers of two. Range: 16..1024 strings, 256..32768 bytes, 16..4096 sets, 1..255 values. */
#ifndef EP_TAG_STRINGS
#define EP_TAG_STRINGS 128
#endif
#ifndef EP_TAG_BYTES
#define EP_TAG_BYTES 2048
#endif
#ifndef EP_TAG_SETS
#define EP_TAG_SETS 256
#endif
#ifndef EP_TAG_VALUES
#define EP_TAG_VALUES 32
#endif

/* Bytes for a transport's state: its buffers and its connection. */
#ifndef EP_TRANSPORT_BYTES
#define EP_TRANSPORT_BYTES 2048
#endif

/* Bytes for the port's thread table. */
#ifndef EP_PORT_BYTES
#define EP_PORT_BYTES (64 * EP_MAX_THREADS + 128)
#endif

/* Bytes for the service name, the static tags and the endpoint. */
#ifndef EP_STRINGS_BYTES
#define EP_STRINGS_BYTES 768
#endif

/* Bytes of function names that are cached, for programs that send names. Range: 4096..16777216. */
#ifndef EP_NAMES_BYTES
#define EP_NAMES_BYTES 65536
#endif

/* Programs that send pprof: nodes of a segment's stack tree, at most. 16 bytes each, with the entries, and twice: for
 * new and for stored profiles. More memory for ep_config gives no larger tree. A multiple of 32. Range: 1024..65504. */
#ifndef EP_MIRROR_NODES
#define EP_MIRROR_NODES 8192
#endif

/* Likewise: contexts (labels and spans) of an interval. 32 bytes each. Range: 64..4095. */
#ifndef EP_MIRROR_CONTEXTS
#define EP_MIRROR_CONTEXTS 1024
#endif

/* Bytes of the largest compressed pprof; what does not fit is divided. Range: 16384..16777216. */
#ifndef EP_PPROF_BYTES
#define EP_PPROF_BYTES 65536
#endif

/* Bytes for request headers from environment variables; tokens may be long. */
#ifndef EP_HEADERS_BYTES
#define EP_HEADERS_BYTES 4096
#endif

/* The caller's memory block: a size that suits most programs, and the minimum. */
#ifndef EP_MEMORY_DEFAULT
#define EP_MEMORY_DEFAULT (128 * 1024)
#endif
#ifndef EP_MEMORY_MIN
#define EP_MEMORY_MIN (48 * 1024)
#endif

/* The memory of a pull endpoint: a size that suits most programs, and the minimum. */
#ifndef EP_PULL_MEMORY_DEFAULT
#define EP_PULL_MEMORY_DEFAULT (128 * 1024)
#endif
#ifndef EP_PULL_MEMORY_MIN
#define EP_PULL_MEMORY_MIN (64 * 1024)
#endif

#endif
