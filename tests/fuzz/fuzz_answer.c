/*
 * Any bytes as an answer of the process that parses a symbol file, which may be in the file's hands:
 * tools/symbols/answer.c.
 *
 * Checked: what is taken has 1 to ET_LINES_MOST lines of clean text within its length, and functions that begin at or
 * below the address; written and read again it is the same; memory is bounded and given back; CPU time is bounded.
 */
#include "spend.h"
#include "tools/symbols/answer.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_FIXED = 65536, MEMORY_FACTOR = 256 };

static void check_text(const char *text)
{
    char *clean = et_clean(text, strlen(text));
    REQUIRE(strcmp(clean, text) == 0);
    free(clean);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : !a && !b;
}

static void check(const struct et_resolved *read, uint64_t address)
{
    struct et_buf bytes = {0};
    struct et_resolved again = {0};
    REQUIRE(read->count >= 1 && read->count <= ET_LINES_MOST);
    for (size_t i = 0; i < read->count; i++) {
        REQUIRE(read->lines[i].source && read->lines[i].start <= address);
        check_text(read->lines[i].source);
        check_text(read->lines[i].function ? read->lines[i].function : "");
    }
    et_answer_write(read, &bytes);
    REQUIRE(bytes.size <= ET_ANSWER_MOST);
    REQUIRE(et_answer_read((const uint8_t *)bytes.data, bytes.size, address, &again) && again.count == read->count);
    for (size_t i = 0; i < read->count; i++) {
        const struct et_resolved_line *a = &read->lines[i], *b = &again.lines[i];
        REQUIRE(same_text(a->function, b->function) && same_text(a->source, b->source));
        REQUIRE(a->line == b->line && a->start == b->start);
    }
    et_resolved_free(&again);
    et_buf_free(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t addresses[] = {0, 0x1000, UINT64_MAX};
    const long long began = fuzz_begin();
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct et_resolved read = {0};
        if (et_answer_read(data, size, addresses[i], &read)) {
            check(&read, addresses[i]);
        }
        et_resolved_free(&read);
    }
    return fuzz_end(began, size, MEMORY_FIXED + MEMORY_FACTOR * size);
}
