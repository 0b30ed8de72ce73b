/*
 * The interface of core/collect, the collect thread.
 *
 * In: records in the ring. Out: the tree, and messages in the outbox when an interval ends. It never blocks: no socket,
 * no file, no waiting for the next stage.
 */
#ifndef EP_COLLECT_H
#define EP_COLLECT_H

#include "core/collect/state.h"
#include "core/deliver/state.h"
#include "core/profile/encoding.h"
#include "core/sample/feature.h"
#include "core/sample/profiler.h"

/* ep_labels_find() in the profiler's own table; 0, counted as a loss, if there is no room. Context: collect. */
unsigned ep_label_find(struct ep *ep, const struct ep_label_key *key);
/* The thread's place in the names + 1, 0 if there is no room. Context: collect. */
uint16_t ep_label_thread(struct ep *ep, uint32_t tid);
void ep_labels_clear(struct ep *ep);

/* Context: init. */
void ep_governor_begin(struct ep *ep);
/* Reports the number of records taken from the ring; some of the next samples will be timed. Context: collect. */
void ep_governor_drained(struct ep *ep, unsigned events);
/* Measures the cost and adapts the periods, when an interval has ended or at least every 10 s. Context: collect. */
void ep_govern(struct ep *ep, bool interval_ended);

/* Context: init. */
void ep_rates_begin(struct ep *ep);
/* Reports an event taken from the ring, or the weight of lost ones; after many, changes the distance. Context:
 * collect. */
void ep_rates_note(struct ep *ep, enum ep_kind kind, uint64_t value);
/* Changes the distances at most once a second. Call it when the ring is drained. Context: collect. */
void ep_rates_round(struct ep *ep);
/* The kind's sampling distance without the governor's stretch. Context: collect, init. */
uint32_t ep_rates_distance(const struct ep *ep, enum ep_kind kind);
/* The limit of the kind's events per second, 0: none. Context: any thread. */
unsigned ep_rates_limit(const struct ep *ep, enum ep_kind kind);

/* The kinds of a valid level. Context: any thread. */
uint32_t ep_level_kinds(enum ep_level level);
/* Sets level, kinds and periods from the configuration. Context: init. */
void ep_level_begin(struct ep *ep);
void ep_level_end(void);
/* Applies a changed rate, stretch or set of kinds. Context: collect. */
void ep_level_apply(struct ep *ep);
/* Publishes the sampling distances of events. Context: collect, init. */
void ep_level_periods(struct ep *ep);

/* Begins a new segment, with an empty dictionary. Context: collect, init. */
void ep_segment_begin(struct ep *ep);
/* The same, but the dictionary's nodes and tag sets stay. Context: collect. */
void ep_segment_rename(struct ep *ep);
/* Puts an encoded message into the outbox: ep_outbox_put(). Context: collect. */
const struct ep_box_header *ep_message_put(struct ep *ep, const struct ep_encoding *encoding, uint32_t size, bool hold);
/* Does what the deliver thread asked for: ep->deliver->restart. Context: collect. */
void ep_restart_round(struct ep *ep);

/* Adds a value without a stack, as a special frame under the root. Context: collect. */
void ep_add_special(struct ep *ep, enum ep_special frame, enum ep_kind kind, uint32_t count, uint64_t value);

/* Adds residual CPU time of a thread to the balance. It is negative where samples stand for more than the thread used.
 * Context: collect. */
void ep_add_residual(struct ep *ep, int64_t residual_ns);

/* Moves the whole periods of a positive balance to [thread exit], so that totals are right although a thread does not
 * end with a sample. Once an interval: a later thread may owe what an earlier one is owed. Context: collect. */
void ep_residual_show(struct ep *ep);

/* Returns true for a kind that only the history wants: it is in no profile, so its losses are no loss of one.
 * Context: collect. */
bool ep_is_of_history(enum ep_kind kind);

/* One round of the collect thread: drains the ring, scans for modules and threads, ends the interval when it is due.
 * Context: collect. */
void ep_collect_round(struct ep *ep);
/* Reads the list of modules; pin: they stay loaded. Returns 0 or an error. Context: init, collect. */
int ep_modules_read(bool pin);
/* Records what is still open, such as waits. The ring has it then. Context: collect. */
void ep_collect_gather(struct ep *ep);
/* Moves the ring's records into the tree. Context: collect. */
void ep_collect_drain(struct ep *ep);
/* Adds one event without a stack. Context: collect. */
void ep_collect_special(struct ep *ep, enum ep_special frame, enum ep_kind kind, uint32_t tid, uint64_t value);
/* Encodes everything measured; `last`: ends the segment. False: the outbox has no room, or not for all.
 * Context: collect. */
bool ep_collect_finish(struct ep *ep, bool last);

/* Encodes what was measured so far, before the interval ends. Without gauges, which belong to its end. Context:
 * collect. */
void ep_collect_early(struct ep *ep);
/* True while a feature holds the interval open. Context: collect. */
bool ep_collect_held(const struct ep *ep);
/* Adds a value to the tree and to the kind's totals, if the kind is enabled. Context: collect. */
void ep_collect_add(struct ep *ep, unsigned node, enum ep_kind kind, unsigned label, uint32_t count, uint64_t value);
/* After the collect thread's end: counts as lost what threads have recorded since. False: nothing. Context: init. */
bool ep_collect_abandon(struct ep *ep);
/* Empties the tree without a message: nothing is sent. Context: collect. */
void ep_collect_discard(struct ep *ep);
/* Updates the tree's entries of kinds that are a state. Context: collect. */
void ep_collect_gauges(struct ep *ep);

/* Before a sample is added: sends what there is early when little room is left in the tree or the table of label sets.
 * When that is impossible, gives up detail. Context: collect. */
void ep_make_room(struct ep *ep);
/* The start of the function at a linear address, as one, as far as its tables tell; else the same. Context: collect. */
uint32_t ep_function_of(struct ep *ep, uint32_t frame);
/* Marks the nodes that features refer to, and no others. While these are more than half of the tree, features give some
 * up. Returns their number. Context: collect. */
unsigned ep_collect_mark(struct ep *ep);
/* The collect thread's body. Context: collect. */
void ep_collect_thread(void);

#endif
