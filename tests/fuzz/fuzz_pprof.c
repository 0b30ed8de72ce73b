/*
 * Any bytes as a pprof profile: tools/formats/pprof_read.c and tools/serve/ingest/ingest_pprof.c as `edgeprof serve`
 * has them, over a store in memory.
 *
 * Checked: nothing outside the profile is read (the sanitizers); the decoder either refuses, with a reason, or every
 * kind in it is a profile whose sums are those of its samples, added up by a loop that knows nothing of kinds; whose
 * tree has parents before children, no stack deeper than the limit and no reference that leads nowhere; what the
 * encoder makes of it is decoded again, with the same total; the store is told nothing that makes no sense
 * (fake_store.c), and all or nothing; memory is bounded by the profile's size, and all of it is given back.
 */
#include <stdint.h>
#include <string.h>

#include "fake_store.h"
#include "tools/serve/ingest/ingest.h"
#include "memory.h"
#include "tools/formats/pprof_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW INT64_C(1795000000000000000)

/* A sample of a byte may name a stack of any depth, once a kind: squares are possible, but of small numbers. */
#define MEMORY_FIXED    262144u
#define MEMORY_PER_BYTE 16384u

static struct et_store store;

/* A sum over the samples of one sample type; -1: none. */
static uint64_t sum_of(const et_pprof *pprof, int type)
{
    uint64_t sum = 0;

    for (size_t i = 0; type >= 0 && i < pprof->n_sample; i++)
        if (pprof->sample[i]->n_value)
            REQUIRE(!__builtin_add_overflow(sum, (uint64_t)pprof->sample[i]->value[type], &sum));
    return sum;
}

static void sound_tree(const struct et_profile *p)
{
    uint32_t *depth = et_alloc(p->node_count, sizeof *depth);

    for (size_t i = 1; i < p->node_count; i++) {
        REQUIRE(p->nodes[i].parent < i && p->nodes[i].frame < p->frame_count);
        depth[i] = depth[p->nodes[i].parent] + 1;
        REQUIRE(depth[i] <= ET_MAX_DEPTH);
    }
    for (size_t i = 0; i < p->frame_count; i++)
        REQUIRE(p->frames[i].module <= p->module_count && p->frames[i].name < p->strings.count &&
                p->frames[i].file < p->strings.count);
    for (size_t i = 0; i < p->module_count; i++)
        REQUIRE(p->modules[i].build_id < p->strings.count && p->modules[i].path < p->strings.count);
    free(depth);
}

static void sound_sums(const et_pprof *pprof, const struct et_pprof_kind *kind, const struct et_profile *p)
{
    uint64_t values = 0, counts = 0, self = 0, scaled;

    for (size_t i = 0; i < p->entry_count; i++) {
        REQUIRE(p->entries[i].node < p->node_count && p->entries[i].labels < p->strings.count);
        values += p->entries[i].value;
        counts += p->entries[i].count;
    }
    for (size_t i = 0; i < p->node_count; i++)
        self += p->nodes[i].self;
    REQUIRE(values == p->values && counts == p->counts && self == p->total);
    REQUIRE(values <= INT64_MAX && counts <= INT64_MAX);
    REQUIRE(counts == sum_of(pprof, kind->count));
    REQUIRE(!__builtin_mul_overflow(counts, kind->scale, &scaled));
    REQUIRE(values == (kind->scale ? scaled : sum_of(pprof, kind->value) * kind->factor));
}

static void encoded_again(const struct et_profile *p)
{
    struct et_buf bytes = {0};
    const char *why = NULL;

    et_pprof_encode(p, &bytes);
    et_pprof *pprof = et_pprof_decode(bytes.data, bytes.size, &why);
    REQUIRE(pprof && pprof->n_sample_type >= 1);
    REQUIRE(sum_of(pprof, (int)pprof->n_sample_type - 1) == p->values);
    et_pprof_free(pprof);
    et_buf_free(&bytes);
}

static void one_kind(const et_pprof *pprof, const struct et_pprof_kind *kind)
{
    const char *why = NULL;
    struct et_profile *profile = et_pprof_profile(pprof, kind, &why);

    REQUIRE(profile || (why && why[0]));
    REQUIRE(kind->value < (int)pprof->n_sample_type && kind->count < (int)pprof->n_sample_type);
    if (!profile)
        return;
    sound_tree(profile);
    sound_sums(pprof, kind, profile);
    encoded_again(profile);
    et_profile_free(profile);
}

/* The server's unpacker refuses what protobuf-c refuses, and nothing else. */
static void decoded_in_arena(const uint8_t *data, size_t size, bool sound)
{
    struct et_arena arena = {0};
    const char *why = NULL;
    const et_pprof *pprof = et_pprof_decode_in(&arena, data, size, &why);

    REQUIRE(pprof ? sound : !sound && why && why[0]);
    et_arena_free(&arena);
}

static bool decode(const uint8_t *data, size_t size)
{
    struct et_pprof_kind kinds[ET_PPROF_KINDS];
    const char *why = NULL;
    et_pprof *pprof = et_pprof_decode(data, size, &why);

    REQUIRE(pprof || (why && why[0]));
    decoded_in_arena(data, size, pprof != NULL);
    if (!pprof)
        return false;
    size_t count = et_pprof_kinds(pprof, "mutex", kinds);
    REQUIRE(count >= 1 && count <= ET_PPROF_KINDS);
    for (size_t i = 0; i < count; i++)
        one_kind(pprof, &kinds[i]);
    et_pprof_free(pprof);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct et_pprof_push push = {.name = "fuzz{a=b}", .bytes = data, .size = size};
    const char *why = NULL;

    fuzz_memory_begin();
    bool sound = decode(data, size);
    enum et_outcome outcome = et_ingest_pprof(&store, &push, NOW, &why);
    REQUIRE(outcome == ET_ACCEPTED || outcome == ET_MALFORMED);
    REQUIRE(why && (why[0] || outcome == ET_ACCEPTED) && !store.open && (sound || outcome == ET_MALFORMED));
    REQUIRE(store.committed == (outcome == ET_ACCEPTED));
    fake_store_reset(&store);
    REQUIRE(fuzz_memory_asked() <= MEMORY_FIXED + MEMORY_PER_BYTE * size);
    REQUIRE(fuzz_memory_held() == 0);
    return 0;
}
