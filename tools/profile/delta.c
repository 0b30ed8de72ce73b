/*
 * See delta.h.
 *
 * A stack's key is its frame's text and its parent's key, interned, so that both profiles have the same keys in any
 * order. For each entry of the later profile, the sum of (key, labels) in the earlier one is looked up.
 */
#include "tools/profile/delta.h"

#include <stdlib.h>

struct stack_sum {
    uint64_t value, count, now_value, now_count;
};

struct delta_sums {
    struct et_strings keys; /* stacks, and pairs of stack and labels */
    struct stack_sum *items;
    size_t count, capacity;
};

/* Makes each node's key. Parents precede their children. */
static uint32_t *make_stack_keys(struct delta_sums *sums, const struct et_profile *p)
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

static struct stack_sum *find_stack_sum(struct delta_sums *sums, const struct et_profile *p, const uint32_t *keys,
                                        const struct et_entry *entry)
{
    struct et_buf text = {0};
    et_buf_printf(&text, "=%u\n%s", keys[entry->node], et_text(&p->strings, entry->labels));
    uint32_t key = et_intern(&sums->keys, text.data);
    et_buf_free(&text);
    sums->items = et_reserve(sums->items, &sums->capacity, (size_t)key + 1, sizeof *sums->items);
    return &sums->items[key];
}

static bool has_fallen(uint64_t before, uint64_t now)
{
    return now < before && before - now > before / 100;
}

static uint64_t subtract_before(uint64_t before, uint64_t now)
{
    return now > before ? now - before : 0;
}

/* Whether any stack has less than before, or is missing. */
static bool any_has_fallen(const struct delta_sums *sums, const struct et_profile *before, const struct et_profile *now)
{
    bool found = has_fallen(before->values, now->values) || has_fallen(before->counts, now->counts);
    for (size_t i = 0; i < sums->capacity && !found; i++) {
        const struct stack_sum *sum = &sums->items[i];
        found = has_fallen(sum->value, sum->now_value) || has_fallen(sum->count, sum->now_count);
    }
    return found;
}

/* Subtracts the earlier values from the entries, and removes entries that become zero. */
static void subtract_entries(struct delta_sums *sums, struct et_profile *p, const uint32_t *keys)
{
    size_t kept = 0;
    p->values = p->counts = 0;
    for (size_t i = 0; i < p->entry_count; i++) {
        struct et_entry entry = p->entries[i];
        struct stack_sum *sum = find_stack_sum(sums, p, keys, &entry);
        entry.value = subtract_before(sum->value, sum->now_value);
        entry.count = subtract_before(sum->count, sum->now_count);
        *sum = (struct stack_sum){0}; /* the first of several equal entries receives the whole difference */
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
    struct delta_sums sums = {0};
    et_intern(&sums.keys, "");
    uint32_t *then_keys = make_stack_keys(&sums, before), *now_keys = make_stack_keys(&sums, now);
    for (size_t i = 0; i < before->entry_count; i++) {
        struct stack_sum *sum = find_stack_sum(&sums, before, then_keys, &before->entries[i]);
        sum->value += before->entries[i].value;
        sum->count += before->entries[i].count;
    }
    for (size_t i = 0; i < now->entry_count; i++) {
        struct stack_sum *sum = find_stack_sum(&sums, now, now_keys, &now->entries[i]);
        sum->now_value += now->entries[i].value;
        sum->now_count += now->entries[i].count;
    }
    bool same = !any_has_fallen(&sums, before, now);
    if (same) {
        subtract_entries(&sums, now, now_keys);
    }
    free(then_keys);
    free(now_keys);
    free(sums.items);
    et_strings_free(&sums.keys);
    return same;
}
