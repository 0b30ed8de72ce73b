/*
 * environment.c: every variable with valid and invalid values, precedence between variables, settings of the program,
 * and labels in Pyroscope's and OpenTelemetry's notation. A refusal is one line that names the variable.
 */
#include "account.h"
#include "unit.h"

#define ENDPOINT "EDGEPROF_ENDPOINT=http://h:1"

static int pprof; /* the last result of ep_pprof_from_env() */

static int take(struct ep_config *config, const char *const *environment)
{
    ep_sim_reset();
    ep_sim.environment = environment;
    int result = ep_config_from_env(config);
    pprof = result < 0 ? result : ep_pprof_from_env(config);
    ep_sim.environment = NULL;
    if (result >= 0 && pprof < 0)
        result = pprof;
    if (result >= 0)
        assert_string_equal(ep_start_error(), "");
    return result;
}
#define TAKE(config, ...) take(config, (const char *const[]){__VA_ARGS__, NULL})

TEST(test_own_variables)
{
    struct ep_config c = {0};

    assert_int_equal(TAKE(&c, "OTHER=1"), 0);
    assert_int_equal(TAKE(&c, ENDPOINT), 1);
    assert_string_equal(c.endpoint, "http://h:1");
    assert_int_equal(TAKE(&c, "EDGEPROF_SERVICE=svc", "EDGEPROF_TAGS=a=b"), 0);
    assert_string_equal(c.service, "svc");
    assert_string_equal(c.tags, "a=b");
    assert_int_equal(TAKE(&c, "EDGEPROF_RATE=97", "EDGEPROF_INTERVAL=2500", "EDGEPROF_BUDGET=1500"), 0);
    assert_int_equal(c.rate_hz, 97);
    assert_int_equal(c.interval_ms, 2500);
    assert_int_equal(c.budget_ppm, 1500);
    assert_int_equal(TAKE(&c, "EDGEPROF_LEVEL=high", "EDGEPROF_FORMAT=pprof"), 0);
    assert_int_equal(c.level, EP_LEVEL_HIGH);
    assert_int_equal(pprof, 1);
    assert_int_equal(TAKE(&c, "EDGEPROF_THREAD_LABELS=1"), 0);
    assert_int_equal(c.flags, EP_THREAD_LABELS);
    assert_int_equal(TAKE(&c, "EDGEPROF_IDLE_WAITS=true", "EDGEPROF_THREAD_LABELS=0", "EDGEPROF_ALL_EVENTS=1",
                          "EDGEPROF_CLOCK=ticks"),
                     0);
    assert_int_equal(c.flags, EP_THREAD_LABELS | EP_IDLE_WAITS | EP_ALL_EVENTS | EP_CLOCK_TICKS);
    assert_int_equal(TAKE(&c, "EDGEPROF_CLOCK=timer"), 0);
    assert_int_equal(c.flags & EP_CLOCKS, EP_CLOCK_TICKS); /* what code sets wins */
    c = (struct ep_config){0};
    assert_int_equal(TAKE(&c, "EDGEPROF_CLOCK=timer"), 0);
    assert_int_equal(c.flags, EP_CLOCK_TIMERS);
    assert_int_equal(TAKE(&c, "EDGEPROF_CLOCK=sundial"), -EINVAL);
    assert_string_equal(ep_start_error(), "EDGEPROF_CLOCK: must be auto, ticks, timer or perf, not sundial");
    assert_int_equal(TAKE(&c, "EDGEPROF_PIN=0"), 0);
    assert_int_equal(c.flags & EP_NO_PIN, EP_NO_PIN);
    c.flags = 0;
    assert_int_equal(TAKE(&c, "EDGEPROF_PIN=1"), 0);
    assert_int_equal(c.flags & EP_NO_PIN, 0);
}

TEST(test_kinds)
{
    char all[128] = "EDGEPROF_KINDS=";
    struct ep_config c = {0};

    assert_int_equal(TAKE(&c, "EDGEPROF_KINDS=cpu"), 0);
    assert_int_equal(c.kinds, EP_KIND_BIT(EP_KIND_CPU));
    for (unsigned kind = 1; kind < EP_KINDS; kind++) {
        char one[64];
        snprintf(one, sizeof one, "EDGEPROF_KINDS=%s", ep_kind_name(kind));
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", kind > 1 ? "," : "", ep_kind_name(kind));
        c = (struct ep_config){0};
        assert_int_equal(TAKE(&c, one), 0);
        assert_int_equal(c.kinds, EP_KIND_BIT(kind));
    }
    c = (struct ep_config){0};
    assert_int_equal(TAKE(&c, all), 0);
    assert_int_equal(c.kinds, EP_KINDS_ALL);
}

/* The program's own settings are never overwritten. */
TEST(test_program_wins)
{
    const struct ep_config chosen = {.service = "mine",
                                     .tags = "x=y",
                                     .level = EP_LEVEL_LOW,
                                     .kinds = EP_KIND_BIT(EP_KIND_GC),
                                     .rate_hz = 7,
                                     .budget_ppm = 3,
                                     .interval_ms = 500,
                                     .endpoint = "null:",
                                     .push = &ep_push_pyroscope,
                                     .headers = "Authorization: Bearer mine",
                                     .flags = EP_THREAD_LABELS};
    struct ep_config c = chosen;

    unit_pprof(true);
    assert_int_equal(TAKE(&c, ENDPOINT, "EDGEPROF_SERVICE=a", "EDGEPROF_TAGS=a=b", "EDGEPROF_LEVEL=high",
                          "EDGEPROF_KINDS=cpu", "EDGEPROF_RATE=97", "EDGEPROF_BUDGET=9", "EDGEPROF_INTERVAL=100",
                          "EDGEPROF_FORMAT=compact", "EDGEPROF_THREAD_LABELS=0", "EDGEPROF_TOKEN=t",
                          "EDGEPROF_HEADERS=a: b", "PYROSCOPE_AUTH_TOKEN=u", "PYROSCOPE_SERVER_ADDRESS=http://p",
                          "PYROSCOPE_APPLICATION_NAME=b", "PYROSCOPE_LABELS=c:d", "PYROSCOPE_PROFILING_CPU_ENABLED=1",
                          "OTEL_SERVICE_NAME=c", "OTEL_RESOURCE_ATTRIBUTES=service.name=d,e=f"),
                     1);
    assert_memory_equal(&c, &chosen, sizeof c);
    assert_int_equal(pprof, 1); /* the program has started it */
    unit_pprof(false);
}

/* Adds sources in order of increasing precedence; each must override the earlier ones. */
TEST(test_precedence)
{
    static const char *const services[] = {"OTEL_RESOURCE_ATTRIBUTES=service.name=from-attributes,k=attributes",
                                           "OTEL_SERVICE_NAME=from-otel", "PYROSCOPE_APPLICATION_NAME=from-pyroscope",
                                           "EDGEPROF_SERVICE=from-edgeprof"};
    static const char *const tags[] = {"PYROSCOPE_LABELS=k:pyroscope", "EDGEPROF_TAGS=k=edgeprof"};
    static const char *const names[] = {"from-attributes", "from-otel", "from-pyroscope", "from-edgeprof"};
    const char *environment[8] = {ENDPOINT, services[0]};

    for (unsigned i = 0; i < 4; i++) {
        struct ep_config c = {0};
        environment[1 + i] = services[i];
        environment[2 + i] = NULL;
        assert_int_equal(take(&c, environment), 1);
        assert_string_equal(c.service, names[i]);
        assert_string_equal(c.tags, "k=attributes");
    }
    for (unsigned i = 0; i < 2; i++) {
        struct ep_config c = {0};
        environment[5 + i] = tags[i];
        environment[6 + i] = NULL;
        assert_int_equal(take(&c, environment), 1);
        assert_string_equal(c.tags, i ? "k=edgeprof" : "k=pyroscope");
    }
    struct ep_config c = {0};
    assert_int_equal(TAKE(&c, "PYROSCOPE_SERVER_ADDRESS=http://p:4040", ENDPOINT), 1);
    assert_string_equal(c.endpoint, "http://h:1");
    c = (struct ep_config){0};
    assert_int_equal(TAKE(&c, "PYROSCOPE_SERVER_ADDRESS=http://p:4040", "EDGEPROF_ENDPOINT="), 1);
    assert_string_equal(c.endpoint, "http://p:4040");
}

/* The kind of server determines the format. */
TEST(test_format)
{
    static const struct {
        const char *endpoint, *format;
        bool pprof;
    } cases[] = {
        {ENDPOINT, "X=1", false},
        {ENDPOINT, "EDGEPROF_FORMAT=pprof", true},
        {"PYROSCOPE_SERVER_ADDRESS=http://p", "X=1", true},
        {"PYROSCOPE_SERVER_ADDRESS=http://p", "EDGEPROF_FORMAT=compact", false},
        {"PYROSCOPE_SERVER_ADDRESS=http://p", "EDGEPROF_FORMAT=pprof", true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ep_config c = {0};
        assert_int_equal(TAKE(&c, cases[i].endpoint, cases[i].format), 1);
        assert_int_equal(pprof, cases[i].pprof);
        assert_ptr_equal(c.push, cases[i].pprof ? &ep_push_pyroscope : NULL);
    }
    struct ep_config c = {.endpoint = "http://mine"};
    assert_int_equal(TAKE(&c, "PYROSCOPE_SERVER_ADDRESS=http://p", "PYROSCOPE_AUTH_TOKEN=t"), 1);
    assert_int_equal(pprof, 0);
    assert_null(c.push);
    assert_null(c.headers);
}

TEST(test_names)
{
    static const struct {
        const char *endpoint, *a, *b;
        bool named;
    } cases[] = {
        {ENDPOINT, "EDGEPROF_FORMAT=pprof", "X=1", false},
        {ENDPOINT, "EDGEPROF_FORMAT=pprof", "EDGEPROF_NAMES=1", true},
        {ENDPOINT, "EDGEPROF_NAMES=1", "X=1", false}, /* not with compact */
        {"PYROSCOPE_SERVER_ADDRESS=http://p", "X=1", "Y=1", true},
        {"PYROSCOPE_SERVER_ADDRESS=http://p", "EDGEPROF_NAMES=off", "X=1", false},
        {"PYROSCOPE_SERVER_ADDRESS=http://p", "EDGEPROF_FORMAT=compact", "X=1", false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ep_config c = {0};
        assert_int_equal(TAKE(&c, cases[i].endpoint, cases[i].a, cases[i].b), 1);
        assert_ptr_equal(c.names, cases[i].named ? &ep_names_process : NULL);
    }
    struct ep_config c = {0};
    assert_int_equal(TAKE(&c, ENDPOINT, "EDGEPROF_NAMES=some"), -EINVAL);
    assert_non_null(strstr(ep_start_error(), "EDGEPROF_NAMES"));
}

#define PYROSCOPE "PYROSCOPE_SERVER_ADDRESS=http://p"

TEST(test_headers)
{
    static const struct {
        const char *endpoint, *a, *b, *headers;
    } cases[] = {
        {ENDPOINT, "EDGEPROF_TOKEN=abc", "X=1", "Authorization: Bearer abc"},
        {ENDPOINT, "EDGEPROF_HEADERS=A: b", "X=1", "A: b"},
        {ENDPOINT, "EDGEPROF_HEADERS=A: b\nC:d", "EDGEPROF_TOKEN=t", "A: b\nC:d\nAuthorization: Bearer t"},
        {ENDPOINT, "EDGEPROF_HEADERS=aUTHORIZATION: x y", "EDGEPROF_TOKEN=t", "aUTHORIZATION: x y"},
        {ENDPOINT, "EDGEPROF_TOKEN=", "EDGEPROF_HEADERS=", NULL},
        {ENDPOINT, "EDGEPROF_TOKEN_FILE=/t", "EDGEPROF_HEADERS=A: b", "A: b"}, /* read in ep_start() */
        {PYROSCOPE, "EDGEPROF_TOKEN_FILE=/t", "PYROSCOPE_AUTH_TOKEN=t", NULL},
        {ENDPOINT, "PYROSCOPE_AUTH_TOKEN=t", "PYROSCOPE_TENANT_ID=7", NULL}, /* for another server */
        {ENDPOINT, "PYROSCOPE_BASIC_AUTH_USER=u", "PYROSCOPE_HTTP_HEADERS={\"a\":\"b\"}", NULL},
        {PYROSCOPE, "PYROSCOPE_AUTH_TOKEN=t", "PYROSCOPE_TENANT_ID=7", "Authorization: Bearer t\nX-Scope-OrgID: 7"},
        {PYROSCOPE, "PYROSCOPE_AUTH_TOKEN=t", "EDGEPROF_TOKEN=mine", "Authorization: Bearer mine"},
        {PYROSCOPE, "PYROSCOPE_BASIC_AUTH_USER=Aladdin", "PYROSCOPE_BASIC_AUTH_PASSWORD=open sesame",
         "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
        {PYROSCOPE, "PYROSCOPE_BASIC_AUTH_USER=a", "X=1", "Authorization: Basic YTo="},
        {PYROSCOPE, "PYROSCOPE_BASIC_AUTH_USER=ab", "X=1", "Authorization: Basic YWI6"},
        {PYROSCOPE, "PYROSCOPE_BASIC_AUTH_USER=abc", "X=1", "Authorization: Basic YWJjOg=="},
        {PYROSCOPE, "PYROSCOPE_BASIC_AUTH_PASSWORD=lonely", "X=1", NULL},
        {PYROSCOPE, "PYROSCOPE_AUTH_TOKEN=t", "PYROSCOPE_BASIC_AUTH_USER=u", "Authorization: Bearer t"},
        {PYROSCOPE, "PYROSCOPE_HTTP_HEADERS={}", "X=1", NULL},
        {PYROSCOPE, "PYROSCOPE_HTTP_HEADERS= { \"A\" : \"b c\" , \"D\":\"\\\"\\u0041\\/\\\\\" } ", "X=1",
         "A: b c\nD: \"A/\\"},
        {PYROSCOPE, "PYROSCOPE_HTTP_HEADERS={\"X-Scope-OrgID\":\"1\"}", "PYROSCOPE_TENANT_ID=2", "X-Scope-OrgID: 1"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ep_config c = {
            .memory = account_memory(EP_MEMORY_DEFAULT), .memory_size = EP_MEMORY_DEFAULT, .flags = EP_MANUAL};
        assert_int_equal(TAKE(&c, cases[i].endpoint, cases[i].a, cases[i].b), 1);
        if (cases[i].headers)
            assert_string_equal(c.headers, cases[i].headers);
        else
            assert_null(c.headers);
        assert_int_equal(ep_start(&c), 0);
        assert_int_equal(ep_stop(0), 0);
    }
}

/* A refusal names the variable, but never its value. */
TEST(test_headers_refused)
{
    static const struct {
        const char *variable, *said;
    } cases[] = {
        {"EDGEPROF_TOKEN=geheim\nX: y", "EDGEPROF_TOKEN"},
        {"EDGEPROF_TOKEN=geheim\r", "EDGEPROF_TOKEN"},
        {"EDGEPROF_TOKEN=gehe\xc3\xafm", "EDGEPROF_TOKEN"},
        {"EDGEPROF_HEADERS=Host: geheim", "host"},
        {"EDGEPROF_HEADERS=A: b\ncontent-LENGTH: 5 geheim", "content-length"},
        {"EDGEPROF_HEADERS=Transfer-Encoding: geheim", "transfer-encoding"},
        {"PYROSCOPE_AUTH_TOKEN=geheim\t", "PYROSCOPE_AUTH_TOKEN"},
        {"PYROSCOPE_TENANT_ID=geheim\n", "PYROSCOPE_TENANT_ID"},
        {"PYROSCOPE_HTTP_HEADERS=geheim", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\"}", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":1}", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":\"geheim", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":\"geheim\\", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":\"geheim\"", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":\"geheim\",}", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":\"geheim\"}x", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":\"geheim\\n\"}", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":\"geheim\\u000d\"}", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":\"geheim\\u12", "PYROSCOPE_HTTP_HEADERS"},
        {"PYROSCOPE_HTTP_HEADERS={\"a\":\"b\" \"c\":\"d\"}", "PYROSCOPE_HTTP_HEADERS"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ep_config c = {0};
        assert_int_equal(TAKE(&c, PYROSCOPE, cases[i].variable), -EINVAL);
        if (!strstr(ep_start_error(), cases[i].said) || strstr(ep_start_error(), "geh"))
            fail_msg("%s: %s", cases[i].variable, ep_start_error());
    }
    struct ep_config c = {0};
    assert_int_equal(TAKE(&c, "EDGEPROF_ENDPOINT=http://u:p@h/x", "EDGEPROF_TOKEN=t"), -EINVAL);
    assert_non_null(strstr(ep_start_error(), "not both"));
    c = (struct ep_config){0};
    assert_int_equal(TAKE(&c, "EDGEPROF_ENDPOINT=http://h/@x", "EDGEPROF_TOKEN=t"), 1);
}

/* Lengths around the limit. */
TEST(test_headers_length)
{
    static char variable[EP_HEADERS_BYTES + 64];

    for (size_t size = EP_HEADERS_BYTES - 40; size < EP_HEADERS_BYTES + 8; size++) {
        struct ep_config c = {0};
        const size_t at = (size_t)snprintf(variable, sizeof variable, "EDGEPROF_TOKEN=");
        memset(variable + at, 't', size);
        variable[at + size] = 0;
        const bool fits = size + strlen("Authorization: Bearer ") < EP_HEADERS_BYTES;
        assert_int_equal(TAKE(&c, ENDPOINT, variable), fits ? 1 : -EINVAL);
        if (fits)
            assert_int_equal(strlen(c.headers), size + strlen("Authorization: Bearer "));
    }
}

static const char *tags_of(const char *variable)
{
    static struct ep_config c;

    c = (struct ep_config){0};
    assert_int_equal(TAKE(&c, ENDPOINT, variable), 1);
    return c.tags ? c.tags : "(none)";
}

TEST(test_labels)
{
    static const struct {
        const char *variable, *tags;
    } cases[] = {
        {"OTEL_RESOURCE_ATTRIBUTES=service.version=1.4.2,deployment.environment=field",
         "service_version=1.4.2,deployment_environment=field"},
        {"OTEL_RESOURCE_ATTRIBUTES=a=b%20c%3Dd%2fe", "a=b c=d/e"},
        {"OTEL_RESOURCE_ATTRIBUTES=a=x%2Cy,b=z", "a=x%2Cy,b=z"},
        {"OTEL_RESOURCE_ATTRIBUTES=a=%C3%A4,b=\xc3\xa4", "a=\xc3\xa4,b=\xc3\xa4"},
        {"OTEL_RESOURCE_ATTRIBUTES= a = b , , c=d,", "a=b,c=d"},
        {"OTEL_RESOURCE_ATTRIBUTES=a=b=c", "a=b=c"},
        {"OTEL_RESOURCE_ATTRIBUTES=a=", "a="},
        {"OTEL_RESOURCE_ATTRIBUTES=9k-%65y=v", "_9k_ey=v"},
        {"OTEL_RESOURCE_ATTRIBUTES=%C3%A4=v", "__=v"},
        {"OTEL_RESOURCE_ATTRIBUTES=", "(none)"},
        {"OTEL_RESOURCE_ATTRIBUTES=service.name=s", "(none)"},
        {"OTEL_RESOURCE_ATTRIBUTES=service.name=s,a=b", "a=b"},
        {"PYROSCOPE_LABELS=layer:api,team-name:intake", "layer=api,team_name=intake"},
        {"PYROSCOPE_LABELS=url:http%3A//x:1", "url=http%3A//x:1"},
        {"PYROSCOPE_LABELS=service.name:s", "service_name=s"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(tags_of(cases[i].variable), cases[i].tags);
    struct ep_config c = {0};
    assert_int_equal(TAKE(&c, ENDPOINT, "OTEL_RESOURCE_ATTRIBUTES=a=1,service.name=my%20service,b=2"), 1);
    assert_string_equal(c.service, "my service");
    assert_string_equal(c.tags, "a=1,b=2");
}

/* The result is always a list of tags that ep_start() accepts. */
TEST(test_labels_start)
{
    struct ep_config c = {.memory = account_memory(EP_MEMORY_DEFAULT),
                          .memory_size = EP_MEMORY_DEFAULT,
                          .endpoint = "null:",
                          .flags = EP_MANUAL};

    assert_int_equal(TAKE(&c, "OTEL_RESOURCE_ATTRIBUTES=service.name=%E2%82%AC,1.2=%2C%3d,k8s.pod=x"), 0);
    assert_int_equal(ep_start(&c), 0);
    assert_string_equal(ep_running()->config.service, "\xe2\x82\xac");
    assert_string_equal(ep_running()->config.tags, "_1_2=%2C=,k8s_pod=x");
    assert_int_equal(ep_stop(1), 0);
}

/* Lengths around the limit: accepted completely, or refused with a message. */
TEST(test_labels_length)
{
    static char variable[2 * EP_STRINGS_BYTES + 64];

    for (size_t size = EP_STRINGS_BYTES - 8; size < EP_STRINGS_BYTES + 8; size++) {
        struct ep_config c = {0};
        const int at = snprintf(variable, sizeof variable, "OTEL_RESOURCE_ATTRIBUTES=k=");
        memset(variable + at, 'v', size);
        variable[(size_t)at + size] = 0;
        const bool fits = size + 2 < EP_STRINGS_BYTES;
        assert_int_equal(TAKE(&c, ENDPOINT, variable), fits ? 1 : -EINVAL);
        if (fits)
            assert_int_equal(strlen(c.tags), size + 2);
        else
            assert_non_null(strstr(ep_start_error(), "EDGEPROF_TAGS"));
    }
}

static uint32_t kinds_of(const char *a, const char *b)
{
    struct ep_config c = {0};

    assert_int_equal(TAKE(&c, ENDPOINT, a, b), 1);
    return c.kinds;
}

TEST(test_pyroscope_kinds)
{
    static const struct {
        const char *name;
        enum ep_kind kind;
    } switches[] = {{"WALLTIME", EP_KIND_WAIT},
                    {"ALLOCATION", EP_KIND_ALLOC},
                    {"LOCK", EP_KIND_LOCK},
                    {"HEAP", EP_KIND_LIVE},
                    {"EXCEPTION", EP_KIND_EXCEPTION}};
    static const char *const on[] = {"1", "true", "TRUE", "Yes", "y", "T", "on"}, *const off[] = {
                                                                                      "0", "false", "False", "NO",
                                                                                      "n", "f",     "off"};
    const uint32_t cpu = EP_KIND_BIT(EP_KIND_CPU);

    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        char variable[80];
        for (size_t k = 0; k < sizeof on / sizeof on[0]; k++) {
            snprintf(variable, sizeof variable, "PYROSCOPE_PROFILING_%s_ENABLED=%s", switches[i].name, on[k]);
            assert_int_equal(kinds_of(variable, "X=1"), cpu | EP_KIND_BIT(switches[i].kind));
            snprintf(variable, sizeof variable, "PYROSCOPE_PROFILING_%s_ENABLED=%s", switches[i].name, off[k]);
            assert_int_equal(kinds_of(variable, "EDGEPROF_LEVEL=high"), EP_KINDS_ALL & ~EP_KIND_BIT(switches[i].kind));
        }
        snprintf(variable, sizeof variable, "PYROSCOPE_PROFILING_%s_ENABLED=1", switches[i].name);
        assert_int_equal(kinds_of(variable, "PYROSCOPE_PROFILING_CPU_ENABLED=0"), EP_KIND_BIT(switches[i].kind));
        assert_int_equal(kinds_of(variable, "EDGEPROF_KINDS=gc"), EP_KIND_BIT(EP_KIND_GC));
        snprintf(variable, sizeof variable, "PYROSCOPE_PROFILING_%s_ENABLED=", switches[i].name);
        assert_int_equal(kinds_of(variable, "X=1"), 0);
    }
}

TEST(test_pyroscope_enabled)
{
    struct ep_config c = {0};

    assert_int_equal(TAKE(&c, "PYROSCOPE_SERVER_ADDRESS=http://p", "PYROSCOPE_PROFILING_ENABLED=0"), 0);
    assert_null(c.endpoint);
    assert_int_equal(TAKE(&c, "PYROSCOPE_SERVER_ADDRESS=http://p", "PYROSCOPE_PROFILING_ENABLED=true"), 1);
    assert_string_equal(c.endpoint, "http://p");
    c = (struct ep_config){0};
    assert_int_equal(TAKE(&c, ENDPOINT, "PYROSCOPE_PROFILING_ENABLED=false"), 1); /* its own variable wins */
    assert_string_equal(c.endpoint, "http://h:1");
}

/* No profile was requested: other programs' variables are ignored. */
TEST(test_profiling_not_requested)
{
    struct ep_config c = {0};

    assert_int_equal(TAKE(&c, "EDGEPROF_ENDPOINT=", "PYROSCOPE_SERVER_ADDRESS=", "OTEL_RESOURCE_ATTRIBUTES=%zz",
                          "PYROSCOPE_LABELS=nonsense", "PYROSCOPE_PROFILING_CPU_ENABLED=maybe",
                          "PYROSCOPE_APPLICATION_NAME=a", "OTEL_SERVICE_NAME=b"),
                     0);
    assert_null(c.endpoint);
    assert_null(c.service);
    assert_null(c.tags);
}

/* Pulling needs no endpoint; without one, other programs' variables are ignored. */
TEST(test_pull_without_endpoint)
{
    struct ep_config c = {0};

    assert_int_equal(TAKE(&c, "EDGEPROF_PULL=", "EDGEPROF_ENDPOINT="), 0);
    assert_int_equal(TAKE(&c, "EDGEPROF_PULL=4041", "EDGEPROF_LEVEL=high"), 1);
    assert_null(c.endpoint);
    assert_int_equal(c.level, EP_LEVEL_HIGH);
    assert_int_equal(TAKE(&c, "EDGEPROF_PULL=4041", ENDPOINT), 1);
    assert_non_null(c.endpoint);
}

static void assert_refused(const char *variable)
{
    struct ep_config c = {0};
    char name[64];

    assert_int_equal(TAKE(&c, ENDPOINT, variable), -EINVAL);
    *stpncpy(name, variable, strcspn(variable, "=")) = 0;
    if (!strstr(ep_start_error(), name))
        print_error("'%s' is not in: %s\n", name, ep_start_error());
    assert_non_null(strstr(ep_start_error(), name));
    assert_null(strchr(ep_start_error(), '\n'));
}

TEST(test_malformed)
{
    static const char *const bad[] = {
        "EDGEPROF_RATE=0",
        "EDGEPROF_RATE=-1",
        "EDGEPROF_RATE=1e3",
        "EDGEPROF_RATE= 9",
        "EDGEPROF_RATE=ten",
        "EDGEPROF_RATE=",
        "EDGEPROF_INTERVAL=10 s",
        "EDGEPROF_INTERVAL=99999999999",
        "EDGEPROF_LEVEL=LOW",
        "EDGEPROF_LEVEL=ultra",
        "EDGEPROF_FORMAT=json",
        "EDGEPROF_INTERVAL=00000000001",
        "EDGEPROF_LEVEL=medium ",
        "EDGEPROF_RATE=4294967296",
        "EDGEPROF_BUDGET=0.1%",
        "EDGEPROF_KINDS=cpu,",
        "EDGEPROF_KINDS=,cpu",
        "EDGEPROF_KINDS=cpu, alloc",
        "EDGEPROF_KINDS=memory",
        "EDGEPROF_KINDS=CPU",
        "EDGEPROF_KINDS=cp",
        "EDGEPROF_THREAD_LABELS=2",
        "EDGEPROF_IDLE_WAITS=perhaps",
        "EDGEPROF_PIN=perhaps",
        "PYROSCOPE_LABELS=nonsense",
        "PYROSCOPE_LABELS=a:b,:c",
        "PYROSCOPE_LABELS=a=b",
        "PYROSCOPE_PROFILING_CPU_ENABLED=enabled",
        "PYROSCOPE_PROFILING_HEAP_ENABLED=truetruetrue",
        "PYROSCOPE_PROFILING_LOCK_ENABLED= 1",
        "OTEL_RESOURCE_ATTRIBUTES=a",
        "OTEL_RESOURCE_ATTRIBUTES=a=b,c",
        "OTEL_RESOURCE_ATTRIBUTES==b",
        "OTEL_RESOURCE_ATTRIBUTES=a=%",
        "OTEL_RESOURCE_ATTRIBUTES=a=%4",
        "OTEL_RESOURCE_ATTRIBUTES=a=%4,b=1",
        "OTEL_RESOURCE_ATTRIBUTES=a=%zz",
        "OTEL_RESOURCE_ATTRIBUTES=a=%00",
        "OTEL_RESOURCE_ATTRIBUTES=a=%0Ab",
        "OTEL_RESOURCE_ATTRIBUTES=%4=b",
        "OTEL_RESOURCE_ATTRIBUTES=a=%C3",
        "OTEL_RESOURCE_ATTRIBUTES=a=%C0%80",
        "OTEL_RESOURCE_ATTRIBUTES=a=%ED%A0%80",
        "OTEL_RESOURCE_ATTRIBUTES=a=%F8%88%80%80%80",
        "OTEL_RESOURCE_ATTRIBUTES=a=\xff",
        "OTEL_RESOURCE_ATTRIBUTES=service.name=%zz",
        "OTEL_RESOURCE_ATTRIBUTES=service.name=%0A",
    };
    struct ep_config c = {0};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(bad[i]);
    assert_int_equal(TAKE(&c, "PYROSCOPE_SERVER_ADDRESS=http://p", "PYROSCOPE_PROFILING_ENABLED=maybe"), -EINVAL);
    assert_int_equal(TAKE(&c, ENDPOINT, "PYROSCOPE_PROFILING_CPU_ENABLED=0"), -EINVAL); /* no kind is left */
    assert_non_null(strstr(ep_start_error(), "PYROSCOPE_PROFILING"));
}

TEST_MAIN
