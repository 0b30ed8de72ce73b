/* The export for the Firefox Profiler: its call tree, which adds up weights, has each stack's milliseconds, and each
 * frame's category says what its time is. */
#include "tools/formats/incident.h"
#include "tools/lib/json_read.h"
#include "tools/lib/kinds.h"
#include "tests/unit/test.h"

#define MS INT64_C(1000000)
enum { CPU = 1, WAIT = 2, EXCEPTION = 6, GC = 7 };

struct scene {
    struct et_incident incident;
    et_message head;
    Edgeprof__V1__Origin origin;
    Edgeprof__V1__Timeline timeline;
    json_t *document;
    const json_t *thread;
};

static void begin(struct scene *scene)
{
    *scene = (struct scene){.head = EDGEPROF__V1__MESSAGE__INIT,
                            .origin = EDGEPROF__V1__ORIGIN__INIT,
                            .timeline = EDGEPROF__V1__TIMELINE__INIT};
    scene->head.origin = &scene->origin;
    scene->head.timeline = &scene->timeline;
    scene->timeline.time_ns = (uint64_t)(1000 * MS);
    scene->timeline.period_ns = (uint64_t)(10 * MS);
    struct et_incident *incident = &scene->incident;
    incident->profile = et_profile_new();
    incident->threads = et_alloc(1, sizeof *incident->threads);
    incident->threads[0].name = et_strdup("main");
    incident->thread_count = 1;
}

/* Adds the frame "function" below the root, and below it the special frame or the type. */
static void add(struct scene *scene, uint32_t kind, const char *function, uint64_t special, const char *type,
                int64_t start_ms, int64_t end_ms)
{
    struct et_incident *incident = &scene->incident;
    struct et_profile *profile = incident->profile;
    struct et_frame frame = {.name = et_intern(&profile->strings, function)};
    uint32_t node = et_profile_node(profile, 0, et_profile_frame(profile, frame));
    if (special) {
        node = et_profile_node(profile, node, et_profile_frame(profile, (struct et_frame){.address = special}));
    } else if (type) {
        frame.name = et_intern(&profile->strings, type);
        node = et_profile_node(profile, node, et_profile_frame(profile, frame));
    }
    incident->samples =
        et_reserve(incident->samples, &incident->capacity, incident->count + 1, sizeof *incident->samples);
    incident->samples[incident->count++] =
        (struct et_incident_sample){.start_ns = start_ms * MS, .end_ns = end_ms * MS, .kind = kind, .node = node};
}

static void export(struct scene *scene)
{
    struct et_buf text = {0};
    scene->incident.head = &scene->head;
    et_incident_firefox(&scene->incident, &text);
    scene->document = json_loadb(text.data, text.size, 0, NULL);
    assert_non_null(scene->document);
    scene->thread = json_array_get(json_object_get(scene->document, "threads"), 0);
    et_buf_free(&text);
}

static void end(struct scene *scene)
{
    json_decref(scene->document);
    scene->incident.head = NULL;
    et_incident_free(&scene->incident);
}

static const json_t *column(const struct scene *scene, const char *table, const char *name)
{
    return json_object_get(json_object_get(scene->thread, table), name);
}

/* The name of a stack's own function. */
static const char *function_of(const struct scene *scene, size_t stack)
{
    const json_int_t frame = json_integer_value(json_array_get(column(scene, "stackTable", "frame"), stack));
    const json_int_t function = json_integer_value(json_array_get(column(scene, "frameTable", "func"), (size_t)frame));
    const json_int_t name = json_integer_value(json_array_get(column(scene, "funcTable", "name"), (size_t)function));
    return json_string_value(json_array_get(json_object_get(scene->thread, "stringArray"), (size_t)name));
}

/* The milliseconds that the call tree gives to the function alone. */
static double weight_of(const struct scene *scene, const char *function)
{
    const json_t *stacks = column(scene, "samples", "stack");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(stacks); i++) {
        const json_t *stack = json_array_get(stacks, i);
        const double weight = json_number_value(json_array_get(column(scene, "samples", "weight"), i));
        assert_true(weight == 0 || !json_is_null(stack));
        if (!json_is_null(stack) && strcmp(function_of(scene, (size_t)json_integer_value(stack)), function) == 0) {
            sum += weight;
        }
    }
    return sum;
}

static void assert_weight(const struct scene *scene, const char *function, double ms)
{
    const double found = weight_of(scene, function);
    if (found < ms - 0.01 || found > ms + 0.01) {
        fail_msg("%s weighs %.3f ms instead of %.3f", function, found, ms);
    }
}

static void assert_category(const struct scene *scene, const char *function, const char *name)
{
    const json_t *categories = json_object_get(json_object_get(scene->document, "meta"), "categories");
    bool seen = false;
    for (size_t i = 0; i < json_array_size(column(scene, "stackTable", "frame")); i++) {
        if (strcmp(function_of(scene, i), function) == 0) {
            const json_t *of_frame = json_array_get(column(scene, "frameTable", "category"), i);
            const json_t *category = json_array_get(categories, (size_t)json_integer_value(of_frame));
            assert_true(json_is_integer(of_frame));
            assert_string_equal(json_string_value(json_object_get(category, "name")), name);
            assert_non_null(json_string_value(json_object_get(category, "color")));
            seen = true;
        }
    }
    assert_true(seen);
}

TEST(a_wait_weighs_its_time)
{
    struct scene scene;
    begin(&scene);
    add(&scene, CPU, "work", 0, NULL, 100, 110);
    add(&scene, WAIT, "read", ET_FRAME_WAIT_NETWORK, NULL, 110, 510);
    add(&scene, CPU, "work", 0, NULL, 600, 610);
    export(&scene);
    assert_string_equal(json_string_value(column(&scene, "samples", "weightType")), "tracing-ms");
    assert_weight(&scene, "[network]", 400);
    assert_weight(&scene, "work", 20);
    end(&scene);
}

/* Each stack is at its begin and at its end, and none is in the gap behind it. */
TEST(a_stack_is_at_begin_and_end)
{
    static const double times[] = {0, 400, 400, 500, 510, 510};
    static const bool known[] = {true, true, false, true, true, false};
    struct scene scene;
    begin(&scene);
    add(&scene, WAIT, "read", ET_FRAME_WAIT_DISK, NULL, 100, 500);
    add(&scene, CPU, "work", 0, NULL, 600, 610);
    export(&scene);
    assert_int_equal(json_array_size(column(&scene, "samples", "time")), 6);
    for (size_t i = 0; i < 6; i++) {
        const double at = json_number_value(json_array_get(column(&scene, "samples", "time"), i));
        assert_true(at > times[i] - 0.01 && at < times[i] + 0.01);
        assert_int_equal(!json_is_null(json_array_get(column(&scene, "samples", "stack"), i)), known[i]);
    }
    end(&scene);
}

/* A pause within a wait interrupts it: together they weigh what they took. */
TEST(what_overlaps_counts_once)
{
    struct scene scene;
    begin(&scene);
    add(&scene, GC, "collect", ET_FRAME_GC2, NULL, 200, 230);
    add(&scene, WAIT, "wait", ET_FRAME_WAIT_LOCK, NULL, 100, 500);
    export(&scene);
    assert_weight(&scene, "[gc gen2]", 30);
    assert_weight(&scene, "[lock]", 370);
    end(&scene);
}

TEST(a_frame_has_the_category_of_its_kind)
{
    static const struct {
        uint64_t frame;
        const char *function, *category;
    } rows[] = {{ET_FRAME_WAIT, "[wait]", "Wait"},          {ET_FRAME_WAIT_LOCK, "[lock]", "Lock"},
                {ET_FRAME_WAIT_SLEEP, "[sleep]", "Sleep"},  {ET_FRAME_WAIT_NETWORK, "[network]", "Network"},
                {ET_FRAME_WAIT_DISK, "[disk]", "Disk"},     {ET_FRAME_WAIT_IDLE, "[idle]", "Idle"},
                {ET_FRAME_GC0, "[gc gen0]", "GC"},          {ET_FRAME_GC_BACKGROUND, "[gc background]", "GC"},
                {ET_FRAME_KERNEL, "[kernel]", "CPU"},       {ET_FRAME_GAP, "[gap]", "Other"},
                {ET_FRAME_NO_STACK, "[no stack]", "Other"}, {ET_FRAME_TRUNCATED, "[truncated]", "Other"}};
    enum { ROWS = sizeof rows / sizeof *rows };
    struct scene scene;
    begin(&scene);
    for (int64_t i = 0; i < ROWS; i++) {
        add(&scene, WAIT, "caller", rows[i].frame, NULL, 100 + i, 101 + i);
    }
    add(&scene, EXCEPTION, "thrower", 0, "System.Failure", 200, 200);
    export(&scene);
    for (size_t i = 0; i < ROWS; i++) {
        assert_category(&scene, rows[i].function, rows[i].category);
    }
    assert_category(&scene, "caller", "CPU");
    assert_category(&scene, "System.Failure", "Exception");
    assert_weight(&scene, "System.Failure", 0);
    end(&scene);
}

TEST_MAIN
