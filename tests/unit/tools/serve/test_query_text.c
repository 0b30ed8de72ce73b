/* Queries of clients: short forms, profile types of Go and .NET, and ids of our kinds in both directions. */
#include "tools/serve/query/pyroscope/query_text.h"
#include "tools/store/query_builder.h"
#include "tests/unit/test.h"

static void understood(const char *text, const char *service, const char *kind, enum et_measure measure,
                       const char *matchers)
{
    struct et_query_builder wanted = {0};
    struct et_buf printed = {0};
    if (!et_wanted_query(&wanted, text)) {
        fail_msg("%s: %s", text, wanted.why);
    }
    assert_string_equal(wanted.query.service ? wanted.query.service : "", service);
    assert_string_equal(wanted.query.kind ? wanted.query.kind : "", kind);
    assert_int_equal(wanted.query.measure, measure);
    et_buf_text(&printed, "");
    et_selector_print("", wanted.query.matchers, wanted.query.matcher_count, &printed);
    assert_string_equal(printed.data, matchers);
    et_buf_free(&printed);
    et_query_builder_free(&wanted);
}

TEST(short_forms)
{
    understood("svc.cpu{version=1.2.3}", "svc", "cpu", ET_MEASURE_VALUE, "{\"version\"=\"1.2.3\"}");
    understood("svc.cpu", "svc", "cpu", ET_MEASURE_VALUE, "");
    understood("svc.cpu{}", "svc", "cpu", ET_MEASURE_VALUE, "");
    understood("svc", "svc", "", ET_MEASURE_DEFAULT, "");
    understood("svc{a=b,c!=\"d e\",f=~g.*,h!~i}", "svc", "", ET_MEASURE_DEFAULT,
               "{\"a\"=\"b\",\"c\"!=\"d e\",\"f\"=~\"g.*\",\"h\"!~\"i\"}");
    understood("my.svc.api", "my.svc.api", "", ET_MEASURE_DEFAULT, "");
    understood("my.svc.alloc_objects", "my.svc", "alloc", ET_MEASURE_COUNT, "");
    understood("svc.alloc_space{}", "svc", "alloc", ET_MEASURE_VALUE, "");
    understood("svc.inuse_space", "svc", "live", ET_MEASURE_VALUE, "");
    understood("svc.mutex_count", "svc", "lock", ET_MEASURE_COUNT, "");
    understood("svc.block_duration", "svc", "wait", ET_MEASURE_VALUE, "");
    understood("svc.gc", "svc", "gc", ET_MEASURE_DEFAULT, "");
    understood("svc.wall", "svc", "wall", ET_MEASURE_VALUE, "");
    understood("svc.exceptions", "svc", "exception", ET_MEASURE_DEFAULT, "");
    understood(".cpu", ".cpu", "", ET_MEASURE_DEFAULT, "");
    understood("{service_name=\"svc\"}", "", "", ET_MEASURE_DEFAULT, "{\"service_name\"=\"svc\"}");
    understood("", "", "", ET_MEASURE_DEFAULT, "");
}

TEST(profile_types)
{
    static const struct {
        const char *id, *kind;
        enum et_measure measure;
    } types[] = {
        {"process_cpu:cpu:nanoseconds:cpu:nanoseconds", "cpu", ET_MEASURE_VALUE},
        {"process_cpu:samples:count:cpu:nanoseconds", "cpu", ET_MEASURE_COUNT},
        {"process_cpu:cpu_samples:count:cpu:nanoseconds", "cpu", ET_MEASURE_COUNT},
        {"memory:alloc_objects:count:space:bytes", "alloc", ET_MEASURE_COUNT},
        {"memory:alloc_space:bytes:space:bytes", "alloc", ET_MEASURE_VALUE},
        {"memory:alloc_samples:count:space:bytes", "alloc", ET_MEASURE_COUNT},
        {"alloc:alloc_samples:count:cpu:nanoseconds", "alloc", ET_MEASURE_COUNT},
        {"alloc:alloc_size:bytes:cpu:nanoseconds", "alloc", ET_MEASURE_VALUE},
        {"memory:inuse_objects:count:space:bytes", "live", ET_MEASURE_COUNT},
        {"memory:inuse_space:bytes:space:bytes", "live", ET_MEASURE_VALUE},
        {"heap:inuse_objects:count:cpu:nanoseconds", "live", ET_MEASURE_COUNT},
        {"heap:inuse_space:bytes:cpu:nanoseconds", "live", ET_MEASURE_VALUE},
        {"mutex:contentions:count:contentions:count", "lock", ET_MEASURE_COUNT},
        {"mutex:delay:nanoseconds:contentions:count", "lock", ET_MEASURE_VALUE},
        {"block:contentions:count:contentions:count", "wait", ET_MEASURE_COUNT},
        {"block:delay:nanoseconds:contentions:count", "wait", ET_MEASURE_VALUE},
        {"lock:lock_count:count:cpu:nanoseconds", "lock", ET_MEASURE_COUNT},
        {"lock:lock_time:nanoseconds:cpu:nanoseconds", "lock", ET_MEASURE_VALUE},
        {"exception:exception:count:cpu:nanoseconds", "exception", ET_MEASURE_VALUE},
        {"wall:wall:nanoseconds:cpu:nanoseconds", "wall", ET_MEASURE_VALUE},
        {"goroutine:goroutine:count:goroutine:count", "thread", ET_MEASURE_VALUE},
        {"goroutines:goroutine:count:goroutine:count", "goroutines:goroutine:count:goroutine:count", ET_MEASURE_VALUE},
        {"wall:wall:nanoseconds:wall:nanoseconds", "wall", ET_MEASURE_VALUE},
        {"wall:cpu:nanoseconds:wall:nanoseconds", "cpu", ET_MEASURE_VALUE},
        {"wall:samples:count:wall:nanoseconds", "cpu", ET_MEASURE_COUNT},
        {"process_cpu:cpu:microseconds:cpu:nanoseconds", "cpu", ET_MEASURE_VALUE},
        {"a:b:kilobytes:c:ms", "a:b:bytes:c:nanoseconds", ET_MEASURE_VALUE},
        {"deadmans_switch:made_up:profilos:made_up:profilos", "deadmans_switch:made_up:profilos:made_up:profilos",
         ET_MEASURE_VALUE},
        {"memory:inuse_space:bytes:space:bytes:delta", "live", ET_MEASURE_VALUE},
        {"thread_lifetime:thread_lifetime_timeline:nanoseconds:cpu:nanoseconds",
         "thread_lifetime:thread_lifetime_timeline:nanoseconds:cpu:nanoseconds", ET_MEASURE_VALUE},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct et_buf text = {0};
        understood(types[i].id, "", types[i].kind, types[i].measure, "");
        et_buf_printf(&text, "%s{service_name=\"svc\",device=~\"pi-.*\"}", types[i].id);
        understood(text.data, "", types[i].kind, types[i].measure, "{\"service_name\"=\"svc\",\"device\"=~\"pi-.*\"}");
        text.size = 0;
        et_buf_printf(&text, "{a=\"b\", __profile_type__=\"%s\",c=\"d\"}", types[i].id);
        understood(text.data, "", types[i].kind, types[i].measure, "{\"a\"=\"b\",\"c\"=\"d\"}");
        et_buf_free(&text);
    }
}

TEST(query_errors_are_described)
{
    static const char *const texts[] = {
        "svc{",        "svc{a}",        "svc{a=b",  "svc{=b}",          "svc{a=b}c",     "a:b:c",
        "a:b:c:d:e:f", "a:b:c:d:e:f:g", ":b:c:d:e", "{__name__=\"x\"}", "svc{a=~\"(\"}", "svc{a=\"b}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct et_query_builder wanted = {0};
        if (et_wanted_query(&wanted, texts[i])) {
            fail_msg("%s was understood", texts[i]);
        }
        assert_true(wanted.why && strlen(wanted.why) > 10);
        et_query_builder_free(&wanted);
    }
}

/* Each measure of each kind has an id that selects it. */
TEST(every_kind_has_an_id)
{
    for (size_t i = 0; i < et_kind_count; i++) {
        size_t figures = 0;
        for (int count = 0; count < 2; count++) {
            struct et_type type;
            if (et_type_of(et_kinds[i].name, "", count, &type)) {
                bool sum = et_kinds[i].counts[0] != '\0';
                understood(type.id, "", et_kinds[i].name, count && sum ? ET_MEASURE_COUNT : ET_MEASURE_VALUE, "");
                et_type_free(&type);
                figures++;
            }
        }
        assert_int_equal(figures, et_kinds[i].counts[0] ? 2 : 1);
    }
    struct et_type type;
    assert_true(et_type_of("watts", "milliwatts", false, &type));
    assert_string_equal(type.id, "watts:watts:milliwatts:watts:milliwatts");
    understood(type.id, "", "watts", ET_MEASURE_VALUE, "");
    et_type_free(&type);
    assert_false(et_type_of("watts", "milliwatts", true, &type));
    static const char sent[] = "deadmans_switch:made_up:profilos:made_up:profilos";
    assert_true(et_type_of(sent, "profilos", false, &type)); /* a sender's id stays the id */
    assert_string_equal(type.id, sent);
    understood(type.id, "", sent, ET_MEASURE_VALUE, "");
    et_type_free(&type);
}

TEST_MAIN
