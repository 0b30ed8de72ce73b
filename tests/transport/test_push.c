/*
 * push_pprof.c: what is added to a message is read back by a reader of the test's own; a message that is not changed is
 * the same bytes; whatever the bytes are, as many come out as were counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "push.h"

/* ---- a message ---- */

static struct {
    uint8_t bytes[400000];
    size_t size;
} message;

static void add_number(uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        message.bytes[message.size++] = (uint8_t)(value | 0x80);
    message.bytes[message.size++] = (uint8_t)value;
}

static void add_bytes(unsigned field, const void *bytes, size_t size)
{
    add_number(field << 3 | 2);
    add_number(size);
    memcpy(message.bytes + message.size, bytes, size);
    message.size += size;
}

/* A message of numbers, field 1 first; zeros are left out. */
static void add_numbers(unsigned field, const uint64_t *values, unsigned count)
{
    const size_t start = message.size;
    uint8_t inner[64];

    for (unsigned i = 0; i < count; i++)
        if (values[i]) {
            add_number((i + 1) << 3);
            add_number(values[i]);
        }
    const size_t size = message.size - start;
    memcpy(inner, message.bytes + start, size);
    message.size = start;
    add_bytes(field, inner, size);
}
#define ADD(field, ...)                                                                                                \
    add_numbers(field, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void add_string(const char *text)
{
    add_bytes(6, text, strlen(text));
}

/* Two mappings, a function of the message's own, `locations` locations whose address is 16 times their number. */
static void make(unsigned locations)
{
    message.size = 0;
    ADD(3, 1, 0, 0, 0, 2, 3);
    ADD(3, 2, 0, 0, 0, 4);
    for (unsigned i = 1; i <= locations; i++)
        ADD(4, i, 1 + i % 2, 16u * i);
    add_bytes(4, "\x08\x63\x22\x02\x08\x01", 6); /* id 99 with a line */
    ADD(5, 1, 1, 1);
    add_string("");
    add_string("[own]");
    add_string("/bin/service");
    add_string("00ff");
    add_string("/lib/lib.so");
    ADD(11, 1, 1);
}

static struct ep_message sent(void)
{
    return (struct ep_message){.data = message.bytes, .size = message.size, .format = EP_FORMAT_PPROF};
}

/* ---- names: those of mapping 1 by address / 64, none of mapping 2 ---- */

static struct ep_named named;
static unsigned asked, most = EP_NAMED_MOST;
static int sound = 1; /* the message has not been broken */

static void begin(const struct ep_deadline *deadline)
{
    assert_int_equal(ep_deadline_ns(deadline), 7);
    asked = 0;
}

static unsigned find(struct ep_place *place)
{
    asked++;
    if (place->path_size != 12 || memcmp(place->path, "/bin/service", 12) != 0)
        return 0;
    if (sound) {
        assert_int_equal(place->build_id_size, 4);
        assert_memory_equal(place->build_id, "00ff", 4);
        assert_true(asked <= 2 || place->hint == 5);
    }
    place->hint = 5;
    return place->address / 64 < most ? (unsigned)(place->address / 64) + 1 : 0;
}

static const char *text(unsigned name)
{
    static char line[32];

    snprintf(line, sizeof line, "f%u\xff", name);
    return line;
}

static const struct ep_names names = {.begin = begin, .find = find, .text = text, .memory = &named};

/* ---- what comes out ---- */

static struct {
    uint8_t bytes[800000];
    size_t size;
} out;

static void to_out(void *unused, const void *bytes, size_t size)
{
    (void)unused;
    assert_true(size <= sizeof out.bytes - out.size);
    memcpy(out.bytes + out.size, bytes, size);
    out.size += size;
}

static void write_with(const struct ep_names *with)
{
    struct ep_message one = sent();
    struct ep_deadline deadline = {.at_ns = 7};
    struct ep_sink count = {0}, sink = {.write = to_out};

    out.size = 0;
    ep_pprof_prepare(with, &one, &deadline);
    ep_pprof_write(with, &one, &count);
    ep_pprof_write(with, &one, &sink);
    assert_int_equal(count.size, out.size);
    assert_int_equal(sink.size, out.size);
}

struct fields {
    const uint8_t *at, *end;
};

static uint64_t number(struct fields *f)
{
    uint64_t value = 0;

    for (unsigned shift = 0;; shift += 7) {
        assert_true(f->at < f->end);
        value |= (uint64_t)(*f->at & 0x7f) << shift;
        if (*f->at++ < 0x80)
            return value;
    }
}

/* The next field's number, 0 at the end; its number, or its bytes. */
static unsigned next(struct fields *f, uint64_t *value, struct fields *inner)
{
    if (f->at == f->end)
        return 0;
    const uint64_t tag = number(f);
    *value = number(f);
    if ((tag & 7) == 2) {
        *inner = (struct fields){f->at, f->at + *value};
        f->at += *value;
        assert_true(f->at <= f->end);
    }
    return (unsigned)(tag >> 3);
}

/* What a profile says of the function of each location. */
static struct {
    unsigned locations, functions, strings;
    uint64_t id[20000], address[20000], function[20000], name[4000];
    char string[4000][40];
} seen;

static void see_location(struct fields inner)
{
    uint64_t value;
    struct fields line;
    unsigned field;

    seen.id[seen.locations] = seen.address[seen.locations] = seen.function[seen.locations] = 0;
    while ((field = next(&inner, &value, &line)) != 0) {
        if (field == 1)
            seen.id[seen.locations] = value;
        if (field == 3)
            seen.address[seen.locations] = value;
        if (field == 4) {
            assert_int_equal(seen.function[seen.locations], 0);
            assert_int_equal(next(&line, &seen.function[seen.locations], NULL), 1);
        }
    }
    seen.locations++;
}

static void see(void)
{
    struct fields all = {out.bytes, out.bytes + out.size}, inner;
    uint64_t value;
    unsigned field;

    seen.locations = seen.functions = seen.strings = 0;
    while ((field = next(&all, &value, &inner)) != 0) {
        if (field == 4)
            see_location(inner);
        if (field == 5) {
            assert_int_equal(next(&inner, &value, NULL), 1);
            assert_int_equal(value, ++seen.functions); /* ids are 1..n in order */
            assert_int_equal(next(&inner, &seen.name[value], NULL), 2);
            assert_int_equal(next(&inner, &value, NULL), 3);
            assert_int_equal(value, seen.name[seen.functions]);
        }
        if (field == 6)
            snprintf(seen.string[seen.strings++], 40, "%.*s", (int)value, (const char *)inner.at);
    }
}

static const char *name_of(unsigned location)
{
    assert_in_range(seen.function[location], 1, seen.functions);
    assert_in_range(seen.name[seen.function[location]], 1, seen.strings - 1);
    return seen.string[seen.name[seen.function[location]]];
}

/* ---- tests ---- */

static void test_unchanged(void **unused)
{
    (void)unused;
    make(100);
    write_with(NULL);
    assert_int_equal(out.size, message.size);
    assert_memory_equal(out.bytes, message.bytes, message.size);
}

static void check_names(unsigned locations)
{
    char expected[32];

    assert_int_equal(seen.locations, locations + 1);
    for (unsigned i = 0; i < locations; i++) {
        snprintf(expected, sizeof expected, "f%u?", (i + 1) * 16 / 64 + 1);
        const int own = i % 2 == 1 && (i + 1) * 16 / 64 < most && i < EP_NAMED_LOCATIONS;
        assert_string_equal(name_of(i), own ? expected : i % 2 ? "/bin/service" : "/lib/lib.so");
        assert_int_equal(seen.id[i], i + 1);
        assert_int_equal(seen.address[i], 16 * (i + 1));
    }
    assert_int_equal(seen.id[locations], 99);
    assert_string_equal(name_of(locations), "[own]");
}

static void test_named(void **unused)
{
    (void)unused;
    make(100);
    write_with(&names);
    see();
    assert_int_equal(asked, 100);
    check_names(100);
    assert_int_equal(seen.functions, 1 + 1 + 100 / 4 + 1); /* one a name, not a location */
    write_with(&names);                                    /* nothing is left of the last one */
    see();
    check_names(100);
    make(0);
    write_with(&names);
    see();
    check_names(0);
    assert_int_equal(seen.functions, 1);
}

/* Locations and functions beyond what there is room for have their module's name. */
static void test_named_beyond(void **unused)
{
    (void)unused;
    most = 100;
    make(1000);
    write_with(&names);
    see();
    check_names(1000);
    most = EP_NAMED_MOST;
    make(EP_NAMED_LOCATIONS + 500);
    write_with(&names);
    see();
    check_names(EP_NAMED_LOCATIONS + 500);
    assert_int_equal(asked, EP_NAMED_LOCATIONS);
}

static void test_utf8(void **unused)
{
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\x89", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\x89"},
        {"a\xff"
         "b",
         "a?b"},
        {"\xc3", "?"},
        {"\xe2\x82", "??"},
        {"\xe2\x82z", "??z"},
        {"\xc0\x80", "??"},
        {"\xe0\x80\x80", "???"},
        {"\xed\xa0\x80", "???"},
        {"\xf4\x90\x80\x80", "????"},
        {"\xf8\x88\x80\x80\x80", "?????"},
        {"\x80", "?"},
        {"", ""},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        message.size = 0;
        add_string("before");
        add_string(cases[i][0]);
        add_string("after");
        write_with(NULL);
        see();
        assert_string_equal(seen.string[0], "before");
        assert_string_equal(seen.string[1], cases[i][1]);
        assert_string_equal(seen.string[2], "after");
    }
}

/* Bytes that are no pprof go out, all of them, and nothing is read that is not there (ASan). */
static void test_broken(void **unused)
{
    static uint8_t good[4000];
    uint32_t dice = 1;
    (void)unused;

    make(60);
    sound = 0;
    const size_t size = message.size;
    memcpy(good, message.bytes, size);
    for (size_t cut = 0; cut <= size; cut++) {
        message.size = cut;
        write_with(&names);
        write_with(NULL);
        assert_int_equal(out.size, cut);
    }
    for (unsigned round = 0; round < 20000; round++) {
        memcpy(message.bytes, good, size);
        message.size = size;
        for (unsigned i = 0; i < 1 + round % 4; i++) {
            dice = dice * 1664525u + 1013904223u;
            message.bytes[(dice >> 8) % size] = (uint8_t)(dice >> 24);
        }
        write_with(&names);
        write_with(NULL);
        assert_int_equal(out.size, size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchanged), cmocka_unit_test(test_named),  cmocka_unit_test(test_named_beyond),
        cmocka_unit_test(test_utf8),      cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests_name("push", tests, NULL, NULL);
}
