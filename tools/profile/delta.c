/*
 * See delta.h.
 *
 * A stack's key is its frame's text and its parent's key, interned; so that both profiles agree on it whatever order
 * they are in. Sums of (key, labels) before are looked up for each entry now.
 */
#include "tools/profile/delta.h"

#include <stdlib.h>

struct sum {
    uint64_t value, count, now_value, now_count;
};

struct sums {
    struct et_strings keys; /* stacks, and pairs of stack and labels */
    struct sum *items;
    size_t count, capacity;
};

/* Each node's key. Parents come before their children. */
static uint32_t *keys_of(struct sums *sums, const struct et_profile *p)
{
    uint32_t *keys = et_alloc(p->node_count, sizeof *keys);
    struct et_buf text = {0};
    for (size_t i = 1; i < p->node_count; i++) {
        const struct et_frame *frame = &p->frames[p->nodes[i].frame];
        const struct et_module *module = frame->module ? &p->modules[frame->module - 1] : NULL;
        text.size = 0;
        et_buf_printf(&text, "%u\n%s\n%s\n%llx\n%s\n%s\n%u", keys[p->nodes[i].parent],
                      module ? et_text(&p->strings, module->build_id) : "",
                      module ? et_text(&p->strings, module->path) : "", (unsigned long long)frame->address,
                      et_text(&p->strings, frame->name), et_text(&p->strings, frame->file), frame->line);
        keys[i] = et_intern(&sums->keys, text.data);
    }
    et_buf_free(&text);
    return keys;
}

static struct sum *sum_of(struct sums *sums, const struct et_profile *p, const uint32_t *keys,
                          const struct et_entry *entry)
{
    struct et_buf text = {0};
    et_buf_printf(&text, "=%u\n%s", keys[entry->node], et_text(&p->strings, entry->labels));
    uint32_t key = et_intern(&sums->keys, text.data);
    et_buf_free(&text);
    sums->items = et_reserve(sums->items, &sums->capacity, (size_t)key + 1, sizeof *sums->items);
    return &sums->items[key];
}

static bool fell(uint64_t before, uint64_t now)
{
    return now < before && before - now > before / 100;
}

static uint64_t growth(uint64_t before, uint64_t now)
{
    return now > before ? now - before : 0;
}

/* Whether some stack has less than before, or is gone. */
static bool any_fell(const struct sums *sums, const struct et_profile *before, const struct et_profile *now)
{
    bool found = fell(before->values, now->values) || fell(before->counts, now->counts);
    for (size_t i = 0; i < sums->capacity && !found; i++) {
        const struct sum *sum = &sums->items[i];
        found = fell(sum->value, sum->now_value) || fell(sum->count, sum->now_count);
    }
    return found;
}

/* Entries without what was there before; those that have nothing left go. */
static void take_off(struct sums *sums, struct et_profile *p, const uint32_t *keys)
{
    size_t kept = 0;
    p->values = p->counts = 0;
    for (size_t i = 0; i < p->entry_count; i++) {
        struct et_entry entry = p->entries[i];
        struct sum *sum = sum_of(sums, p, keys, &entry);
        entry.value = growth(sum->value, sum->now_value);
        entry.count = growth(sum->count, sum->now_count);
        *sum = (struct sum){0}; /* one entry has it all when there are several */
        if (entry.value || entry.count) {
            p->entries[kept++] = entry;
            p->values += entry.value;
            p->counts += entry.count;
        }
    }
    p->entry_count = kept;
    et_profile_show(p, ET_MEASURE_DEFAULT);
}

bool et_delta(const struct et_profile *before, struct et_profile *now)
{
    struct sums sums = {0};
    et_intern(&sums.keys, "");
    uint32_t *then_keys = keys_of(&sums, before), *now_keys = keys_of(&sums, now);
    for (size_t i = 0; i < before->entry_count; i++) {
        struct sum *sum = sum_of(&sums, before, then_keys, &before->entries[i]);
        sum->value += before->entries[i].value;
        sum->count += before->entries[i].count;
    }
    for (size_t i = 0; i < now->entry_count; i++) {
        struct sum *sum = sum_of(&sums, now, now_keys, &now->entries[i]);
        sum->now_value += now->entries[i].value;
        sum->now_count += now->entries[i].count;
    }
    bool same = !any_fell(&sums, before, now);
    if (same) {
        take_off(&sums, now, now_keys);
    }
    free(then_keys);
    free(now_keys);
    free(sums.items);
    et_strings_free(&sums.keys);
    return same;
}
