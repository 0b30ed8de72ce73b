/*
 * Any bytes as OTLP profiles: tools/formats/otlp_read.c, otlp_pprof.c and tools/serve/ingest/ingest_otlp.c as `edgeprof
 * serve` has them, over a store in memory. Bytes that begin with '{' are JSON.
 *
 * Invariants, by the function that checks each:
 *
 *   one_line        what is refused has a reason of one line, and an accepted request has none
 *   sound_pprof     every index of the pprofs leads somewhere: pprof_read.c takes them, but for its own limits of
 * labels same_sums       the pprofs' values add up to those of the samples, by a loop that knows nothing of pprof
 *   same_as_json    an accepted request in JSON is accepted and becomes the same pprofs
 *   all_or_nothing  the store is told nothing that makes no sense (fake_store.c), and nothing of a refused request
 *   small_and_freed memory is bounded by the limit and the input's size, and all of it is given back
 *
 * Nothing outside the input is read (the sanitizers).
 */
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "fake_store.h"
#include "memory.h"
#include "tools/formats/otlp_read.h"
#include "tools/formats/pprof_read.h"
#include "tools/formats/protojson.h"
#include "tools/serve/ingest/ingest_batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW INT64_C(1795000000000000000)

enum { LIMIT = 65536, MEMORY_FIXED = 4 << 20, MEMORY_PER_BYTE = 16384 };

static struct et_store store;

struct converted {
    struct et_buf bytes; /* of all pprofs, with their names */
    uint64_t sum;
};

static void one_line(const struct et_buf *why, bool accepted)
{
    REQUIRE(accepted == (why->size == 0));
    REQUIRE(accepted || !memchr(why->data, '\n', why->size));
}

static void sound_pprof(const struct et_otlp_pprof *from)
{
    const char *why = NULL;
    et_pprof *pprof = et_pprof_decode(from->bytes, from->size, &why);

    REQUIRE(pprof || strcmp(why, "pprof: a sample has an invalid reference or value") == 0);
    if (!pprof) { /* too many labels or frames */
        pprof = perftools__profiles__profile__unpack(NULL, from->size, from->bytes);
        REQUIRE(pprof);
        for (size_t i = 0; i < pprof->n_sample; i++) {
            REQUIRE(pprof->sample[i]->n_value == pprof->n_sample_type);
            for (size_t k = 0; k < pprof->sample[i]->n_location_id; k++)
                REQUIRE(pprof->sample[i]->location_id[k] - 1 < pprof->n_location);
        }
    }
    et_pprof_free(pprof);
}

static const char *take(void *context, const struct et_otlp_pprof *from)
{
    struct converted *out = context;
    et_pprof *pprof = perftools__profiles__profile__unpack(NULL, from->size, from->bytes);

    sound_pprof(from);
    for (size_t i = 0; i < pprof->n_sample; i++)
        for (size_t k = 0; k < pprof->sample[i]->n_value; k++)
            out->sum += (uint64_t)pprof->sample[i]->value[k];
    et_buf_printf(&out->bytes, "%s|%s|%s|", from->service, from->tags, from->family);
    et_buf_add(&out->bytes, from->bytes, from->size);
    et_pprof_free(pprof);
    return NULL;
}

static uint64_t sum_of_profile(const Otlp__Profile *profile)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < profile->n_samples; i++) {
        const Otlp__Sample *sample = profile->samples[i];
        for (size_t k = 0; k < sample->n_values; k++)
            sum += (uint64_t)sample->values[k];
        sum += sample->n_values ? 0 : sample->n_timestamps_unix_nano;
    }
    return sum;
}

static void same_sums(const et_otlp_request *request, const struct converted *found)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < request->n_resource_profiles; i++)
        for (size_t k = 0; k < request->resource_profiles[i]->n_scope_profiles; k++) {
            const Otlp__ScopeProfiles *scope = request->resource_profiles[i]->scope_profiles[k];
            for (size_t p = 0; p < scope->n_profiles; p++)
                sum += sum_of_profile(scope->profiles[p]);
        }
    REQUIRE(sum == found->sum);
}

/* Whether JSON can carry its texts and numbers. */
static bool plain(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] >= 0x80)
            return false;
    return true;
}

static void same_as_json(const et_otlp_request *request, const struct converted *found)
{
    struct et_buf json = {0}, why = {0};
    struct converted again = {0};

    et_protojson_encode(&request->base, &json);
    et_otlp_request *other = et_otlp_decode_json(json.data, json.size, &why);
    REQUIRE(other);
    REQUIRE(et_otlp_convert(other, LIMIT, take, &again, &why) == 0);
    REQUIRE(again.bytes.size == found->bytes.size &&
            (!again.bytes.size || memcmp(again.bytes.data, found->bytes.data, again.bytes.size) == 0));
    et_otlp_free(other);
    et_buf_free(&json);
    et_buf_free(&why);
    et_buf_free(&again.bytes);
}

static void convert(const et_otlp_request *request, bool ascii)
{
    struct converted found = {0};
    struct et_buf why = {0};
    int err = et_otlp_convert(request, LIMIT, take, &found, &why);

    REQUIRE(err == 0 || err == -EFBIG || err == -EINVAL);
    one_line(&why, err == 0);
    if (!err)
        same_sums(request, &found);
    if (!err && ascii)
        same_as_json(request, &found);
    et_buf_free(&found.bytes);
    et_buf_free(&why);
}

static void all_or_nothing(const et_otlp_request *request)
{
    struct et_batch batch = {0};
    struct et_buf why = {0};
    const char *wrong = NULL;
    int err = et_batch_otlp(&batch, request, LIMIT, NOW, &why);

    if (err) {
        one_line(&why, false);
    } else if (batch.count) {
        enum et_outcome outcome = et_batch_store(&store, &batch, &wrong);
        REQUIRE(outcome == ET_ACCEPTED && store.committed && !store.open);
    }
    et_batch_free(&batch);
    et_buf_free(&why);
    fake_store_reset(&store);
}

static void small_and_freed(size_t size)
{
    REQUIRE(fuzz_memory_asked() <= MEMORY_FIXED + (size_t)MEMORY_PER_BYTE * size);
    REQUIRE(fuzz_memory_held() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct et_buf why = {0};
    bool json = size && data[0] == '{';

    fuzz_memory_begin();
    et_otlp_request *request = json ? et_otlp_decode_json(data, size, &why) : et_otlp_decode(data, size, &why);
    one_line(&why, request != NULL);
    if (request) {
        convert(request, plain(data, size));
        all_or_nothing(request);
        et_otlp_free(request);
    }
    et_buf_free(&why);
    small_and_freed(size);
    return 0;
}
