/* See util.h: maps of numbers and interned strings. */
#include "tools/lib/hash.h"
#include "tools/lib/util.h"

#include <stdlib.h>
#include <string.h>

/* ---- map ---- */

static struct et_map_entry *map_slot(const struct et_map *map, uint64_t key)
{
    size_t i = (size_t)et_hash_number(key) & (map->capacity - 1);
    while (map->entries[i].used && map->entries[i].key != key) {
        i = (i + 1) & (map->capacity - 1);
    }
    return &map->entries[i];
}

static void map_grow(struct et_map *map)
{
    struct et_map bigger = {.capacity = map->capacity ? map->capacity * 2 : 64, .count = map->count};
    bigger.entries = et_alloc(bigger.capacity, sizeof *bigger.entries);
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->entries[i].used) {
            *map_slot(&bigger, map->entries[i].key) = map->entries[i];
        }
    }
    free(map->entries);
    *map = bigger;
}

uint64_t *et_map_at(struct et_map *map, uint64_t key)
{
    if (map->count * 2 >= map->capacity) {
        map_grow(map);
    }
    struct et_map_entry *entry = map_slot(map, key);
    if (!entry->used) {
        entry->used = true;
        entry->key = key;
        map->count++;
    }
    return &entry->value;
}

uint64_t *et_map_find(const struct et_map *map, uint64_t key)
{
    if (map->capacity == 0) {
        return NULL;
    }
    struct et_map_entry *entry = map_slot(map, key);
    return entry->used ? &entry->value : NULL;
}

/* Moves later entries of the same run forward, so that no search ends too early. */
void et_map_remove(struct et_map *map, uint64_t key)
{
    struct et_map_entry *entry = map->capacity ? map_slot(map, key) : NULL;
    if (!entry || !entry->used) {
        return;
    }
    size_t mask = map->capacity - 1, hole = (size_t)(entry - map->entries);
    for (size_t i = (hole + 1) & mask; map->entries[i].used; i = (i + 1) & mask) {
        size_t home = (size_t)et_hash_number(map->entries[i].key) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->entries[hole] = map->entries[i];
            hole = i;
        }
    }
    map->entries[hole] = (struct et_map_entry){0};
    map->count--;
}

void et_map_free(struct et_map *map)
{
    free(map->entries);
    *map = (struct et_map){0};
}

/* ---- strings ---- */

/* Slots hold number + 1, so that zeroed memory is empty. */
static uint32_t *string_slot(const struct et_strings *strings, const char *text, uint32_t hash)
{
    size_t i = hash & (strings->slot_count - 1);
    while (strings->slots[i] && (strings->hashes[strings->slots[i] - 1] != hash ||
                                 strcmp(strings->text[strings->slots[i] - 1], text) != 0)) {
        i = (i + 1) & (strings->slot_count - 1);
    }
    return &strings->slots[i];
}

/* Texts differ, so a free slot is enough. */
static void strings_slots(struct et_strings *strings, size_t slot_count)
{
    free(strings->slots);
    strings->slot_count = slot_count;
    strings->slots = et_alloc(strings->slot_count, sizeof *strings->slots);
    for (size_t number = 0; number < strings->count; number++) {
        size_t i = strings->hashes[number] & (strings->slot_count - 1);
        while (strings->slots[i]) {
            i = (i + 1) & (strings->slot_count - 1);
        }
        strings->slots[i] = (uint32_t)number + 1;
    }
}

static uint32_t string_add(struct et_strings *strings, const char *text)
{
    if (strings->count * 2 >= strings->slot_count) {
        strings_slots(strings, strings->slot_count ? strings->slot_count * 2 : 128);
    }
    size_t size = strlen(text);
    uint32_t hash = (uint32_t)et_hash_bytes(text, size), *slot = string_slot(strings, text, hash);
    if (*slot == 0) {
        char *copy = et_alloc(1, size + 1);
        strings->text = et_reserve(strings->text, &strings->capacity, strings->count + 1, sizeof *strings->text);
        strings->hashes =
            et_reserve(strings->hashes, &strings->hash_capacity, strings->count + 1, sizeof *strings->hashes);
        strings->hashes[strings->count] = hash;
        strings->text[strings->count++] = memcpy(copy, text, size + 1);
        *slot = (uint32_t)strings->count;
        strings->bytes += size + 1;
    }
    return *slot - 1;
}

uint32_t et_intern(struct et_strings *strings, const char *text)
{
    if (strings->count == 0) {
        string_add(strings, "");
    }
    return string_add(strings, text);
}

bool et_known(const struct et_strings *strings, const char *text)
{
    return strings->count > 0 && *string_slot(strings, text, (uint32_t)et_hash_bytes(text, strlen(text))) != 0;
}

const char *et_text(const struct et_strings *strings, uint32_t number)
{
    return number < strings->count ? strings->text[number] : "";
}

size_t et_strings_memory(const struct et_strings *strings)
{
    enum { PER_TEXT = 16 }; /* malloc's */
    return strings->bytes + strings->count * PER_TEXT + strings->capacity * sizeof *strings->text +
           strings->hash_capacity * sizeof *strings->hashes + strings->slot_count * sizeof *strings->slots;
}

void et_strings_trim(struct et_strings *strings)
{
    size_t slots = 1;
    while (slots <= strings->count * 2) {
        slots *= 2;
    }
    if (slots < strings->slot_count) {
        strings_slots(strings, slots);
    }
    strings->text = et_trim(strings->text, &strings->capacity, strings->count, sizeof *strings->text);
    strings->hashes = et_trim(strings->hashes, &strings->hash_capacity, strings->count, sizeof *strings->hashes);
}

void et_strings_free(struct et_strings *strings)
{
    for (size_t i = 0; i < strings->count; i++) {
        free(strings->text[i]);
    }
    free(strings->text);
    free(strings->hashes);
    free(strings->slots);
    *strings = (struct et_strings){0};
}
