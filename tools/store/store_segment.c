/*
 * See store.h: segments and their dictionaries.
 *
 * The dictionaries used last are cached, because a message of a long segment would otherwise require reading all
 * earlier ones. A rollback removes the dictionaries that the transaction changed. The sequence number shows whether
 * another process has extended a segment: the database is authoritative.
 */
#include "tools/store/age.h"
#include "tools/store/store_collect.h"

#include <stdlib.h>
#include <string.h>

/* Maximum bytes and number of cached dictionaries; the number is limited because lookup is linear. */
enum { CACHE_BYTES = 32 << 20, CACHE_SEGMENTS = 1024 };

/* ---- cache ---- */

static struct et_cached *find_cached(const struct et_store *store, uint64_t id)
{
    for (size_t i = 0; i < store->cache.count; i++) {
        if (store->cache.segments[i]->id == id) {
            return store->cache.segments[i];
        }
    }
    return NULL;
}

static struct et_cached *add_cached(struct et_store *store, uint64_t id)
{
    struct et_cache *cache = &store->cache;
    struct et_cached *cached = et_alloc(1, sizeof *cached);
    cached->id = id;
    cache->segments = et_reserve(cache->segments, &cache->capacity, cache->count + 1, sizeof *cache->segments);
    cache->segments[cache->count++] = cached;
    return cached;
}

static void drop_cached(struct et_store *store, struct et_cached *cached)
{
    struct et_cache *cache = &store->cache;
    for (size_t i = 0; i < cache->count; i++) {
        if (cache->segments[i] == cached) {
            cache->segments[i] = cache->segments[--cache->count];
            break;
        }
    }
    et_segment_free(&cached->segment);
    free(cached);
}

static size_t segment_size(const struct et_segment *segment)
{
    size_t text = 0;
    for (size_t i = 0; i < segment->label_count; i++) {
        text += sizeof *segment->labels + strlen(segment->labels[i].lines);
    }
    return text + segment->span_capacity * sizeof *segment->spans +
           segment->by_base_capacity * sizeof *segment->by_base + segment->depth_capacity * sizeof *segment->depths +
           segment->node_capacity * sizeof *segment->nodes;
}

static void shrink_cache(struct et_store *store)
{
    size_t bytes = 0;
    for (size_t i = 0; i < store->cache.count; i++) {
        bytes += segment_size(&store->cache.segments[i]->segment);
    }
    while (store->cache.count && (bytes > CACHE_BYTES || store->cache.count >= CACHE_SEGMENTS)) {
        struct et_cached *oldest = store->cache.segments[0];
        for (size_t i = 1; i < store->cache.count; i++) {
            oldest = store->cache.segments[i]->used < oldest->used ? store->cache.segments[i] : oldest;
        }
        bytes -= segment_size(&oldest->segment);
        drop_cached(store, oldest);
    }
}

void et_store_cache_undo(struct et_store *store, bool all)
{
    for (size_t i = store->cache.count; i-- > 0;) {
        if (all || store->cache.segments[i]->part == store->part) {
            drop_cached(store, store->cache.segments[i]);
        }
    }
}

void et_store_cache_free(struct et_store *store)
{
    et_store_cache_undo(store, true);
    free(store->cache.segments);
    store->cache = (struct et_cache){0};
}

/* ---- segments ---- */

int et_store_segment(struct et_store *store, uint64_t segment, struct et_segment_row *row)
{
    sqlite3_stmt *statement =
        et_store_bind(store, "SELECT origin, next_sequence, ended FROM segment WHERE id = ?", "u", segment);
    int got = et_store_step(store, statement);
    if (got == 1) {
        row->origin = sqlite3_column_int64(statement, 0);
        row->next_sequence = (uint32_t)sqlite3_column_int64(statement, 1);
        row->ended = sqlite3_column_int(statement, 2) != 0;
        sqlite3_reset(statement);
    }
    return got;
}

static const char SEGMENT_PUT[] =
    "INSERT OR REPLACE INTO segment (id, origin, next_sequence, ended, seen_ns) VALUES (?, ?, ?, ?, ?)";

int et_store_segment_put(struct et_store *store, uint64_t segment, const struct et_segment_row *row, int64_t now_ns)
{
    struct et_cached *cached = find_cached(store, segment);
    if (cached) {
        cached->sequence = row->next_sequence;
    }
    return et_store_run(store, SEGMENT_PUT, "uiiii", segment, row->origin, (int64_t)row->next_sequence,
                        (int64_t)row->ended, store->age ? store->age->count_ns : now_ns);
}

static int load_spans(struct et_store *store, uint64_t segment, struct et_segment *out)
{
    sqlite3_stmt *statement = et_store_bind(
        store, "SELECT base, size, address, module FROM span WHERE segment = ? ORDER BY number", "u", segment);
    int got;
    while ((got = et_store_step(store, statement)) == 1) {
        struct et_span span = {
            .base = (uint32_t)sqlite3_column_int64(statement, 0),
            .size = (uint32_t)sqlite3_column_int64(statement, 1),
            .address = (uint64_t)sqlite3_column_int64(statement, 2),
            .module = sqlite3_column_int64(statement, 3),
        };
        et_segment_add_span(out, &span);
    }
    return got;
}

static int load_nodes(struct et_store *store, uint64_t segment, struct et_segment *out)
{
    sqlite3_stmt *statement =
        et_store_bind(store, "SELECT nodes FROM chunk WHERE segment = ? ORDER BY sequence", "u", segment);
    int got;
    while ((got = et_store_step(store, statement)) == 1) {
        const uint8_t *at = sqlite3_column_blob(statement, 0);
        const uint8_t *end = at ? at + sqlite3_column_bytes(statement, 0) : NULL;
        uint64_t node, depth;
        while (at && et_varint_get(&at, end, &node) && et_varint_get(&at, end, &depth)) {
            et_segment_add_node(out, (uint32_t)depth, (int64_t)node);
        }
    }
    return got;
}

static const char LABELSET_GET[] =
    "SELECT s.number, ifnull(l.lines, ''), s.labels FROM labelset s LEFT JOIN labels l ON l.id = s.labels"
    " WHERE s.segment = ?";

static int load_labels(struct et_store *store, uint64_t segment, struct et_segment *out)
{
    sqlite3_stmt *statement = et_store_bind(store, LABELSET_GET, "u", segment);
    int got;
    while ((got = et_store_step(store, statement)) == 1) {
        et_segment_add_labels(out, (uint32_t)sqlite3_column_int64(statement, 0), et_column_text(statement, 1),
                              sqlite3_column_int64(statement, 2));
    }
    return got;
}

static int load_dictionary(struct et_store *store, uint64_t segment, struct et_segment *out)
{
    et_segment_init(out);
    int err = load_spans(store, segment, out);
    err = err ? err : load_nodes(store, segment, out);
    return err ? err : load_labels(store, segment, out);
}

struct et_segment *et_store_segment_open(struct et_store *store, uint64_t segment, uint32_t sequence)
{
    struct et_cached *cached = find_cached(store, segment);
    if (cached && cached->sequence != sequence) { /* another process stored the messages in between */
        drop_cached(store, cached);
        cached = NULL;
    }
    if (!cached) {
        shrink_cache(store);
        cached = add_cached(store, segment);
        if (load_dictionary(store, segment, &cached->segment)) {
            drop_cached(store, cached);
            return NULL;
        }
    }
    cached->sequence = sequence;
    cached->part = store->part;
    cached->used = ++store->cache.clock;
    return &cached->segment;
}

static int add_nodes(struct et_store *store, uint64_t segment, uint32_t sequence, const struct et_segment *now,
                     size_t first_node)
{
    struct et_buf blob = {0};
    for (size_t i = first_node; i < now->node_count; i++) {
        et_varint_put(&blob, (uint64_t)now->nodes[i]);
        et_varint_put(&blob, now->depths[i]);
    }
    int err = et_store_run(store, "INSERT INTO chunk (segment, sequence, nodes) VALUES (?, ?, ?)", "uib", segment,
                           (int64_t)sequence, (const void *)blob.data, blob.size);
    et_buf_free(&blob);
    return err ? err : et_collect_use(store, &now->nodes[first_node], now->node_count - first_node);
}

int et_store_segment_add(struct et_store *store, uint64_t segment, uint32_t sequence, const struct et_segment *now,
                         struct et_segment_mark before)
{
    int err = 0;
    for (size_t i = before.spans; i < now->span_count && !err; i++) {
        const struct et_span *span = &now->spans[i];
        err = et_store_run(
            store, "INSERT INTO span (segment, number, base, size, address, module) VALUES (?, ?, ?, ?, ?, ?)",
            "uiiiui", segment, (int64_t)i, (int64_t)span->base, (int64_t)span->size, span->address, span->module);
    }
    for (size_t i = before.labels; i < now->label_count && !err; i++) {
        err = et_store_run(store, "INSERT INTO labelset (segment, number, labels) VALUES (?, ?, ?)", "uii", segment,
                           (int64_t)now->labels[i].id, now->labels[i].name);
    }
    return err || before.nodes == now->node_count ? err : add_nodes(store, segment, sequence, now, before.nodes);
}

int et_store_segment_drop(struct et_store *store, uint64_t segment)
{
    struct et_cached *cached = find_cached(store, segment);
    if (cached) {
        drop_cached(store, cached);
    }
    static const char *const drops[] = {"DELETE FROM span WHERE segment = ?", "DELETE FROM chunk WHERE segment = ?",
                                        "DELETE FROM labelset WHERE segment = ?"};
    int err = 0;
    for (size_t i = 0; i < sizeof drops / sizeof *drops && !err; i++) {
        err = et_store_run(store, drops[i], "u", segment);
    }
    return err;
}
