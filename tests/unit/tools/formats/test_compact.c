/* The tags of a compact message that a sender has changed: no tag can stand beside the origin's service or for a label
 * of a server, none has a control character, and each key has one value. */
#include "tools/formats/compact.h"
#include "tools/lib/labels.h"
#include "tests/unit/test.h"

struct tag {
    const char *key, *value;
};

/* The first message of a segment with those tags, in the origin and in a set. */
static et_message *decoded(const struct tag *tags, size_t count)
{
    Edgeprof__V1__Message message = EDGEPROF__V1__MESSAGE__INIT;
    Edgeprof__V1__Origin origin = EDGEPROF__V1__ORIGIN__INIT;
    Edgeprof__V1__TagSet set = EDGEPROF__V1__TAG_SET__INIT, *sets[] = {&set};
    Edgeprof__V1__Tag tag[8], *list[8];
    for (size_t i = 0; i < count; i++) {
        tag[i] = (Edgeprof__V1__Tag)EDGEPROF__V1__TAG__INIT;
        tag[i].key = (char *)(uintptr_t)tags[i].key;
        tag[i].value = (char *)(uintptr_t)tags[i].value;
        list[i] = &tag[i];
    }
    origin.format = 1;
    origin.service = "svc";
    origin.tags = list;
    origin.n_tags = count;
    set.id = 1;
    set.tags = list;
    set.n_tags = count;
    message.segment = 1;
    message.origin = &origin;
    message.tag_sets = sets;
    message.n_tag_sets = 1;
    size_t size = edgeprof__v1__message__get_packed_size(&message);
    uint8_t *bytes = et_alloc(size, 1);
    edgeprof__v1__message__pack(&message, bytes);
    const char *why = "";
    et_message *read = et_message_decode(bytes, size, &why);
    if (!read) {
        fail_msg("%s", why);
    }
    free(bytes);
    return read;
}

/* Origin and set must become these lines. */
static void becomes(const struct tag *tags, size_t count, const char *lines)
{
    et_message *message = decoded(tags, count);
    struct et_segment segment;
    const char *why = "";
    struct et_buf text = {0};
    et_buf_text(&text, "");
    for (size_t i = 0; i < message->origin->n_tags; i++) {
        et_buf_printf(&text, "%s=%s\n", message->origin->tags[i]->key, message->origin->tags[i]->value);
    }
    assert_string_equal(text.data, lines);
    et_buf_free(&text);
    et_segment_init(&segment);
    assert_true(et_message_labels(message, &segment, &why));
    assert_string_equal(segment.labels[et_segment_labels(&segment, 1)].lines, lines);
    et_segment_free(&segment);
    et_message_free(message);
}

TEST(test_plain)
{
    becomes((struct tag[]){{"device", "pi-7"}, {"version", "1.4.2"}}, 2, "device=pi-7\nversion=1.4.2\n");
}

TEST(test_reserved)
{
    static const char *const keys[] = {"service_name", "service=name", "spy_name",
                                       "__name__",     "==name__",     "__profile_type__"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        becomes((struct tag[]){{keys[i], "payments"}, {"zone", "a"}}, 2, "zone=a\n");
        becomes((struct tag[]){{"a", "b"}, {keys[i], "payments"}}, 2, "a=b\n");
        becomes((struct tag[]){{keys[i], "payments"}}, 1, "");
    }
    becomes((struct tag[]){{"service", "x"}, {"service_name_", "y"}}, 2, "service=x\nservice_name_=y\n");
}

TEST(test_control_characters)
{
    becomes((struct tag[]){{"a\nservice_name", "payments\nhost=other"}}, 1, "a?service_name=payments?host=other\n");
    becomes((struct tag[]){{"a\x1b[2J", "\x7f\r"}}, 1, "a?[2J=??\n");
}

/* Keys that are the same when stored; a set with one key twice is refused before. */
TEST(test_twice)
{
    becomes((struct tag[]){{"a=b", "1"}, {"a_b", "2"}}, 2, "a_b=2\n");
    becomes((struct tag[]){{"k\1", "1"}, {"k\2", "2"}, {"k\3", "3"}}, 3, "k?=3\n");
}

TEST_MAIN
