/*
 * Any bytes as a config file: tools/lib/config.c, and its readers of values.
 *
 * Checked: what is refused is reported and leaves nothing; sections and settings are in the order of lines, with keys
 * of the documented characters and values of one line; what a typed reader takes is in range; memory is bounded
 * by the input's size and given back; CPU time is bounded.
 */
#include "spend.h"
#include "tools/lib/config.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_FIXED = 65536, MEMORY_PER_BYTE = 4096, MOST = 1000 };

static bool item(void *context, const char *text)
{
    REQUIRE(text[0]);
    ++*(size_t *)context;
    return true;
}

static void values(const struct et_config *config, const struct et_section *section, const struct et_setting *setting)
{
    static const char key_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
    uint64_t number = 0;
    size_t bytes = 0, items = 0;
    int64_t ns = 0;
    bool flag = false;
    REQUIRE(setting->key[0] && strspn(setting->key, key_letters) == strlen(setting->key));
    REQUIRE(!strchr(setting->value, '\n'));
    REQUIRE(!et_config_number(config, section, setting->key, MOST, &number) || number <= MOST);
    REQUIRE(!et_config_duration(config, section, setting->key, true, &ns) || ns >= 0);
    (void)et_config_size(config, section, setting->key, &bytes);
    (void)et_config_flag(config, section, setting->key, &flag);
    REQUIRE(et_config_list(setting->value, item, &items) && items <= strlen(setting->value));
}

static void sound(const struct et_config *config)
{
    unsigned line = 0;
    for (size_t i = 0; i < config->count; i++) {
        const struct et_section *section = &config->sections[i];
        REQUIRE(section->kind[0] && section->line > line);
        line = section->line;
        for (size_t k = 0; k < section->count; k++) {
            REQUIRE(section->settings[k].line > line);
            line = section->settings[k].line;
            values(config, section, &section->settings[k]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct et_config config = {0};
    struct et_buf said = {0};
    const long long began = fuzz_begin();
    et_error_to(&said);
    if (et_config_parse("file", (const char *)data, size, &config)) {
        sound(&config);
        et_config_free(&config);
    } else {
        REQUIRE(said.size > 0 && config.count == 0);
    }
    et_error_to(NULL);
    et_buf_free(&said);
    return fuzz_end(began, size, MEMORY_FIXED + MEMORY_PER_BYTE * size);
}
