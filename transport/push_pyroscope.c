/*
 * Grafana Pyroscope's push.v1.PusherService/Push: a PushRequest around one pprof message, with one series, whose
 * __name__ is the message's family, and one raw profile.
 *
 *   PushRequest { series = 1 { labels = 1 { name = 1, value = 2 } ..., samples = 2 { raw_profile = 1 } } }
 *
 * The message is written to the sink without a copy. Lengths are found by running the same writer on a sink that only
 * counts. Of labels with the same name the first counts: servers reject duplicates in a
 * series.
 */
#include <edgeprof/transport.h>

#include <stdbool.h>
#include <string.h>

/* Servers accept 30 labels a series, including those of its stacks. Further tags are omitted. */
#define TAGS_MOST 20

enum { SERIES = 1, LABELS = 1, SAMPLES = 2, NAME = 1, VALUE = 2, RAW_PROFILE = 1 };

struct text {
    const char *at;
    size_t size;
};

/* The head of a length-delimited protobuf field. */
static void put_head(struct ep_sink *sink, unsigned field, uint64_t size)
{
    uint8_t bytes[11] = {(uint8_t)(field << 3 | 2)};
    size_t count = 1;

    for (; size > 0x7f; size >>= 7)
        bytes[count++] = (uint8_t)(size | 0x80);
    bytes[count++] = (uint8_t)size;
    ep_sink_put(sink, bytes, count);
}

/* With '?' for each byte that is not part of valid UTF-8: servers reject other strings. */
static void put_utf8(struct ep_sink *sink, const char *bytes, size_t size)
{
    while (size > 0) {
        size_t run = ep_utf8_run(bytes, size);
        ep_sink_put(sink, bytes, run);
        if (run < size)
            ep_sink_put(sink, "?", 1);
        run += run < size;
        bytes += run;
        size -= run;
    }
}

static void put_text(struct ep_sink *sink, unsigned field, struct text text)
{
    put_head(sink, field, text.size);
    put_utf8(sink, text.at, text.size);
}

static void put_label(struct ep_sink *sink, struct text name, struct text value)
{
    struct ep_sink inner = {0};

    put_text(&inner, NAME, name);
    put_text(&inner, VALUE, value);
    put_head(sink, LABELS, inner.size);
    put_text(sink, NAME, name);
    put_text(sink, VALUE, value);
}

/* Reads the tag at *at and advances *at. False: no more. The configuration has been checked. */
static bool tag_next(const char **at, struct text *name, struct text *value)
{
    if (!**at)
        return false;
    *name = (struct text){*at, strcspn(*at, "=")};
    *at += name->size + 1;
    *value = (struct text){*at, strcspn(*at, ",")};
    *at += value->size;
    *at += **at == ',';
    return true;
}

static bool same(struct text a, struct text b)
{
    return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

/* True if one of the tags before `end` has that name. */
static bool is_taken(const char *tags, const char *end, struct text name)
{
    struct text other, value;

    while (tag_next(&tags, &other, &value) && other.at < end)
        if (same(other, name))
            return true;
    return false;
}

static struct text text_of(const char *text)
{
    return (struct text){text, strlen(text)};
}

/* True for names that edgeprof sets itself, and for names with __, which belong to the server. */
static bool is_reserved(struct text name)
{
    return (name.size >= 2 && memcmp(name.at, "__", 2) == 0) || same(name, text_of("service_name")) ||
           same(name, text_of("spy_name"));
}

static void put_labels(struct ep_sink *sink, const struct ep_target *target, const struct ep_message *message)
{
    struct text name, value;
    unsigned left = TAGS_MOST;

    put_label(sink, text_of("__name__"), text_of(message->family));
    put_label(sink, text_of("__delta__"), text_of("false")); /* values are an interval's, not sums since the start */
    put_label(sink, text_of("service_name"), text_of(target->service));
    put_label(sink, text_of("spy_name"), text_of("edgeprof"));
    for (const char *at = target->tags; left && tag_next(&at, &name, &value);) {
        if (is_reserved(name) || is_taken(target->tags, name.at, name))
            continue;
        put_label(sink, name, value);
        left--;
    }
}

static uint64_t field_size(uint64_t size)
{
    struct ep_sink head = {0};

    put_head(&head, SERIES, size);
    return head.size + size;
}

static void push_write(const struct ep_target *target, const struct ep_message *message, struct ep_sink *sink)
{
    struct ep_sink labels = {0};

    put_labels(&labels, target, message);
    put_head(sink, SERIES, labels.size + field_size(field_size(message->size)));
    put_labels(sink, target, message);
    put_head(sink, SAMPLES, field_size(message->size));
    put_head(sink, RAW_PROFILE, message->size);
    ep_sink_put(sink, message->data, message->size);
}

const struct ep_push ep_push_pyroscope = {
    .path_and_type = "/push.v1.PusherService/Push\0application/proto",
    .write = push_write,
};
