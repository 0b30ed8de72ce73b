/*
 * The only private header: how the parts of the core see each other.
 *
 * Way of a sample:  port's handler -> ep_capture (capture.c) -> ep_unwind (unwind.c, rules.c, unwind_<arch>.c, cfi.c)
 *                   -> ep_ring_* (ring.c) | collect thread: collect.c -> ep_module_linear (modules.c)
 *                   -> ep_tree_* (tree.c) -> ep_encode_* (encode_*.c) -> ep_outbox_* (outbox.c)
 *                   | deliver thread: deliver.c -> struct ep_transport
 *
 * struct ep is the profiler: it lies at the start of the caller's memory, everything else is carved from the rest
 * by layout.c. What handlers touch is atomic or written before it is published.
 */
#ifndef EP_INTERNAL_H
#define EP_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "edgeprof.h"
#include "hooks.h"
#include "port/port.h"
#include "transport/transport.h"

#if EP_MAX_DEPTH < 8 || EP_MAX_DEPTH > 512
#error "EP_MAX_DEPTH must be 8..512"
#endif
#if EP_MAX_THREADS < 4 || EP_MAX_THREADS > 4096
#error "EP_MAX_THREADS must be 4..4096"
#endif
#if EP_MAX_MODULES < 4 || EP_MAX_MODULES > 1024
#error "EP_MAX_MODULES must be 4..1024"
#endif
#if EP_RULE_CACHE < 64 || EP_RULE_CACHE > 65536 || (EP_RULE_CACHE & (EP_RULE_CACHE - 1)) != 0
#error "EP_RULE_CACHE must be a power of two, 64..65536"
#endif
#if EP_RULE_CACHE < 1024 && UINTPTR_MAX > 0xffffffffu
#error "EP_RULE_CACHE must be at least 1024 on 64 bits: the bits of an address that an entry keeps would not do"
#endif

/* Frames that are no addresses; numbers are part of the format (core/proto/compact.proto). */
enum ep_special {
    EP_FRAME_NONE = 0,
    EP_FRAME_TRUNCATED = 1,
    EP_FRAME_CUT = 2,
    EP_FRAME_DEEP = 3,
    EP_FRAME_THREAD_EXIT = 4,
    EP_FRAME_LOST_RING = 5,
    EP_FRAME_LOST_REFUSED = 6,
    EP_FRAME_LOST_SEGMENT = 7,
    EP_FRAME_HIJACK = 8,
    EP_FRAME_UNKNOWN = 9,
    EP_FRAME_GAP = 10,
    EP_FRAME_WAIT = 11, /* + enum ep_wait */
    EP_FRAME_GC0 = 17,  /* + generation */
    EP_FRAME_GC_BACKGROUND = 20,
    EP_FRAME_LOST_STOPPED = 21,
    EP_FRAME_NO_STACK = 22,
    EP_FRAME_GC_LOH = 23,
    EP_FRAME_GC_POH = 24,
    EP_FRAME_GC_FRAGMENTATION = 25,
    EP_FRAME_GC_UNUSED = 26,
    EP_FRAME_LOST_SPOOL = 27,
    EP_FRAME_SPECIALS = 28,
    EP_FRAME_BY_CALLER = 255, /* in records alone: struct ep_waits.classify finds out which [wait] it is */
    EP_FRAME_FIRST_ADDRESS = 256,
};

/* [lost: ...]: time that was counted when it was lost. */
#define EP_LOST_FRAMES                                                                                                 \
    (1u << EP_FRAME_LOST_RING | 1u << EP_FRAME_LOST_REFUSED | 1u << EP_FRAME_LOST_SEGMENT | 1u << EP_FRAME_LOST_SPOOL)
static inline bool ep_is_lost(uint32_t frame)
{
    return frame < 32 && (EP_LOST_FRAMES >> frame & 1);
}

/* ---- unwinding (signal path) ---- */

/* Bytes between the end of a stack and its outermost frame, at most. */
#define EP_ROOT_NEAR 1024u

enum ep_quality {
    EP_STACK_EXACT = 0, /* to the root, every frame by a rule */
    EP_STACK_GAP = 1,   /* to the root, with a guess in between */
    EP_STACK_CUT = 2,   /* not to the root */
};

struct ep_stack {
    atomic_uintptr_t *pc; /* the caller's, EP_MAX_DEPTH words: [0] as interrupted, then return addresses - 1 */
    uint16_t depth;
    uint8_t quality;       /* enum ep_quality */
    uint8_t end;           /* EP_FRAME_NONE, _CUT, _DEEP or _HIJACK: what stands in for the missing root side */
    uint16_t hits, misses; /* of the rule cache */
};

/* Walks the calling thread's stack from the registers in *context. Reads stack memory only inside the bounds that
 * *context gives. Context: signal. */
void ep_unwind(const struct ep_context *context, struct ep_stack *stack);

/* How to get from a frame to its caller. CFA: where sp will be in the caller. */
enum ep_rule_kind {
    EP_RULE_EMPTY = 0,
    EP_RULE_SP,      /* CFA = sp + cfa words, what was saved lies in slots below it */
    EP_RULE_FP,      /* CFA = fp + cfa words, likewise */
    EP_RULE_BASE,    /* CFA = base + cfa words, likewise */
    EP_RULE_FP_LOAD, /* CFA = word at (fp + cfa words), likewise, caller's fp at fp: a realigned stack */
    EP_RULE_GUESS,   /* like EP_RULE_FP, but nothing says that fp is a frame pointer here */
    EP_RULE_LINK,    /* return address still in lr, CFA = sp + cfa words; of an interrupted frame */
    EP_RULE_CHAIN, /* record {caller's fp, return address} at fp, CFA = fp + cfa words; cfa 0: only a guess, and the CFA
                      stays unknown; fp 0 is the root */
    EP_RULE_RECORD,  /* the same at sp + fp_slot words, CFA = sp + cfa words */
    EP_RULE_APART,   /* CFA = sp + cfa words, return address at CFA - base_slot words, caller's fp as for EP_RULE_SP */
    EP_RULE_SIGNAL,  /* the kernel's signal frame starts at sp */
    EP_RULE_FAULT,   /* .NET's record of a hardware fault ends at CFA = sp + cfa words; fp_slot 1: fp + cfa words */
    EP_RULE_ROOT,    /* no caller */
    EP_RULE_STOP,    /* the caller cannot be found */
    EP_RULE_RESTART, /* like EP_RULE_FP, but fp is the frame pointer of some caller: those in between are unknown */
};

struct ep_rule {
    uint8_t kind;
    uint8_t fp_slot;   /* caller's fp is at CFA - fp_slot words; 0: fp is unchanged */
    uint8_t base_slot; /* likewise */
    uint8_t ra_extra;  /* the return address is at CFA - (1 + ra_extra) words */
    int16_t cfa;       /* words */
};

/* A frame's registers while walking. */
struct ep_frame {
    uintptr_t pc, sp, fp, lr, base;
};

/* A code address without what architectures keep in its spare bits: ARM's Thumb bit, arm64's pointer authentication
 * (user space of 64-bit Linux has 48 bits, unless a program asks for more). Context: signal. */
static inline uintptr_t ep_code_address(uintptr_t word)
{
    return sizeof word == 4 ? word & ~(uintptr_t)1 : word & (uintptr_t)0xffffffffffffu;
}

/* A walk on its way to the root. */
struct ep_walk {
    struct ep_frame frame;
    uintptr_t moved, root; /* struct ep_context: stack_root */
    uintptr_t end;         /* of the stack that frame.sp is on; 0: unknown */
    bool exact;            /* frame.pc is where execution stands, not a return address */
    bool guessed;
    bool sp_lost; /* frame.sp is only a lower bound */
};

/* Whether nothing but what starts the thread fits between sp and the end of the stack. Context: signal. */
static inline bool ep_is_outermost(const struct ep_walk *walk, uintptr_t sp)
{
    return walk->root ? sp >= walk->root : walk->end - sp <= EP_ROOT_NEAR;
}

enum ep_cached { EP_CACHED_NOTHING, EP_CACHED_STEPS, EP_CACHED_ROOT };

/* Makes as many steps of a walk as cached rules of the common kinds allow, and ends it when they lead to the root. The
 * walk's sp and end are known, its stack is not moved. Adds the frames that it leaves to *stack. Context: signal. */
enum ep_cached ep_unwind_cached(struct ep_walk *walk, struct ep_stack *stack);

/* Finds the rule for the code at pc, from the cache or from the module's tables. exact: pc is where the frame
 * was interrupted, not a return address - 1. Adds to stack->hits or ->misses. Context: signal. */
struct ep_rule ep_rule_get(uintptr_t pc, bool exact, struct ep_stack *stack);

/* Derives the rule from code and tables; one per architecture (unwind_<arch>.c). Context: signal. */
struct ep_rule ep_rule_derive(uintptr_t pc, bool exact);

/* Takes the registers out of the kernel's signal frame at frame->sp, or out of the record of a hardware fault in front
 * of cfa; all words that it reads lie in [frame->sp, end). False when they do not fit. One per architecture and OS.
 * Context: signal. */
bool ep_signal_frame(struct ep_frame *frame, uintptr_t end);
bool ep_fault_frame(struct ep_frame *frame, uintptr_t cfa, uintptr_t end);

/* Registers by their DWARF numbers. base is one that a few functions hang their frame on (rbx in the dynamic linker).
 */
struct ep_cfi_registers {
    uint8_t sp, fp, base, ra;
};

enum ep_cfi_cfa { EP_CFI_SP, EP_CFI_FP, EP_CFI_FP_LOAD, EP_CFI_BASE, EP_CFI_OTHER };

/* Where the caller's value of a register is. */
enum ep_cfi_state { EP_CFI_KEPT, EP_CFI_SAVED, EP_CFI_SAVED_AT_FP, EP_CFI_UNDEFINED };

enum { EP_CFI_REG_FP, EP_CFI_REG_BASE, EP_CFI_REG_RA, EP_CFI_REGS };

/* How a frame is described at one address. */
struct ep_cfi_rules {
    int32_t cfa_offset;          /* bytes */
    int32_t offset[EP_CFI_REGS]; /* EP_CFI_SAVED: bytes from the CFA */
    uint8_t state[EP_CFI_REGS];  /* enum ep_cfi_state */
    uint8_t cfa;                 /* enum ep_cfi_cfa */
};

/* One row of a call frame information table, reduced to what a stack walk needs. */
struct ep_cfi_row {
    struct ep_cfi_rules rules;
    bool signal_frame;
    uintptr_t start, end; /* of the function */
    uintptr_t since;      /* where in it the row begins */
};

struct ep_module;

/* The same from .ARM.exidx; registers are core registers there, EP_CFI_REG_BASE is the base. -ENOENT also when the
 * table says that the function cannot be unwound. Context: signal. */
int ep_exidx_find(const struct ep_module *module, const struct ep_cfi_registers *registers, uintptr_t pc,
                  struct ep_cfi_row *row);

/* Evaluates the module's .eh_frame at pc, in place. 0, -ENOENT: no entry, -EINVAL: not understood or broken.
 * Context: signal. */
int ep_cfi_find(const struct ep_module *module, const struct ep_cfi_registers *registers, uintptr_t pc,
                struct ep_cfi_row *row);

/* ---- modules ---- */

struct ep;

struct ep_module {
    uintptr_t start, end;
    uintptr_t bias;
    uintptr_t table;
    size_t table_size;
    uintptr_t image_start, image_end;
    const uint8_t *build_id;
    const char *path;
    uint32_t base; /* in the linear address space */
    uint16_t build_id_size;
    bool data;     /* types, not code */
    bool declared; /* in the current segment */
    bool wanted;   /* by a message that is being encoded */
};

struct ep_modules {
    atomic_uint count; /* published; slots below it never change but for declared */
    uint32_t next_base;
    unsigned refused, counted; /* had no room: in this look, and in any */
    uint64_t generation;
    struct ep_module slot[EP_MAX_MODULES];
};

/* The module whose code holds pc, or NULL. Context: signal. */
const struct ep_module *ep_module_find(const struct ep_modules *modules, uintptr_t pc);

/* Linear address of pc, EP_FRAME_UNKNOWN outside all modules. *hint is the last hit. Context: collect. */
uint32_t ep_module_linear(const struct ep_modules *modules, uintptr_t pc, unsigned *hint);

/* The module that holds a linear address, or NULL. Context: collect. */
struct ep_module *ep_module_of_linear(struct ep_modules *modules, uint32_t address);

/* ---- ring (signal path; one reader) ---- */

/* Records' words, in units of the reader's choice (capture.c writes, collect.c reads). 64-bit numbers are two words. */
enum ep_record_kind { EP_RECORD_PAD = 1, EP_RECORD_SAMPLE = 2, EP_RECORD_REST = 3, EP_RECORD_EVENT = 4 };

enum {
    EP_WORD_TID,
    EP_WORD_INFO, /* tag set (bits 0-15), kind (16-19), flag: a span follows (20), skip (21-23), frame (24-31) */
    EP_WORD_VALUE,
    EP_WORD_VALUE_HIGH,
    EP_SAMPLE_WORDS,
    EP_WORD_COUNT = EP_SAMPLE_WORDS, /* events only, from here */
    EP_WORD_TYPE,
    EP_WORD_TOKEN,
    EP_EVENT_WORDS,
    EP_SPAN_WORDS = 6, /* after the above when flagged: span id, trace id */
};
#define EP_INFO_KIND_SHIFT  16
#define EP_INFO_SPAN        (1u << 20)
#define EP_INFO_SKIP_SHIFT  21
#define EP_INFO_FRAME_SHIFT 24

struct ep_ring {
    atomic_uint head, tail; /* in words, running free */
    unsigned mask;
    atomic_uintptr_t *words; /* the first word of a record: its header, 0 while it is being written */
};

/* Record as the reader sees it: `words` point into the ring until ep_ring_pop(). */
struct ep_record {
    enum ep_record_kind kind;
    unsigned quality, end, count;
    const atomic_uintptr_t *words;
};

/* Prepares a ring over `words` words of zeroed memory, a power of two. Context: init. */
void ep_ring_init(struct ep_ring *ring, atomic_uintptr_t *memory, unsigned words);

/* Reserves room for a record of at most `most` payload words. Positive: position to hand to payload and commit;
 * -ENOSPC when full; *wake is set when the reader should be woken. Context: signal. */
int ep_ring_reserve(struct ep_ring *ring, unsigned most, bool *wake);

/* The payload's words. What commit does not count must not have been written. Context: signal. */
static inline atomic_uintptr_t *ep_ring_payload(struct ep_ring *ring, int position)
{
    return &ring->words[position];
}

static inline uintptr_t ep_ring_header(const struct ep_record *record)
{
    return (uintptr_t)record->kind | (uintptr_t)record->quality << 4 | (uintptr_t)record->end << 8 |
           (uintptr_t)record->count << 16;
}

/* Completes the record with the words that its header counts; the rest of `most` is given back. Context: signal. */
void ep_ring_commit(struct ep_ring *ring, int position, unsigned most, uintptr_t header);

/* The oldest complete record; false when there is none. Context: collect. */
bool ep_ring_peek(struct ep_ring *ring, struct ep_record *record);
void ep_ring_pop(struct ep_ring *ring, const struct ep_record *record);

/* ---- tree ---- */

struct ep_node {
    uint32_t frame;                  /* linear address */
    uint16_t parent, child, sibling; /* 0: none */
    uint16_t entry;                  /* first entry + 1; 0: none */
};

/* What was measured for one stack, of one kind, in one context. */
struct ep_entry {
    uint16_t next;         /* of the same node, + 1 */
    uint16_t kind : 4;     /* enum ep_kind */
    uint16_t context : 12; /* place in the interval's contexts, 0: none */
    uint32_t count;
    uint64_t value; /* in the kind's unit */
};

struct ep_tree {
    struct ep_node *node; /* [0] is the root */
    struct ep_entry *entry;
    unsigned nodes, node_capacity; /* nodes includes the root */
    unsigned entries, entry_capacity;
    uint32_t *mark;     /* one bit a node, for whoever encodes */
    unsigned truncated; /* node under the root, made at clear so that there always is one */
    bool full;
};

/* Context: collect, all of them. */
void ep_tree_init(struct ep_tree *tree, void *memory, size_t size);
void ep_tree_clear(struct ep_tree *tree);         /* forgets everything */
void ep_tree_clear_entries(struct ep_tree *tree); /* keeps the nodes */
/* Of nodes below limit, of some kinds; keeps their place. */
void ep_tree_zero_entries(struct ep_tree *tree, unsigned limit, uint32_t kinds);

struct ep_sums {
    uint64_t count[EP_KINDS], value[EP_KINDS];
    uint32_t kinds;   /* that have any */
    uint64_t lost_ns; /* of CPU: in [lost: ...] frames under the root, which was counted when it was lost */
};
/* Totals of the entries of nodes below limit, by kind. */
void ep_tree_sum(const struct ep_tree *tree, unsigned limit, struct ep_sums *sums);

/* Forgets all nodes that are not marked, and all entries. Parents of marked nodes must be marked. Until
 * ep_tree_clear_entries(), node[old id].entry is a kept node's new id. */
void ep_tree_keep(struct ep_tree *tree);

/* The child of `parent` with that frame, made when there is room. 0 when there is not. */
unsigned ep_tree_child(struct ep_tree *tree, unsigned parent, uint32_t frame);

/* Goes one frame towards the leaf. False: no room, *node is a [truncated] now. */
bool ep_tree_descend(struct ep_tree *tree, unsigned *node, uint32_t frame);

/* The entry of a node, made when there is room; NULL when there is not. Context: collect. */
struct ep_entry *ep_tree_entry(struct ep_tree *tree, unsigned node, enum ep_kind kind, unsigned context);

/* Adds to the entry of a node. False: no room, it was added to [truncated]. */
bool ep_tree_add(struct ep_tree *tree, unsigned node, enum ep_kind kind, unsigned context, uint32_t count,
                 uint64_t value);

/* ---- tags: sets of key=value, each a set and one pair more (any thread) ---- */

struct ep_tags {
    atomic_uint used;                     /* bytes of text */
    atomic_ushort string[EP_TAG_STRINGS]; /* hash table: place in text + 1 */
    _Atomic uint64_t set[EP_TAG_SETS];    /* hash table: parent set, key, value; id: place + 1 */
    atomic_uchar values[EP_TAG_STRINGS];  /* of a key: distinct values */
    char text[EP_TAG_BYTES];
};

/* One pair of a set; parent: the rest. False: no such set. Context: any thread. */
struct ep_tag_pair {
    unsigned parent;
    const char *key, *value;
};
bool ep_tags_pair(const struct ep_tags *tags, unsigned set, struct ep_tag_pair *pair);
/* Texts by place below EP_TAG_STRINGS, "" where there is none; and the place of one that ep_tags_pair() gave.
 * Context: any thread. */
const char *ep_tags_text(const struct ep_tags *tags, unsigned place);
unsigned ep_tags_string(const struct ep_tags *tags, const char *text);
/* Whether the pair that `inner` adds on the way from `set` to 0 has a key that was met before. Context: any thread. */
bool ep_tags_hidden(const struct ep_tags *tags, unsigned set, unsigned inner);

/* ---- waits ---- */

/* A thread that has waited. */
struct ep_waiter {
    atomic_uint tid;               /* 0: free */
    atomic_uintptr_t work;         /* its struct ep_work, 0: not yet */
    _Atomic uint64_t accounted_ns; /* up to when its open wait is charged */
    atomic_uintptr_t unwanted;     /* the frame by which its last wait was of a class that nobody wants; 0: none */
};

/* What the collect thread does about waits: waits.c, which only those link whose waits are told. Context: collect. */
struct ep_waits {
    void (*charge)(struct ep *ep); /* waits that are still open, to the ring */
    /* Puts the class in place of EP_FRAME_BY_CALLER. False: to be left out. */
    bool (*classify)(struct ep *ep, const struct ep_record *record, unsigned first, unsigned *frame);
    void (*reconsider)(struct ep *ep); /* other kinds are on: what nobody wanted may be wanted now */
};
/* NULL: no thread has waited yet. */
extern _Atomic(const struct ep_waits *) ep_waits;
/* End of the function that starts there, by its table; 0: none. One per architecture. Context: collect. */
uintptr_t ep_function_end(uintptr_t function);
/* Start of the function that holds pc, likewise; 0 as well where tables do not tell functions apart. Context: collect,
 * deliver. */
uintptr_t ep_function_start(const struct ep_module *module, uintptr_t pc);
/* An event on another thread, whose registers and stack, a copy, are in *context. Context: collect. */
void ep_capture_for(struct ep *ep, const struct ep_work *work, const struct ep_context *context, uint32_t tid,
                    const struct ep_hook_event *event);

/* The thread's open wait becomes an event of kind EP_KIND_THREAD. False: it has none now. Context: collect. */
bool ep_wait_take(struct ep *ep, uint32_t tid);
/* As much of the stack from at->sp on as there is room for in the outbox, and *at leads there. False: no room now.
 * Context: collect. */
bool ep_copy_stack(struct ep *ep, uint32_t tid, struct ep_context *at);

/* ---- a stack of every thread: threads.c, which only those link who ask for it ---- */

struct ep_snapshot {
    void (*round)(struct ep *ep);               /* takes what can be taken now */
    bool (*wants)(struct ep *ep, uint32_t tid); /* the thread's next CPU sample */
};

/* Who gets it: the next message, or who pulls. */
enum { EP_SNAPSHOT_PUSH = 1, EP_SNAPSHOT_PULL = 2 };
/* Asks for one; the profiler is held, or it is the collect thread that asks. Context: any thread. */
void ep_snapshot_ask(struct ep *ep, unsigned who);
/* Whether one for who pulls is asked for or being taken. Context: collect. */
bool ep_snapshot_pending(const struct ep *ep);

/* ---- pulling: views.c, which only those link who have a pull endpoint ---- */

struct ep_pull {
    /* What is about to be added to the profiler's own tree, whose node it is. True: that need not be done. */
    bool (*add)(struct ep *ep, unsigned node, enum ep_kind kind, unsigned context, uint32_t count, uint64_t value);
    void (*round)(struct ep *ep); /* answers what the endpoint's thread asks */
};
/* NULL: there is no such endpoint. */
extern _Atomic(const struct ep_pull *) ep_pull;

/* ---- contexts: which tags, span and thread stacks of this interval carry (collect) ---- */

struct ep_context_key {
    uint64_t span_id, trace_high, trace_low;
    uint32_t thread; /* place in names + 1; 0: not asked for */
    uint32_t tags;
};

struct ep_thread_name {
    uint32_t tid;
    char name[16];
};

struct ep_contexts {
    unsigned count, capacity; /* [0] is none and not used */
    struct ep_context_key *key;
    unsigned names, name_capacity;
    struct ep_thread_name *name;
};

/* The key's place in the table, made when there is room; 0 when it is all zero, -ENOSPC. Context: collect. */
int ep_contexts_find(struct ep_contexts *contexts, const struct ep_context_key *key);
/* The same in the profiler's own; 0 and counted when there is no room. Context: collect. */
unsigned ep_context_find(struct ep *ep, const struct ep_context_key *key);
/* The thread's place in names + 1, 0 when there is no room. Context: collect. */
uint32_t ep_context_thread(struct ep *ep, uint32_t tid);
void ep_contexts_clear(struct ep *ep);

/* ---- the live heap (live.c, collect) ---- */

struct ep_live_stack {
    unsigned node, tags;
    uint32_t count;
    uint64_t value;
};

struct ep_live {
    void (*begin)(void); /* lets go of everything; also init */
    /* The object at that place has this stack, and stands for that much. token 0: it is not followed. */
    void (*bind)(struct ep *ep, uint32_t token, const struct ep_live_stack *stack);
    void (*miss)(uint64_t value);      /* objects were lost on the way here */
    void (*charge)(struct ep *ep);     /* puts what is in use into the tree, in place of what was there */
    void (*clear_tree)(struct ep *ep); /* ep_tree_clear(), but for the stacks of what is followed */
};
/* NULL: nothing follows objects. Written before ep_start(). */
extern const struct ep_live *ep_live;

/* Puts the sizes of a collector's heap into the tree, in place of what was there (heap.c). NULL: nobody knows any.
 * Written before ep_start(). Context: collect. */
extern void (*ep_heap_charge)(struct ep *ep);

/* ---- outbox: one producer (collect), one consumer (deliver) ---- */

struct ep_box_header {
    uint32_t size; /* of the message; 0 marks "go on at the start" */
    uint32_t sequence;
    uint64_t segment;
    uint64_t samples, cpu_ns, lost_ns; /* lost_ns: of cpu_ns, what is counted as lost already */
    uint64_t end_ns;                   /* uptime */
    uint64_t start_unix_ns, end_unix_ns;
    const char *family; /* pprof: see struct ep_message */
};

/* What the deliver thread has lost, as frames: of collect.c's frame numbers. */
enum ep_shown { EP_SHOWN_REFUSED, EP_SHOWN_SEGMENT, EP_SHOWN_SPOOL, EP_SHOWN };

struct ep_outbox {
    uint8_t *memory;
    uint32_t size;
    uint32_t reserved;      /* where the last room was found; the producer's */
    atomic_uint head, tail; /* byte offsets, multiples of 8; equal: empty */
};

/* Context: init. */
void ep_outbox_init(struct ep_outbox *box, void *memory, size_t size);

/* Room for one message at *data; returns its size, 0 when there is none. Context: collect. */
uint32_t ep_outbox_room(struct ep_outbox *box, uint8_t **data);
void ep_outbox_push(struct ep_outbox *box, const struct ep_box_header *header);
bool ep_outbox_empty(const struct ep_outbox *box);

/* The oldest message or NULL. Its bytes follow the header. Context: deliver. */
const struct ep_box_header *ep_outbox_peek(struct ep_outbox *box);
/* The message behind one that is in it, or NULL. Context: deliver. */
const struct ep_box_header *ep_outbox_after(struct ep_outbox *box, const struct ep_box_header *header);
void ep_outbox_pop(struct ep_outbox *box);

/* ---- statistics: counters that any thread may read ---- */

enum ep_counter {
    EP_COUNT_SAMPLES,
    EP_COUNT_WEIGHT_NS,
    EP_COUNT_EXACT, /* + enum ep_quality */
    EP_COUNT_GAP,
    EP_COUNT_CUT,
    EP_COUNT_THREAD_EXIT_NS,
    EP_COUNT_RULE_HITS,
    EP_COUNT_RULE_MISSES,
    EP_COUNT_MESSAGES,
    EP_COUNT_MESSAGE_BYTES,
    EP_COUNT_DELIVERED,
    EP_COUNT_DELIVERED_BYTES,
    EP_COUNT_DELIVERY_FAILURES,
    EP_COUNT_INTERVALS_MERGED,
    EP_COUNT_COLLECT_CPU_NS,
    EP_COUNT_DELIVER_CPU_NS,
    EP_COUNT_WAKEUPS,
    EP_COUNT_HANDLER_NS,
    EP_COUNT_COST_PPM,
    EP_COUNT_STRETCH_PCT,
    EP_COUNT_STRETCHES,
    EP_COUNT_SPOOLED,
    EP_COUNT_REPLAYED,
    EP_COUNT_SPOOL_MESSAGES,
    EP_COUNT_SPOOL_BYTES,
    EP_COUNT_SPOOL_WRITTEN,
    EP_COUNT_SPOOL_ERROR,
    EP_COUNT_THREADS, /* from here on: 32 bits in struct ep_stats */
    EP_COUNT_TREE_NODES,
    EP_COUNTERS
};

/* ---- the governor ---- */

/* How much longer periods are than the level's, in 16ths. */
#define EP_STRETCH_NONE 16u
#define EP_STRETCH_MOST 1024u

/* CPU time, in 1024 ns: the process'; of ours, what goes with the number of samples, and what does not; what the
 * samples would have cost unstretched, in 16ths. */
enum ep_meter {
    EP_METER_PROCESS,
    EP_METER_OWN,
    EP_METER_DRAIN,
    EP_METER_EVENTS,
    EP_METER_TICKS,
    EP_METER_HOOKS,
    EP_METERS
};
enum ep_cost { EP_COST_CPU, EP_COST_SAMPLES, EP_COST_OTHER, EP_COST_DEMAND, EP_COSTS };

struct ep_governor {
    atomic_uint to_time;                /* samples from now on that are to be timed */
    _Atomic uint64_t timed;             /* how many were (bits 0-15), ns of all */
    uint32_t stretch;                   /* 16ths; collect's, like all the rest */
    uint64_t minute[EP_COSTS];          /* sums over about that */
    uint64_t event_ns;                  /* of a sample, in the handler or hook */
    unsigned untimed;                   /* records since some were last told to be timed */
    uint64_t events, drain_ns;          /* records taken from the ring, and the time that took */
    uint64_t since_ns, seen[EP_METERS]; /* at the last measurement */
};

/* Start and end of a sample that is to be timed; begin returns 0 when it is not. Context: signal. */
uint64_t ep_timing_begin(struct ep *ep);
void ep_timing_end(struct ep *ep, uint64_t start_ns);
/* Context: init. */
void ep_governor_begin(struct ep *ep);
/* That many records were taken from the ring; some of the next samples will be timed. Context: collect. */
void ep_governor_drained(struct ep *ep, unsigned events);
/* Measures and decides: when an interval has ended, or when that is long ago. Context: collect. */
void ep_govern(struct ep *ep, bool interval_ended);

/* ---- the spool: spool.c, which only those link who ask for it ---- */

struct ep_spool {
    void (*thread)(struct ep *ep);                     /* instead of ep_deliver_thread() */
    int (*round)(struct ep *ep, uint64_t deadline_ns); /* instead of ep_deliver_round() */
    void (*stop)(struct ep *ep, uint64_t deadline_ns); /* ep_stop() begins. Context: init */
};
/* NULL: there is none. Written before ep_start(). */
extern const struct ep_spool *ep_spool;

/* ---- the profiler ---- */

struct ep {
    struct ep_config config; /* strings point into `strings` */
    char strings[EP_STRINGS_BYTES];
    struct ep_identity identity;
    uint32_t run;          /* tells this run of the profiler from others; never 0 */
    atomic_uint level;     /* enum ep_level */
    atomic_uint period_ns; /* of CPU samples, as set by level or rate */
    uint64_t interval_ns;
    uint32_t memory_used;
    uint64_t started_ns;
    uintptr_t hijack_stub;

    /* signal path */
    struct ep_ring ring;
    struct ep_governor governor;
    atomic_uint lost_samples; /* ring full, drained by collect */
    _Atomic uint64_t lost_value[EP_KINDS];
    atomic_uint refused[EP_LOSS_REASONS]; /* threads without a timer, by reason */
    atomic_uint rule_misses;

    /* collect */
    struct ep_event collect_event;
    uint64_t frames, misses; /* not yet told as rule hits: frames - misses */
    struct ep_tree tree;
    struct ep_contexts contexts;
    uint64_t interval_start_ns, next_scan_ns;
    uint32_t period_applied_ns; /* of CPU samples */
    uint32_t timers_ns;         /* the port samples with it; 0: not at all */
    uint32_t kinds;             /* that count; as ep_hook_kinds before stop */
    int64_t rest_balance_ns;
    uint64_t segment;
    uint32_t sequence;
    unsigned nodes_declared; /* nodes of the tree that the segment knows */
    unsigned module_hint;
    _Atomic(const struct ep_snapshot *) snapshot; /* NULL: nobody has asked for one yet */
    atomic_uint snapshot_asked;                   /* EP_SNAPSHOT_PUSH, _PULL */
    unsigned snapshot_for;                        /* likewise, of the one that is being taken */
    uint64_t snapshot_next_ns;                    /* when to look again; 0: none is being taken */
    atomic_bool encode_pending;                   /* the interval is over, but the outbox had no room */
    atomic_bool flush, stopping, collected;       /* collected: stopping, and nothing more will come */
    atomic_bool segment_stale;                    /* set by deliver */

    /* between them */
    struct ep_outbox outbox;
    _Atomic uint64_t lost_shown_ns[EP_SHOWN]; /* to be shown in the next profile */

    /* deliver */
    struct ep_event deliver_event;
    const struct ep_transport *transport;
    struct ep_target target;
    uint64_t backoff_ns;
    _Atomic uint64_t retry_at_ns;      /* stop resets it */
    _Atomic uint64_t stop_deadline_ns; /* 0: not stopping */
    _Atomic uint64_t stop_send_ns;     /* with a spool: until when messages may be sent then; stored before it */
    struct ep_deadline send_deadline;  /* of the message that is being sent */
    atomic_int last_error;

    _Atomic uint64_t counter[EP_COUNTERS];
    _Atomic uint64_t kind_count[EP_KINDS], kind_value[EP_KINDS];
    _Atomic uint64_t lost_count[EP_LOSS_REASONS], lost_ns[EP_LOSS_REASONS];

    /* What is large, last: code for what is near the start is shorter. */
    struct ep_modules modules;
    struct ep_tags tags;
    struct ep_waiter waiter[EP_MAX_THREADS];
    uint32_t tags_declared[EP_TAG_SETS / 32 + 1]; /* the segment knows these sets */
    _Atomic uint64_t rule[EP_RULE_CACHE];
    _Alignas(8) uint8_t transport_state[EP_TRANSPORT_BYTES];
    _Alignas(8) uint8_t port_memory[EP_PORT_BYTES];
};

extern _Atomic(struct ep *) ep_current;

/* ep->run of the running profiler, 0 when none runs: to be read without holding it. */
extern atomic_uint ep_run;

/* The running profiler or NULL. Context: signal. */
static inline struct ep *ep_running(void)
{
    return atomic_load_explicit(&ep_current, memory_order_acquire);
}
/* The same for who holds it. Context: signal. */
static inline struct ep *ep_held_here(void)
{
    return atomic_load_explicit(&ep_current, memory_order_relaxed);
}
/* What the thread works for, as words of a record: returns the tag set; *span: whether *work's ids count.
 * Context: signal. */
static inline unsigned ep_work_read(const struct ep *ep, const struct ep_work *work, bool *span)
{
    bool whole = (atomic_load_explicit(&work->guard, memory_order_relaxed) & 1) == 0;

    *span = whole && (work->span_id | work->trace_high | work->trace_low) != 0;
    return whole && work->run == ep->run ? work->tags : 0;
}

/* Makes it the running one. Context: init. */
void ep_publish(struct ep *ep);
/* Whether a thread is between ep_hold and ep_release. Context: init. */
bool ep_held(void);

/* Between enter and leave the profiler's memory stays valid; enter returns NULL when none runs.
 * Context: signal. */
struct ep *ep_hold(void);
void ep_release(void);

/* Adds to a counter, or a loss by reason. Context: any thread. */
void ep_count(struct ep *ep, enum ep_counter counter, uint64_t amount);
void ep_lose(struct ep *ep, enum ep_loss reason, uint64_t count, uint64_t weight_ns);
/* Adds to a kind's totals. Context: collect. */
void ep_count_kind(struct ep *ep, enum ep_kind kind, uint64_t count, uint64_t value);
void ep_stats_fill(struct ep *ep, struct ep_stats *stats);

/* Carves memory; 0 or -ENOMEM. Context: init. */
int ep_layout(const struct ep_config *config, struct ep **ep);

/* Checks a configuration; copies it, completed, into *ep. 0 or -EINVAL, -ENOMEM with words in ep_start_error().
 * Context: init. */
int ep_settings_check(const struct ep_config *config);
int ep_settings_apply(struct ep *ep, const struct ep_config *config);
/* Sets ep_start_error() to a, b and c joined, or to why; returns error. Context: init. */
int ep_complain(int error, const char *a, const char *b, const char *c);
int ep_refuse(int error, const char *why);
/* What may be told of an endpoint: not its user and password. */
const char *ep_endpoint_shown(const char *endpoint);

/* Fills config->headers, when it is NULL, from the environment, and refuses what may not be there. pyroscope: its
 * variable gave the endpoint. 0 or -EINVAL. Context: init. */
int ep_environment_headers(struct ep_config *config, bool pyroscope);

#define EP_KINDS_ALL ((EP_KIND_BIT(EP_KINDS) - 1) & ~1u)

/* Kinds that a level measures; it is a valid one. Context: any thread. */
uint32_t ep_level_kinds(enum ep_level level);
/* Level, kinds and periods as the configuration wants them. Context: init. */
void ep_level_begin(struct ep *ep);
void ep_level_end(void);
/* Applies a rate, or a stretch, that was changed. Context: collect. */
void ep_level_apply(struct ep *ep);

/* Begins a new segment: the dictionary is empty. Context: collect, init. */
void ep_segment_begin(struct ep *ep);

/* One round of collecting: drains the ring, looks for modules and threads, ends the interval when it is time.
 * Context: collect. */
void ep_collect_round(struct ep *ep);
/* Puts what is in the ring into the tree. Context: collect. */
void ep_collect_drain(struct ep *ep);
/* One of the kind's events without a stack. Context: collect. */
void ep_collect_special(struct ep *ep, enum ep_special frame, enum ep_kind kind, uint32_t tid, uint64_t value);
/* Encodes everything that was measured; with `last` as the end of the segment. False: the outbox has no room for
 * (all of) it. Context: collect. */
bool ep_collect_finish(struct ep *ep, bool last);
/* Thread bodies. Context: collect / deliver. */
void ep_collect_thread(void);
void ep_deliver_thread(void);
/* Brings a deadline nearer, never farther. Context: any thread. */
void ep_deadline_shrink(struct ep_deadline *deadline, uint64_t at_ns);
/* Delivers what it can before deadline_ns (uptime). 0: the outbox is empty, else why not. Context: deliver. */
int ep_deliver_round(struct ep *ep, uint64_t deadline_ns);

/* An encoder writes the tree's nodes below `limit` and their entries as one message. Pprof may tell another tree than
 * the profiler's own; compact has a dictionary of that one. */
struct ep_encoding {
    uint8_t *data;
    uint32_t size; /* room */
    struct ep_tree *tree;
    const struct ep_contexts *contexts;
    unsigned modules;              /* the first that many */
    const uint32_t *count_high;    /* of each entry: what its count has in excess of 32 bits; NULL: nothing */
    const uint32_t *tag_strings;   /* a bit for each place of those that count; NULL: all */
    uint64_t period;               /* of the family's first kind; 0: as it is now */
    unsigned limit;                /* nodes [1, limit) and their entries */
    uint32_t kinds;                /* EP_KIND_BIT()s to tell */
    bool last;                     /* nothing follows in this segment */
    uint64_t start_ns, end_ns;     /* uptime */
    uint64_t unix_minus_uptime_ns; /* 0: the device has no clock */
    struct ep_sums sums;           /* of what is told */
};
struct ep_encoder {
    enum ep_format format;
    /* Returns the bytes written, or -ENOSPC. Context: collect. */
    int32_t (*encode)(struct ep *ep, const struct ep_encoding *encoding);
    /* The kinds that go into one message with the lowest of `kinds`. Context: collect. */
    uint32_t (*together)(uint32_t kinds);
    /* What ep_message.family is for such a message. Context: collect. */
    const char *(*family)(uint32_t kinds);
};
extern const struct ep_encoder ep_encoder_compact;

/* The whole message's size, and the bytes of it from `from` on, as many as there are and there is room for: a large one
 * in several rounds through a small buffer. As long as what the encoding tells stays as it is, so do all bytes.
 * Context: collect. */
uint64_t ep_encode_pprof_size(struct ep *ep, const struct ep_encoding *encoding);
uint32_t ep_encode_pprof_piece(struct ep *ep, const struct ep_encoding *encoding, uint64_t from);

/* Iterates "key=value,key=value". Returns the rest behind the pair, NULL at the end or (*error) when it is
 * malformed. Context: any thread. */
struct ep_tag {
    const char *key, *value;
    unsigned key_size, value_size;
};
const char *ep_tag_next(const char *text, struct ep_tag *tag, bool *error);

/* How many characters at the start of the text make a key. Context: any thread. */
unsigned ep_tag_key_size(const char *text);

/* Name of a special frame, "[truncated]". Context: any thread. */
const char *ep_special_name(unsigned frame);

#endif
