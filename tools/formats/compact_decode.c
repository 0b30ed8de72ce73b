/* See compact.h: decoding within a memory budget, the checks that need no segment, and cleaning. */
#include "tools/formats/compact_limits.h"
#include "tools/formats/protobuf_budget.h"
#include "tools/lib/labels.h"

#include <stdlib.h>
#include <string.h>

static const size_t DECODE_BUDGET = (size_t)192 << 20;

static bool origin_ok(const Edgeprof__V1__Origin *origin, const char **why)
{
    if (origin->format != 1) {
        return set_reason(why, "unknown format version");
    }
    if (origin->service[0] == '\0') {
        return set_reason(why, "origin without a service");
    }
    if (origin->n_tags > TAGS_MAX) {
        return set_reason(why, "too many tags");
    }
    for (size_t i = 0; i < origin->n_tags; i++) {
        if (origin->tags[i]->key[0] == '\0' || !text_fits(origin->tags[i]->key) || !text_fits(origin->tags[i]->value)) {
            return set_reason(why, "a tag without a key or too long");
        }
    }
    if (!text_fits(origin->service) || !text_fits(origin->host) || !text_fits(origin->boot_id) ||
        !text_fits(origin->executable) || !text_fits(origin->arch) || !text_fits(origin->agent)) {
        return set_reason(why, "a string of the origin is too long");
    }
    return true;
}

static bool columns_ok(const et_message *message, const char **why)
{
    if (message->nodes && message->nodes->n_back != message->nodes->n_frame) {
        return set_reason(why, "columns of nodes differ in length");
    }
    for (size_t i = 0; i < message->n_profiles; i++) {
        const Edgeprof__V1__Profile *profile = message->profiles[i];
        if (profile->n_node != profile->n_value || (profile->n_count && profile->n_count != profile->n_node) ||
            (profile->n_label_set && profile->n_label_set != profile->n_node)) {
            return set_reason(why, "columns of a profile differ in length");
        }
    }
    return true;
}

static bool tag_set_ok(const Edgeprof__V1__TagSet *set, const char **why)
{
    if (set->id == 0 || set->id > TAG_SET_ID_MAX || set->n_tags > TAGS_MAX) {
        return set_reason(why, "a tag set's number is out of range, or it has too many tags");
    }
    for (size_t i = 0; i < set->n_tags; i++) {
        const Edgeprof__V1__Tag *tag = set->tags[i];
        if (tag->key[0] == '\0' || !text_fits(tag->key) || !text_fits(tag->value)) {
            return set_reason(why, "a tag without a key or too long");
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(tag->key, set->tags[k]->key) == 0) {
                return set_reason(why, "a tag set has a key twice");
            }
        }
    }
    return true;
}

static bool texts_ok(const et_message *message, const char **why)
{
    for (size_t i = 0; i < message->n_tag_sets; i++) {
        if (!tag_set_ok(message->tag_sets[i], why)) {
            return false;
        }
    }
    for (size_t i = 0; i < message->n_label_sets; i++) {
        if (!text_fits(message->label_sets[i]->thread)) {
            return set_reason(why, "a thread's name is too long");
        }
    }
    return true;
}

/* In a message of its own, with its origin and all nodes. */
static bool crash_ok(const et_message *message, const char **why)
{
    const Edgeprof__V1__Crash *crash = message->crash;
    bool ok = message->origin && crash->n_threads <= CRASH_THREADS_MAX && text_fits(crash->boot_id) &&
              text_fits(crash->executable);
    for (size_t i = 0; ok && i < crash->n_threads; i++) {
        ok = crash->threads[i]->node <= et_message_node_count(message) && text_fits(crash->threads[i]->name);
    }
    return ok ||
           set_reason(why, "a crash without an origin, with too many threads, or with a stack that does not exist");
}

/* Likewise. */
static bool timeline_ok(const et_message *message, const char **why)
{
    const Edgeprof__V1__Timeline *told = message->timeline;
    size_t count = told->n_after, nodes = et_message_node_count(message);
    bool ok = message->origin && told->incident && told->part < TIMELINE_PARTS_MAX && text_fits(told->name) &&
              told->n_threads <= TIMELINE_THREADS_MAX && told->n_what == count && told->n_node == count &&
              told->n_duration == count && told->time_ns < INT64_MAX / 2 && told->value < INT64_MAX / 2 &&
              told->start < (uint64_t)1 << 42;
    for (size_t i = 0; ok && i < told->n_threads; i++) {
        ok = text_fits(told->threads[i]->name);
    }
    uint64_t tick = told->start;
    for (size_t i = 0; ok && i < count; i++) {
        tick += told->after[i];
        ok = told->node[i] <= nodes && told->what[i] >> 4 < told->n_threads && tick < (uint64_t)1 << 42 &&
             told->duration[i] < (uint64_t)1 << 46;
    }
    return ok ||
           set_reason(why, "a timeline without an origin, with columns of different lengths, or with a sample whose "
                           "thread, stack or time does not exist");
}

static bool message_ok(const et_message *message, const char **why)
{
    if (message->segment == 0) {
        return set_reason(why, "no segment");
    }
    if ((message->sequence == 0) != (message->origin != NULL)) {
        return set_reason(why, "sequence 0, and only it, must have an origin");
    }
    if (message->unix_minus_uptime_ns > INT64_MAX / 2) {
        return set_reason(why, "the clock is out of range");
    }
    if (message->origin && !origin_ok(message->origin, why)) {
        return false;
    }
    if (message->n_modules > MODULES_MAX || message->n_profiles > PROFILES_MAX) {
        return set_reason(why, "too many modules or profiles");
    }
    if (message->stats && message->stats->n_losses > LOSSES_MAX) {
        return set_reason(why, "too many losses");
    }
    if (message->n_tag_sets > TAG_SETS_MAX || message->n_label_sets > LABEL_SETS_MAX) {
        return set_reason(why, "too many tag sets or label sets");
    }
    return columns_ok(message, why) && texts_ok(message, why) && (!message->crash || crash_ok(message, why)) &&
           (!message->timeline || timeline_ok(message, why));
}

/* Texts are shown on terminals and pages. Cleaning never makes a text longer. */
static void clean_text(char *text)
{
    char *sound = et_clean(text, strlen(text));
    size_t size = strlen(sound);
    if (size) {
        memcpy(text, sound, size + 1);
    }
    free(sound);
}

void et_compact_clean_key(char *key)
{
    clean_text(key);
    et_label_escape(key);
}

static bool has_later(const Edgeprof__V1__Origin *origin, size_t tag)
{
    for (size_t i = tag + 1; i < origin->n_tags; i++) {
        if (strcmp(origin->tags[i]->key, origin->tags[tag]->key) == 0) {
            return true;
        }
    }
    return false;
}

/* Removes tags with reserved keys: they would stand beside the origin's service, or for a server's own labels. Of a key
 * the last tag counts, for every reader. Keys are compared as they are stored. */
static void clean_tags(Edgeprof__V1__Origin *origin)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    size_t kept = 0;
    for (size_t i = 0; i < origin->n_tags; i++) {
        et_compact_clean_key(origin->tags[i]->key);
        clean_text(origin->tags[i]->value);
    }
    for (size_t i = 0; i < origin->n_tags; i++) {
        Edgeprof__V1__Tag *tag = origin->tags[i];
        if (et_label_reserved(tag->key) || has_later(origin, i)) {
            edgeprof__v1__tag__free_unpacked(tag, &allocator);
        } else {
            origin->tags[kept++] = tag;
        }
    }
    origin->n_tags = kept;
}

static void clean_texts(et_message *message)
{
    Edgeprof__V1__Origin *origin = message->origin;
    if (origin) {
        clean_tags(origin);
        char *texts[] = {origin->service,    origin->host, origin->boot_id,
                         origin->executable, origin->arch, origin->agent};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            clean_text(texts[i]);
        }
    }
    for (size_t i = 0; i < message->n_modules; i++) {
        clean_text(message->modules[i]->path);
    }
}

et_message *et_message_decode(const void *bytes, size_t size, const char **why)
{
    size_t left = DECODE_BUDGET;
    ProtobufCAllocator allocator = et_budget_allocator(&left);
    et_message *message = size ? edgeprof__v1__message__unpack(&allocator, size, bytes) : NULL;
    if (!message) {
        set_reason(why, "not a compact message");
        return NULL;
    }
    if (!message_ok(message, why)) {
        et_message_free(message);
        return NULL;
    }
    clean_texts(message);
    return message;
}

void et_message_free(et_message *message)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    edgeprof__v1__message__free_unpacked(message, &allocator);
}
