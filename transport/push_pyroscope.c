/*
 * Grafana Pyroscope's push.v1.PusherService/Push: a PushRequest around one pprof message, with one series, whose
 * __name__ is the message's family, and one raw profile.
 *
 *   PushRequest { series = 1 { labels = 1 { name = 1, value = 2 } ..., samples = 2 { raw_profile = 1 } } }
 *
 * The message is written to the sink without a copy, with the changes of push_pprof.c. Lengths are found by running the
 * same writer on a sink that only counts. Of labels with the same name the first counts: servers reject duplicates in a
 * series.
 */
#include "push.h"

#include <stdbool.h>
#include <string.h>

/* Servers accept 30 labels a series, including those of its stacks. Further tags are omitted. */
#define TAGS_MOST 20

enum { SERIES = 1, LABELS = 1, SAMPLES = 2, NAME = 1, VALUE = 2, RAW_PROFILE = 1 };

struct text {
    const char *at;
    size_t size;
};

static void put_text(struct ep_sink *sink, unsigned field, struct text text)
{
    ep_put_head(sink, field, text.size);
    ep_put_utf8(sink, text.at, text.size);
}

static void put_label(struct ep_sink *sink, struct text name, struct text value)
{
    struct ep_sink inner = {0};

    put_text(&inner, NAME, name);
    put_text(&inner, VALUE, value);
    ep_put_head(sink, LABELS, inner.size);
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

    ep_put_head(&head, SERIES, size);
    return head.size + size;
}

static void push_measure(struct ep_push_size *size, const struct ep_target *target, const struct ep_message *message,
                         const struct ep_deadline *deadline)
{
    struct ep_sink series = {0}, profile = {0};

    put_labels(&series, target, message);
    ep_pprof_prepare(target->names, message, deadline);
    ep_pprof_write(target->names, message, &profile);
    size->profile = profile.size;
    size->series = series.size + field_size(field_size(size->profile));
    size->body = field_size(size->series);
}

static void push_write(const struct ep_push_size *size, const struct ep_target *target,
                       const struct ep_message *message, struct ep_sink *sink)
{
    ep_put_head(sink, SERIES, size->series);
    put_labels(sink, target, message);
    ep_put_head(sink, SAMPLES, field_size(size->profile));
    ep_put_head(sink, RAW_PROFILE, size->profile);
    ep_pprof_write(target->names, message, sink);
}

const struct ep_push ep_push_pyroscope = {
    .path_and_type = "/push.v1.PusherService/Push\0application/proto",
    .measure = push_measure,
    .write = push_write,
};
