/* Requests of the relay: splitting to a server's limits loses nothing, names are valid, ids are stable. */
#include "tools/lib/gzip.h"
#include "push.pb-c.h"
#include "tools/serve/relay/relay_backend.h"
#include "tests/unit/test.h"

static struct et_arrival row_of(const char *kind, const char *unit)
{
    struct et_profile *p = et_profile_new();
    p->kind = et_intern(&p->strings, kind);
    p->value_unit = et_intern(&p->strings, unit);
    p->start_ns = 1700000000000000000;
    p->end_ns = p->start_ns + 10000000000;
    p->period = 10;
    return (struct et_arrival){.id = 5,
                               .origin = {.service = "svc",
                                          .tags = "version=1.2\n",
                                          .host = "pi-1",
                                          .boot_id = "b",
                                          .executable = "/bin/app",
                                          .arch = "aarch64",
                                          .agent = "a",
                                          .pid = 7},
                               .profile = p};
}

/* A stack of `depth` frames, each in its own module; every third has labels. */
static void add_stack(struct et_profile *p, uint32_t number, size_t depth)
{
    uint32_t module = p->module_count ? 1 : et_profile_module(p, "00ff", "/bin/app"), node = 0;
    for (size_t i = 0; i < depth; i++) {
        node = et_profile_node(
            p, node, et_profile_frame(p, (struct et_frame){.module = module, .address = 4096 + number * 2000 + i}));
    }
    et_profile_entry(p, &(struct et_entry){.node = node, .value = 100 + number, .count = 3});
}

struct sum {
    uint64_t value, count;
    size_t pieces, samples, largest, deepest;
    int64_t last_time;
};

static void on_pprof(struct sum *sum, const void *bytes, size_t size)
{
    const char *why = NULL;
    et_pprof *pprof = et_pprof_decode(bytes, size, &why);
    assert_non_null(pprof);
    assert_true(pprof->time_nanos > sum->last_time);
    sum->last_time = pprof->time_nanos;
    sum->pieces++;
    sum->largest = size > sum->largest ? size : sum->largest;
    for (size_t i = 0; i < pprof->n_sample; i++) {
        sum->count += (uint64_t)pprof->sample[i]->value[0];
        sum->value += (uint64_t)pprof->sample[i]->value[1];
        sum->deepest = pprof->sample[i]->n_location_id > sum->deepest ? pprof->sample[i]->n_location_id : sum->deepest;
    }
    sum->samples += pprof->n_sample;
    et_pprof_free(pprof);
}

static void on_push(struct sum *sum, const struct et_buf *body)
{
    Push__V1__PushRequest *request = push__v1__push_request__unpack(NULL, body->size, (const uint8_t *)body->data);
    assert_non_null(request);
    for (size_t i = 0; i < request->n_series; i++) {
        ProtobufCBinaryData raw = request->series[i]->samples[0]->raw_profile;
        struct et_buf pprof = {0};
        assert_int_equal(et_gunzip(raw.data, raw.len, 64 << 20, &pprof), 0);
        on_pprof(sum, pprof.data, pprof.size);
        et_buf_free(&pprof);
    }
    push__v1__push_request__free_unpacked(request, NULL);
}

/* Joins each part alone. */
static void on_part(void *context, const struct et_relay_part *part)
{
    struct et_relay_form form = {.bare = true, .family = "dotnet"};
    struct et_buf body = {0};
    char type[96];
    et_relay_pyroscope.join(&form, &part, 1, &body, type);
    assert_true(part->inflated <= et_relay_pyroscope.burst);
    on_push(context, &body);
    et_buf_free(&body);
    struct et_buf bytes = part->bytes;
    et_buf_free(&bytes);
}

static struct sum push(struct et_arrival *row)
{
    struct et_relay_form form = {.bare = true, .family = "dotnet"};
    struct sum sum = {0};
    et_relay_pyroscope.cut(&form, row, on_part, &sum);
    et_profile_free(row->profile);
    return sum;
}

TEST(a_profile_that_is_too_large_goes_in_pieces)
{
    struct et_arrival row = row_of("cpu", "nanoseconds");
    for (uint32_t i = 0; i < 1000; i++) {
        add_stack(row.profile, i, 300);
    }
    uint64_t values = row.profile->values, counts = row.profile->counts;
    struct sum sum = push(&row);
    assert_int_equal(sum.value, values);
    assert_int_equal(sum.count, counts);
    assert_true(sum.pieces > 1);
    assert_true(sum.largest <= et_relay_pyroscope.limit);
}

TEST(too_many_samples_go_in_pieces)
{
    struct et_arrival row = row_of("cpu", "nanoseconds");
    add_stack(row.profile, 1, 1);
    const struct et_entry entry = row.profile->entries[0];
    for (uint32_t i = 1; i < 40000; i++) {
        et_profile_entry(row.profile, &entry);
    }
    uint64_t values = row.profile->values;
    struct sum sum = push(&row);
    assert_int_equal(sum.value, values);
    assert_int_equal(sum.samples, 40000);
    assert_int_equal(sum.pieces, 4);
}

TEST(a_stack_that_is_too_deep_keeps_its_root)
{
    struct et_arrival row = row_of("cpu", "nanoseconds");
    add_stack(row.profile, 0, 1024);
    struct sum sum = push(&row);
    assert_int_equal(sum.deepest, 1000);
    assert_int_equal(sum.value, 100);
}

TEST(an_empty_profile_makes_no_piece)
{
    struct et_arrival row = row_of("cpu", "nanoseconds");
    add_stack(row.profile, 0, 1);
    row.profile->entries[0].value = row.profile->entries[0].count = 0;
    assert_int_equal(push(&row).pieces, 0);
}

TEST(names_become_legal)
{
    static const char *const names[][2] = {{"a", "a"},          {"a.b-c", "a_b_c"}, {"9x", "_9x"},
                                           {"\xc3\xa4x", "_x"}, {"", ""},           {"a\nb\"", "a_b_"}};
    char legal[128], longest[400];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        et_relay_legal(names[i][0], legal);
        assert_string_equal(legal, names[i][1]);
    }
    memset(longest, '7', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    et_relay_legal(longest, legal);
    assert_int_equal(strlen(legal), 127);
}

TEST(a_series_has_each_label_once)
{
    struct et_relay_labels series = {0};
    char longest[3001];
    memset(longest, 'x', 3000);
    memcpy(longest + 2047, "\xc3\xa4", 2); /* a character across the limit */
    longest[3000] = '\0';
    et_relay_labels_add(&series, "a.b", "1");
    et_relay_labels_add(&series, "a-b", "2");
    et_relay_labels_add(&series, "empty", "");
    et_relay_labels_add(&series, "long", longest);
    assert_int_equal(series.count, 2);
    assert_string_equal(et_relay_labels_value(&series, "a_b"), "1");
    assert_int_equal(strlen(et_relay_labels_value(&series, "long")), 2047);
    et_relay_labels_free(&series);
}

TEST(ids_depend_on_the_contents)
{
    struct et_arrival row = row_of("cpu", "nanoseconds");
    uint8_t first[16], again[16], other[16];
    char text[37];
    et_relay_id(&row, 0, first);
    et_relay_id(&row, 0, again);
    et_relay_id(&row, 1, other);
    assert_memory_equal(first, again, 16);
    assert_memory_not_equal(first, other, 16);
    row.id = 6;
    et_relay_id(&row, 0, other);
    assert_memory_not_equal(first, other, 16);
    et_relay_id_text(first, text);
    assert_int_equal(strlen(text), 36);
    assert_true(text[8] == '-' && text[13] == '-' && text[14] == '8' && text[18] == '-' && text[23] == '-');
    et_profile_free(row.profile);
}

struct count {
    const struct et_relay_backend *backend;
    const struct et_relay_form *form;
    size_t parts;
};

/* Counts parts. Each makes a body with a type. */
static void count_part(void *context, const struct et_relay_part *part)
{
    struct count *count = context;
    struct et_buf body = {0}, bytes = part->bytes;
    char type[96] = "";
    count->backend->join(count->form, &part, 1, &body, type);
    assert_true(body.size && type[0]);
    count->parts++;
    et_buf_free(&body);
    et_buf_free(&bytes);
}

TEST(every_backend_takes_every_kind)
{
    static const char *const kinds[] = {"cpu",       "wall", "wait",   "lock", "alloc",           "live",
                                        "exception", "gc",   "thread", "heap", "of somebody-else"};
    static const struct et_relay_backend *const backends[] = {&et_relay_pyroscope, &et_relay_parca, &et_relay_parca_raw,
                                                              &et_relay_otlp, &et_relay_datadog};
    struct et_relay_form form = {.bare = true, .family = "native"};
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        size_t without = 0;
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            struct et_arrival row = row_of(kinds[k], "nanoseconds");
            struct count count = {backends[b], &form, 0};
            add_stack(row.profile, 0, 3);
            backends[b]->cut(&form, &row, count_part, &count);
            without += count.parts == 0;
            et_profile_free(row.profile);
        }
        assert_int_equal(without, backends[b] == &et_relay_datadog ? 4 : 0); /* gc, thread, heap, and an unknown kind */
        assert_ptr_equal(et_relay_backend(backends[b]->name), backends[b]);
    }
    assert_null(et_relay_backend("nobody"));
}

TEST_MAIN
