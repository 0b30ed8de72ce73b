/* See store_sums.h. This adds each stack of each row of a query, so it is where most time of a query goes. */
#include "tools/store/store_sums.h"
#include "tools/lib/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sums of nodes below DIRECT_NODES are in pages of PAGE_NODES indexed by node id, up to DIRECT_MOST bytes. Stored
 * blocks are sorted by node id, too. */
enum { DIRECT_NODES = 1 << 19, PAGE_NODES = 512, PAGES = DIRECT_NODES / PAGE_NODES, DIRECT_MOST = 64 << 20 };

static uint32_t add_sum(struct profile_loader *s, uint64_t node, const struct label_group *pair)
{
    s->sums = et_reserve(s->sums, &s->capacity, s->count + 1, sizeof *s->sums);
    s->sums[s->count] = (struct et_sum){.node = node, .labels = pair->labels, .group = pair->group};
    return (uint32_t)++s->count;
}

/* The slot of the sum, or the free one for it. */
static uint32_t *find_slot(const struct profile_loader *s, uint64_t node, uint32_t labels, uint32_t group)
{
    size_t mask = s->slot_count - 1, i = (size_t)et_hash_pair(node, (uint64_t)labels << 32 | group) & mask;
    while (s->slots[i]) {
        const struct et_sum *sum = &s->sums[s->slots[i] - 1];
        if (sum->node == node && sum->labels == labels && sum->group == group) {
            break;
        }
        i = (i + 1) & mask;
    }
    return &s->slots[i];
}

static void grow_slots(struct profile_loader *s)
{
    free(s->slots);
    s->slot_count = s->slot_count ? s->slot_count * 2 : 128;
    s->slots = et_alloc(s->slot_count, sizeof *s->slots);
    for (size_t i = 0; i < s->count; i++) {
        *find_slot(s, s->sums[i].node, s->sums[i].labels, s->sums[i].group) = (uint32_t)i + 1;
    }
}

static struct et_sum *find_sum(struct profile_loader *s, uint64_t node, const struct label_group *pair)
{
    if (s->count * 2 >= s->slot_count) {
        grow_slots(s);
    }
    uint32_t *slot = find_slot(s, node, pair->labels, pair->group);
    *slot = *slot ? *slot : add_sum(s, node, pair);
    return &s->sums[*slot - 1];
}

/* The page of a pair with this node; NULL: its sums are not in pages. */
static struct sum_pair *find_page(struct profile_loader *s, struct label_group *pair, uint64_t node)
{
    enum { TABLE_BYTES = PAGES * sizeof(struct sum_pair *), PAGE_BYTES = PAGE_NODES * sizeof(struct sum_pair) };
    if (node >= DIRECT_NODES) {
        return NULL;
    }
    if (!pair->pages && s->direct_bytes + TABLE_BYTES <= DIRECT_MOST) {
        pair->pages = et_alloc(PAGES, sizeof *pair->pages);
        s->direct_bytes += TABLE_BYTES;
    }
    struct sum_pair **page = pair->pages ? &pair->pages[node / PAGE_NODES] : NULL;
    if (page && !*page && s->direct_bytes + PAGE_BYTES <= DIRECT_MOST) {
        *page = et_alloc(PAGE_NODES, sizeof **page);
        s->direct_bytes += PAGE_BYTES;
    }
    return page ? *page : NULL;
}

static inline void add_sums(struct profile_loader *s, uint64_t node, uint32_t number, struct sum_pair figures)
{
    struct label_group *pair = &s->pairs[number];
    if (s->one_row) {
        uint32_t sum = add_sum(s, node, pair) - 1;
        s->sums[sum].value = figures.value;
        s->sums[sum].count = figures.count;
        return;
    }
    struct sum_pair *page = pair->pages && node < DIRECT_NODES ? pair->pages[node / PAGE_NODES] : NULL;
    page = page ? page : find_page(s, pair, node);
    if (page) {
        page[node % PAGE_NODES].value += figures.value;
        page[node % PAGE_NODES].count += figures.count;
        return;
    }
    struct et_sum *sum = find_sum(s, node, pair);
    sum->value += figures.value;
    sum->count += figures.count;
}

/* Moves the sums of a page to the other sums. */
static void collect_page(struct profile_loader *s, const struct label_group *pair, size_t number)
{
    for (size_t i = 0; i < PAGE_NODES; i++) {
        const struct sum_pair *figures = &pair->pages[number][i];
        if (figures->value || figures->count) {
            uint32_t sum = add_sum(s, number * PAGE_NODES + i, pair) - 1;
            s->sums[sum].value = figures->value;
            s->sums[sum].count = figures->count;
        }
    }
}

void et_sums_collect_pages(struct profile_loader *s)
{
    for (size_t i = 0; i < s->pair_count; i++) {
        const struct label_group *pair = &s->pairs[i];
        for (size_t number = 0; pair->pages && number < PAGES; number++) {
            if (pair->pages[number]) {
                collect_page(s, pair, number);
            }
        }
    }
}

static void free_pages(struct label_group *pair)
{
    for (size_t i = 0; pair->pages && i < PAGES; i++) {
        free(pair->pages[i]);
    }
    free(pair->pages);
}

void et_sums_remove_zeros(struct profile_loader *s)
{
    struct et_profile *p = s->profile;
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->sums[i].value || s->sums[i].count) {
            s->sums[kept++] = s->sums[i];
        }
    }
    s->count = kept;
    kept = 0;
    for (size_t i = 0; i < p->label_count; i++) {
        if (p->label_sums[i].value || p->label_sums[i].count) {
            p->label_sums[kept++] = p->label_sums[i];
        }
    }
    p->label_count = kept;
}

/* Properties of a row that its stacks share. */
struct row_reader {
    const struct et_row *row;
    bool cpu, counted;
    bool whole; /* each value equals its count times the period: saves a division per stack */
};

static inline uint64_t stack_count(const struct row_reader *reading, const struct et_packed *stack, uint64_t value)
{
    if (reading->whole && stack->value <= UINT32_MAX) {
        return stack->value;
    }
    const struct et_row *row = reading->row;
    return reading->counted ? et_packed_count(reading->cpu, row->columns, value, stack->count, row->period) : 0;
}

/* Returns what follows, NULL: malformed. */
static const uint8_t *long_number(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    return et_varint_get(&at, end, value) ? at : NULL;
}

static inline const uint8_t *next_number(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    if (end - at >= 2 && at[0] >= 0x80 && at[1] < 0x80) {
        *value = (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
        return at + 2;
    }
    if (at < end && *at < 0x80) {
        *value = *at;
        return at + 1;
    }
    return long_number(at, end, value);
}

/* Most rows have no labels and no counts of their own, so all stacks go to one pair. */
static int load_plain(struct profile_loader *s, const struct row_reader *reading, const struct et_stack_reader *blob)
{
    const struct et_row *row = reading->row;
    const struct query_label_set *seen = &s->seen[s->label_sets[0]];
    struct label_group *pair = &s->pairs[seen->pair];
    struct sum_pair all = {0}, *page = NULL;
    struct et_packed stack = {0};
    const uint8_t *nodes = blob->at[0], *values = blob->at[1];
    const uint64_t sign = row->use == ET_USE_MINUS ? UINT64_MAX : 1; /* modulo 2^64, as all sums */
    uint64_t step, now = UINT64_MAX;
    while (nodes != blob->end[0]) {
        nodes = next_number(nodes, blob->end[0], &step);
        values = nodes ? next_number(values, blob->end[1], &stack.value) : NULL;
        if (!values) {
            return -EIO;
        }
        stack.node += step >> 1 ^ (0 - (step & 1));
        uint64_t value = stack.value * row->quantum, count = stack_count(reading, &stack, value);
        struct sum_pair figures = {value * sign, count * sign};
        all.value += figures.value;
        all.count += figures.count;
        if (!seen->wanted) {
            continue;
        }
        if (stack.node / PAGE_NODES != now) {
            now = stack.node / PAGE_NODES;
            page = find_page(s, pair, stack.node);
        }
        if (page) {
            page[stack.node % PAGE_NODES].value += figures.value;
            page[stack.node % PAGE_NODES].count += figures.count;
        } else {
            add_sums(s, stack.node, seen->pair, figures);
        }
    }
    s->profile->label_sums[seen->sum].value += all.value;
    s->profile->label_sums[seen->sum].count += all.count;
    s->left_out.value += seen->wanted ? 0 : all.value;
    s->left_out.count += seen->wanted ? 0 : all.count;
    s->row_sum = (struct sum_pair){all.value * sign, all.count * sign};
    return values == blob->end[1] ? et_row_sum_check(row, s->row_sum.value) : -EIO;
}

int et_sums_add(struct profile_loader *s, const struct et_row *row, struct et_blob stacks)
{
    struct row_reader reading = {.row = row, .counted = !s->kind || s->kind->counts[0]};
    reading.cpu = s->kind && strcmp(s->kind->name, ET_CPU) == 0;
    reading.whole = reading.cpu && !(row->columns & ET_COLUMN_COUNT) && row->quantum == row->period && row->period &&
                    row->period <= INT32_MAX;
    struct et_stack_reader blob;
    struct et_packed stack;
    s->row_sum = (struct sum_pair){0};
    int got = et_stacks_read(&blob, &s->inflated, row->packing, row->columns, stacks.bytes, stacks.size);
    if (got == 0 && row->columns == ET_COLUMN_VALUE && !s->one_row && blob.at[2] == blob.end[3]) {
        return load_plain(s, &reading, &blob);
    }
    while (got >= 0 && (got = et_stack_next(&blob, &stack)) == 1) {
        const struct query_label_set *seen =
            &s->seen[s->label_sets[stack.label_set < s->label_set_count ? stack.label_set : 0]];
        uint64_t value = stack.value * row->quantum, count = stack_count(&reading, &stack, value);
        struct et_entry *all = &s->profile->label_sums[seen->sum];
        s->row_sum.value += value;
        s->row_sum.count += count;
        if (row->use == ET_USE_MINUS) { /* modulo 2^64, as all sums */
            value = 0 - value;
            count = 0 - count;
        }
        all->value += value;
        all->count += count;
        if (seen->wanted) {
            add_sums(s, stack.node, seen->pair, (struct sum_pair){value, count});
        } else {
            s->left_out.value += value;
            s->left_out.count += count;
        }
    }
    return got ? got : et_row_sum_check(row, s->row_sum.value);
}

void et_sums_free(struct profile_loader *s)
{
    for (size_t i = 0; i < s->pair_count; i++) {
        free_pages(&s->pairs[i]);
    }
    free(s->pairs);
    free(s->sums);
    free(s->slots);
}
