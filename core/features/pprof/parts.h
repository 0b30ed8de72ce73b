/*
 * Private to the pprof encoder: the parts of pprof.c that have files of their own. families.c knows the value types,
 * chosen.c the samples, nodes and labels that an encoding writes, and naming.c the functions of locations.
 */
#ifndef EP_PPROF_PARTS_H
#define EP_PPROF_PARTS_H

#include "core/encode/write.h"
#include "core/features/pprof/pprof.h"
#include "core/profile/naming.h"
#include "core/sample/capture.h"

/* ---- families.c ---- */

/* Numbers of the texts at the start of the string table. */
enum {
    EP_TEXT_NONE,
    EP_TEXT_SAMPLES,
    EP_TEXT_COUNT,
    EP_TEXT_CPU,
    EP_TEXT_NANOSECONDS,
    EP_TEXT_CONTENTIONS,
    EP_TEXT_DELAY,
    EP_TEXT_ALLOC_OBJECTS,
    EP_TEXT_ALLOC_SPACE,
    EP_TEXT_INUSE_OBJECTS,
    EP_TEXT_INUSE_SPACE,
    EP_TEXT_BYTES,
    EP_TEXT_SPACE,
    EP_TEXT_EXCEPTION,
    EP_TEXT_PAUSES,
    EP_TEXT_PAUSE,
    EP_TEXT_GOROUTINE,
    EP_TEXT_HEAP_SIZE,
    EP_TEXT_SPAN_ID,
    EP_TEXT_TRACE_ID,
    EP_TEXT_THREAD,
    EP_TEXT_WRITES,
    EP_TEXT_WRITTEN,
    EP_TEXT_SYNCS,
    EP_TEXT_SYNC_TIME,
    EP_TEXT_CLOCK,
    EP_TEXT_KIND,
    EP_TEXT_SPECIAL
};
#define EP_TEXT_PATH(module)     (EP_TEXT_SPECIAL + EP_FRAME_SPECIALS + 2 * (module))
#define EP_TEXT_BUILD_ID(module) (EP_TEXT_PATH(module) + 1)

/* The texts below EP_TEXT_CLOCK. */
extern const char ep_pprof_words[EP_TEXT_CLOCK][16];

/* The names are those of Go profiles where they exist, as Pyroscope and pprof users know them. Types are pairs of
 * text numbers (type, unit). A kind has a count and a value, or a value only. */
struct ep_pprof_family {
    char name[12];
    uint16_t kinds;
    uint8_t types; /* number of pairs */
    uint8_t type[8];
    uint8_t period_type[2];
    uint8_t preferred; /* the value type shown first */
    const char *kind;  /* a comment with the kind, if another family has the same types; else NULL */
};

/* Returns the family of the lowest kind. Context: deliver, collect. */
const struct ep_pprof_family *ep_pprof_family_of(uint32_t kinds);

/* ---- chosen.c. Context: deliver, collect ---- */

/* Tables of one encoding. */
struct ep_scratch {
    uint32_t labels[4096 / 32];              /* one bit for each label set that is written; an entry's has 12 bits */
    unsigned marked;                         /* nodes */
    uint16_t before[(UINT16_MAX + 31) / 32]; /* number of marked nodes before each word of the tree's marks */
};

/* A walk through the samples, node by node, with the entries of each. */
struct ep_pprof_walk {
    unsigned node, entry, index; /* entry: the last one + 1; index: number of samples passed */
};

/* Moves to the next sample of the encoding. Returns false if there is none. */
bool ep_pprof_next(struct ep_pprof_walk *at, const struct ep_encoding *encoding);
const struct ep_entry *ep_pprof_entry(const struct ep_encoding *encoding, const struct ep_pprof_walk *at);

/* Marks the nodes of all stacks and the labels of all samples. */
void ep_pprof_mark(const struct ep_encoding *encoding, struct ep_scratch *scratch);
/* Return the number of marked nodes up to and including id, and of marked labels up to and including that one. */
unsigned ep_pprof_rank(const struct ep_source *source, unsigned id);
unsigned ep_pprof_label_rank(const struct ep_source *source, unsigned label);
bool ep_pprof_has_label(const struct ep_source *source, unsigned label);

/* ---- naming.c. Context: deliver, collect ---- */

#define EP_PPROF_NAME_MOST  200u
#define EP_PPROF_BY_ADDRESS 0xffffu

/* Returns the module of a node's frame, NULL: none; and the frame's ELF address in it. */
const struct ep_module *ep_pprof_module(const struct ep_encoding *encoding, unsigned id);
uint64_t ep_pprof_address(const struct ep_encoding *encoding, const struct ep_module *module, unsigned id);
/* Asks for the names of all locations. */
void ep_pprof_names_find(const struct ep_encoding *encoding, const struct ep_deadline *deadline);
/* Returns the function of a location besides special frames: 1 and up, EP_PPROF_BY_ADDRESS, or 0: no function. */
unsigned ep_pprof_function(const struct ep_encoding *encoding, unsigned id, unsigned rank);
/* Writes "module+0x1234". */
void ep_pprof_address_name(const struct ep_encoding *encoding, unsigned id, char *text);

#endif
