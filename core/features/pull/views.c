/*
 * The pull endpoint's profiles: views of two trees of its own, in the memory given to ep_pull_open(). They take nothing
 * from pushed profiles and change no statistics. The collect thread offers every value (pull_value). Allocations, locks
 * and waits go to `total`, which is never emptied: it covers everything since the start, like Go's heap or mutex. CPU
 * samples and thread dumps go to `passing`, only while a view needs them. Tags are kept, spans are not.
 *
 *   collect    pull_value -> views_reset, tally_add -> stack_copy, label_of
 *              pull_round -> view_answer -> view_open | view_end -> drain_pending, gauges_take, view_freeze
 *                                            | view_piece -> view_extend
 *   pull       ep_view_ask wakes the collect thread and waits for its answer
 */
#include <errno.h>
#include <string.h>

#include "core/features/dump/dump.h"
#include "core/features/pprof/pprof.h"
#include "core/features/pull/pull.h"
#include "core/features/pull/views.h"
#include "core/sample/capture.h"

#define VIEWS        3
#define KEYS         128u /* labels of each tree */
#define FRAMES       (EP_MAX_DEPTH + 8)
#define GROUP        8u /* entries of a group, see tree.c */
#define ANSWER_NS    2000000000u
#define LOOK_NS      50000000u
#define GROUP_BYTES  (GROUP * sizeof(struct ep_entry) + 4 * GROUP * sizeof(struct ep_node) + sizeof(uint32_t))
#define VALUES_BYTES (sizeof(struct ep_entry) + sizeof(uint32_t))
#define LEAST        64u /* minimum number of entries of a tree */
#define PASSING      (EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_THREAD))
#define GAUGES       (EP_KIND_BIT(EP_KIND_LIVE) | EP_KIND_BIT(EP_KIND_HEAP))
#define WAITS        (EP_KIND_BIT(EP_KIND_WAIT) | EP_KIND_BIT(EP_KIND_LOCK))
#define STRING_WORDS ((EP_TAG_STRINGS + 31) / 32)

enum state { FREE, COUNTING, STANDING };

/* A tree, the labels of its entries, and the bits above 32 of their counts, which grow for months. */
struct tally {
    struct ep_tree tree;
    struct ep_labels labels;
    uint32_t *high;
};

/* A view uses its tally's nodes and has its own values. While COUNTING they are the values when the view was opened;
 * from its end on (STANDING) they are the increase since then. So clients do not affect each other, a profile can be
 * sent in pieces over a long time, and each stack is stored once. */
struct view {
    enum state state;
    unsigned number; /* identifies the view among all that used its place */
    struct tally *of;
    struct ep_entry *entry; /* room for all entries of the tree */
    uint32_t *high;
    unsigned entries;   /* number of entries with a value */
    struct tally shown; /* copy of *of at the view's end, with the view's values */
    uint32_t kinds;
    unsigned modules;
    uint32_t tag_strings[STRING_WORDS]; /* tag texts that existed at the view's end and are UTF-8 */
    uint64_t period, clock_error, start_ns, end_ns, unix_minus_uptime_ns;
    bool no_duration;
};

static struct {
    uint32_t run;      /* of the profiler */
    uint64_t since_ns; /* start of `total`, uptime */
    uint32_t passing_kinds;
    unsigned opened; /* number of views opened so far */
    struct ep_view_losses losses;
    struct tally total, passing;
    struct view view[VIEWS];
    atomic_uint unwanted[VIEWS]; /* numbers of the views that ep_view_close() has closed */
    /* The current question. The thread that advances `state` may write the other members. */
    atomic_uint state;
    struct ep_view_question question;
    int64_t answer;
    struct ep_event answered;
} pull;

enum { IDLE, ASKED, TAKEN };

/* ---- values from the collect thread ---- */

static void tally_clear(struct tally *tally)
{
    ep_tree_clear(&tally->tree);
    memset(tally->high, 0, tally->tree.entry_capacity * sizeof tally->high[0]);
    tally->labels.count = 1;
    tally->labels.names = 0;
}

/* A new run of the profiler: old addresses and tags are invalid. */
static void views_reset(struct ep *ep)
{
    pull.run = ep->run;
    pull.since_ns = ep_port_uptime_ns();
    pull.passing_kinds = 0;
    tally_clear(&pull.total);
    tally_clear(&pull.passing);
    for (unsigned i = 0; i < VIEWS; i++)
        pull.view[i].state = FREE;
}

/* The node of the same stack in another tree. */
static unsigned stack_copy(const struct ep_tree *from, unsigned node, struct ep_tree *to)
{
    uint32_t frames[FRAMES];
    unsigned depth = 0, at = 0;

    for (; node && depth < FRAMES; node = from->node[node].parent)
        frames[depth++] = from->node[node].frame;
    while (depth && ep_tree_descend(to, &at, frames[depth - 1]))
        depth--;
    atomic_fetch_add(&pull.losses.truncated, depth > 0);
    return at;
}

static uint16_t thread_of(struct ep_labels *labels, const struct ep_thread_name *thread)
{
    for (unsigned i = 0; i < labels->names; i++)
        if (labels->name[i].tid == thread->tid)
            return (uint16_t)(i + 1);
    for (unsigned i = 0; labels->names >= labels->name_capacity && i < labels->names; i++)
        if (strcmp(labels->name[i].name, thread->name) == 0)
            return (uint16_t)(i + 1);
    if (labels->names >= labels->name_capacity)
        return 0;
    char *name = labels->name[labels->names].name;
    labels->name[labels->names] = *thread;
    for (size_t size = strlen(name), run; (run = ep_utf8_run(name, size)) < size; name += run + 1, size -= run + 1)
        name[run] = '?'; /* the kernel may cut a name within a character */
    return (uint16_t)++labels->names;
}

static unsigned label_of(const struct ep *ep, unsigned label, struct ep_labels *labels)
{
    const struct ep_label_key *known = &ep->collect->labels.key[label];

    if (!label)
        return 0;
    const struct ep_label_key key = {
        .tags = known->tags,
        .thread = known->thread ? thread_of(labels, &ep->collect->labels.name[known->thread - 1]) : 0};
    const int found = ep_labels_find(labels, &key);
    atomic_fetch_add(&pull.losses.unlabelled, found < 0);
    return found < 0 ? 0 : (unsigned)found;
}

static void tally_add(struct ep *ep, struct tally *tally, unsigned node, enum ep_kind kind, unsigned label,
                      uint32_t count, uint64_t value)
{
    struct ep_entry *entry = ep_tree_entry(&tally->tree, stack_copy(&ep->collect->tree, node, &tally->tree), kind,
                                           label_of(ep, label, &tally->labels));

    if (!entry) {
        entry = ep_tree_entry(&tally->tree, tally->tree.truncated, kind, 0);
        atomic_fetch_add(&pull.losses.truncated, 1);
    }
    uint32_t before = entry->count;
    entry->count += count;
    entry->value += value;
    tally->high[entry - tally->tree.entry] += entry->count < before;
}

static bool is_offered(const struct ep *ep, unsigned node, enum ep_kind kind)
{
    uint32_t frame = ep->collect->tree.node[node].frame;

    if (frame == EP_FRAME_LOST_REFUSED || frame == EP_FRAME_LOST_SEGMENT) /* they were not lost for the pull endpoint */
        return false;
    if (kind == EP_KIND_THREAD && !(ep_snapshot_for() & EP_SNAPSHOT_PULL))
        return false;
    return !(PASSING & EP_KIND_BIT(kind)) || pull.passing_kinds & EP_KIND_BIT(kind);
}

static bool pull_value(struct ep *ep, unsigned node, enum ep_kind kind, unsigned label, uint32_t count, uint64_t value)
{
    if (pull.run != ep->run)
        views_reset(ep);
    if (is_offered(ep, node, kind))
        tally_add(ep, PASSING & EP_KIND_BIT(kind) ? &pull.passing : &pull.total, node, kind, label, count, value);
    return kind == EP_KIND_THREAD && ep_snapshot_for() == EP_SNAPSHOT_PULL;
}

/* ---- views ---- */

/* Adds values still on their way to the trees, so that they count as measured before this moment. */
static void drain_pending(struct ep *ep, uint32_t kinds)
{
    if (kinds & WAITS)
        ep_collect_gather(ep);
    ep_collect_drain(ep);
}

static unsigned views_of(const struct tally *tally)
{
    unsigned count = 0;

    for (unsigned i = 0; i < VIEWS; i++)
        count += pull.view[i].state != FREE && pull.view[i].of == tally;
    return count;
}

static void passing_kinds_find(void)
{
    pull.passing_kinds = 0;
    for (unsigned i = 0; i < VIEWS; i++)
        if (pull.view[i].state == COUNTING)
            pull.passing_kinds |= pull.view[i].kinds & PASSING;
}

/* Returns 0 if one more view of `passing` may be opened, else -EBUSY. */
static int passing_open(uint32_t kinds)
{
    const struct ep_tree *tree = &pull.passing.tree;

    if (views_of(&pull.passing) == 0)
        tally_clear(&pull.passing);
    /* Two simultaneous dumps would get parts of each other. */
    bool dumping = ep_snapshot_pending(EP_SNAPSHOT_PULL) || pull.passing_kinds & EP_KIND_BIT(EP_KIND_THREAD);
    return tree->nodes > tree->node_capacity / 4 * 3 || (kinds & EP_KIND_BIT(EP_KIND_THREAD) && dumping) ? -EBUSY : 0;
}

static int64_t view_open(struct ep *ep, const struct ep_view_question *question)
{
    struct tally *of = question->kinds & PASSING ? &pull.passing : &pull.total;
    unsigned number = 0;

    while (number < VIEWS && pull.view[number].state != FREE)
        number++;
    if (number == VIEWS || (of == &pull.passing && passing_open(question->kinds) != 0))
        return -EBUSY;
    struct view *view = &pull.view[number];
    drain_pending(ep, question->kinds);
    view->state = COUNTING;
    view->of = of;
    view->kinds = question->kinds;
    view->entries = question->since_start ? 0 : of->tree.entries;
    memcpy(view->entry, of->tree.entry, view->entries * sizeof view->entry[0]);
    memcpy(view->high, of->high, view->entries * sizeof view->high[0]);
    view->start_ns = question->since_start ? pull.since_ns : ep_port_uptime_ns();
    view->no_duration = question->no_duration;
    passing_kinds_find();
    const int error = question->kinds & EP_KIND_BIT(EP_KIND_THREAD) ? ep_snapshot_ask(ep, EP_SNAPSHOT_PULL) : 0;
    if (error) {
        view->state = FREE;
        return error;
    }
    view->number = (pull.opened++ & INT16_MAX) * VIEWS + number + 1;
    return view->number;
}

/* Copies the current gauges into `total`, replacing the old ones. */
static void gauges_take(struct ep *ep)
{
    const struct ep_tree *tree = &ep->collect->tree;

    ep_collect_gauges(ep);
    ep_tree_zero_entries(&pull.total.tree, pull.total.tree.nodes, GAUGES);
    for (unsigned node = 1; node < tree->nodes; node++)
        for (unsigned i = tree->node[node].entry; i; i = tree->entry[i - 1].next) {
            const struct ep_entry *entry = &tree->entry[i - 1];
            if (GAUGES & EP_KIND_BIT(entry->kind))
                tally_add(ep, &pull.total, node, (enum ep_kind)entry->kind, entry->label, entry->count, entry->value);
        }
}

/* Adds entries with value 0 for entries that the tree got after the view's end. */
static void view_extend(struct view *view)
{
    const struct ep_tree *now = &view->of->tree;

    for (unsigned i = view->entries; i < now->entries; i++) {
        view->entry[i] = now->entry[i];
        view->entry[i].count = 0;
        view->entry[i].value = 0;
        view->high[i] = 0;
    }
}

/* Replaces the values at the view's start by the increase since then. */
static void view_freeze(struct view *view)
{
    const struct ep_tree *now = &view->of->tree;

    for (unsigned i = 0; i < now->entries; i++) {
        const bool before = i < view->entries && !(GAUGES & EP_KIND_BIT(now->entry[i].kind));
        uint64_t count = now->entry[i].count | (uint64_t)view->of->high[i] << 32;
        uint64_t count_before = before ? view->entry[i].count | (uint64_t)view->high[i] << 32 : 0;
        uint64_t value_before = before ? view->entry[i].value : 0;
        view->entry[i] = now->entry[i];
        view->entry[i].count = (uint32_t)(count - count_before);
        view->entry[i].value -= value_before;
        view->high[i] = (uint32_t)((count - count_before) >> 32);
    }
    view->entries = now->entries;
    view->shown = *view->of;
    view->shown.tree.entry = view->entry;
    view->shown.high = view->high;
}

static uint64_t kinds_period(uint32_t kinds)
{
    unsigned kind = EP_KIND_CPU;

    while (!(kinds & EP_KIND_BIT(kind)))
        kind++;
    return ep_hook_period((enum ep_kind)kind);
}

static struct ep_encoding encoding_of(struct ep *ep, struct view *view)
{
    return (struct ep_encoding){.tree = &view->shown.tree,
                                .labels = &view->shown.labels,
                                .count_high = view->shown.high,
                                .table = &ep->unwinder.modules,
                                .tags = &ep->tags,
                                .modules = view->modules,
                                .tag_strings = view->tag_strings,
                                .period = view->period,
                                .clock_error = view->clock_error,
                                .kinds = view->kinds,
                                .start_ns = view->start_ns,
                                .end_ns = view->end_ns,
                                .unix_minus_uptime_ns = view->unix_minus_uptime_ns};
}

static int64_t view_end(struct ep *ep, struct view *view)
{
    if (view->kinds & EP_KIND_BIT(EP_KIND_THREAD) && ep_snapshot_pending(EP_SNAPSHOT_PULL))
        return -EAGAIN;
    drain_pending(ep, view->kinds);
    if (view->kinds & GAUGES)
        gauges_take(ep);
    view_freeze(view);
    view->state = STANDING;
    passing_kinds_find();
    uint64_t now = ep_port_uptime_ns(), unix_ns = ep_port_unix_ns();
    view->end_ns = now;
    if (view->no_duration)
        view->start_ns = now; /* servers add up what has a duration, at each scrape again */
    view->unix_minus_uptime_ns = unix_ns > now ? unix_ns - now : 0;
    view->period = kinds_period(view->kinds);
    view->clock_error = atomic_load(&ep->counter[EP_COUNT_CLOCK_ERROR]);
    view->modules = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed);
    memset(view->tag_strings, 0, sizeof view->tag_strings);
    for (unsigned i = 0; i < EP_TAG_STRINGS; i++) {
        const char *text = ep_tags_text(&ep->tags, i);
        if (*text && ep_utf8_run(text, strlen(text)) == strlen(text))
            view->tag_strings[i / 32] |= 1u << (i % 32);
    }
    const struct ep_encoding encoding = encoding_of(ep, view);
    return (int64_t)ep_encode_pprof_size(&encoding);
}

static int64_t view_piece(struct ep *ep, struct view *view, const struct ep_view_question *question)
{
    struct ep_encoding encoding = encoding_of(ep, view);

    view_extend(view);
    encoding.data = question->data;
    encoding.size = question->size;
    return ep_encode_pprof_piece(&encoding, question->from);
}

/* ---- questions ---- */

static struct view *view_find(unsigned number)
{
    for (unsigned i = 0; i < VIEWS; i++)
        if (pull.view[i].state != FREE && pull.view[i].number == number)
            return &pull.view[i];
    return NULL;
}

static void pull_round(struct ep *ep, uint64_t now);
static const struct ep_feature feature = {.name = "pull", .round = pull_round, .value = pull_value};

static int64_t view_answer(struct ep *ep, const struct ep_view_question *question)
{
    if (question->what == EP_VIEW_DETACH) {
        ep_feature_remove(&feature);
        return 0;
    }
    if (question->what == EP_VIEW_OPEN)
        return view_open(ep, question);
    struct view *view = view_find(question->view);
    if (!view)
        return -ESRCH;
    if (question->what == EP_VIEW_END)
        return view->state == COUNTING ? view_end(ep, view) : -ESRCH;
    return view->state == STANDING ? view_piece(ep, view, question) : -ESRCH;
}

static void close_unwanted(void)
{
    for (unsigned i = 0; i < VIEWS; i++) {
        struct view *view = &pull.view[i];
        if (view->state != FREE && atomic_load(&pull.unwanted[i]) == view->number)
            view->state = FREE;
    }
    passing_kinds_find();
}

static void pull_round(struct ep *ep, uint64_t now)
{
    unsigned asked = ASKED;

    (void)now;
    if (pull.run != ep->run)
        views_reset(ep);
    close_unwanted();
    if (!atomic_compare_exchange_strong(&pull.state, &asked, TAKEN))
        return;
    pull.answer = view_answer(ep, &pull.question);
    atomic_store(&pull.state, IDLE);
    ep_port_wake(&pull.answered);
}

int64_t ep_view_ask(const struct ep_view_question *question)
{
    uint64_t until = ep_port_uptime_ns() + ANSWER_NS;
    unsigned asked = ASKED, seen = atomic_load(&pull.answered.value);
    struct ep *ep = ep_hold();

    if (!ep)
        return -ESRCH;
    pull.question = *question;
    atomic_store(&pull.state, ASKED);
    ep_collect_wake(ep);
    ep_release();
    while (atomic_load(&pull.state) != IDLE) {
        ep_port_wait(&pull.answered, seen, LOOK_NS);
        seen = atomic_load(&pull.answered.value);
        if ((ep_running() && ep_port_uptime_ns() < until) ||
            !atomic_compare_exchange_strong(&pull.state, &asked, IDLE)) {
            asked = ASKED;
            continue;
        }
        return -EBUSY;
    }
    return pull.answer;
}

void ep_view_close(unsigned view)
{
    atomic_store(&pull.unwanted[(view - 1) % VIEWS], view);
}

const struct ep_view_losses *ep_view_losses(void)
{
    return &pull.losses;
}

/* ---- memory ---- */

static size_t aligned(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

/* Takes `size` bytes off the memory. */
static void *carve(uint8_t **at, size_t size)
{
    void *piece = *at;

    *at += aligned(size);
    return piece;
}

static void tally_carve(struct tally *tally, uint8_t **at, size_t entries)
{
    const size_t tree = entries / GROUP * GROUP_BYTES;
    struct ep_labels *labels = &tally->labels;

    ep_tree_init(&tally->tree, carve(at, tree), tree);
    tally->high = carve(at, entries * sizeof tally->high[0]);
    labels->capacity = KEYS;
    labels->key = carve(at, KEYS * sizeof labels->key[0]);
    labels->name_capacity = EP_THREADS;
    labels->name = carve(at, EP_THREADS * sizeof labels->name[0]);
}

int ep_pull_open(void *memory, size_t size)
{
    const size_t each = 2 * (GROUP_BYTES + GROUP * sizeof(uint32_t)) + VIEWS * GROUP * VALUES_BYTES;
    const size_t most = UINT16_MAX / (4 * GROUP) * GROUP; /* maximum number of entries of a tree */
    uint8_t *at = (uint8_t *)aligned((uintptr_t)memory);
    size_t fixed = (size_t)(at - (uint8_t *)memory) + 2 * aligned(EP_THREADS * sizeof(struct ep_thread_name)) +
                   2 * aligned(KEYS * sizeof(struct ep_label_key)) + (4 + 2 * VIEWS) * 16;

    if (size < fixed + LEAST / GROUP * each)
        return -ENOMEM;
    size_t entries = (size - fixed) / each * GROUP;
    entries = entries < most ? entries : most;
    pull.run = 0;
    atomic_store(&pull.state, IDLE);
    tally_carve(&pull.total, &at, entries);
    tally_carve(&pull.passing, &at, entries);
    for (unsigned i = 0; i < VIEWS; i++)
        pull.view[i] = (struct view){.entry = carve(&at, entries * sizeof(struct ep_entry)),
                                     .high = carve(&at, entries * sizeof(uint32_t))};
    return ep_feature_add(&feature);
}

void ep_pull_close(void)
{
    const struct ep_view_question detach = {.what = EP_VIEW_DETACH};
    struct ep *ep = ep_hold();
    const bool manual = ep && ep->config.flags & EP_MANUAL;

    if (ep)
        ep_release();
    while (!manual && ep_view_ask(&detach) == -EBUSY) {
    }
    ep_feature_remove(&feature);
}
