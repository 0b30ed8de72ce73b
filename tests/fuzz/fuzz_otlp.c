/*
 * Any bytes as OTLP profiles: tools/formats/otlp_read.c, otlp_profile.c and tools/serve/ingest/ingest_otlp.c as
 * `edgeprof serve` has them, over a store in memory. Bytes that begin with '{' are JSON.
 *
 * Invariants, by the function that checks each:
 *
 *   one_line        what is refused or left out has a reason of one line
 *   sound_profile   every index of the profiles leads somewhere
 *   same_sums       the profiles' values add up to those of the samples, by a loop that knows no kinds; of kinds that
 * we know, only one value and one count is kept same_as_json    an accepted request in JSON is accepted and becomes the
 * same profiles all_or_nothing  the store is told nothing that makes no sense (fake_store.c), and nothing of a refused
 * request small_and_freed memory is bounded by the limit and the input's size, and all of it is given back
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
    struct et_buf text; /* of all profiles, with their names */
    uint64_t sum;
};

static void one_line(const struct et_buf *why, bool accepted)
{
    REQUIRE(accepted || why->size);
    REQUIRE(!why->size || !memchr(why->data, '\n', why->size));
}

static void sound_profile(const struct et_profile *p)
{
    for (size_t i = 1; i < p->node_count; i++)
        REQUIRE(p->nodes[i].parent < i && p->nodes[i].frame < p->frame_count);
    for (size_t i = 0; i < p->frame_count; i++) {
        REQUIRE(p->frames[i].module <= p->module_count);
        REQUIRE(p->frames[i].name < p->strings.count && p->frames[i].file < p->strings.count);
    }
    for (size_t i = 0; i < p->module_count; i++)
        REQUIRE(p->modules[i].build_id < p->strings.count && p->modules[i].path < p->strings.count);
    for (size_t i = 0; i < p->entry_count; i++)
        REQUIRE(p->entries[i].node < p->node_count && p->entries[i].labels < p->strings.count);
}

static void put_profile(const struct et_profile *p, struct et_buf *out)
{
    et_buf_printf(out, "%s|%s|%lld %lld %llu %llu|", et_text(&p->strings, p->kind), et_text(&p->strings, p->value_unit),
                  (long long)p->start_ns, (long long)p->end_ns, (unsigned long long)p->period,
                  (unsigned long long)p->samples);
    for (size_t i = 0; i < p->frame_count; i++) {
        const struct et_frame *frame = &p->frames[i];
        const struct et_module *module = frame->module ? &p->modules[frame->module - 1] : NULL;
        et_buf_printf(out, "%s %s %llx %s %s %u|", module ? et_text(&p->strings, module->build_id) : "",
                      module ? et_text(&p->strings, module->path) : "", (unsigned long long)frame->address,
                      et_text(&p->strings, frame->name), et_text(&p->strings, frame->file), frame->line);
    }
    for (size_t i = 0; i < p->node_count; i++)
        et_buf_printf(out, "%u %u|", p->nodes[i].parent, p->nodes[i].frame);
    for (size_t i = 0; i < p->entry_count; i++)
        et_buf_printf(out, "%u %s %llu %llu|", p->entries[i].node, et_text(&p->strings, p->entries[i].labels),
                      (unsigned long long)p->entries[i].count, (unsigned long long)p->entries[i].value);
}

static void take(void *context, const char *service, const char *tags, struct et_profile *profile)
{
    struct converted *out = context;

    sound_profile(profile);
    /* The value of a kind that has only counts, of a known length, is not in the request. */
    bool scaled = profile->counts && profile->period && profile->values == profile->counts * profile->period;
    out->sum += profile->counts + (scaled ? 0 : profile->values);
    et_buf_printf(&out->text, "%s|%s|", service, tags);
    put_profile(profile, &out->text);
    et_profile_free(profile);
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

/* Whether the profile's type stays a kind of its own, with all of its values. */
static bool own_kind(const Otlp__ProfilesDictionary *d, const Otlp__Profile *profile)
{
    const char *type = d->string_table[profile->sample_type->type_strindex];
    const char *unit = d->string_table[profile->sample_type->unit_strindex];
    const char *period = profile->period_type ? d->string_table[profile->period_type->type_strindex] : "";
    bool counts;

    return strcmp(type, "samples") != 0 && !et_kind_of_pprof(period, type, unit, &counts);
}

static uint64_t unit_of(const Otlp__ProfilesDictionary *d, const Otlp__Profile *profile)
{
    uint64_t factor;

    (void)et_unit_base(d->string_table[profile->sample_type->unit_strindex], &factor);
    return factor;
}

static void same_sums(const et_otlp_request *request, const struct converted *found)
{
    uint64_t sum = 0;
    bool whole = true;

    for (size_t i = 0; i < request->n_resource_profiles; i++)
        for (size_t k = 0; k < request->resource_profiles[i]->n_scope_profiles; k++) {
            const Otlp__ScopeProfiles *scope = request->resource_profiles[i]->scope_profiles[k];
            for (size_t p = 0; p < scope->n_profiles; p++) {
                sum += sum_of_profile(scope->profiles[p]) * unit_of(request->dictionary, scope->profiles[p]);
                whole &= own_kind(request->dictionary, scope->profiles[p]);
            }
        }
    REQUIRE(whole ? sum == found->sum : found->sum <= sum);
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
    size_t refused = 0;
    et_otlp_request *other = et_otlp_decode_json(json.data, json.size, &why, &refused);
    REQUIRE(other && !refused);
    REQUIRE(et_otlp_convert(other, LIMIT, take, &again, &why, &refused) == 0);
    REQUIRE(again.text.size == found->text.size &&
            (!again.text.size || memcmp(again.text.data, found->text.data, again.text.size) == 0));
    et_otlp_free(other);
    et_buf_free(&json);
    et_buf_free(&why);
    et_buf_free(&again.text);
}

static void convert(const et_otlp_request *request, bool ascii)
{
    struct converted found = {0};
    struct et_buf why = {0};
    size_t refused = 0;
    int err = et_otlp_convert(request, LIMIT, take, &found, &why, &refused);

    REQUIRE(err == 0 || err == -EFBIG);
    one_line(&why, err == 0 && !refused);
    if (!err && !why.size)
        same_sums(request, &found);
    if (!err && ascii)
        same_as_json(request, &found);
    et_buf_free(&found.text);
    et_buf_free(&why);
}

static void all_or_nothing(const et_otlp_request *request)
{
    struct et_batch batch = {0};
    struct et_buf why = {0};
    const char *wrong = NULL;
    size_t refused = 0;
    int err = et_batch_otlp(&batch, request, LIMIT, NOW, &why, &refused);

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
    size_t refused = 0;
    et_otlp_request *request =
        json ? et_otlp_decode_json(data, size, &why, &refused) : et_otlp_decode(data, size, &why, &refused);
    one_line(&why, request && !refused);
    if (request) {
        convert(request, plain(data, size));
        all_or_nothing(request);
        et_otlp_free(request);
    }
    et_buf_free(&why);
    small_and_freed(size);
    return 0;
}
