/*
 * Any bytes as a file of another profiler: tools/formats/foreign.c and its readers. The first byte selects the reader,
 * the rest is the file.
 *
 * Checked: what is refused has a reason; what is read is a sound pprof with as many values in each sample as types;
 * memory is bounded by the input's size and given back; CPU time is bounded.
 */
#include "spend.h"
#include "tools/formats/foreign.h"
#include "tools/formats/pprof_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_FIXED = 1 << 20, MEMORY_PER_BYTE = 8192, READERS = 4 };

static void sound(const struct et_buf *bytes)
{
    const char *why = NULL;
    et_pprof *pprof = et_pprof_decode(bytes->data ? bytes->data : "", bytes->size, &why);
    REQUIRE(pprof && !why);
    for (size_t i = 0; i < pprof->n_sample; i++) {
        REQUIRE(pprof->sample[i]->n_value == pprof->n_sample_type);
    }
    et_pprof_free(pprof);
}

static void parse(enum et_foreign format, const char *bytes, size_t size)
{
    struct et_buf pprof = {0}, why = {0};
    if (et_foreign_read(format, bytes, size, &pprof, &why)) {
        sound(&pprof);
    } else {
        REQUIRE(why.size > 0);
    }
    et_buf_free(&pprof);
    et_buf_free(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const long long began = fuzz_begin();
    enum et_foreign format = et_foreign_recognize((const char *)data + 1, size - 1);
    format = format ? format : (enum et_foreign)(ET_FOREIGN_PERF + data[0] % READERS);
    parse(format, (const char *)data + 1, size - 1);
    return fuzz_end(began, size, MEMORY_FIXED + MEMORY_PER_BYTE * size);
}
