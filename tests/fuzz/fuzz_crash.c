/*
 * Any bytes as messages about crashes, as the server reads them back and `edgeprof crashes FILE` reads a file:
 * tools/formats/crash.c, behind tools/formats/compact.c. "EPMS" in the input stands between messages.
 *
 * Checked: what is refused has a reason; a crash has at most ET_CRASH_FRAMES frames, and each exists; of the same
 * messages the answer is the same when they are encoded and read again; the answer is JSON with each crash once; a
 * group's crashes have its service and reason and are in order of time, as are the groups; the memory of a crash is
 * bounded by its messages' size and its frames, and given back; CPU time is bounded.
 */
#include "spend.h"
#include "tools/formats/crash.h"
#include "tools/lib/json_read.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGES = 8, MEMORY_FIXED = 262144, MEMORY_PER_BYTE = 8192, MEMORY_PER_FRAME = 512, NOW = 1795000000 };

static void add(struct et_crashes *crashes, et_message *message)
{
    const char *why = NULL;
    const size_t before = crashes->count;
    const bool ok = et_crashes_add(crashes, message, (int64_t)NOW * 1000000000, &why);
    REQUIRE(crashes->count == before + ok && (ok || (why && why[0])));
    if (!ok) {
        return;
    }
    const struct et_crash *crash = &crashes->items[before];
    size_t frames = 0;
    for (size_t i = 0; i < crash->message->crash->n_threads; i++) {
        REQUIRE(crash->depths[i] <= ET_MAX_DEPTH);
        for (size_t k = 0; k < crash->depths[i]; k++) {
            REQUIRE(crash->frames[i][k] < crashes->profile->frame_count);
        }
        frames += crash->depths[i];
    }
    REQUIRE(frames <= ET_CRASH_FRAMES);
}

/* protobuf-c writes some unknown fields so that it cannot read them: number 0. */
static bool is_known(const ProtobufCMessage *message)
{
    bool known = message->n_unknown_fields == 0;
    for (unsigned i = 0; known && i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const char *at = (const char *)message + field->offset;
        const bool many = field->label == PROTOBUF_C_LABEL_REPEATED;
        if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
            continue;
        }
        const size_t count =
            many ? *(const size_t *)(const void *)((const char *)message + field->quantifier_offset) : 1;
        const ProtobufCMessage *const *items =
            many ? *(const ProtobufCMessage *const *const *)(const void *)at : (const void *)at;
        for (size_t k = 0; known && k < count; k++) {
            known = !items[k] || is_known(items[k]);
        }
    }
    return known;
}

/* As the sender would write what was read. */
static et_message *again(const et_message *message, const uint8_t *data, size_t data_size)
{
    const char *why = NULL;
    if (!is_known(&message->base)) {
        return et_message_decode(data, data_size, &why);
    }
    size_t size = edgeprof__v1__message__get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    REQUIRE(bytes && edgeprof__v1__message__pack(message, bytes) == size);
    et_message *other = et_message_decode(bytes, size, &why);
    REQUIRE(other && other->crash);
    free(bytes);
    return other;
}

/* Adds the messages that tell of a crash to both lists, to the second one as they are after encoding. */
static void read_all(const uint8_t *data, size_t size, struct et_crashes *first, struct et_crashes *second)
{
    const uint8_t *at = data, *end = data + size;
    for (unsigned count = 0; at && count < MESSAGES; count++) {
        const uint8_t *next = at < end ? memmem(at, (size_t)(end - at), "EPMS", 4) : NULL;
        const char *why = NULL;
        const size_t length = (size_t)((next ? next : end) - at);
        et_message *message = et_message_decode(at, length, &why);
        REQUIRE(message || (why && why[0]));
        if (message && message->crash) {
            add(second, again(message, at, length));
            add(first, message);
        } else if (message) {
            et_message_free(message);
        }
        at = next ? next + 4 : NULL;
    }
}

static double time_of(const json_t *group, size_t crash)
{
    const json_t *time = json_object_get(json_array_get(json_object_get(group, "crashes"), crash), "time");
    REQUIRE(json_is_number(time));
    return json_number_value(time);
}

static size_t sound_group(const json_t *group)
{
    const size_t count = json_array_size(json_object_get(group, "crashes"));
    REQUIRE(et_json_text(group, "service") && et_json_text(group, "reason") && et_json_text(group, "fingerprint"));
    REQUIRE(count > 0 && json_integer_value(json_object_get(group, "count")) == (json_int_t)count);
    for (size_t i = 1; i < count; i++) {
        REQUIRE(time_of(group, i - 1) >= time_of(group, i));
    }
    return count;
}

static void sound_answer(const struct et_crashes *crashes, const struct et_buf *answer)
{
    struct et_buf why = {0};
    json_t *document = et_json_read(answer->data, answer->size, &why);
    const json_t *groups = json_object_get(document, "groups"), *group;
    size_t i, count = 0, at = 0;
    REQUIRE(document && json_is_array(groups));
    json_array_foreach(groups, i, group)
    {
        REQUIRE(i == 0 || time_of(json_array_get(groups, i - 1), 0) >= time_of(group, 0));
        count = sound_group(group);
        for (size_t k = 0; k < count; k++, at++) {
            REQUIRE(strcmp(crashes->items[at].fingerprint, et_json_text(group, "fingerprint")) == 0);
            REQUIRE(strcmp(crashes->items[at].service, crashes->items[at - k].service) == 0);
            REQUIRE(strcmp(crashes->items[at].reason, crashes->items[at - k].reason) == 0);
        }
    }
    REQUIRE(at == crashes->count);
    json_decref(document);
    et_buf_free(&why);
}

static size_t frames_of(const struct et_crashes *crashes)
{
    size_t frames = 0;
    for (size_t i = 0; i < crashes->count; i++) {
        for (size_t k = 0; k < crashes->items[i].message->crash->n_threads; k++) {
            frames += crashes->items[i].depths[k];
        }
    }
    return frames;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool seeded;
    struct et_crashes first = {0}, second = {0};
    struct et_buf answer = {0}, other = {0};
    if (!seeded) {
        json_object_seed(1); /* jansson reads /dev/urandom otherwise, at the first object */
        seeded = true;
    }
    const long long began = fuzz_begin();
    read_all(data, size, &first, &second);
    const size_t frames = frames_of(&first);
    et_crashes_group(&first);
    et_crashes_group(&second);
    et_crashes_json(&first, &answer);
    et_crashes_json(&second, &other);
    REQUIRE(answer.size == other.size && memcmp(answer.data, other.data, answer.size) == 0);
    sound_answer(&first, &answer);
    et_crashes_free(&first);
    et_crashes_free(&second);
    et_buf_free(&answer);
    et_buf_free(&other);
    return fuzz_end(began, size + frames, MEMORY_FIXED + MEMORY_PER_BYTE * size + MEMORY_PER_FRAME * frames);
}
