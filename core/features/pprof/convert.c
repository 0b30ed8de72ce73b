/*
 * Sends profiles as pprof. Everything before this step is compact: the outbox, the spool, and what a power cut leaves.
 *
 * A mirror reads the messages of an interval. After the last one each family of kinds becomes one pprof, with the
 * names that are known now, and dates by the clock as it is now. A profile that a receiver calls too large, or that
 * does not fit into the buffer, is divided: each part has its own piece of the interval, because servers keep one
 * profile a time. A failed send is repeated from the profile that failed.
 *
 *   convert_send -> message_take -> ep_mirror_read
 *                -> interval_send -> family_send -> part_send -> ep_encode_pprof_gzip, ep_deliver_try
 */
#include "core/deliver/deliver.h"
#include "core/encode/encode.h"
#include "core/features/pprof/gzip.h"
#include "core/features/pprof/mirror.h"
#include "core/features/pprof/pprof.h"
#include "core/profile/naming.h"

#include <errno.h>
#include <string.h>

#if EP_PPROF_BYTES < 16384 || EP_PPROF_BYTES > 16777216
#error "EP_PPROF_BYTES must be 16384..16777216"
#endif

#define PARTS_MOST 4096u
#define PART_NS    1000000u /* the shortest piece of time */

/* Messages of one origin: live ones, or those of the spool. */
struct stream {
    bool due;             /* the mirror's values are to be sent now */
    uint32_t left;        /* kinds that are still to be sent */
    unsigned part, parts; /* of the family that is being sent */
    uint64_t offset;      /* from uptime to the time of day, of the last message with values; 0: unknown */
    struct ep_mirror mirror;
};

/* From the first start with pprof on. The second stream's pages are touched only if there is a spool. */
struct converter {
    struct ep_gzip gzip;
    uint8_t bytes[EP_PPROF_BYTES];
    uint32_t chosen[EP_MIRROR_NODES / 32];
    struct stream streams[2];
};
static struct converter *converter;

/* ---- a part of a family ---- */

/* From uptime to the time of day: as the messages have it, else as the clock is now, which may have been set meanwhile.
 */
static uint64_t clock_offset(const struct stream *stream, const struct ep_delivery *delivery)
{
    uint64_t now = ep_port_uptime_ns(), unix_ns = ep_port_unix_ns();

    if (stream->offset)
        return stream->offset;
    return !delivery->stored && unix_ns > now ? unix_ns - now : 0;
}

static uint64_t first_period(const struct stream *stream, uint32_t kinds)
{
    return stream->mirror.period[__builtin_ctz(kinds | 1u << EP_KINDS) % EP_KINDS];
}

/* The piece of time of the mirror's values; a part of an interval begins where the part before it ended. */
static uint64_t start_of(const struct ep_mirror *mirror)
{
    return mirror->start_ns > mirror->sent_ns ? mirror->start_ns : mirror->sent_ns;
}

static uint64_t end_of(const struct ep_mirror *mirror)
{
    uint64_t least = start_of(mirror) + PART_NS;

    return mirror->end_ns > least ? mirror->end_ns : least;
}

/* The interval's values have left. */
static void interval_end(struct stream *stream)
{
    stream->due = false;
    stream->mirror.sent_ns = end_of(&stream->mirror);
    ep_mirror_next(&stream->mirror);
}

static struct ep_encoding encoding_of(struct ep *ep, struct stream *stream, uint32_t kinds)
{
    struct ep_mirror *mirror = &stream->mirror;

    return (struct ep_encoding){
        .data = converter->bytes,
        .size = sizeof converter->bytes,
        .tree = &mirror->tree,
        .labels = &mirror->labels,
        .kinds = kinds,
        .start_ns = start_of(mirror),
        .end_ns = end_of(mirror),
        .table = &mirror->table,
        .modules = atomic_load_explicit(&mirror->table.count, memory_order_relaxed),
        .tags = &mirror->tags,
        .clock_error = mirror->clock_error,
        .period = first_period(stream, kinds),
        .callers_first = true,
        .names = ep->config.push && ep->config.names && ep->config.names->memory() ? ep->config.names : NULL,
        .root_name = ep->config.push && !ep->config.names ? ep->deliver->target.service : NULL,
    };
}

/* Limits the encoding to a part: its samples, and its piece of the time. */
static unsigned part_of(struct ep_encoding *encoding, const struct stream *stream, unsigned samples,
                        struct ep_sums *sums)
{
    uint64_t part = stream->part, parts = stream->parts, length = encoding->end_ns - encoding->start_ns;

    encoding->samples_begin = (unsigned)(samples * part / parts);
    encoding->samples_end = (unsigned)(samples * (part + 1) / parts);
    encoding->end_ns = encoding->start_ns + length / parts * (part + 1);
    encoding->start_ns += length / parts * part;
    if (encoding->samples_begin == encoding->samples_end)
        return 0;
    return ep_encode_pprof_sum(encoding, sums);
}

static void part_lose(struct ep *ep, const struct ep_sums *sums, enum ep_loss reason, bool own)
{
    ep_lose(ep, reason, ep_samples_of(ep, sums), sums->value[EP_KIND_CPU] - sums->lost_ns);
    (void)atomic_fetch_add(&ep->deliver->lost_shown_ns[EP_SHOWN_REFUSED], own ? sums->value[EP_KIND_CPU] : 0);
}

/* Returns 0; -EMSGSIZE: it is too large; or another error of ep_deliver_try(). */
static int part_send(struct ep *ep, const struct ep_encoding *encoding, const struct ep_message *from,
                     const struct ep_delivery *delivery)
{
    struct ep_message message = *from;
    uint64_t offset = encoding->unix_minus_uptime_ns;

    ep_deliver_limit(ep, delivery, ep_port_uptime_ns());
    message.data = converter->bytes;
    message.size = ep_encode_pprof_gzip(encoding, &converter->gzip, delivery->until.send);
    message.format = EP_FORMAT_PPROF;
    message.family = ep_pprof_family(encoding->kinds);
    message.start_unix_ns = offset ? encoding->start_ns + offset : 0;
    message.end_unix_ns = offset ? encoding->end_ns + offset : 0;
    return message.size ? ep_deliver_try(ep, &message, delivery) : -EMSGSIZE;
}

/* ---- an interval ---- */

static bool divide(struct stream *stream, unsigned samples, uint64_t length)
{
    if (samples < 2 || stream->parts >= PARTS_MOST || length / (2 * (uint64_t)stream->parts) < PART_NS)
        return false;
    stream->part *= 2;
    stream->parts *= 2;
    return true;
}

/* Sends one part, or divides it. Returns 0, or an error after which it is repeated. */
static int part_deliver(struct ep *ep, struct stream *stream, const struct ep_message *message,
                        const struct ep_delivery *delivery, uint32_t kinds)
{
    struct ep_sums sums;
    struct ep_encoding encoding = encoding_of(ep, stream, kinds);

    encoding.unix_minus_uptime_ns = clock_offset(stream, delivery);
    uint64_t length = encoding.end_ns - encoding.start_ns;
    unsigned all = ep_encode_pprof_sum(&encoding, &sums), samples = part_of(&encoding, stream, all, &sums);
    int error = samples ? part_send(ep, &encoding, message, delivery) : 0;

    if (error == -EMSGSIZE && divide(stream, samples, length))
        return 0;
    if (error == -EMSGSIZE || error == -EBADMSG || error == -ESTALE)
        part_lose(ep, &sums, error == -EMSGSIZE ? EP_LOSS_TOO_LARGE : delivery->refused, !delivery->foreign);
    else if (error)
        return error;
    stream->part++;
    return 0;
}

static int interval_send(struct ep *ep, struct stream *stream, const struct ep_message *message,
                         const struct ep_delivery *delivery)
{
    struct ep_sums sums;

    if (!stream->due) {
        ep_tree_sum(&stream->mirror.tree, stream->mirror.tree.nodes, &sums);
        stream->left = sums.kinds;
        stream->part = 0;
        stream->parts = 1;
        stream->due = true;
    }
    while (stream->left) {
        uint32_t kinds = ep_pprof_together(stream->left) & stream->left;
        if (ep_port_uptime_ns() >= delivery->deadline_ns)
            return -ETIMEDOUT;
        int error = part_deliver(ep, stream, message, delivery, kinds);
        if (error)
            return error;
        if (stream->part < stream->parts)
            continue;
        stream->left &= ~kinds;
        stream->part = 0;
        stream->parts = 1;
    }
    interval_end(stream);
    return 0;
}

/* ---- a message ---- */

static bool is_next(const struct stream *stream, uint64_t segment, uint32_t sequence)
{
    return sequence && stream->mirror.segment == segment && sequence == stream->mirror.sequence + 1;
}

static bool is_last(const struct stream *stream, uint64_t segment, uint32_t sequence)
{
    return stream->due && stream->mirror.segment == segment && stream->mirror.sequence == sequence;
}

/* The stream that a message continues; else that of its origin. The last live messages before an outage may continue
 * what came from the spool. */
static struct stream *stream_of(uint64_t segment, uint32_t sequence, bool stored)
{
    for (unsigned i = 0; i < 2; i++)
        if (is_next(&converter->streams[i], segment, sequence) || is_last(&converter->streams[i], segment, sequence))
            return &converter->streams[i];
    return &converter->streams[stored];
}

/* Reads a message. Values of another interval, or for which there is no room, are sent before. */
static int message_take(struct ep *ep, struct stream *stream, const struct ep_message *message,
                        const struct ep_delivery *delivery)
{
    int error = stream->due ? interval_send(ep, stream, message, delivery) : 0;

    if (!error)
        error = ep_mirror_read(&stream->mirror, message->data, message->size, !delivery->known);
    if (error != -ENOSPC)
        return error;
    error = interval_send(ep, stream, message, delivery);
    return error ? error : ep_mirror_read(&stream->mirror, message->data, message->size, !delivery->known);
}

/* The message was read last, so its end is that of the mirror's values. */
static void offset_note(struct stream *stream, const struct ep_message *message)
{
    if (stream->mirror.values)
        stream->offset = message->end_unix_ns ? message->end_unix_ns - stream->mirror.end_ns : 0;
}

static int convert_send(struct ep *ep, const struct ep_message *message, const struct ep_delivery *delivery)
{
    struct stream *stream = stream_of(message->segment, message->sequence, delivery->stored);

    if (!is_last(stream, message->segment, message->sequence)) {
        int error = message_take(ep, stream, message, delivery);
        if (error)
            return error;
        offset_note(stream, message);
        if ((stream->mirror.more && !delivery->ends) || !stream->mirror.values)
            return 1;
    }
    offset_note(stream, message);
    return interval_send(ep, stream, message, delivery);
}

/* ---- to the spool ---- */

/* What the last call of convert_unsent() wrote. */
static struct {
    struct stream *stream;
    unsigned limit;
} resting;

/* Reads the outbox's messages up to the end of an interval. Returns false if the oldest does not continue a stream that
 * has something, or could be read without it. */
static void outbox_read(struct ep *ep, struct stream *stream)
{
    const struct ep_box_header *header;

    while ((header = ep_outbox_peek(&ep->deliver->outbox)) != NULL) {
        if (is_last(stream, header->segment, header->sequence)) {
            ep_deliver_popped(ep);
            return;
        }
        if (stream->due || (stream->mirror.values && !stream->mirror.more) ||
            !is_next(stream, header->segment, header->sequence))
            return;
        int error = ep_mirror_read(&stream->mirror, (const uint8_t *)(header + 1), header->size, true);
        if (error == -ENOSPC)
            return;
        if (error)
            ep_deliver_dropped(ep, header, EP_LOSS_SEGMENT, EP_SHOWN_SEGMENT);
        else
            ep_deliver_popped(ep);
    }
}

static struct stream *stream_to_store(struct ep *ep)
{
    const struct ep_box_header *header = ep_outbox_peek(&ep->deliver->outbox);

    if (converter->streams[0].mirror.values)
        return &converter->streams[0];
    return header ? stream_of(header->segment, header->sequence, false) : &converter->streams[0];
}

/* Chooses the nodes below `limit` that have values, with their callers. [truncated] is node 1 of every segment. */
static void nodes_choose(struct ep_mirror *mirror, unsigned limit)
{
    ep_tree_unmark(&mirror->tree);
    (void)ep_tree_mark(&mirror->tree, mirror->tree.truncated);
    for (unsigned id = 1; id < limit; id++)
        if (ep_tree_has_data(&mirror->tree, id))
            (void)ep_tree_mark(&mirror->tree, id);
    memcpy(converter->chosen, mirror->tree.mark, sizeof converter->chosen);
}

/* Encodes what fits into a record of the spool: the values of the first nodes. Returns the size, 0: nothing fits. */
static uint32_t values_encode(struct ep *ep, struct ep_mirror *mirror, struct ep_encoding *encoding)
{
    unsigned all = mirror->tree.nodes, first = 1, limit = all;

    encoding->chosen = converter->chosen;
    while (first < all - 1 && !ep_tree_has_data(&mirror->tree, first))
        first++;
    for (; limit > first; limit = first + (limit - first) / 2) {
        nodes_choose(mirror, limit);
        encoding->limit = limit;
        encoding->more = mirror->more || limit < all;
        ep_tree_sum(&mirror->tree, limit, &encoding->sums);
        for (unsigned kind = 0; kind < EP_KINDS; kind++)
            if (!(encoding->kinds & EP_KIND_BIT(kind)))
                encoding->sums.count[kind] = encoding->sums.value[kind] = 0;
        int32_t size = ep_encode_compact(ep, encoding);
        if (size > 0)
            return (uint32_t)size;
    }
    return 0;
}

static uint32_t convert_unsent(struct ep *ep, const uint8_t **message, struct ep_box_header *header)
{
    struct stream *stream = stream_to_store(ep);
    struct ep_mirror *mirror = &stream->mirror;
    uint64_t now = ep_port_uptime_ns(), unix_ns = ep_port_unix_ns();

    outbox_read(ep, stream);
    if (!mirror->values)
        return 0;
    struct ep_encoding encoding = encoding_of(ep, stream, stream->due ? stream->left : EP_KINDS_ALL);
    uint64_t offset = unix_ns > now ? unix_ns - now : 0;
    encoding.unix_minus_uptime_ns = offset;
    encoding.periods = mirror->period;
    encoding.nodes_declared = 1;
    if (encoding.size > ep->deliver->message_bytes)
        encoding.size = ep->deliver->message_bytes;
    ep_port_random(&encoding.segment, sizeof encoding.segment);
    encoding.segment |= 1;
    uint32_t size = values_encode(ep, mirror, &encoding);
    resting.stream = stream;
    resting.limit = encoding.limit;
    *message = converter->bytes;
    *header = (struct ep_box_header){
        .size = size,
        .segment = encoding.segment,
        .samples = ep_samples_of(ep, &encoding.sums),
        .cpu_ns = encoding.sums.value[EP_KIND_CPU],
        .lost_ns = encoding.sums.lost_ns,
        .end_ns = encoding.end_ns,
        .start_unix_ns = offset ? encoding.start_ns + offset : 0,
        .end_unix_ns = offset ? encoding.end_ns + offset : 0,
    };
    return size;
}

static void convert_stored(void)
{
    struct ep_mirror *mirror = &resting.stream->mirror;

    if (resting.limit == mirror->tree.nodes)
        interval_end(resting.stream);
    else
        ep_tree_zero_entries(&mirror->tree, resting.limit, EP_KINDS_ALL);
}

/* Sums what has not left: of the family that is being sent the parts from the current one on, and the families behind
 * it. */
static void left_sum(struct ep_encoding *encoding, const struct stream *stream, struct ep_sums *sums)
{
    uint32_t left = encoding->kinds, family = stream->due ? ep_pprof_together(left) & left : 0;
    struct ep_sums part;

    encoding->callers_first = true; /* the order of the parts */
    encoding->kinds = family;
    uint64_t samples = ep_encode_pprof_sum(encoding, &part);
    encoding->samples_begin = family ? (unsigned)(samples * stream->part / stream->parts) : 0;
    (void)ep_encode_pprof_sum(encoding, &part);
    encoding->samples_begin = 0;
    encoding->kinds = left & ~family;
    (void)ep_encode_pprof_sum(encoding, sums);
    for (unsigned kind = 0; kind < EP_KINDS; kind++) {
        sums->count[kind] += part.count[kind];
        sums->value[kind] += part.value[kind];
    }
    sums->lost_ns += part.lost_ns;
}

static bool convert_forget(struct ep *ep, uint64_t segment, uint32_t sequence, bool own)
{
    struct stream *stream = stream_of(segment, sequence, true);
    struct ep_encoding encoding = encoding_of(ep, stream, stream->left);
    struct ep_sums sums;

    if (!is_last(stream, segment, sequence))
        return false;
    left_sum(&encoding, stream, &sums);
    part_lose(ep, &sums, EP_LOSS_SPOOL_FULL, false);
    (void)atomic_fetch_add(&ep->deliver->lost_shown_ns[EP_SHOWN_SPOOL], own ? sums.value[EP_KIND_CPU] : 0);
    interval_end(stream);
    return true;
}

/* ---- start and end ---- */

static void convert_begin(struct ep *ep)
{
    (void)ep;
    for (unsigned i = 0; i < 2; i++) {
        converter->streams[i].due = converter->streams[i].mirror.values = converter->streams[i].mirror.more = false;
        converter->streams[i].mirror.segment = converter->streams[i].mirror.sent_ns = converter->streams[i].offset = 0;
    }
}

/* What is still in the mirror when the profiler stops: the outbox's oldest message in part, and messages before it. The
 * spool still has its own. */
static void convert_end(struct ep *ep)
{
    const struct ep_box_header *header = ep_outbox_peek(&ep->deliver->outbox);
    struct stream *live = &converter->streams[0];
    struct ep_encoding encoding = {.tree = &live->mirror.tree, .kinds = live->due ? live->left : EP_KINDS_ALL};
    struct ep_sums sums;

    if (!live->mirror.values)
        return;
    left_sum(&encoding, live, &sums);
    part_lose(ep, &sums, EP_LOSS_STOPPED, false);
    if (header && is_last(live, header->segment, header->sequence))
        ep_outbox_pop(&ep->deliver->outbox);
}

/* Pushing over HTTP needs a protocol, and the conversion memory. */
static int convert_check(const struct ep_config *config)
{
    if (!config->push && config->endpoint && strncmp(config->endpoint, "http", 4) == 0)
        return ep_refuse(-EINVAL, "push: pprof over HTTP requires one");
    if (!converter && !(converter = ep_port_memory(sizeof *converter)))
        return ep_refuse(-ENOMEM, "pprof: the system has no memory for it");
    return 0;
}

/* The mirror holds the profiler's tree. */
static void convert_limit(unsigned *labels, size_t *tree)
{
    const size_t most = EP_MIRROR_NODES * (sizeof(struct ep_node) + sizeof(struct ep_entry) / 4);

    *labels = *labels < EP_MIRROR_LABELS ? *labels : EP_MIRROR_LABELS;
    *tree = *tree < most ? *tree : most;
}

static const struct ep_feature pprof_feature = {.name = "pprof",
                                                .check = convert_check,
                                                .limit = convert_limit,
                                                .start = convert_begin,
                                                .end = convert_end,
                                                .convert = convert_send,
                                                .unsent = convert_unsent,
                                                .stored = convert_stored,
                                                .forget = convert_forget};

int ep_pprof_start(void)
{
    if (ep_running())
        return ep_refuse(-EALREADY, "pprof: the profiler is running; call ep_pprof_start() before ep_start()");
    return ep_feature_add(&pprof_feature);
}

int ep_pprof_stop(void)
{
    if (ep_running())
        return ep_refuse(-EALREADY, "pprof: the profiler is running; call ep_stop() before ep_pprof_stop()");
    ep_feature_remove(&pprof_feature);
    return 0;
}
