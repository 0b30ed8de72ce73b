/* Config files: any order and spacing give the same settings, and errors name the line. */
#include "tools/lib/config.h"
#include "tests/unit/test.h"

#include <unistd.h>

static uint32_t seed;

static uint32_t any(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* What call() writes to stderr. */
static char *said_by(void (*call)(void *context), void *context)
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    call(context);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    long size = ftell(file) >= 0 && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    char *text = calloc((size_t)size + 1, 1);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    fclose(file);
    return text;
}

static struct et_config read_text(const char *text)
{
    struct et_config config;
    assert_true(et_config_parse("file", text, strlen(text), &config));
    return config;
}

TEST(sections_and_settings)
{
    struct et_config config = read_text("# comment\r\n\n[serve]\nlisten=127.0.0.1:1\n; other\n  [ scrape  \"a b\" ]\n"
                                        "\turl =  http://x/?a=b#c \nempty=\nquoted = \" x \"\n[scrape]");
    const struct et_section *first = et_config_next(&config, "scrape", NULL);
    const struct et_section *second = et_config_next(&config, "scrape", first);
    assert_int_equal(config.count, 3);
    assert_string_equal(et_config_value(et_config_next(&config, "serve", NULL), "listen"), "127.0.0.1:1");
    assert_string_equal(first->name, "a b");
    assert_int_equal(first->line, 6);
    assert_string_equal(et_config_value(first, "url"), "http://x/?a=b#c");
    assert_string_equal(et_config_value(first, "empty"), "");
    assert_string_equal(et_config_value(first, "quoted"), " x ");
    assert_null(et_config_value(first, "listen"));
    assert_string_equal(second->name, "");
    assert_int_equal(second->count, 0);
    assert_null(et_config_next(&config, "scrape", second));
    assert_null(et_config_next(&config, "relay", NULL));
    et_config_free(&config);
}

TEST(order_and_spacing_do_not_matter)
{
    static const char *const blanks[] = {"", " ", "\t", "  \t "};
    for (seed = 1; seed < 300;) {
        uint32_t round = seed, order[] = {0, 1, 2, 3, 4, 5, 6, 7};
        struct et_buf text = {0};
        for (size_t i = 8; i-- > 1;) {
            size_t k = any((uint32_t)i + 1);
            uint32_t swap = order[i];
            order[i] = order[k];
            order[k] = swap;
        }
        et_buf_text(&text, "[x]\n");
        for (size_t i = 0; i < 8; i++) {
            et_buf_printf(&text, "%sk%u%s=%sv%u%s%s\n%s", blanks[any(4)], order[i], blanks[any(4)], blanks[any(4)],
                          order[i], blanks[any(4)], any(2) ? "\r" : "", any(3) ? "" : "# k1 = no\n");
        }
        struct et_config config = read_text(text.data);
        for (unsigned i = 0; i < 8; i++) {
            char key[8], value[8];
            snprintf(key, sizeof key, "k%u", i);
            snprintf(value, sizeof value, "v%u", i);
            assert_string_equal(et_config_value(&config.sections[0], key), value);
        }
        et_config_free(&config);
        et_buf_free(&text);
        seed = round + 1;
    }
}

struct attempt {
    const char *text;
    size_t size;
    bool ok;
};

static const char *const kinds[] = {"serve", "scrape", NULL};
static const char *const keys[] = {"url", "header*", "interval", "number", "size", "flag", NULL};

static void read_all(void *context)
{
    struct attempt *attempt = context;
    struct et_config config;
    attempt->ok = et_config_parse("some/file", attempt->text, attempt->size, &config);
    attempt->ok = attempt->ok && et_config_kinds(&config, kinds);
    for (size_t i = 0; i < config.count; i++) {
        const struct et_section *section = &config.sections[i];
        uint64_t number = 7;
        int64_t ns = 8;
        size_t size = 9;
        bool flag = false;
        attempt->ok &= et_config_keys(&config, section, keys);
        attempt->ok &= et_config_number(&config, section, "number", 100, &number);
        attempt->ok &= et_config_size(&config, section, "size", &size);
        attempt->ok &= et_config_duration(&config, section, "interval", true, &ns);
        attempt->ok &= et_config_flag(&config, section, "flag", &flag);
    }
    et_config_free(&config);
}

TEST(config_errors_name_the_line)
{
    static const struct {
        const char *text, *line, *word;
    } cases[] = {
        {"a=b\n[serve]", ":1: ", "outside a section"},
        {"[serve]\n\nurl", ":3: ", "key = value"},
        {"[serve]\n=x", ":2: ", "key = value"},
        {"[serve]\nUrl=x", ":2: ", "key = value"},
        {"[serve\nurl=x", ":1: ", "']'"},
        {"[]\n", ":1: ", "kind"},
        {"[Serve]\n", ":1: ", "kind"},
        {"[serve]\n[other]\n", ":2: ", "serve, scrape"},
        {"[serve]\nul=x", ":2: ", "valid are url, header, interval"},
        {"[serve]\nurl=1\nheader=2\nurl=3\n", ":4: ", "first in line 2"},
        {"[serve]\nnumber=101", ":2: ", "0 to 100"},
        {"[serve]\nnumber=-1", ":2: ", "0 to 100"},
        {"[serve]\nnumber=99999999999999999999999", ":2: ", "0 to 100"},
        {"[serve]\nnumber=", ":2: ", "0 to 100"},
        {"[serve]\nsize=4X", ":2: ", "bytes"},
        {"[serve]\nsize=4Mb", ":2: ", "bytes"},
        {"[serve]\nsize=999999999999G", ":2: ", "bytes"},
        {"[serve]\nsize=2G", ":2: ", "bytes"},
        {"[serve]\ninterval=10", ":2: ", "10s"},
        {"[serve]\nflag=1", ":2: ", "yes or no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct attempt attempt = {.text = cases[i].text, .size = strlen(cases[i].text)};
        char *said = said_by(read_all, &attempt);
        char *end = strchr(said, '\n');
        assert_false(attempt.ok);
        assert_ptr_equal(strstr(said, "edgeprof: some/file"), said);
        if (!strstr(said, cases[i].line) || !strstr(said, cases[i].word) || !end || end[1]) {
            fail_msg("%s: said %s", cases[i].text, said);
        }
        free(said);
    }
}

TEST(good_values_are_read)
{
    struct et_config config = read_text("[x]\nnumber=100\nsize=3M\nk=64k\ninterval=0\nlong=90s\nflag=yes\n");
    const struct et_section *x = &config.sections[0];
    uint64_t number = 0;
    size_t size = 0, k = 0, absent = 5;
    int64_t zero = 1, ns = 0;
    bool flag = false;
    assert_true(et_config_number(&config, x, "number", 100, &number) && number == 100);
    assert_true(et_config_size(&config, x, "size", &size) && size == 3 << 20);
    assert_true(et_config_size(&config, x, "k", &k) && k == 64 << 10);
    assert_true(et_config_size(&config, x, "absent", &absent) && absent == 5);
    assert_true(et_config_duration(&config, x, "interval", true, &zero) && zero == 0);
    assert_true(et_config_duration(&config, x, "long", false, &ns) && ns == 90000000000);
    assert_true(et_config_flag(&config, x, "flag", &flag) && flag);
    et_config_free(&config);
}

static bool add_item(void *context, const char *item)
{
    et_buf_printf(context, "<%s>", item);
    return strcmp(item, "stop") != 0;
}

TEST(lists)
{
    static const struct {
        const char *list, *items;
    } cases[] = {{"", ""},   {"a", "<a>"},      {" a=1 ,, b=\"x, y\",", "<a=1><b=x, y>"}, {"a,stop,b", "<a><stop>"},
                 {"\"", ""}, {"\"a,b", "<a,b>"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct et_buf items = {0};
        et_buf_text(&items, "");
        assert_int_equal(et_config_list(cases[i].list, add_item, &items), !strstr(cases[i].list, "stop"));
        assert_string_equal(items.data, cases[i].items);
        et_buf_free(&items);
    }
}

TEST_MAIN
