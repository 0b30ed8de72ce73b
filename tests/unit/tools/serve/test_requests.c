/* Decoding of requests: Push as JSON equals Push as protobuf, all forms of base64, multipart fields with any contents,
 * limits of JSON; truncated and random bytes are survived. */
#include "tools/lib/json_read.h"
#include "tools/lib/labels.h"
#include "tools/formats/multipart.h"
#include "tools/serve/ingest/push_request.h"
#include "tests/unit/test.h"

#include <nettle/base64.h>

static uint32_t seed;

static uint32_t any(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static char *encoded(const uint8_t *bytes, size_t size)
{
    char *text = calloc(BASE64_ENCODE_RAW_LENGTH(size) + 1, 1);
    base64_encode_raw(text, size, bytes);
    return text;
}

TEST(base64_in_all_its_forms)
{
    for (uint32_t round = 1; round < 500; round++) {
        uint8_t bytes[40];
        seed = round;
        size_t size = any(sizeof bytes);
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (uint8_t)any(256);
        }
        char *text = encoded(bytes, size);
        for (int form = 0; form < 4; form++) { /* url-safe, without padding */
            struct et_buf out = {0};
            char *own = strdup(text);
            own[strcspn(own, form & 1 ? "=" : "")] = '\0';
            for (char *at = own; form & 2 && *at; at++) {
                *at = (char)(*at == '+' ? '-' : *at == '/' ? '_' : *at);
            }
            assert_true(et_base64(own, strlen(own), &out));
            assert_int_equal(out.size, size);
            assert_memory_equal(out.data ? out.data : "", bytes, size);
            free(own);
            et_buf_free(&out);
        }
        free(text);
    }
    static const char *const wrong[] = {"A", "AA===", "A===", "AAAAA", "AA A", "AA\nA", "AAA*", "=", "====", "AA=A"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct et_buf out = {0};
        if (et_base64(wrong[i], strlen(wrong[i]), &out)) {
            fail_msg("%s is taken", wrong[i]);
        }
        et_buf_free(&out);
    }
}

TEST(json_is_bounded)
{
    static const char *const good[] = {"{}", "[[[1]]]", "\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"", "null",
                                       " 12.5e3 "};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct et_buf why = {0};
        json_t *value = et_json_read(good[i], strlen(good[i]), &why);
        assert_non_null(value);
        json_decref(value);
        et_buf_free(&why);
    }
    struct et_buf deep = {0}, wide = {0}, why = {0};
    for (int i = 0; i < 100000; i++) {
        et_buf_text(&deep, i % 2 ? "[" : "{\"a\":");
    }
    assert_null(et_json_read(deep.data, deep.size, &why));
    assert_non_null(strstr(why.data, "deeper than 32"));
    why.size = 0;
    et_buf_text(&wide, "[");
    for (int i = 0; i < 300000; i++) {
        et_buf_text(&wide, "[],");
    }
    assert_null(et_json_read(wide.data, wide.size, &why));
    assert_non_null(strstr(why.data, "more than 200000"));
    static const char *const wrong[] = {"",          "{",        "{\"a\":1e99999}", "[99999999999999999999999999]",
                                        "{\"a\" 1}", "\"\xff\"", "\"\\u0000\"",     "{}{}",
                                        "[1,]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        why.size = 0;
        if (et_json_read(wrong[i], strlen(wrong[i]), &why)) {
            fail_msg("%s is taken", wrong[i]);
        }
        assert_non_null(strstr(why.data, "not JSON: line 1"));
    }
    et_buf_free(&deep);
    et_buf_free(&wide);
    et_buf_free(&why);
}

/* ---- Push ---- */

struct pair {
    struct et_buf json, wire;
};

static void nested(struct et_buf *out, unsigned field, const void *bytes, size_t size)
{
    et_varint_put(out, field << 3 | 2);
    et_varint_put(out, size);
    et_buf_add(out, bytes, size);
}

static void add_label(struct pair *series, size_t index, unsigned number)
{
    struct et_buf label = {0};
    char name[16], value[24];
    snprintf(name, sizeof name, index ? "k%u" : "__name__", number);
    snprintf(value, sizeof value, "v%u \"<\\", number);
    nested(&label, 1, name, strlen(name));
    nested(&label, 2, value, strlen(value));
    nested(&series->wire, 1, label.data, label.size);
    et_buf_printf(&series->json, "%s{\"%s\":\"%s\",\"value\":\"v%u \\\"\\u003c\\\\\"}", index ? "," : "", "name", name,
                  number);
    et_buf_free(&label);
}

static void add_sample(struct pair *series, size_t index)
{
    uint8_t bytes[30];
    struct et_buf sample = {0};
    size_t size = any(sizeof bytes);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)any(256);
    }
    char *text = encoded(bytes, size);
    nested(&sample, 1, bytes, size);
    nested(&sample, 2, "id", 2);
    nested(&series->wire, 2, sample.data, sample.size);
    et_buf_printf(&series->json, "%s{\"ID\":\"id\",\"%s\":\"%s\",\"unknown\":{\"x\":[1,null]}}", index ? "," : "",
                  any(2) ? "rawProfile" : "raw_profile", text);
    free(text);
    et_buf_free(&sample);
}

/* Makes the same request in both encodings. */
static struct pair request_of(uint32_t round)
{
    struct pair request = {0};
    seed = round;
    et_buf_text(&request.wire, "");
    et_buf_text(&request.json, "{\"series\":[");
    for (size_t s = any(4), count = s; s-- > 0;) {
        struct pair series = {0};
        et_buf_text(&series.json, "{\"labels\":[");
        for (size_t i = 0, labels = any(5); i < labels; i++) {
            add_label(&series, i, any(100) + 100 * (unsigned)i);
        }
        et_buf_text(&series.json, "],\"annotations\":null,\"samples\":[");
        for (size_t i = 0, samples = any(4); i < samples; i++) {
            add_sample(&series, i);
        }
        nested(&request.wire, 1, series.wire.data, series.wire.size);
        et_buf_printf(&request.json, "%s%s]}", s + 1 < count ? "," : "", series.json.data);
        et_buf_free(&series.json);
        et_buf_free(&series.wire);
    }
    et_buf_text(&request.json, "]}");
    return request;
}

TEST(json_and_binary_are_equivalent)
{
    for (uint32_t round = 1; round < 300; round++) {
        struct pair request = request_of(round);
        struct et_buf why = {0};
        et_push *a = et_push_decode(request.wire.data, request.wire.size, &why);
        et_push *b = et_push_decode_json(request.json.data, request.json.size, &why);
        if (!a || !b) {
            fail_msg("%s: %s", request.json.data, why.data);
        }
        size_t size = push__v1__push_request__get_packed_size(a);
        assert_int_equal(push__v1__push_request__get_packed_size(b), size);
        uint8_t *x = malloc(size + 1), *y = malloc(size + 1);
        push__v1__push_request__pack(a, x);
        push__v1__push_request__pack(b, y);
        assert_memory_equal(x, y, size);
        free(x);
        free(y);
        for (size_t cut = 0; cut < request.json.size; cut += 1 + any(20)) { /* refused with a reason */
            why.size = 0;
            assert_null(et_push_decode_json(request.json.data, cut, &why));
            assert_true(why.size > 0);
        }
        et_push_free(a);
        et_push_free(b);
        et_buf_free(&why);
        et_buf_free(&request.json);
        et_buf_free(&request.wire);
    }
}

TEST(other_shapes_are_refused)
{
    static const char *const wrong[] = {"[]",
                                        "1",
                                        "{\"series\":{}}",
                                        "{\"series\":[1]}",
                                        "{\"series\":[{\"labels\":1}]}",
                                        "{\"series\":[{\"labels\":[[]]}]}",
                                        "{\"series\":[{\"labels\":[{\"name\":1}]}]}",
                                        "{\"series\":[{\"samples\":[{}]}]}",
                                        "{\"series\":[{\"samples\":[{\"rawProfile\":\"A\"}]}]}",
                                        "{\"series\":[{\"samples\":[{\"rawProfile\":[]}]}]}",
                                        "{\"series\":[{\"samples\":[{\"rawProfile\":\"AAAA\",\"ID\":{}}]}]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct et_buf why = {0};
        if (et_push_decode_json(wrong[i], strlen(wrong[i]), &why)) {
            fail_msg("%s is taken", wrong[i]);
        }
        assert_non_null(strstr(why.data, "not a PushRequest"));
        et_buf_free(&why);
    }
}

TEST(labels_follow_pyroscopes_rules)
{
    static const struct {
        const char *labels, *wrong, *tags;
    } cases[] = {
        {"[]", "no label __name__", NULL},
        {"[{\"name\":\"service_name\",\"value\":\"x\"}]", "no label __name__", NULL},
        {"[{\"name\":\"__name__\",\"value\":\"a-b\"}]", "not a valid metric name", NULL},
        {"[{\"name\":\"__name__\",\"value\":\"1a\"}]", "not a valid metric name", NULL},
        {"[{\"name\":\"__name__\",\"value\":\"\"}]", "not a valid metric name", NULL},
        {"[{\"name\":\"__name__\",\"value\":\"a\"},{\"name\":\"\"}]", "without a name", NULL},
        {"[{\"name\":\"__name__\",\"value\":\"a\"},{\"name\":\"k\"},{\"name\":\"k\"}]", "twice", NULL},
        {"[{\"name\":\"__name__\",\"value\":\"process_cpu\"},{\"name\":\"service_name\",\"value\":\"s\"},"
         "{\"name\":\"__delta__\",\"value\":\"false\"},{\"name\":\"z.y\",\"value\":\"2=3\"},{\"name\":\"spy_name\","
         "\"value\":\"s\"},"
         "{\"name\":\"__session_id__\",\"value\":\"7\"},{\"name\":\"a=b\",\"value\":\"1\\n2\"}]",
         NULL, "__session_id__=7\na_b=1?2\nz.y=2=3\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct et_buf text = {0}, why = {0};
        et_buf_printf(&text, "{\"series\":[{\"labels\":%s}]}", cases[i].labels);
        et_push *push = et_push_decode_json(text.data, text.size, &why);
        assert_non_null(push);
        const char *wrong = et_push_wrong(push->series[0]);
        if (!cases[i].wrong != !wrong || (wrong && !strstr(wrong, cases[i].wrong))) {
            fail_msg("%s: %s", cases[i].labels, wrong ? wrong : "taken");
        }
        if (cases[i].tags) {
            char *tags = et_push_tags(push->series[0]);
            assert_string_equal(tags, cases[i].tags);
            free(tags);
        }
        et_push_free(push);
        et_buf_free(&text);
        et_buf_free(&why);
    }
}

/* protobuf-c uses one shared string for all missing values. */
TEST(duplicate_names_without_values)
{
    static const uint8_t wire[] = {10, 10, 10, 3, 10, 1, 'k', 10, 3, 10, 1, 'k'};
    struct et_buf why = {0};
    et_push *push = et_push_decode(wire, sizeof wire, &why);
    assert_non_null(push);
    assert_int_equal(push->series[0]->n_labels, 2);
    assert_string_equal(et_push_wrong(push->series[0]), "a label twice");
    et_push_free(push);
    et_buf_free(&why);
}

TEST(few_request_bytes_need_little_memory)
{
    struct et_buf wire = {0}, why = {0};
    for (int i = 0; i < 2000000; i++) {
        et_buf_add(&wire, "\n\0", 2); /* empty series */
    }
    assert_null(et_push_decode(wire.data, wire.size, &why));
    et_buf_free(&wire);
    et_buf_free(&why);
}

/* ---- multipart ---- */

TEST(a_boundary_is_found)
{
    static const struct {
        const char *type, *boundary;
    } cases[] = {{"multipart/form-data; boundary=abc", "abc"},
                 {"Multipart/Form-Data;Boundary=\"a b;c\"; x=y", "a b;c"},
                 {"multipart/form-data; x=y; boundary=abc; z=1", "abc"},
                 {"multipart/form-data", NULL},
                 {"multipart/form-data; boundary=", NULL},
                 {"text/plain; boundary=abc", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char boundary[ET_BOUNDARY] = "";
        assert_int_equal(et_multipart_boundary(cases[i].type, boundary), cases[i].boundary != NULL);
        assert_string_equal(boundary, cases[i].boundary ? cases[i].boundary : "");
    }
    char type[200], boundary[ET_BOUNDARY];
    snprintf(type, sizeof type, "multipart/form-data; boundary=%0100d", 0);
    assert_false(et_multipart_boundary(type, boundary));
}

TEST(fields_are_found_whatever_they_hold)
{
    static const char *const names[] = {"sample_type_config", "prev_profile", "profile"};
    static const char *const parts[] = {"\r\n", "--B", "\r\n--", "B",        "\r",     "\n",
                                        "a",    "\0x", "--",     "\r\n\r\n", "\r\n--A"};
    for (uint32_t round = 1; round < 2000; round++) {
        struct et_buf body = {0}, fields[3] = {{0}};
        seed = round;
        et_buf_text(&body, any(2) ? "preamble\r\n--B" : "--B");
        for (size_t i = 0; i < 3; i++) {
            for (uint32_t k = any(8); k-- > 0;) {
                const char *part = parts[any(sizeof parts / sizeof *parts)];
                et_buf_add(&fields[i], part, *part ? strlen(part) : 2);
            }
            et_buf_printf(&body, "\r\n%scontent-disposition: form-data; filename=\"profile\"; name=\"%s\"%s\r\n\r\n",
                          any(2) ? "X-Name: a\r\n" : "", names[i], any(2) ? "\r\nContent-Type: a/b" : "");
            et_buf_add(&body, fields[i].data, fields[i].size);
            et_buf_text(&body, "\r\n--B");
        }
        et_buf_text(&body, "--\r\n");
        bool clash = false; /* a field with the boundary in it ends there */
        for (size_t i = 0; i < 3; i++) {
            clash |= fields[i].size && memmem(fields[i].data, fields[i].size, "\r\n--B", 5) != NULL;
            clash |= fields[i].size >= 3 && memcmp(fields[i].data, "--B", 3) == 0;
        }
        for (size_t i = 0; i < 3; i++) {
            const char *field = NULL;
            size_t size = 0;
            int found = et_multipart_field(body.data, body.size, "B", names[i], &field, &size);
            if (!clash &&
                (found != 1 || size != fields[i].size || (size && memcmp(field, fields[i].data, size) != 0))) {
                fail_msg("round %u: %s: %d, %zu bytes instead of %zu", round, names[i], found, size, fields[i].size);
            }
            et_multipart_field(body.data, any((uint32_t)body.size), "B", names[i], &field, &size);
        }
        if (!clash) {
            const char *field;
            size_t size;
            assert_int_equal(et_multipart_field(body.data, body.size, "B", "file", &field, &size), 0);
            assert_int_equal(et_multipart_field(body.data, body.size, "C", "profile", &field, &size), -EBADMSG);
        }
        for (size_t i = 0; i < 3; i++) {
            et_buf_free(&fields[i]);
        }
        et_buf_free(&body);
    }
}

TEST_MAIN
