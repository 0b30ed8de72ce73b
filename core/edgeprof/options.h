/*
 * Every compile-time option of the library. Set one with -D, for example in BOARD_CFLAGS of boards/<name>/board.mk. The
 * compiler checks the ranges. The ring, the tree, the labels and the outbox have no option: ep_config.memory_size
 * decides about their sizes, and about the number of threads, at run time.
 */
#ifndef EP_CONFIG_H
#define EP_CONFIG_H

/* The number of frames that a stack keeps: half of them from the leaf, the others from the root. [deeper frames]
 * between them stands for the frames of the middle. A sample reserves one word of the ring for each while it unwinds,
 * and returns unused words. Range: 8..512. */
#ifndef EP_MAX_DEPTH
#define EP_MAX_DEPTH 128
#endif

/* The number of threads that are sampled at the same time with a block of EP_MEMORY_DEFAULT bytes. Another block has
 * places in proportion: at least 15/16 as many, and at most EP_THREADS_MOST. On 64 bits a place takes 124 bytes of the
 * block. Range: 8..2048. */
#ifndef EP_THREADS
#define EP_THREADS 96
#endif
#define EP_THREADS_MOST 4096u

/* The size of a block with places for so many threads. */
#define EP_MEMORY_FOR_THREADS(threads) ((size_t)(threads) * (EP_MEMORY_DEFAULT / EP_THREADS + 1))

/* The number of executable ranges of loaded modules. Each takes 88 bytes on 64 bits. Range: 4..1024. */
#ifndef EP_MAX_MODULES
#define EP_MAX_MODULES 48
#endif

/* The number of entries of the cache that maps a program counter to its unwind rule: a power of two, 8 bytes each. A
 * small cache makes samples slower, never wrong. Range: 64..65536. */
#ifndef EP_RULE_CACHE
#define EP_RULE_CACHE 1024
#endif

/* The table of labels: the number of distinct strings (keys and values), their bytes, the number of distinct sets of
 * labels, and of values of one key. Strings and sets are powers of two. Range: 16..1024 strings, 256..32768 bytes,
 * 16..4096 sets, 1..255 values. */
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

/* The bytes for a transport's state: its buffers and its connection. */
#ifndef EP_TRANSPORT_BYTES
#define EP_TRANSPORT_BYTES 2048
#endif

/* 0: the system has no sockets, so there are no endpoints http:// and https://. Set BOARD_SOCKETS := 0 instead, which
 * also leaves out the sources that need them. */
#ifndef EP_SOCKETS
#define EP_SOCKETS 1
#endif

/* The bytes for the service name, the static tags and the endpoint. */
#ifndef EP_STRINGS_BYTES
#define EP_STRINGS_BYTES 768
#endif

/* The bytes of cached function names, for programs that send names. Range: 4096..16777216. */
#ifndef EP_NAMES_BYTES
#define EP_NAMES_BYTES 65536
#endif

/* The number of nodes of a segment's stack tree, in programs that send pprof. A node takes 16 bytes with its entries,
 * twice: for new and for stored profiles. More memory for ep_config gives no larger tree then. A multiple of 32.
 * Range: 1024..65504. */
#ifndef EP_MIRROR_NODES
#define EP_MIRROR_NODES 8192
#endif

/* The number of label sets with spans of an interval, in programs that send pprof. 32 bytes each. Range: 64..4095. */
#ifndef EP_MIRROR_LABELS
#define EP_MIRROR_LABELS 1024
#endif

/* The bytes of the largest compressed pprof; a larger one is divided. Range: 16384..16777216. */
#ifndef EP_PPROF_BYTES
#define EP_PPROF_BYTES 65536
#endif

/* The bytes for request headers from environment variables; tokens may be long. */
#ifndef EP_HEADERS_BYTES
#define EP_HEADERS_BYTES 4096
#endif

/* The size of the caller's memory block: one that suits most programs, and the minimum. */
#ifndef EP_MEMORY_DEFAULT
#define EP_MEMORY_DEFAULT (128 * 1024)
#endif
#ifndef EP_MEMORY_MIN
#define EP_MEMORY_MIN (48 * 1024)
#endif

/* The size of a pull endpoint's memory: one that suits most programs, and the minimum. */
#ifndef EP_PULL_MEMORY_DEFAULT
#define EP_PULL_MEMORY_DEFAULT (128 * 1024)
#endif
#ifndef EP_PULL_MEMORY_MIN
#define EP_PULL_MEMORY_MIN (64 * 1024)
#endif

#endif
