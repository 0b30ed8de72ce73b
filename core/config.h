/*
 * Every compile-time option. Each can be set with -D; limits are checked in state/profiler.h.
 * What depends on memory at hand (ring, tree, contexts, outbox) is sized at run time from ep_config.memory_size.
 */
#ifndef EP_CONFIG_H
#define EP_CONFIG_H

/* Deepest stack that is kept, leaf side. One word of the handler's stack each: 128 costs 1 KiB on 64 bits.
 * Possible: 8..512. */
#ifndef EP_MAX_DEPTH
#define EP_MAX_DEPTH 128
#endif

/* Threads with a timer of their own; more take turns. 64 bytes each. Possible: 4..4096. */
#ifndef EP_MAX_THREADS
#define EP_MAX_THREADS 96
#endif

/* Executable stretches of loaded modules. 88 bytes each on 64 bits. Possible: 4..1024. */
#ifndef EP_MAX_MODULES
#define EP_MAX_MODULES 48
#endif

/* Entries of the cache that maps a program counter to how its caller is found. A power of two, 8 bytes each.
 * Possible: 64..65536. Too few make samples more expensive, never wrong. */
#ifndef EP_RULE_CACHE
#define EP_RULE_CACHE 1024
#endif

/* Tags: different strings (keys and values), their bytes, sets of pairs that occur together, values a key may have.
 * Powers of two but for the last. Possible: 16..1024 strings, 256..32768 bytes, 16..4096 sets. */
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

/* Memory for a transport's state: its buffers, the connection. */
#ifndef EP_TRANSPORT_BYTES
#define EP_TRANSPORT_BYTES 2048
#endif

/* Memory for the port's thread table. */
#ifndef EP_PORT_BYTES
#define EP_PORT_BYTES (64 * EP_MAX_THREADS + 128)
#endif

/* Service name and static tags, as given by the user, with the endpoint. */
#ifndef EP_STRINGS_BYTES
#define EP_STRINGS_BYTES 768
#endif

/* Bytes of names of functions that are kept, for programs that send names. Possible: 4096..16777216. */
#ifndef EP_NAMES_BYTES
#define EP_NAMES_BYTES 65536
#endif

/* Lines that the environment adds to the head of every request: tokens may be long. */
#ifndef EP_HEADERS_BYTES
#define EP_HEADERS_BYTES 4096
#endif

/* The caller's memory block: a size that suits nearly every program, and the least. */
#ifndef EP_MEMORY_DEFAULT
#define EP_MEMORY_DEFAULT (128 * 1024)
#endif
#ifndef EP_MEMORY_MIN
#define EP_MEMORY_MIN (48 * 1024)
#endif

/* Memory for a pull endpoint: the same two sizes. */
#ifndef EP_PULL_MEMORY_DEFAULT
#define EP_PULL_MEMORY_DEFAULT (128 * 1024)
#endif
#ifndef EP_PULL_MEMORY_MIN
#define EP_PULL_MEMORY_MIN (64 * 1024)
#endif

#endif
