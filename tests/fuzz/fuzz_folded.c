/*
 * Any bytes as folded stacks: tools/formats/folded.c. The first byte selects, the name and the units follow, each up to
 * a NUL; the rest is the text.
 *
 * Checked: what is refused has a reason; a name is cut within itself; a profile has parents before children, no more
 * stacks than lines, and sums that are those of its entries; memory is bounded by the input's size and given back; CPU
 * time is bounded.
 */
#include "spend.h"
#include "tools/formats/folded.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_FIXED = 262144, MEMORY_PER_BYTE = 4096 };

static void sound(const struct et_profile *p, const char *text, size_t size)
{
    uint64_t values = 0, counts = 0;
    size_t lines = 1;
    for (size_t i = 0; i < size; i++) {
        lines += text[i] == '\n';
    }
    for (size_t i = 1; i < p->node_count; i++) {
        REQUIRE(p->nodes[i].parent < i && p->nodes[i].frame < p->frame_count);
    }
    for (size_t i = 0; i < p->entry_count; i++) {
        REQUIRE(p->entries[i].node < p->node_count);
        REQUIRE(!__builtin_add_overflow(values, p->entries[i].value, &values));
        REQUIRE(!__builtin_add_overflow(counts, p->entries[i].count, &counts));
    }
    REQUIRE(p->entry_count <= lines && values == p->values && counts == p->counts);
}

static void parse(const char *name, const char *units, uint8_t select, const char *text, size_t size)
{
    struct et_folded what = {0};
    struct et_buf why = {0};
    size_t service = 0;
    if (et_folded_kind(name, &service, units, select & 1, 100, &what)) {
        REQUIRE(service <= strlen(name) && what.kind && what.unit);
        struct et_profile *profile = et_folded_parse(text, size, select & 2, &what, &why);
        REQUIRE(profile || why.size > 0);
        if (profile) {
            sound(profile, text, size);
            et_profile_free(profile);
        }
    }
    et_buf_free(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *name_end = size > 1 ? memchr(data + 1, 0, size - 1) : NULL;
    const uint8_t *units_end = name_end ? memchr(name_end + 1, 0, size - (size_t)(name_end + 1 - data)) : NULL;
    if (!units_end) {
        return 0;
    }
    const long long began = fuzz_begin();
    parse((const char *)data + 1, (const char *)name_end + 1, data[0], (const char *)units_end + 1,
          size - (size_t)(units_end + 1 - data));
    return fuzz_end(began, size, MEMORY_FIXED + MEMORY_PER_BYTE * size);
}
