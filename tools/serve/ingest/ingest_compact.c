/*
 * See ingest.h: compact messages. Answers follow the contract of core/proto/compact.proto:
 *
 *   known (segment, sequence)            repeated, 200
 *   sequence 0 of a new segment          stored, with its origin
 *   the next sequence of a segment       stored
 *   anything else                        409, the device starts a new segment
 */
#include "tools/store/bounds.h"
#include "tools/serve/http/tokens.h"
#include "tools/serve/ingest/ingest.h"
#include "tools/store/owner.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <stdlib.h>

/* A date and an age that differ by less agree: clocks are not exact, and requests take time. */
#define CLOCKS_DIFFER_NS INT64_C(600000000000)

struct compact_push {
    struct et_store *store;
    const et_message *message;
    struct et_segment_row row;
    struct et_segment *segment; /* owned by the database */
    struct et_stored_label_set *label_sets;
    int64_t now_ns, age_ns; /* as in et_compact_source */
    bool aged, undated;
    const void *bytes; /* the message as it came */
    size_t size;
    const char **why;
    const char *scope;   /* et_scope_refuses() */
    const char *refused; /* by bounds; NULL: nothing */
    const char *foreign; /* refused by the scope; NULL: nothing */
    int err;
};

/* ---- one message ---- */

static int64_t put_origin(struct compact_push *push)
{
    const Edgeprof__V1__Origin *o = push->message->origin;
    struct et_labels tags = {0};
    for (size_t i = 0; i < o->n_tags; i++) {
        et_labels_add(&tags, o->tags[i]->key, o->tags[i]->value);
    }
    char *lines = et_labels_join(&tags);
    struct et_origin origin = {
        .service = o->service,
        .tags = lines,
        .host = o->host,
        .boot_id = o->boot_id,
        .executable = o->executable,
        .arch = o->arch,
        .agent = o->agent,
        .pid = o->pid,
        .process_start_ns = o->process_start_ns,
    };
    push->foreign = et_scope_refuses(push->scope, o->service, lines);
    push->refused = et_bounds_series(et_store_bounds(push->store), o->service, lines);
    int64_t id = push->refused || push->foreign ? 0 : et_store_origin(push->store, &origin);
    free(lines);
    return id;
}

/* A later message says nothing about its origin: the segment's owner counts. Nothing is stored in a segment that ended,
 * whose origin may be deleted. */
static void check_owner(struct compact_push *push)
{
    struct et_strings strings = {0};
    const char *service = "", *tags = "";
    int got = et_store_owner(push->store, push->row.origin, &strings, &service, &tags);
    push->err = got < 0 ? got : push->err;
    push->foreign = got == 0 && push->row.ended ? NULL : et_scope_refuses(push->scope, service, tags);
    et_strings_free(&strings);
}

/* As et_store_labels(), within bounds and the token's scope; 0 when refused. */
static int64_t put_lines(struct compact_push *push, const char *lines)
{
    const char *refused = et_bounds_labels(et_store_bounds(push->store), lines);
    const char *foreign = et_scope_refuses_stacks(push->scope, lines);
    push->foreign = foreign ? foreign : push->foreign;
    push->refused = refused ? refused : push->refused;
    return refused ? 0 : et_store_labels(push->store, lines);
}

static bool put_modules(struct compact_push *push)
{
    size_t first = push->segment->span_count;
    if (!et_message_spans(push->message, push->segment, push->why)) {
        return false;
    }
    for (size_t i = 0; i < push->message->n_modules && !push->err; i++) {
        const Edgeprof__V1__Module *module = push->message->modules[i];
        struct et_buf hex = {0};
        et_buf_text(&hex, "");
        for (size_t k = 0; k < module->build_id.len; k++) {
            et_buf_printf(&hex, "%02x", module->build_id.data[k]);
        }
        int64_t id = et_store_module(push->store, hex.data, module->path);
        push->segment->spans[first + i].module = id;
        push->err = id < 0 ? (int)id : 0;
        et_buf_free(&hex);
    }
    return true;
}

static int64_t put_node(struct compact_push *push, const struct et_wire_node *node)
{
    int64_t module = node->span ? push->segment->spans[node->span - 1].module : 0;
    int64_t frame = et_store_frame(push->store, module, node->address, "", "", 0);
    return frame < 0 ? frame : et_store_node(push->store, push->segment->nodes[node->parent], frame);
}

static bool put_nodes(struct compact_push *push)
{
    size_t count = et_message_node_count(push->message);
    struct et_wire_node *nodes = et_alloc(count, sizeof *nodes);
    bool ok = et_message_nodes(push->message, push->segment, nodes, push->why);
    for (size_t i = 0; ok && i < count && !push->err; i++) {
        int64_t id = put_node(push, &nodes[i]);
        push->err = id < 0 ? (int)id : 0;
        et_segment_add_node(push->segment, nodes[i].depth, id);
    }
    free(nodes);
    return ok;
}

/* Whether the sender's date may be right: the clock was set, and the profile did not end in the future. */
static bool is_plausible(const struct compact_push *push, int64_t end_ns)
{
    return et_is_date(end_ns) && end_ns <= push->now_ns + push->age_ns + CLOCKS_DIFFER_NS;
}

/* Whether the message is dated by its age instead of the sender's clock. A clock that was behind is set forwards, so
 * the later date is right; ages of earlier boots, which the sender counts by its clock, may be too large. */
static bool is_dated_by_age(const struct compact_push *push, uint64_t latest)
{
    uint64_t offset = push->message->unix_minus_uptime_ns;
    int64_t end_ns = offset && latest <= (uint64_t)INT64_MAX / 2 ? (int64_t)(offset + latest) : 0;
    if (!offset) {
        return true;
    }
    if (!push->aged && !push->undated) {
        return false;
    }
    return !is_plausible(push, end_ns) || (push->aged && push->now_ns - end_ns > CLOCKS_DIFFER_NS);
}

/* Offset from uptime to Unix time, from the sender or from the age. *by_age: which. */
static uint64_t uptime_to_unix(const struct compact_push *push, bool *by_age)
{
    uint64_t latest = 0;
    for (size_t i = 0; i < push->message->n_profiles; i++) {
        uint64_t end = push->message->profiles[i]->start_ns + push->message->profiles[i]->duration_ns;
        latest = end > latest ? end : latest;
    }
    *by_age = is_dated_by_age(push, latest);
    return *by_age ? (uint64_t)push->now_ns - latest : push->message->unix_minus_uptime_ns;
}

static bool put_tag_sets(struct compact_push *push)
{
    size_t first = push->segment->label_count;
    if (!et_message_labels(push->message, push->segment, push->why)) {
        return false;
    }
    for (size_t i = first; i < push->segment->label_count && !push->err; i++) {
        int64_t id = put_lines(push, push->segment->labels[i].lines);
        push->segment->labels[i].name = id;
        push->err = id < 0 ? (int)id : 0;
    }
    return true;
}

/* Adds the message's label sets to the database; [0] is none. */
static void put_label_sets(struct compact_push *push)
{
    const et_message *message = push->message;
    push->label_sets = et_alloc(message->n_label_sets + 1, sizeof *push->label_sets);
    for (size_t i = 0; i < message->n_label_sets && !push->err; i++) {
        const Edgeprof__V1__LabelSet *set = message->label_sets[i];
        int64_t labels = push->segment->labels[et_segment_labels(push->segment, set->tag_set)].name;
        if (set->thread[0]) {
            struct et_buf lines = {0};
            et_message_label_set(message, push->segment, i + 1, &lines);
            labels = put_lines(push, lines.data);
            et_buf_free(&lines);
        }
        push->err = labels < 0 ? (int)labels : 0;
        push->label_sets[i + 1] = (struct et_stored_label_set){
            .labels = labels, .span_id = set->span_id, .trace_high = set->trace_high, .trace_low = set->trace_low};
    }
}

static void put_stacks(const struct compact_push *push, const Edgeprof__V1__Profile *profile, struct et_stored *stored)
{
    struct et_stacks *stacks = &stored->stacks;
    uint64_t node = 0;
    for (size_t i = 0; i < profile->n_node; i++) {
        node += profile->node[i];
        struct et_stack stack = {.node = push->segment->nodes[node], .value = profile->value[i]};
        stack.count = profile->n_count ? profile->count[i] : 0;
        stack.label_set = push->label_sets[profile->n_label_set ? profile->label_set[i] : 0];
        et_stacks_add(stacks, &stack);
    }
}

static bool put_profile(struct compact_push *push, size_t number, uint64_t offset, int64_t origin)
{
    const Edgeprof__V1__Profile *profile = push->message->profiles[number];
    const struct et_kind *kind = et_kind_numbered((uint32_t)profile->kind);
    if (!et_message_profile(push->message, number, push->segment->node_count, push->why)) {
        return false;
    }
    uint64_t start = profile->start_ns + offset;
    if (start > (uint64_t)INT64_MAX / 2) {
        *push->why = "a profile's time is out of range";
        return false;
    }
    const char *refused =
        et_bounds_time(et_store_bounds(push->store), (int64_t)start, (int64_t)(start + profile->duration_ns));
    push->refused = refused ? refused : push->refused;
    if (!kind) {
        push->err = et_store_skipped(push->store, push->row.origin);
        return true;
    }
    struct et_stored stored = {
        .origin = origin,
        .kind = kind->name,
        .unit = kind->unit,
        .start_ns = (int64_t)start,
        .end_ns = (int64_t)(start + profile->duration_ns),
        .period = profile->period_ns,
        .samples = profile->samples,
        .quantum = profile->quantum,
        .stacks.columns = (uint8_t)(ET_COLUMN_VALUE | (profile->n_count ? ET_COLUMN_COUNT : 0) |
                                    (profile->n_label_set ? ET_COLUMN_LABEL_SET : 0)),
    };
    put_stacks(push, profile, &stored);
    push->err = et_store_profile(push->store, &stored);
    et_stacks_free(&stored.stacks);
    return true;
}

static bool put_profiles(struct compact_push *push)
{
    bool by_age;
    uint64_t offset = uptime_to_unix(push, &by_age);
    int64_t origin = push->row.origin;
    if (push->undated && by_age) {
        origin = et_store_origin_undated(push->store, push->row.origin);
        push->err = origin < 0 ? (int)origin : 0;
    }
    for (size_t i = 0; i < push->message->n_profiles && !push->err; i++) {
        if (!put_profile(push, i, offset, origin)) {
            return false;
        }
    }
    return true;
}

static void put_stats(struct compact_push *push)
{
    if (!push->message->stats || push->err) {
        return;
    }
    size_t size = edgeprof__v1__stats__get_packed_size(push->message->stats);
    uint8_t *bytes = et_alloc(size, 1);
    edgeprof__v1__stats__pack(push->message->stats, bytes);
    push->err = et_store_stats(push->store, push->row.origin, bytes, size);
    free(bytes);
}

/* Stores the whole message, inside a transaction. False: malformed. push->err: the database failed. */
static bool put_message(struct compact_push *push)
{
    uint64_t id = push->message->segment;
    push->segment = et_store_segment_open(push->store, id, push->message->sequence);
    if (!push->segment) {
        push->err = -EIO; /* the database has the exact error */
        return true;
    }
    struct et_segment_mark before = et_segment_mark(push->segment);
    if (!put_modules(push) || push->err || !put_nodes(push) || push->err || !put_tag_sets(push) || push->err) {
        return push->err != 0;
    }
    push->err = et_store_segment_add(push->store, id, push->message->sequence, push->segment, before);
    if (!push->err) {
        put_label_sets(push);
    }
    if (!push->err && !put_profiles(push)) {
        return false;
    }
    put_stats(push);
    if (push->message->crash && !push->err) {
        push->err = et_store_crash(push->store, id, push->row.origin, push->now_ns, push->bytes, push->size);
    }
    if (push->message->timeline && !push->err) {
        const struct et_incident_row row = {.incident = push->message->timeline->incident,
                                            .part = push->message->timeline->part,
                                            .received_ns = push->now_ns,
                                            .message = push->bytes,
                                            .size = push->size};
        push->err = et_store_incident(push->store, &row, push->row.origin);
    }
    push->row.next_sequence = push->message->sequence + 1;
    push->row.ended = push->message->last;
    if (!push->err) {
        push->err = et_store_segment_put(push->store, id, &push->row, push->now_ns + push->age_ns);
    }
    if (!push->err && push->message->last) {
        push->err = et_store_segment_drop(push->store, id);
    }
    return true;
}

static enum et_outcome store_if_expected(struct compact_push *push)
{
    const et_message *message = push->message;
    int known = et_store_segment(push->store, message->segment, &push->row);
    if (known < 0) {
        push->err = known;
        return ET_UNAVAILABLE;
    }
    if (known && push->scope) {
        check_owner(push);
    }
    if (push->foreign && !push->err) {
        *push->why = push->foreign;
        return ET_FORBIDDEN;
    }
    if (known && message->sequence < push->row.next_sequence) {
        *push->why = "this message was received before";
        return ET_REPEATED;
    }
    if (known ? message->sequence != push->row.next_sequence || push->row.ended : message->sequence != 0) {
        *push->why =
            known ? "a message of this segment is missing; start a new segment" : "unknown segment; start a new one";
        return ET_STALE;
    }
    if (!known) {
        int64_t origin = put_origin(push);
        push->row = (struct et_segment_row){.origin = origin};
        push->err = origin < 0 ? (int)origin : 0;
    }
    if (push->foreign && !push->err) {
        *push->why = push->foreign;
        return ET_FORBIDDEN;
    }
    if (push->err || push->refused) {
        return push->err ? ET_UNAVAILABLE : et_bounds_outcome(push->refused);
    }
    bool sound = put_message(push);
    if (push->foreign && sound && !push->err) {
        *push->why = push->foreign;
        return ET_FORBIDDEN;
    }
    return !sound ? ET_MALFORMED : push->refused ? et_bounds_outcome(push->refused) : ET_ACCEPTED;
}

enum et_outcome et_ingest_compact_from(struct et_store *store, const void *bytes, size_t size,
                                       const struct et_compact_source *source, const char **why)
{
    et_message *message = et_message_decode(bytes, size, why);
    if (!message) {
        return ET_MALFORMED;
    }
    struct compact_push push = {.store = store,
                                .message = message,
                                .bytes = bytes,
                                .size = size,
                                .now_ns = source->now_ns,
                                .age_ns = source->age_ns,
                                .aged = source->aged,
                                .undated = source->undated,
                                .scope = source->scope,
                                .why = why};
    push.err = et_store_begin(store);
    enum et_outcome outcome = push.err ? ET_UNAVAILABLE : store_if_expected(&push);
    *why = push.refused && !push.foreign && outcome != ET_ACCEPTED ? push.refused : *why;
    int err = et_store_end(store, outcome == ET_ACCEPTED && !push.err);
    if (push.err || err) {
        *why = et_store_why(store);
        outcome = ET_UNAVAILABLE;
    }
    free(push.label_sets);
    et_message_free(message);
    return outcome;
}

enum et_outcome et_ingest_compact(struct et_store *store, const void *bytes, size_t size, int64_t now_ns,
                                  const char **why)
{
    return et_ingest_compact_from(store, bytes, size, &(struct et_compact_source){.now_ns = now_ns}, why);
}
