/* See line_sums.h. */
#include "tools/profile/line_sums.h"

#include <stdlib.h>

void et_line_sums_add(struct et_line_sums *sums, const struct et_line_sum *more)
{
    uint64_t *place = et_map_at(&sums->places, (uint64_t)more->file << 32 | more->line);
    *place = *place ? *place : sums->places.count;
    uint64_t *known = et_map_at(&sums->index, (uint64_t)more->owner << 32 | *place);
    if (!*known) {
        sums->sums = et_reserve(sums->sums, &sums->capacity, sums->count + 1, sizeof *sums->sums);
        sums->sums[sums->count] = (struct et_line_sum){.owner = more->owner, .file = more->file, .line = more->line};
        *known = ++sums->count;
    }
    sums->sums[*known - 1].self += more->self;
    sums->sums[*known - 1].total += more->total;
}

bool et_line_is_hotter(const struct et_line_sum *a, const struct et_line_sum *b)
{
    if ((a->line == 0) != (b->line == 0)) {
        return a->line != 0;
    }
    if (a->total != b->total) {
        return a->total > b->total;
    }
    if (a->self != b->self) {
        return a->self > b->self;
    }
    return a->line != b->line ? a->line < b->line : a->file < b->file;
}

static int compare_sums(const void *a, const void *b)
{
    const struct et_line_sum *x = a, *y = b;
    if (x->owner != y->owner) {
        return x->owner < y->owner ? -1 : 1;
    }
    return et_line_is_hotter(x, y) ? -1 : et_line_is_hotter(y, x);
}

void et_line_sums_sort(struct et_line_sums *sums)
{
    if (sums->count) {
        qsort(sums->sums, sums->count, sizeof *sums->sums, compare_sums);
    }
}

void et_line_sums_free(struct et_line_sums *sums)
{
    free(sums->sums);
    et_map_free(&sums->places);
    et_map_free(&sums->index);
    *sums = (struct et_line_sums){0};
}
