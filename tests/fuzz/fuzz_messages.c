/*
 * Any bytes as a request of push.v1 or querier.v1, binary or JSON: tools/serve/ingest/push_request.c and
 * tools/formats/protojson.c. The first byte selects message and encoding.
 *
 * Checked: what is refused has a reason; a message that is read is the same after JSON and back; a push's tags are
 * lines in order, without names of its own kind; memory is bounded by the input's size and given back; CPU time is
 * bounded.
 */
#include "spend.h"
#include "querier.pb-c.h"
#include "tools/formats/protojson.h"
#include "tools/serve/ingest/push_request.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_FIXED = 262144, MEMORY_PER_BYTE = 32768 };

static const ProtobufCMessageDescriptor *const requests[] = {&querier__v1__select_merge_stacktraces_request__descriptor,
                                                             &querier__v1__select_series_request__descriptor,
                                                             &querier__v1__diff_request__descriptor,
                                                             &querier__v1__analyze_query_request__descriptor,
                                                             &querier__v1__get_profile_stats_request__descriptor,
                                                             &push__v1__push_request__descriptor};

static void packed(const ProtobufCMessage *message, struct et_buf *out)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    out->data = malloc(size + 1);
    REQUIRE(out->data);
    out->size = protobuf_c_message_pack(message, (uint8_t *)out->data);
    REQUIRE(out->size == size);
}

/* Unknown fields and text that is not UTF-8 have no JSON: what was JSON once stays as it is. */
static void by_json(const ProtobufCMessage *message)
{
    struct et_buf text = {0}, second = {0}, bytes = {0}, other_bytes = {0};
    const char *why = NULL;
    et_protojson_encode(message, &text);
    ProtobufCMessage *other = et_protojson_decode(message->descriptor, text.data, text.size, &why);
    if (other) {
        et_protojson_encode(other, &second);
        REQUIRE(second.size == text.size && memcmp(second.data, text.data, text.size) == 0);
        packed(message, &bytes);
        packed(other, &other_bytes);
        protobuf_c_message_free_unpacked(other, NULL);
    }
    et_buf_free(&text);
    et_buf_free(&second);
    et_buf_free(&bytes);
    et_buf_free(&other_bytes);
}

static void query(const ProtobufCMessageDescriptor *descriptor, bool json, const uint8_t *bytes, size_t size)
{
    const char *why = NULL;
    ProtobufCMessage *message = json ? et_protojson_decode(descriptor, bytes, size, &why)
                                     : protobuf_c_message_unpack(descriptor, NULL, size, bytes);
    REQUIRE(message || !json || (why && why[0]));
    if (message) {
        by_json(message);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

static void sound_tags(const et_push_series *series)
{
    char *tags = et_push_tags(series), before[256] = "";
    for (const char *line = tags; *line; line = strchr(line, '\n') + 1) {
        const char *equals = strchr(line, '=');
        REQUIRE(strchr(line, '\n') && equals && equals < strchr(line, '\n'));
        size_t length = (size_t)(equals - line);
        REQUIRE(strncmp(line, "service_name=", 13) != 0 && strncmp(line, "spy_name=", 9) != 0);
        if (length < sizeof before) {
            char name[256];
            memcpy(name, line, length);
            name[length] = '\0';
            REQUIRE(strcmp(before, name) <= 0);
            memcpy(before, name, length + 1);
        }
    }
    free(tags);
}

static void push(bool json, const uint8_t *bytes, size_t size)
{
    struct et_buf why = {0};
    et_push *message = json ? et_push_decode_json(bytes, size, &why) : et_push_decode(bytes, size, &why);
    REQUIRE(message || why.size > 0);
    for (size_t i = 0; message && i < message->n_series; i++) {
        const char *wrong = et_push_wrong(message->series[i]);
        REQUIRE(!wrong || wrong[0]);
        if (!wrong) {
            REQUIRE(et_push_label(message->series[i], "__name__"));
            sound_tags(message->series[i]);
        }
    }
    if (message) {
        et_push_free(message);
    }
    et_buf_free(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const long long began = fuzz_begin();
    query(requests[(data[0] >> 1) % (sizeof requests / sizeof *requests)], data[0] & 1, data + 1, size - 1);
    push(data[0] & 1, data + 1, size - 1);
    return fuzz_end(began, size, MEMORY_FIXED + MEMORY_PER_BYTE * size);
}
