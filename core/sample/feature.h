/*
 * The plug for optional features: a feature is a constant of functions, which the core calls at certain moments.
 *
 * A program links the features that it starts: the feature's public function adds its constant to the list. The core
 * knows the moments and no feature. A moment that a feature leaves NULL costs nothing. All of them run on edgeprof's
 * own threads or in ep_start() and ep_stop(), never in a signal handler: what a runtime adds to the signal path is a
 * direct weak call (core/DESIGN.md names them).
 */
#ifndef EP_SAMPLE_FEATURE_H
#define EP_SAMPLE_FEATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/edgeprof.h>

struct ep;
struct ep_box_header;
struct ep_delivery;
struct ep_message;
struct ep_sample;
struct ep_sent;
struct ep_tree;

/* The most features of a program. */
#define EP_FEATURES 16u

struct ep_feature {
    const char *name;

    /* ---- start and stop. Context: init ---- */

    /* ep_start() begins: returns 0, or ep_refuse()'s error for a configuration that the feature cannot use. */
    int (*check)(const struct ep_config *config);
    /* Lowers the number of label sets and the bytes of the tree to the most that the feature can follow. */
    void (*limit)(unsigned *labels, size_t *tree);
    /* A run begins: the settings are known, the outbox is empty, and nothing runs yet. It may add messages to the
     * outbox and change ep->config.flags. */
    void (*start)(struct ep *ep);
    /* Returns the bytes of the largest message that the feature can take. */
    uint32_t (*message_most)(void);
    /* Returns the headers to send instead of the configuration's; they stay where they are until the run's end. */
    const char *(*headers)(struct ep *ep);
    /* ep_stop() begins; deadline_ns (uptime) ends it. */
    void (*stop)(struct ep *ep, uint64_t deadline_ns);
    /* A run has ended, and nothing runs any more: counts as lost what the feature has taken and not delivered. */
    void (*end)(struct ep *ep);
    /* This process is the child of a fork(): no run goes on. */
    void (*forked)(void);

    /* ---- rounds and samples. Context: collect ---- */

    /* Enabled kinds have changed. */
    void (*kinds_changed)(struct ep *ep);
    /* The list of modules was read again; pinned: they stay loaded. Context: init, collect. */
    void (*modules)(bool pinned);
    /* A round of the collect thread, after the ring was drained. */
    void (*round)(struct ep *ep, uint64_t now_ns);
    /* Returns the time (uptime) of the next round at the latest; UINT64_MAX: any. */
    uint64_t (*next)(const struct ep *ep);
    /* Returns true while the interval must not end: what the feature adds has to be in one profile. */
    bool (*holds)(const struct ep *ep);
    /* An interval or a view ends: records what is still open, such as waits. */
    void (*gather)(struct ep *ep);
    /* Replaces EP_FRAME_BY_CALLER by the frame that the sample's callers decide. False: drops the sample. */
    bool (*classify)(struct ep *ep, struct ep_sample *sample);
    /* Returns true if pc is in a function of edgeprof that threads of the program call. */
    bool (*is_own)(const struct ep *ep, uintptr_t pc);
    /* The sample's stack is that node of the tree. True: it is for this feature alone, and no profile shows it. */
    bool (*sample)(struct ep *ep, const struct ep_sample *sample, unsigned node);
    /* A value will be added to the tree, at this node. True: it is for this feature alone. */
    bool (*value)(struct ep *ep, unsigned node, enum ep_kind kind, unsigned label, uint32_t count, uint64_t value);
    /* A sample is in the tree, at this node. */
    void (*added)(struct ep *ep, const struct ep_sample *sample, unsigned node);
    /* Events of a kind were lost before the collect thread saw them; `value` is their weight. */
    void (*lost)(struct ep *ep, enum ep_kind kind, uint64_t value);
    /* An interval has ended: its messages are in the outbox, or there is no transport. */
    void (*interval_end)(struct ep *ep);
    /* An interval or a view ends: replaces the tree's entries of kinds that are a state and no event. */
    void (*gauges)(struct ep *ep);

    /* ---- requests. Context: any thread ---- */

    /* Somebody asks to keep what has just happened; `size` characters of name say why. Returns 0; -EAGAIN: the last
     * request is not done yet. One feature at most has this. */
    int (*trigger)(const char *name, size_t size);

    /* ---- the life of the tree, for a feature that keeps numbers of nodes. Context: collect ---- */

    /* Marks the nodes that the feature refers to, with ep_tree_mark(). Returns the number of nodes that it marked. */
    unsigned (*tree_mark)(struct ep_tree *tree);
    /* More than half of the nodes are marked: refers to fewer from now on. False: it cannot. */
    bool (*tree_thin)(void);
    /* The marked nodes have moved: tree->node[old].entry is the new number. */
    void (*tree_moved)(const struct ep_tree *tree);
    /* The tree becomes empty: refers to no node any more. */
    void (*tree_clear)(void);

    /* ---- the way out. Context: deliver ---- */

    /* Delivers instead of the core, until deadline_ns (uptime). Returns 0: nothing is left to do; or an error, and
     * ep->deliver->due_ns is the time of the next round. One feature at most has this. */
    int (*deliver)(struct ep *ep, uint64_t deadline_ns);
    /* The deliver thread ends. */
    void (*deliver_end)(struct ep *ep);
    /* The transport's result for a message is `error`, see struct ep_transport. Returns the result that counts: 0 for a
     * message of the feature's own that must not be sent again. */
    int (*answered)(struct ep *ep, const struct ep_message *message, int error);
    /* A message was sent, or was not. */
    void (*sent)(struct ep *ep, const struct ep_sent *sent);
    /* Another feature cannot read the file that the user has named. */
    void (*unreadable)(const char *path, int error);

    /* ---- a format other than compact. One feature at most has these four. Context: deliver ---- */

    /* Sends the values of a compact message in the feature's format. Returns 0: they are delivered or counted as lost;
     * 1: nothing was sent, they are kept until the interval's last message; or an error of ep_deliver_message(). */
    int (*convert)(struct ep *ep, const struct ep_message *message, const struct ep_delivery *delivery);
    /* Takes from the outbox what only this feature can read, because messages before it have left, and what it has
     * taken but not sent. Writes one interval of that as a compact message, for the spool. Returns its size, 0: there
     * is nothing; *header describes it. It stays until stored() or until it is sent. */
    uint32_t (*unsent)(struct ep *ep, const uint8_t **bytes, struct ep_box_header *header);
    void (*stored)(void);
    /* The spool has deleted a message whose send had failed. True: its values were waiting here, and are now counted
     * as lost. own: it was of this run. */
    bool (*forget)(struct ep *ep, uint64_t segment, uint32_t sequence, bool own);
};

/* Adds a feature behind the others; does nothing if it is in the list. Returns 0, or -ENOSPC: there are EP_FEATURES.
 * Context: signal. */
int ep_feature_add(const struct ep_feature *feature);

/* Takes a feature out of the list. Only the caller knows that no moment of the feature is in progress on another
 * thread. Context: init, or a moment of the feature itself. */
void ep_feature_remove(const struct ep_feature *feature);

/* Takes all features out of the list but the one that delivers, and puts them back. Context: init, while no profiler
 * runs. */
void ep_features_aside(const struct ep_feature *aside[EP_FEATURES]);
void ep_features_back(const struct ep_feature *const aside[EP_FEATURES]);

/* A walk through the features that have a moment, in the order of ep_feature_add(). Zeroed: at the beginning. */
struct ep_feature_walk {
    unsigned next;
    const struct ep_feature *feature;
};
/* Moves on to the next feature whose member at `offset` is not NULL. False: there is none. Context: any thread. */
bool ep_feature_next(struct ep_feature_walk *walk, size_t offset);

/* Returns the first feature whose member at `offset` is not NULL; NULL: there is none. Context: any thread. */
const struct ep_feature *ep_feature_with(size_t offset);

/* EP_EACH_FEATURE(at, round) at.feature->round(ep, now);   calls all features that have this moment
 * EP_FEATURE_WITH(deliver)                                 the one that has it, or NULL
 * EP_HAS_FEATURE(round)                                    true if there is one */
#define EP_EACH_FEATURE(at, moment)                                                                                    \
    for (struct ep_feature_walk at = {0}; ep_feature_next(&at, offsetof(struct ep_feature, moment));)
#define EP_FEATURE_WITH(moment) ep_feature_with(offsetof(struct ep_feature, moment))
#define EP_HAS_FEATURE(moment)  (EP_FEATURE_WITH(moment) != NULL)

#endif
