/*
 * settings.c: every field within and beyond its range, the grammar of tags, strings of all lengths around the limit. A
 * refusal is one line that names the field.
 */
#include "account.h"
#include "unit.h"

static struct ep_config good(void)
{
    return (struct ep_config){.memory = account_memory(EP_MEMORY_DEFAULT),
                              .memory_size = EP_MEMORY_DEFAULT,
                              .endpoint = "null:",
                              .flags = EP_MANUAL};
}

static void assert_refused(const struct ep_config *config, int error, const char *field)
{
    ep_sim_reset();
    assert_int_equal(ep_start(config), error);
    if (!strstr(ep_start_error(), field))
        print_error("'%s' is not in: %s\n", field, ep_start_error());
    assert_non_null(strstr(ep_start_error(), field));
    assert_null(strchr(ep_start_error(), '\n'));
    assert_null(ep_running());
}

static void assert_taken(const struct ep_config *config)
{
    ep_sim_reset();
    int error = ep_start(config);
    if (error)
        print_error("%d: %s\n", error, ep_start_error());
    assert_int_equal(error, 0);
    assert_string_equal(ep_start_error(), "");
    assert_int_equal(ep_stop(10), 0);
}

TEST(test_memory)
{
    struct ep_config c = good();

    c.memory = NULL;
    assert_refused(&c, -EINVAL, "memory");
    c = good();
    for (size_t size = 0; size < EP_MEMORY_MIN; size += 997) {
        c.memory_size = size;
        assert_refused(&c, -ENOMEM, "memory_size");
    }
    c.memory_size = EP_MEMORY_MIN - 1;
    assert_refused(&c, -ENOMEM, "memory_size");
    uint8_t *start = c.memory;
    for (size_t shift = 0; shift < 17; shift++) { /* any alignment */
        c.memory = start + shift;
        c.memory_size = EP_MEMORY_MIN + 15;
        memset(start, 0xa5, EP_MEMORY_MIN + 64);
        assert_taken(&c);
        for (size_t i = 0; i < shift; i++)
            assert_int_equal(start[i], 0xa5);
        for (size_t i = 0; i < 32; i++)
            assert_int_equal(start[shift + EP_MEMORY_MIN + 15 + i], 0xa5);
    }
}

TEST(test_large_memory)
{
    struct ep_config c = good();

    for (size_t size = EP_MEMORY_MIN; size <= 4u << 20; size += size / 3 + 1) {
        c.memory = account_memory(size);
        c.memory_size = size;
        ep_sim_reset();
        assert_int_equal(ep_start(&c), 0);
        struct ep_stats s;
        assert_int_equal(ep_stats_get(&s), 0);
        assert_true(s.memory_used <= size && s.tree_capacity > 200 && s.tree_capacity < 65536);
        assert_int_equal(ep_stop(1), 0);
    }
}

TEST(test_ranges)
{
    static const struct {
        uint32_t value;
        bool good;
    } rates[] = {{0, true}, {1, true}, {1000, true}, {1001, false}, {UINT32_MAX, false}},
      intervals[] = {{0, true}, {99, false}, {100, true}, {3600000, true}, {3600001, false}, {UINT32_MAX, false}};
    struct ep_config c = good();

    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        c = good();
        c.rate_hz = rates[i].value;
        rates[i].good ? assert_taken(&c) : assert_refused(&c, -EINVAL, "rate_hz");
    }
    for (size_t i = 0; i < sizeof intervals / sizeof intervals[0]; i++) {
        c = good();
        c.interval_ms = intervals[i].value;
        intervals[i].good ? assert_taken(&c) : assert_refused(&c, -EINVAL, "interval_ms");
    }
    for (int value = -2; value < 7; value++) {
        c = good();
        c.level = (enum ep_level)value;
        value >= 0 && value <= EP_LEVEL_HIGH ? assert_taken(&c) : assert_refused(&c, -EINVAL, "level");
    }
}

static uint32_t period_of(enum ep_level level, uint32_t rate)
{
    struct ep_config c = good();

    c.level = level;
    c.rate_hz = rate;
    assert_taken(&c);
    return ep_sim.period_ns;
}

TEST(test_levels)
{
    assert_int_equal(period_of(EP_LEVEL_DEFAULT, 0), 1000000000u / 19);
    assert_int_equal(period_of(EP_LEVEL_LOW, 0), 1000000000u / 19);
    assert_int_equal(period_of(EP_LEVEL_MEDIUM, 0), 1000000000u / 97);
    assert_int_equal(period_of(EP_LEVEL_HIGH, 0), 1000000000u / 251);
    assert_int_equal(period_of(EP_LEVEL_HIGH, 7), 1000000000u / 7);
    assert_int_equal(period_of(EP_LEVEL_LOW, 1000), 1000000u);
}

TEST(test_endpoints)
{
    static const char *const bad[] = {"", "gateway:4040", "ftp://x", "HTTP", "://", "http:/x"};
    struct ep_config c = good();

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        c.endpoint = bad[i];
        assert_refused(&c, -EINVAL, "endpoint");
    }
    c.endpoint = NULL;
    assert_taken(&c);
    c.endpoint = "whatever a transport of one's own wants";
    c.transport = &receiver_transport;
    receiver_reset();
    assert_taken(&c);
    static struct ep_transport greedy;
    greedy = receiver_transport;
    greedy.state_size = EP_TRANSPORT_BYTES + 1;
    c.transport = &greedy;
    assert_refused(&c, -EINVAL, "EP_TRANSPORT_BYTES");
    greedy.state_size = EP_TRANSPORT_BYTES;
    assert_taken(&c);
}

/* pprof needs an HTTP endpoint. The password of an endpoint is never in a message. */
TEST(test_http)
{
    struct ep_config c = good();

    c.endpoint = "http://127.0.0.1:9";
    assert_taken(&c);
    unit_pprof(true);
    assert_refused(&c, -EINVAL, "push");
    c.push = &ep_push_pyroscope;
    assert_taken(&c);
    unit_pprof(false);
    c.endpoint = "ftp://user:geheim@h";
    assert_refused(&c, -EINVAL, "@h");
    assert_null(strstr(ep_start_error(), "geheim"));
    c.endpoint = "http://user:geheim@h:port";
    assert_refused(&c, -EINVAL, "@h:port");
    assert_null(strstr(ep_start_error(), "geheim"));
}

TEST(test_headers)
{
    static const char *const fine[] = {NULL, "", "A:", "A: b", "A: b\n", "A: b\nC:d", "A: b\tc: ~"},
                             *const bad[] = {"geheim",        ":geheim",           "A b: geheim",
                                             "\nA: geheim",   "A: geheim\r\nB: c", "A: b\n\ngeheim",
                                             "A: b\n geheim", "A: \x7fgeheim",     "A: geheim\xc3\xa9"};
    struct ep_config c = good();

    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        c.headers = fine[i];
        assert_taken(&c);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        c.headers = bad[i];
        assert_refused(&c, -EINVAL, "headers");
        assert_null(strstr(ep_start_error(), "geheim"));
    }
}

/* ---- tags ---- */

TEST(test_tags)
{
    static const char *const fine[] = {"", "a=b", "a=", "a=b,", "_=1", "a_B9=x", "k==", "a=b c,d=e/f", "a=\xc3\xa9"};
    static const char *const bad[] = {"a",        "=", "=b",   "a=b,c", "9a=b",  "a-b=c",
                                      "a=b,,c=d", ",", " a=b", "a =b",  "\xc3=1"};
    struct ep_config c = good();

    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        c.tags = fine[i];
        assert_taken(&c);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        c.tags = bad[i];
        assert_refused(&c, -EINVAL, "tags");
    }
}

/* Random tags are unchanged after parsing, in any notation. */
TEST(test_tags_round_trip)
{
    static const char key_first[] = "abzAZ_", key_rest[] = "abz09_Z", values[] = "ab=; /.x";
    uint64_t dice = 3;

    for (unsigned round = 0; round < 2000; round++) {
        char text[256], keys[8][8], vals[8][8];
        unsigned count = unit_random(&dice) % 8, at = 0;
        for (unsigned t = 0; t < count; t++) {
            unsigned k = 0, v = 0, kn = 1 + unit_random(&dice) % 6, vn = unit_random(&dice) % 7;
            for (; k < kn; k++)
                keys[t][k] = k ? key_rest[unit_random(&dice) % 7] : key_first[unit_random(&dice) % 6];
            for (; v < vn; v++)
                vals[t][v] = values[unit_random(&dice) % 8];
            keys[t][k] = vals[t][v] = 0;
            at += (unsigned)sprintf(text + at, "%s%s=%s", t ? "," : "", keys[t], vals[t]);
        }
        text[at] = 0;
        struct ep_tag tag;
        bool error;
        unsigned seen = 0;
        for (const char *rest = text; (rest = ep_tag_next(rest, &tag, &error)) != NULL; seen++) {
            assert_true(tag.key_size == strlen(keys[seen]) && memcmp(tag.key, keys[seen], tag.key_size) == 0);
            assert_true(tag.value_size == strlen(vals[seen]) && memcmp(tag.value, vals[seen], tag.value_size) == 0);
        }
        assert_false(error);
        assert_int_equal(seen, count);
    }
}

/* Service, tags and endpoint around the size of their store: copied completely or refused; the caller's strings are not
 * used later. */
TEST(test_strings)
{
    static char service[EP_STRINGS_BYTES + 2], tags[EP_STRINGS_BYTES + 2];

    for (size_t length = EP_STRINGS_BYTES - 40; length < EP_STRINGS_BYTES + 1; length++) {
        struct ep_config c = good();
        memset(service, 's', length);
        service[length] = 0;
        c.service = service;
        c.tags = strcpy(tags, "k=v");
        ep_sim_reset();
        int error = ep_start(&c);
        bool fits = length + 1 + 4 + 6 <= EP_STRINGS_BYTES;
        assert_int_equal(error, fits ? 0 : -EINVAL);
        if (error) {
            assert_non_null(strstr(ep_start_error(), "too long"));
            continue;
        }
        memset(service, 'x', sizeof service);
        memset(tags, 'x', sizeof tags);
        assert_int_equal(strlen(ep_running()->config.service), length);
        assert_int_equal(ep_running()->config.service[length - 1], 's');
        assert_string_equal(ep_running()->config.tags, "k=v");
        assert_string_equal(ep_running()->config.endpoint, "null:");
        assert_int_equal(ep_stop(1), 0);
    }
    struct ep_config c = good();
    ep_sim_reset();
    assert_int_equal(ep_start(&c), 0);
    assert_string_equal(ep_running()->config.service, "simulated");
    assert_string_equal(ep_running()->config.tags, "");
    assert_int_equal(ep_stop(1), 0);
}

/* A long text in an error message is truncated, within the buffer. */
TEST(test_long_error_message)
{
    static char endpoint[4000];
    struct ep_config c = good();

    memset(endpoint, 'e', sizeof endpoint - 1);
    c.endpoint = endpoint;
    assert_refused(&c, -EINVAL, "endpoint");
    assert_true(strlen(ep_start_error()) < 160);
}

static enum ep_format sent_as;

static void on_send(const struct ep_message *message, const struct ep_deadline *deadline)
{
    (void)deadline;
    sent_as = message->format;
}

static enum ep_format format_of_a_run(void)
{
    static const uint16_t stack[] = {1};
    struct ep_config c = good();

    ep_sim_reset();
    receiver_reset();
    receiver.on_send = on_send;
    sent_as = (enum ep_format) - 1;
    c.transport = &receiver_transport;
    assert_int_equal(ep_start(&c), 0);
    assert_int_equal(ep_pprof_start(), -EALREADY);
    assert_int_equal(ep_pprof_stop(), -EALREADY);
    assert_true(ep_sim_tick(1, 1, stack, 1));
    assert_int_equal(ep_stop(1000), 0);
    return sent_as;
}

/* The format is that of the last call of ep_pprof_start() or ep_pprof_stop(), for all runs that follow. */
TEST(test_format)
{
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(ep_pprof_stop(), 0);
        assert_int_equal(format_of_a_run(), EP_FORMAT_COMPACT);
        assert_int_equal(ep_pprof_start(), 0);
        assert_int_equal(ep_pprof_start(), 0);
        assert_int_equal(format_of_a_run(), EP_FORMAT_PPROF);
        assert_int_equal(format_of_a_run(), EP_FORMAT_PPROF);
    }
    assert_int_equal(ep_pprof_stop(), 0);
}

TEST_MAIN
