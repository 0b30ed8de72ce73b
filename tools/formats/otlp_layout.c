/*
 * See otlp_layout.h. First the samples of the whole request are looked at: what is valid in one layout only decides.
 * Then each field gets its new number in place, since a field's number is a part of one byte.
 *
 *   sample          1.8, 1.9   1.10 and later
 *   stack index     1          1
 *   values          2          4              numbers, packed
 *   attributes      3          2              numbers, packed
 *   link            4          3              one number
 *   times           5          5
 */
#include "tools/formats/otlp_layout.h"
#include "tools/formats/wire.h"

enum { REQUEST_RESOURCES = 1, REQUEST_DICTIONARY, PARTS = 2, PROFILE_SAMPLES = 2, SAMPLE_TIMES = 5, ATTRIBUTES = 6 };
enum { SAMPLE_FIELDS = 6, PROFILE_FIELDS = 13, UNUSED = 15 };

/* The number today of each earlier number. */
struct layout {
    uint8_t sample[SAMPLE_FIELDS], profile[PROFILE_FIELDS];
};
static const struct layout LAYOUT_1_9 = {{0, 1, 4, 2, 3, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
                           LAYOUT_1_8 = {{0, 1, 4, 2, 3, 5}, {0, 1, 2, 3, 4, 5, 6, UNUSED, 7, 8, 9, 10, 11}};

#define BEFORE_1_8                                                                                                     \
    "OTLP profiles: the layout is that of opentelemetry-proto 1.7 or earlier; opentelemetry-proto 1.8 and later are "  \
    "read"

struct layout_search {
    size_t attributes; /* in the dictionary */
    bool before_1_8;   /* a profile has types that it had only then */
    bool v1_8;         /* the same, for 1.8 */
    bool before_1_10;  /* a sample is valid only in 1.8 and 1.9 */
    bool v1_10;        /* a sample is valid only in 1.10 and later */
    bool either;       /* a sample is valid in both, and means something else */
    const struct layout *layout;
    const uint8_t *bytes;
    uint8_t *out; /* gets the new numbers */
};

static bool next_part(struct wire *wire, uint32_t number, struct field *part)
{
    while (next_field(wire, part)) {
        if (part->number == number && part->type == BYTES) {
            return true;
        }
    }
    return false;
}

static void for_profiles(struct layout_search *s, struct wire request,
                         void (*call)(struct layout_search *search, struct wire profile))
{
    struct field resource, scope, profile;
    while (next_part(&request, REQUEST_RESOURCES, &resource)) {
        while (next_part(&resource.inside, PARTS, &scope)) {
            while (next_part(&scope.inside, PARTS, &profile)) {
                call(s, profile.inside);
            }
        }
    }
}

/* ---- recognition ---- */

static size_t count_times(const struct field *field)
{
    return field->type == BYTES ? (size_t)(field->inside.end - field->inside.at) / sizeof(uint64_t) : 1;
}

/* Whether all numbers of the packed field may be indices of attributes. */
static bool are_attributes(const struct layout_search *s, struct wire packed)
{
    bool ok = true;
    while (packed.at < packed.end && !packed.broken && ok) {
        uint64_t index = next_varint(&packed, VARINT_MOST);
        ok = index > 0 && index < s->attributes;
    }
    return ok;
}

/* A sample with the packed field 2, but neither 3 nor 4: those are values without attributes and link, or attributes
 * of events that count 1 for each time. */
static void look_at_numbers(struct layout_search *s, const struct field *numbers, size_t times)
{
    size_t count = count_values(numbers);
    if (times == 0 || !are_attributes(s, numbers->inside)) {
        s->before_1_10 = true;
    } else if (count != times) {
        s->v1_10 = true;
    } else {
        s->either = true;
    }
}

static void look_at_sample(struct layout_search *s, struct wire sample)
{
    struct field field, numbers = {0};
    size_t times = 0;
    bool before_1_10 = false, v1_10 = false;
    while (next_field(&sample, &field)) {
        numbers = field.number == 2 && field.type == BYTES ? field : numbers;
        times += field.number == SAMPLE_TIMES ? count_times(&field) : 0;
        before_1_10 |= (field.number == 3 && field.type == BYTES) || (field.number == 4 && field.type == VARINT);
        v1_10 |= (field.number == 3 && field.type == VARINT) || (field.number == 4 && field.type == BYTES);
    }
    s->before_1_10 |= before_1_10;
    s->v1_10 |= v1_10;
    if (!before_1_10 && !v1_10 && numbers.inside.at < numbers.inside.end) {
        look_at_numbers(s, &numbers, times);
    }
}

static void look_at_profile(struct layout_search *s, struct wire profile)
{
    struct field field;
    while (next_field(&profile, &field)) {
        unsigned n = field.number;
        bool bytes = field.type == BYTES, number = field.type == VARINT;
        s->before_1_8 |= (n == 3 && bytes) || (n == 5 && number) || (n == 6 && bytes);
        s->v1_8 |= (n == 8 && bytes) || (n == 9 && number) || n == 12;
        if (n == PROFILE_SAMPLES && bytes) {
            look_at_sample(s, field.inside);
        }
    }
}

static void count_attributes(struct layout_search *s, struct wire request)
{
    struct field dictionary, attribute;
    while (next_part(&request, REQUEST_DICTIONARY, &dictionary)) {
        while (next_part(&dictionary.inside, ATTRIBUTES, &attribute)) {
            s->attributes++;
        }
    }
}

/* ---- numbers ---- */

static void set_numbers(struct layout_search *s, struct wire message, const uint8_t *numbers, size_t count)
{
    struct field field;
    for (const uint8_t *tag = message.at; next_field(&message, &field); tag = message.at) {
        if (field.number < count && *tag < 0x80) {
            s->out[tag - s->bytes] = (uint8_t)(numbers[field.number] << 3 | field.type);
        }
    }
}

static void renumber_profile(struct layout_search *s, struct wire profile)
{
    struct field sample;
    set_numbers(s, profile, s->layout->profile, PROFILE_FIELDS);
    while (next_part(&profile, PROFILE_SAMPLES, &sample)) {
        set_numbers(s, sample.inside, s->layout->sample, SAMPLE_FIELDS);
    }
}

bool et_otlp_renumber(const void *bytes, size_t size, struct et_buf *out, struct et_buf *why)
{
    struct layout_search s = {.bytes = bytes};
    const struct wire request = {.at = s.bytes, .end = size ? s.bytes + size : s.bytes};
    count_attributes(&s, request);
    for_profiles(&s, request, look_at_profile);
    if (s.before_1_8) {
        et_buf_text(why, BEFORE_1_8);
        return false;
    }
    if (s.either && !s.before_1_10 && !s.v1_10) {
        et_buf_text(why,
                    "OTLP profiles: no sample tells the layout of opentelemetry-proto 1.8 and 1.9, where field 2 is "
                    "values, from that of 1.10 and later, where it is attributes");
        return false;
    }
    if (s.before_1_10 && !s.v1_10) {
        et_buf_add(out, bytes, size);
        s.out = (uint8_t *)out->data;
        s.layout = s.v1_8 ? &LAYOUT_1_8 : &LAYOUT_1_9;
        for_profiles(&s, request, renumber_profile);
    }
    return true;
}

bool et_otlp_known_names(const char *text, size_t size, struct et_buf *why)
{
    static const char *const names[] = {"\"locationsStartIndex\"", "\"locations_start_index\""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (memmem(text, size, names[i], strlen(names[i]))) {
            et_buf_text(why, BEFORE_1_8);
            return false;
        }
    }
    return true;
}
