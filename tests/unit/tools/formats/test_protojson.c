/* Messages to JSON and back: names, numbers as text, bytes, enums, errors. */
#include "tools/formats/protojson.h"
#include "otlp.pb-c.h"
#include "push.pb-c.h"
#include "querier.pb-c.h"
#include "tests/unit/test.h"

#define REQUEST &querier__v1__select_merge_stacktraces_request__descriptor

static void same_again(const ProtobufCMessageDescriptor *descriptor, const char *text, const char *expected)
{
    const char *why;
    struct et_buf out = {0};
    ProtobufCMessage *message = et_protojson_decode(descriptor, text, strlen(text), &why);
    if (!message) {
        fail_msg("%s: %s", text, why);
    }
    et_protojson_encode(message, &out);
    assert_string_equal(out.data, expected);
    et_buf_free(&out);
    protobuf_c_message_free_unpacked(message, NULL);
}

TEST(oneofs)
{
    const char *why;
    const ProtobufCMessageDescriptor *value = &otlp__any_value__descriptor;
    same_again(value, "{\"intValue\":\"0\"}", "{\"intValue\":\"0\"}"); /* chosen, though it is the default */
    same_again(value, "{\"stringValue\":\"\"}", "{\"stringValue\":\"\"}");
    same_again(value, "{\"string_value\":\"a\",\"boolValue\":null}", "{\"stringValue\":\"a\"}");
    same_again(value, "{\"boolValue\":false}", "{\"boolValue\":false}");
    same_again(value, "{}", "{}");
    const char *both = "{\"intValue\":1,\"boolValue\":true}", *bad = "{\"stringValue\":1}";
    assert_null(et_protojson_decode(value, both, strlen(both), &why));
    assert_null(et_protojson_decode(value, bad, strlen(bad), &why));
}

TEST(names_and_numbers)
{
    const char *full =
        "{\"profileTypeID\":\"a:b\",\"labelSelector\":\"{x=\\\"\\u00fc\\n\\\"}\",\"start\":\"1700000000000\","
        "\"end\":\"-5\",\"maxNodes\":\"16384\",\"format\":\"PROFILE_FORMAT_PPROF\",\"spanSelector\":[\"a\",\"\"]}";
    same_again(
        REQUEST, full,
        "{\"profileTypeID\":\"a:b\",\"labelSelector\":\"{x=\\\"\xc3\xbc\\u000a\\\"}\",\"start\":\"1700000000000\","
        "\"end\":\"-5\",\"maxNodes\":\"16384\",\"format\":\"PROFILE_FORMAT_PPROF\",\"spanSelector\":[\"a\",\"\"]}");
    same_again(REQUEST,
               "{\"profile_typeID\":\"a\",\"start\":7,\"end\":1e3,\"max_nodes\":\"8\",\"format\":4,\"new\":{\"x\":[]}}",
               "{\"profileTypeID\":\"a\",\"start\":\"7\",\"end\":\"1000\",\"maxNodes\":\"8\",\"format\":\"PROFILE_"
               "FORMAT_PPROF\"}");
    same_again(REQUEST, "{\"start\":0,\"format\":99,\"labelSelector\":\"\",\"spanSelector\":[],\"end\":null}",
               "{\"format\":99}");
    same_again(REQUEST, "{\"stackTraceSelector\":{\"callSite\":[{\"name\":\"main\"},{}]}}",
               "{\"stackTraceSelector\":{\"callSite\":[{\"name\":\"main\"},{}]}}");
    same_again(&querier__v1__point__descriptor, "{\"value\":0.5,\"timestamp\":\"3\"}",
               "{\"value\":0.5,\"timestamp\":\"3\"}");
    same_again(&querier__v1__point__descriptor, "{\"value\":\"-2.5\"}", "{\"value\":-2.5}");
    same_again(&querier__v1__point__descriptor, "{\"value\":\"Infinity\"}", "{\"value\":\"Infinity\"}");
    same_again(&perftools__profiles__mapping__descriptor, "{\"memoryLimit\":\"18446744073709551615\"}",
               "{\"memoryLimit\":\"18446744073709551615\"}");
    same_again(&querier__v1__get_profile_stats_response__descriptor, "{\"dataIngested\":true}",
               "{\"dataIngested\":true}");
    same_again(&querier__v1__level__descriptor, "{\"values\":[\"0\",1,\"-2\"]}", "{\"values\":[\"0\",\"1\",\"-2\"]}");
}

TEST(bytes_are_base64)
{
    for (size_t size = 0; size < 70; size++) {
        Push__V1__RawSample sample = PUSH__V1__RAW_SAMPLE__INIT;
        uint8_t bytes[70];
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (uint8_t)(i * 37 + size);
        }
        sample.raw_profile = (ProtobufCBinaryData){.len = size, .data = bytes};
        struct et_buf out = {0};
        const char *why;
        et_protojson_encode(&sample.base, &out);
        Push__V1__RawSample *back =
            (Push__V1__RawSample *)et_protojson_decode(&push__v1__raw_sample__descriptor, out.data, out.size, &why);
        assert_non_null(back);
        assert_int_equal(back->raw_profile.len, size);
        assert_memory_equal(back->raw_profile.data ? back->raw_profile.data : bytes, bytes, size);
        push__v1__raw_sample__free_unpacked(back, NULL);
        et_buf_free(&out);
    }
    same_again(&push__v1__raw_sample__descriptor, "{\"rawProfile\":\"-_8\"}", "{\"rawProfile\":\"+/8=\"}");
}

TEST(unsuitable_json_is_refused)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"", "not JSON"},
        {"[]", "not a JSON object"},
        {"{\"start\":", "not JSON"},
        {"{} x", "not JSON"},
        {"{\"start\":\"x\"}", "start"},
        {"{\"start\":\"\"}", "start"},
        {"{\"start\":1.5}", "start"},
        {"{\"start\":\"99999999999999999999\"}", "start"},
        {"{\"start\":{}}", "start"},
        {"{\"labelSelector\":7}", "label_selector"},
        {"{\"labelSelector\":\"a\\u0000b\"}", "not JSON"},
        {"{\"format\":\"PROFILE\"}", "format"},
        {"{\"spanSelector\":\"a\"}", "span_selector"},
        {"{\"spanSelector\":[\"a\",7,\"b\"]}", "span_selector"},
        {"{\"stackTraceSelector\":{\"callSite\":[{\"name\":[]}]}}", "name"},
        {"{\"stackTraceSelector\":[]}", "stack_trace_selector"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = "";
        assert_null(et_protojson_decode(REQUEST, cases[i].text, strlen(cases[i].text), &why));
        if (!strstr(why, cases[i].word)) {
            fail_msg("%s: %s", cases[i].text, why);
        }
    }
    static const char *const bytes[] = {"{\"rawProfile\":\"a\"}", "{\"rawProfile\":\"a*bc\"}",
                                        "{\"rawProfile\":\"YQ=x\"}", "{\"rawProfile\":7}"};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        const char *why;
        assert_null(et_protojson_decode(&push__v1__raw_sample__descriptor, bytes[i], strlen(bytes[i]), &why));
    }
}

/* However deep the text is, it is only read as deep as the message. */
TEST(deep_json_is_bounded)
{
    struct et_buf text = {0};
    const char *why;
    et_buf_text(&text, "{\"new\":");
    for (int i = 0; i < 100000; i++) {
        et_buf_char(&text, '[');
    }
    assert_null(et_protojson_decode(REQUEST, text.data, text.size, &why));
    et_buf_free(&text);
}

TEST_MAIN
