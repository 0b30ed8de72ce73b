/* See known.h. Entries are in the order in which they came, so a rollback removes the last ones. */
#include "tools/store/known.h"
#include "tools/lib/hash.h"

#include <stdlib.h>
#include <string.h>

struct et_known_entry {
    int64_t id;
    union {
        struct {
            int64_t first, second;
        } pair;
        struct {
            uint64_t hash;
            size_t at;
        } text; /* bytes at `at` in the half's texts */
    } key;
    uint32_t size; /* of the text; PAIR: a pair */
};

enum { FIRST_SLOTS = 1024 };
#define PAIR UINT32_MAX

static size_t half_bytes(const struct et_known_half *half)
{
    return half->capacity * sizeof *half->entries + half->slot_count * sizeof *half->slots + half->texts.capacity;
}

static void free_half(struct et_known_half *half)
{
    free(half->entries);
    free(half->slots);
    et_buf_free(&half->texts);
    *half = (struct et_known_half){0};
}

void et_known_clear(struct et_known *known)
{
    free_half(&known->half[0]);
    free_half(&known->half[1]);
    *known = (struct et_known){.version = known->version};
}

/* ---- hash table ---- */

static uint64_t hash_name(const struct et_known_name *name)
{
    return name->bytes ? et_hash_bytes(name->bytes, name->size)
                       : et_hash_pair((uint64_t)name->first, (uint64_t)name->second);
}

static uint64_t hash_entry(const struct et_known_entry *entry)
{
    return entry->size == PAIR ? et_hash_pair((uint64_t)entry->key.pair.first, (uint64_t)entry->key.pair.second)
                               : entry->key.text.hash;
}

static uint32_t upper_half(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

static bool is_name(const struct et_known_half *half, const struct et_known_entry *entry,
                    const struct et_known_name *name)
{
    if (!name->bytes) {
        return entry->size == PAIR && entry->key.pair.second == name->second && entry->key.pair.first == name->first;
    }
    return entry->size == name->size && memcmp(half->texts.data + entry->key.text.at, name->bytes, name->size) == 0;
}

/* The entry of the name; NULL: it has none. */
static struct et_known_entry *find_entry(const struct et_known_half *half, const struct et_known_name *name,
                                         uint64_t hash)
{
    size_t mask = half->slot_count - 1;
    for (size_t i = (size_t)hash & mask; half->slot_count && half->slots[i].number; i = (i + 1) & mask) {
        struct et_known_entry *entry = &half->entries[half->slots[i].number - 1];
        if (half->slots[i].upper == upper_half(hash) && is_name(half, entry, name)) {
            return entry;
        }
    }
    return NULL;
}

static void place_entry(struct et_known_half *half, size_t number)
{
    uint64_t hash = hash_entry(&half->entries[number]);
    size_t mask = half->slot_count - 1, i = (size_t)hash & mask;
    while (half->slots[i].number) {
        i = (i + 1) & mask;
    }
    half->slots[i] = (struct et_known_slot){.number = (uint32_t)number + 1, .upper = upper_half(hash)};
}

static void grow_slots(struct et_known_half *half)
{
    free(half->slots);
    half->slot_count = half->slot_count ? half->slot_count * 2 : FIRST_SLOTS;
    half->slots = et_alloc(half->slot_count, sizeof *half->slots);
    for (size_t i = 0; i < half->count; i++) {
        place_entry(half, i);
    }
}

/* Removes the last entry. Moves later slots of the same run forward, so that no search ends too early. */
static void remove_last(struct et_known_half *half)
{
    size_t mask = half->slot_count - 1, hole = (size_t)hash_entry(&half->entries[half->count - 1]) & mask;
    while (half->slots[hole].number != half->count) {
        hole = (hole + 1) & mask;
    }
    for (size_t i = (hole + 1) & mask; half->slots[i].number; i = (i + 1) & mask) {
        size_t home = (size_t)hash_entry(&half->entries[half->slots[i].number - 1]) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            half->slots[hole] = half->slots[i];
            hole = i;
        }
    }
    half->slots[hole] = (struct et_known_slot){0};
    half->count--;
}

/* ---- names ---- */

static void add_entry(struct et_known *known, const struct et_known_name *name, uint64_t hash, int64_t id)
{
    struct et_known_half *half = &known->half[0];
    /* what doubles when it is full is counted before it does */
    size_t grown = half_bytes(half) + (half->count == half->capacity ? half->capacity * sizeof *half->entries : 0) +
                   (half->count * 2 >= half->slot_count ? half->slot_count * sizeof *half->slots : 0) +
                   (half->texts.size + name->size >= half->texts.capacity ? half->texts.capacity + name->size : 0);
    if (grown > ET_KNOWN_BYTES / 2 || name->size >= PAIR) {
        return;
    }
    if (half->count * 2 >= half->slot_count) {
        grow_slots(half);
    }
    half->entries = et_reserve(half->entries, &half->capacity, half->count + 1, sizeof *half->entries);
    struct et_known_entry *entry = &half->entries[half->count];
    entry->id = id;
    if (name->bytes) {
        entry->size = (uint32_t)name->size;
        entry->key.text.hash = hash;
        entry->key.text.at = half->texts.size;
        et_buf_add(&half->texts, name->bytes, name->size);
    } else {
        entry->size = PAIR;
        entry->key.pair.first = name->first;
        entry->key.pair.second = name->second;
    }
    place_entry(half, half->count++);
}

static int64_t take_found(struct et_known_half *half, const struct et_known_entry *entry)
{
    half->next = (size_t)(entry - half->entries) + 1;
    return entry->id;
}

static bool is_next(const struct et_known_half *half, const struct et_known_name *name)
{
    return half->next < half->count && is_name(half, &half->entries[half->next], name);
}

int64_t et_known_find(struct et_known *known, const struct et_known_name *name)
{
    struct et_known_half *half = known->half;
    if (is_next(&half[0], name)) {
        return half[0].entries[half[0].next++].id;
    }
    uint64_t hash = hash_name(name);
    const struct et_known_entry *entry = find_entry(&half[0], name, hash);
    if (entry) {
        return take_found(&half[0], entry);
    }
    entry = is_next(&half[1], name) ? &half[1].entries[half[1].next] : find_entry(&half[1], name, hash);
    if (!entry) {
        return 0;
    }
    add_entry(known, name, hash, entry->id);
    return take_found(&half[1], entry);
}

void et_known_note(struct et_known *known, const struct et_known_name *name, int64_t id)
{
    add_entry(known, name, hash_name(name), id);
}

/* ---- transactions ---- */

void et_known_begin(struct et_known *known, int64_t version)
{
    struct et_known_half *half = known->half;
    if (version != known->version) {
        et_known_clear(known);
        known->version = version;
    }
    /* as it doubles, it is full when it has half of its bytes */
    if (half_bytes(&half[0]) > ET_KNOWN_BYTES / 4) {
        free_half(&half[1]);
        half[1] = half[0];
        half[0] = (struct et_known_half){0};
    }
    known->group = half[0].count;
    known->group_text = half[0].texts.size;
    et_known_begin_part(known);
}

void et_known_begin_part(struct et_known *known)
{
    known->part = known->half[0].count;
    known->text = known->half[0].texts.size;
}

void et_known_undo(struct et_known *known, bool all)
{
    struct et_known_half *half = &known->half[0];
    while (half->count > (all ? known->group : known->part)) {
        remove_last(half);
    }
    half->texts.size = all ? known->group_text : known->text;
}
