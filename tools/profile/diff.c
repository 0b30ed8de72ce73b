/*
 * See diff.h. et_diff_make() merges both trees into one, parents first, prunes it, links the children, and sums
 * functions.
 *
 * The interval of a difference of shares is Newcombe's, from the Wilson interval of each share: it holds for few
 * samples and for shares near 0, where most functions are. The interval of a ratio of totals is that of two Poisson
 * counts.
 */
#include "tools/profile/diff.h"
#include "tools/lib/kinds.h"
#include "tools/profile/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double CONFIDENCE = 0.95;

/* ---- samples ---- */

/* Kish's effective sample size: the number of equally weighted samples with the same variance. The samples of one entry
 * count as equally weighted. */
static double effective_samples(const struct et_profile *p)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < p->entry_count; i++) {
        const struct et_entry *entry = &p->entries[i];
        double value = (double)et_entry_shown(p, entry), count = (double)entry->count;
        if (entry->count == 0 && p->period) {
            count = (double)entry->value / (double)p->period;
        }
        if (strcmp(et_text(&p->strings, p->unit), "count") == 0) {
            count = value;
        }
        sum += value;
        squares += value * value / (count > 0 ? count : 1);
    }
    return squares > 0 ? sum * sum / squares : 0;
}

/* The profile's number of captured samples is an upper bound. */
static double independent_samples(const struct et_profile *p)
{
    double samples = effective_samples(p);
    if (p->samples) {
        samples = fmin(samples, (double)p->samples);
    } else if (p->period > 1 && p->values) {
        samples = fmin(samples, (double)p->values / (double)p->period);
    }
    return samples;
}

/* ---- tree ---- */

struct diff_build {
    struct et_diff *diff;
    struct et_map children; /* parent << 32 | function -> call */
    struct et_map rows;     /* function -> row + 1 */
};

static uint32_t find_call(struct diff_build *b, uint32_t parent, uint32_t function)
{
    struct et_diff *diff = b->diff;
    uint64_t *known = et_map_at(&b->children, (uint64_t)parent << 32 | function);
    if (!*known) {
        diff->calls = et_reserve(diff->calls, &diff->capacity, diff->count + 1, sizeof *diff->calls);
        diff->calls[diff->count] = (struct et_diff_call){.parent = parent, .function = function};
        *known = diff->count++;
    }
    return (uint32_t)*known;
}

static struct et_diff_row *find_row(struct diff_build *b, uint32_t function)
{
    struct et_diff *diff = b->diff;
    uint64_t *known = et_map_at(&b->rows, function);
    if (!*known) {
        diff->rows = et_reserve(diff->rows, &diff->row_capacity, diff->row_count + 1, sizeof *diff->rows);
        diff->rows[diff->row_count].function = function;
        *known = ++diff->row_count;
    }
    return &diff->rows[*known - 1];
}

static void add_calls(struct diff_build *b, const struct et_profile *profile, enum et_side side)
{
    struct et_tree tree;
    et_tree_make(profile, SIZE_MAX, &tree);
    uint32_t *calls = et_alloc(tree.count, sizeof *calls);
    for (size_t i = 0; i < tree.count; i++) {
        const struct et_call *call = &tree.calls[i];
        if (i) {
            uint32_t function = et_intern(&b->diff->strings, et_text(&profile->strings, call->function));
            calls[i] = find_call(b, calls[call->parent], function);
        }
        b->diff->calls[calls[i]].self[side] += call->self;
        b->diff->calls[calls[i]].total[side] += call->total;
    }
    free(calls);
    et_tree_free(&tree);
}

static void add_rows(struct diff_build *b, const struct et_profile *profile, enum et_side side)
{
    struct et_strings *strings = &b->diff->strings;
    struct et_table table;
    et_table_make(profile, &table);
    for (size_t i = 0; i < table.count; i++) {
        const struct et_function *function = &table.rows[i];
        struct et_diff_row *row = find_row(b, et_intern(strings, et_text(&profile->strings, function->function)));
        row->file = et_intern(strings, et_text(&profile->strings, function->file));
        row->line = function->line;
        row->self[side] = function->self;
        row->total[side] = function->total;
    }
    et_table_free(&table);
}

static void add_side(struct diff_build *b, const struct et_profile *profile, enum et_side side)
{
    struct et_diff *diff = b->diff;
    const struct et_kind *kind = et_kind_named(et_text(&profile->strings, profile->kind));
    add_calls(b, profile, side);
    add_rows(b, profile, side);
    diff->total[side] = diff->calls[0].total[side];
    diff->samples[side] = independent_samples(profile);
    diff->seconds[side] = (double)(profile->end_ns - profile->start_ns) / 1e9;
    diff->level = kind && kind->level;
}

/* The larger of a call's two shares. */
static double weight_of(const struct et_diff *diff, const struct et_diff_call *call)
{
    return fmax(et_diff_share(diff, ET_LEFT, call->total[ET_LEFT]),
                et_diff_share(diff, ET_RIGHT, call->total[ET_RIGHT]));
}

static int by_share(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The smallest weight among the `shown` largest calls, 1 <= shown <= count. */
static double least_weight(const struct et_diff *diff, size_t shown)
{
    double *shares = et_alloc(diff->count, sizeof *shares);
    for (size_t i = 0; i < diff->count; i++) {
        shares[i] = weight_of(diff, &diff->calls[i]);
    }
    qsort(shares, diff->count, sizeof *shares, by_share);
    double least = shares[shown - 1];
    free(shares);
    return least;
}

/* Keeps calls above the threshold, and the first calls equal to it that fit. Parents precede their children and are
 * never smaller, so the result is a tree. */
static void prune_diff(struct et_diff *diff, size_t shown)
{
    if (diff->count <= shown) {
        return;
    }
    double least = least_weight(diff, shown);
    size_t above = 0, kept = 0;
    for (size_t i = 0; i < diff->count; i++) {
        above += weight_of(diff, &diff->calls[i]) > least;
    }
    size_t equal = shown - above;
    uint32_t *moved = et_alloc(diff->count, sizeof *moved);
    for (size_t i = 0; i < diff->count; i++) {
        struct et_diff_call call = diff->calls[i];
        double share = weight_of(diff, &call);
        bool fits = share > least || (share >= least && equal > 0);
        bool keep = fits && (i == 0 || moved[call.parent] != UINT32_MAX);
        equal -= keep && share <= least;
        moved[i] = keep ? (uint32_t)kept : UINT32_MAX;
        if (keep) {
            call.parent = moved[call.parent];
            diff->calls[kept++] = call;
        }
    }
    diff->pruned = diff->count - kept;
    diff->count = kept;
    free(moved);
}

static int compare_calls(const void *a, const void *b, void *context)
{
    const struct et_diff *diff = context;
    const struct et_diff_call *x = &diff->calls[*(const uint32_t *)a], *y = &diff->calls[*(const uint32_t *)b];
    double first = weight_of(diff, x), second = weight_of(diff, y);
    if (first < second || first > second) {
        return first < second ? 1 : -1;
    }
    return strcmp(et_text(&diff->strings, x->function), et_text(&diff->strings, y->function));
}

/* Links the smallest first, each at the front of its parent's list. */
static void link_diff_children(struct et_diff *diff)
{
    uint32_t *sorted = et_alloc(diff->count, sizeof *sorted);
    for (size_t i = 0; i < diff->count; i++) {
        sorted[i] = (uint32_t)i;
    }
    qsort_r(sorted, diff->count, sizeof *sorted, compare_calls, diff);
    for (size_t i = diff->count; i-- > 0;) {
        uint32_t own = sorted[i];
        if (own) {
            struct et_diff_call *parent = &diff->calls[diff->calls[own].parent];
            diff->calls[own].next = parent->first_child;
            parent->first_child = own;
        }
    }
    free(sorted);
}

/* ---- rows ---- */

static double self_change(const struct et_diff *diff, const struct et_diff_row *row)
{
    return fabs(et_diff_share(diff, ET_RIGHT, row->self[ET_RIGHT]) - et_diff_share(diff, ET_LEFT, row->self[ET_LEFT]));
}

static int compare_diff_rows(const void *a, const void *b, void *context)
{
    const struct et_diff *diff = context;
    const struct et_diff_row *x = a, *y = b;
    double first = self_change(diff, x), second = self_change(diff, y);
    if (first < second || first > second) {
        return first < second ? 1 : -1;
    }
    return strcmp(et_text(&diff->strings, x->function), et_text(&diff->strings, y->function));
}

static bool is_judged(const struct et_diff *diff, const struct et_diff_row *row)
{
    return et_diff_share(diff, ET_LEFT, row->total[ET_LEFT]) >= ET_DIFF_LEAST_SHARE ||
           et_diff_share(diff, ET_RIGHT, row->total[ET_RIGHT]) >= ET_DIFF_LEAST_SHARE;
}

static void finish_rows(struct et_diff *diff)
{
    for (size_t i = 0; i < diff->row_count; i++) {
        diff->tests += is_judged(diff, &diff->rows[i]);
    }
    if (diff->row_count) {
        qsort_r(diff->rows, diff->row_count, sizeof *diff->rows, compare_diff_rows, diff);
    }
}

void et_diff_make(const struct et_profile *left, const struct et_profile *right, size_t shown, struct et_diff *diff)
{
    *diff = (struct et_diff){0};
    struct diff_build b = {.diff = diff};
    et_intern(&diff->strings, "");
    diff->calls = et_reserve(NULL, &diff->capacity, 1, sizeof *diff->calls);
    diff->count = 1;
    add_side(&b, left, ET_LEFT);
    add_side(&b, right, ET_RIGHT);
    et_map_free(&b.children);
    et_map_free(&b.rows);
    prune_diff(diff, shown ? shown : 1);
    link_diff_children(diff);
    finish_rows(diff);
}

void et_diff_free(struct et_diff *diff)
{
    et_strings_free(&diff->strings);
    free(diff->calls);
    free(diff->rows);
    *diff = (struct et_diff){0};
}

/* ---- significance ---- */

double et_diff_share(const struct et_diff *diff, enum et_side side, uint64_t figure)
{
    return diff->total[side] ? (double)figure / (double)diff->total[side] : 0;
}

/* The number of standard deviations that is exceeded, on either side, with this probability. */
static double deviations_for(double probability)
{
    double low = 0, high = 40;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(erfc(middle / sqrt(2)) > probability ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

static struct et_interval wilson_interval(double share, double samples, double z)
{
    double square = z * z / samples, middle = (share + square / 2) / (1 + square);
    double half = z / (1 + square) * sqrt(share * (1 - share) / samples + square / (4 * samples));
    return (struct et_interval){.low = fmax(0, middle - half), .high = fmin(1, middle + half)};
}

struct et_interval et_diff_change(const struct et_diff *diff, const uint64_t figure[ET_SIDES])
{
    struct et_interval side[ET_SIDES];
    double share[ET_SIDES], z = deviations_for((1 - CONFIDENCE) / (diff->tests ? (double)diff->tests : 1));
    for (enum et_side i = ET_LEFT; i < ET_SIDES; i++) {
        if (!(diff->samples[i] > 0)) {
            return (struct et_interval){.low = -1, .high = 1};
        }
        share[i] = fmin(1, et_diff_share(diff, i, figure[i]));
        side[i] = wilson_interval(share[i], diff->samples[i], z);
    }
    double change = share[ET_RIGHT] - share[ET_LEFT];
    return (struct et_interval){
        .low = change - hypot(share[ET_RIGHT] - side[ET_RIGHT].low, side[ET_LEFT].high - share[ET_LEFT]),
        .high = change + hypot(side[ET_RIGHT].high - share[ET_RIGHT], share[ET_LEFT] - side[ET_LEFT].low)};
}

/* limit: the smallest relevant change, > 0. */
static enum et_judgement judge_change(double change, struct et_interval interval, double limit)
{
    if (interval.low > 0 || interval.high < 0) {
        return change >= limit ? ET_DIFF_MORE : change <= -limit ? ET_DIFF_LESS : ET_DIFF_SAME;
    }
    return interval.high >= limit || interval.low <= -limit ? ET_DIFF_UNSURE : ET_DIFF_SAME;
}

enum et_judgement et_diff_judge(const struct et_diff *diff, const uint64_t figure[ET_SIDES], double threshold)
{
    if (diff->total[ET_LEFT] == 0) {
        return ET_DIFF_NO_BASELINE;
    }
    double left = et_diff_share(diff, ET_LEFT, figure[ET_LEFT]);
    double right = et_diff_share(diff, ET_RIGHT, figure[ET_RIGHT]);
    double limit = fmax(threshold * left, ET_DIFF_LEAST_SHARE);
    return judge_change(right - left, et_diff_change(diff, figure), limit);
}

bool et_diff_growth(const struct et_diff *diff, double *growth, struct et_interval *interval)
{
    double rate[ET_SIDES], variance = 0;
    for (enum et_side i = ET_LEFT; i < ET_SIDES; i++) {
        double over = diff->level ? 1 : diff->seconds[i];
        if (diff->total[i] == 0 || !(diff->samples[i] > 0) || !(over > 0)) {
            return false;
        }
        rate[i] = (double)diff->total[i] / over;
        variance += 1 / diff->samples[i];
    }
    double factor = exp(deviations_for(1 - CONFIDENCE) * sqrt(variance)), ratio = rate[ET_RIGHT] / rate[ET_LEFT];
    *growth = ratio - 1;
    *interval = (struct et_interval){.low = ratio / factor - 1, .high = ratio * factor - 1};
    return true;
}

enum et_judgement et_diff_judge_growth(const struct et_diff *diff, double threshold)
{
    double growth;
    struct et_interval interval;
    if (diff->total[ET_LEFT] == 0) {
        return ET_DIFF_NO_BASELINE;
    }
    return et_diff_growth(diff, &growth, &interval)
               ? judge_change(growth, interval, fmax(threshold, ET_DIFF_LEAST_SHARE))
               : ET_DIFF_UNSURE;
}
