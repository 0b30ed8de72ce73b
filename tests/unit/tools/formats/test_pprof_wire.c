/*
 * The unpacker of pprof (pprof_wire.h) against protobuf-c's: for sound messages and for changed ones, both refuse, or
 * both have the same; no message takes more memory than it may.
 */
#include "tools/formats/pprof_wire.h"
#include "tests/unit/test.h"

typedef Perftools__Profiles__Profile pprof;

enum { MOST = 4096, ROUNDS = 60000 };

static uint64_t random_state = 1;

static uint32_t dice(uint32_t sides)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % sides;
}

/* ---- messages ---- */

static uint8_t bytes[2 * MOST];
static size_t size;

static void put_varint(uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        bytes[size++] = (uint8_t)(value | 0x80);
    }
    bytes[size++] = (uint8_t)value;
}

static uint64_t any_number(void)
{
    uint64_t number = (uint64_t)dice(1u << 31) << 33 | dice(1u << 31);
    return dice(3) ? dice(200) : number >> dice(64);
}

enum { PROFILE, SAMPLE = 2, LOCATION = 4, STRING = 6, PERIOD_TYPE = 11, COMMENT = 13, PACKED = 100 };

static bool is_nested(uint32_t parent, uint32_t number)
{
    switch (parent) {
    case PROFILE:
        return number <= STRING || number == PERIOD_TYPE || (number == COMMENT && dice(2));
    case SAMPLE:
        return number == 3 || (number < 3 && dice(2));
    default:
        return parent == LOCATION && number == 4;
    }
}

/* What is in a field: of a sample the numbers may be packed. */
static uint32_t inside_of(uint32_t parent, uint32_t number)
{
    bool packed = (parent == PROFILE && (number == STRING || number == COMMENT)) || (parent == SAMPLE && number < 3);
    return packed ? PACKED : parent == PROFILE ? number : PACKED - 1;
}

/* The fields of a message; parent: its number in the profile. Few are wrong. */
static void put_message(uint32_t parent)
{
    for (uint32_t fields = dice(12); fields > 0 && size < MOST / 2; fields--) {
        uint32_t number = dice(60) ? 1 + dice(parent == PROFILE ? 14 : 6) : dice(40);
        bool nested = dice(400) ? is_nested(parent, number) : dice(2);
        if (parent == PACKED) {
            put_varint(any_number());
            continue;
        }
        put_varint(number << 3 | (nested ? 2 : 0));
        if (!nested) {
            put_varint(any_number());
            continue;
        }
        size_t head = size++;
        put_message(inside_of(parent, number));
        size_t inside = size - head - 1;
        if (inside >= 0x80) {
            size = head + 1;
            inside = 0;
        }
        bytes[head] = (uint8_t)inside;
    }
}

static void make_message(void)
{
    size = 0;
    put_message(PROFILE);
    for (uint32_t changes = dice(4) ? 0 : dice(3); changes > 0 && size; changes--) {
        bytes[dice((uint32_t)size)] = (uint8_t)dice(256);
    }
    size -= dice(20) || !size ? 0 : dice((uint32_t)size);
}

/* ---- the same ---- */

static void same_numbers(size_t count, const void *numbers, size_t other_count, const void *other)
{
    assert_int_equal(count, other_count);
    if (count) {
        assert_memory_equal(numbers, other, count * sizeof(uint64_t));
    }
}

/* The members of a message from one to another. */
#define SAME(one, other, from, to)                                                                                     \
    assert_memory_equal(&(one)->from, &(other)->from,                                                                  \
                        (size_t)((const char *)(&(one)->to + 1) - (const char *)&(one)->from))

static void same_samples(const pprof *a, const pprof *b)
{
    assert_int_equal(a->n_sample, b->n_sample);
    for (size_t i = 0; i < a->n_sample; i++) {
        const Perftools__Profiles__Sample *x = a->sample[i], *y = b->sample[i];
        same_numbers(x->n_location_id, x->location_id, y->n_location_id, y->location_id);
        same_numbers(x->n_value, x->value, y->n_value, y->value);
        assert_int_equal(x->n_label, y->n_label);
        for (size_t k = 0; k < x->n_label; k++) {
            SAME(x->label[k], y->label[k], key, num_unit);
        }
    }
}

static void same_locations(const pprof *a, const pprof *b)
{
    assert_int_equal(a->n_location, b->n_location);
    for (size_t i = 0; i < a->n_location; i++) {
        SAME(a->location[i], b->location[i], id, n_line);
        for (size_t k = 0; k < a->location[i]->n_line; k++) {
            SAME(a->location[i]->line[k], b->location[i]->line[k], function_id, column);
        }
    }
}

static void same_tables(const pprof *a, const pprof *b)
{
    assert_int_equal(a->n_mapping, b->n_mapping);
    for (size_t i = 0; i < a->n_mapping; i++) {
        SAME(a->mapping[i], b->mapping[i], id, build_id);
    }
    assert_int_equal(a->n_function, b->n_function);
    for (size_t i = 0; i < a->n_function; i++) {
        SAME(a->function[i], b->function[i], id, start_line);
    }
    assert_int_equal(a->n_string_table, b->n_string_table);
    for (size_t i = 0; i < a->n_string_table; i++) {
        assert_string_equal(a->string_table[i], b->string_table[i]);
    }
    same_numbers(a->n_comment, a->comment, b->n_comment, b->comment);
}

static void same_profile(const pprof *a, const pprof *b)
{
    assert_int_equal(a->n_sample_type, b->n_sample_type);
    for (size_t i = 0; i < a->n_sample_type; i++) {
        SAME(a->sample_type[i], b->sample_type[i], type, unit);
    }
    same_samples(a, b);
    same_locations(a, b);
    same_tables(a, b);
    SAME(a, b, drop_frames, duration_nanos);
    assert_int_equal(a->period, b->period);
    assert_int_equal(a->default_sample_type, b->default_sample_type);
    assert_int_equal(a->period_type != NULL, b->period_type != NULL);
    if (a->period_type) {
        SAME(a->period_type, b->period_type, type, unit);
    }
}

TEST(as_protobuf_c)
{
    size_t sound = 0, samples = 0;
    for (int i = 0; i < ROUNDS; i++) {
        make_message();
        uint8_t *exact = malloc(size + !size); /* so that the sanitizer sees its end */
        assert_non_null(exact);
        memcpy(exact, bytes, size);
        struct et_arena arena = {.left = 1 << 20};
        pprof *mine = et_pprof_unpack(&arena, exact, size),
              *theirs = perftools__profiles__profile__unpack(NULL, size, exact);
        assert_int_equal(mine != NULL, theirs != NULL);
        if (mine) {
            same_profile(mine, theirs);
            sound++;
            samples += mine->n_sample;
        }
        perftools__profiles__profile__free_unpacked(theirs, NULL);
        et_arena_free(&arena);
        free(exact);
    }
    assert_true(sound > ROUNDS / 2 && sound < ROUNDS * 9 / 10 && samples > ROUNDS / 4);
}

/* Two bytes a sample: what they need is known before any of it is taken. */
TEST(memory_is_bounded)
{
    enum { SIZE = 1 << 20, ROOM = 1 << 24 };
    uint8_t *samples = malloc(SIZE);
    assert_non_null(samples);
    for (size_t i = 0; i < SIZE; i += 2) {
        memcpy(&samples[i], "\x12", 2);
    }
    struct et_arena arena = {.left = ROOM};
    assert_null(et_pprof_unpack(&arena, samples, SIZE));
    assert_true(arena.left > ROOM - 4096);
    et_arena_free(&arena);
    arena.left = (size_t)ROOM * 8;
    const pprof *all = et_pprof_unpack(&arena, samples, SIZE);
    assert_non_null(all);
    assert_int_equal(all->n_sample, SIZE / 2);
    et_arena_free(&arena);
    free(samples);
}

TEST_MAIN
