/*
 * See verdict.h.
 *
 *   et_verdict_make -> find_cohorts
 *                      add_rows -> estimate -> estimate_cohort   for each function, own usage and total
 *                      correct_tests                             Holm
 *                      judge_rows
 */
#include "tools/profile/verdict.h"
#include "tools/profile/student.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double ALPHA = 0.05, POWER = 0.8, MOST_TIMES_MORE = 1e6;

enum figure { OWN, TOTAL, FIGURES };
enum scale { SHARE, LOAD, SCALES };

/* The devices of a cohort. Arrays have one item for each device; x = 0: the device did not run this side. */
struct devices {
    size_t cohort, count, capacity; /* cohort: index in the verdict */
    struct device {
        size_t entry[ET_SIDES]; /* SIZE_MAX: none */
        double x[SCALES][ET_SIDES], y[FIGURES][ET_SIDES];
    } * devices;
    double sum[SCALES][ET_SIDES]; /* of x */
    double sample[ET_SIDES];      /* usage that one sample stands for */
    double weight;                /* of the cohort, all weights add up to 1 */
};

struct maker {
    const struct et_fleet *fleet;
    double threshold;
    struct et_verdict *out;
    struct devices *cohorts; /* those that are used */
    size_t count;
    bool *wanted; /* functions by their number in the fleet */
};

/* ---- cohorts ---- */

static bool is_usable(const struct et_fleet_entry *entry)
{
    return entry->seconds > 0 && entry->total > 0;
}

static struct et_verdict_cohort *find_cohort(struct et_verdict *out, uint32_t cohort)
{
    for (size_t i = 0; i < out->cohort_count; i++) {
        if (out->cohorts[i].cohort == cohort) {
            return &out->cohorts[i];
        }
    }
    out->cohorts = et_reserve(out->cohorts, &out->cohort_capacity, out->cohort_count + 1, sizeof *out->cohorts);
    out->cohorts[out->cohort_count].cohort = cohort;
    return &out->cohorts[out->cohort_count++];
}

static int largest_cohort_first(const void *a, const void *b)
{
    const struct et_verdict_cohort *x = a, *y = b;
    double first = x->seconds[ET_RIGHT], second = y->seconds[ET_RIGHT];
    return first < second ? 1 : first > second ? -1 : x->cohort < y->cohort ? -1 : x->cohort > y->cohort;
}

/* Devices that ran both versions, also of cohorts that are too small to compare. */
static void count_both(struct maker *m)
{
    struct et_map sides = {0}; /* cohort << 32 | device -> sides with data, a bit each */
    for (size_t i = 0; i < m->fleet->count; i++) {
        const struct et_fleet_entry *entry = &m->fleet->entries[i];
        uint64_t *seen = is_usable(entry) ? et_map_at(&sides, (uint64_t)entry->cohort << 32 | entry->device) : NULL;
        if (seen && *seen && !(*seen & (1u << entry->side))) {
            find_cohort(m->out, entry->cohort)->both++;
        }
        if (seen) {
            *seen |= 1u << entry->side;
        }
    }
    et_map_free(&sides);
}

static void count_cohorts(struct maker *m)
{
    struct et_verdict *out = m->out;
    count_both(m);
    for (size_t i = 0; i < m->fleet->count; i++) {
        const struct et_fleet_entry *entry = &m->fleet->entries[i];
        struct et_verdict_cohort *cohort = find_cohort(out, entry->cohort);
        if (is_usable(entry)) {
            cohort->devices[entry->side]++;
            cohort->seconds[entry->side] += entry->seconds;
            cohort->total[entry->side] += entry->total;
        }
    }
    for (size_t i = 0; i < out->cohort_count; i++) {
        struct et_verdict_cohort *cohort = &out->cohorts[i];
        cohort->used = cohort->devices[ET_LEFT] >= ET_VERDICT_LEAST_DEVICES &&
                       cohort->devices[ET_RIGHT] >= ET_VERDICT_LEAST_DEVICES;
        for (enum et_side side = ET_LEFT; side < ET_SIDES && cohort->used; side++) {
            out->devices[side] += cohort->devices[side];
        }
        m->count += cohort->used;
    }
    if (out->cohort_count) {
        qsort(out->cohorts, out->cohort_count, sizeof *out->cohorts, largest_cohort_first);
    }
}

static void add_device(struct devices *own, struct et_map *index, const struct et_fleet *fleet, size_t number)
{
    const struct et_fleet_entry *entry = &fleet->entries[number];
    uint64_t *known = et_map_at(index, entry->device);
    if (!*known) {
        own->devices = et_reserve(own->devices, &own->capacity, own->count + 1, sizeof *own->devices);
        own->devices[own->count].entry[ET_LEFT] = own->devices[own->count].entry[ET_RIGHT] = SIZE_MAX;
        *known = ++own->count;
    }
    struct device *device = &own->devices[*known - 1];
    device->entry[entry->side] = number;
    device->x[SHARE][entry->side] = entry->total;
    device->x[LOAD][entry->side] = entry->seconds;
    own->sum[SHARE][entry->side] += entry->total;
    own->sum[LOAD][entry->side] += entry->seconds;
    own->sample[entry->side] += entry->samples;
}

static void fill_cohort(struct maker *m, struct devices *own)
{
    const struct et_verdict_cohort *cohort = &m->out->cohorts[own->cohort];
    struct et_map index = {0};
    for (size_t i = 0; i < m->fleet->count; i++) {
        const struct et_fleet_entry *entry = &m->fleet->entries[i];
        if (entry->cohort == cohort->cohort && is_usable(entry)) {
            add_device(own, &index, m->fleet, i);
        }
    }
    et_map_free(&index);
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        own->sample[side] = own->sample[side] > 0 ? own->sum[SHARE][side] / own->sample[side] : 0;
    }
    /* what the baseline would have used in the time of the new version */
    own->weight = own->sum[LOAD][ET_RIGHT] * own->sum[SHARE][ET_LEFT] / own->sum[LOAD][ET_LEFT];
}

static void find_cohorts(struct maker *m)
{
    double weights = 0;
    size_t next = 0;
    count_cohorts(m);
    m->cohorts = et_alloc(m->count, sizeof *m->cohorts);
    for (size_t i = 0; i < m->out->cohort_count; i++) {
        if (m->out->cohorts[i].used) {
            m->cohorts[next].cohort = i;
            fill_cohort(m, &m->cohorts[next]);
            weights += m->cohorts[next++].weight;
        }
    }
    for (size_t i = 0; i < m->count; i++) {
        m->cohorts[i].weight /= weights;
    }
}

/* ---- estimates ---- */

/* A ratio on both sides of a cohort. */
struct ratios {
    double value[ET_SIDES], variance[ET_SIDES], noise[ET_SIDES], freedom[ET_SIDES];
    double change, error_square; /* of the change; devices on both sides count once */
    size_t both;
};

/* Kish's effective number of devices, less one. noise: of the samples alone, as a Poisson count; one more sample than
 * there are, so that it is not 0 without any. */
static void add_side(const struct devices *own, enum figure figure, enum scale scale, enum et_side side,
                     struct ratios *out)
{
    double sum = own->sum[scale][side], squares = 0, y = 0;
    for (size_t i = 0; i < own->count; i++) {
        double x = own->devices[i].x[scale][side];
        squares += x * x;
        y += own->devices[i].y[figure][side];
    }
    out->value[side] = y / sum;
    out->freedom[side] = fmax(1, sum * sum / squares - 1);
    out->noise[side] = (y + own->sample[side]) * own->sample[side] / (sum * sum);
    out->noise[side] *= scale == SHARE ? fmax(0, 1 - out->value[side]) : 1;
}

/* The ratio without one device. */
static double ratio_without(const struct devices *own, enum figure figure, enum scale scale, enum et_side side,
                            size_t device, const struct ratios *all)
{
    double x = own->devices[device].x[scale][side], sum = own->sum[scale][side];
    double rest = all->value[side] * sum - own->devices[device].y[figure][side];
    return x > 0 && sum > x ? rest / (sum - x) : all->value[side];
}

static void jackknife(const struct devices *own, enum figure figure, enum scale scale, struct ratios *out)
{
    size_t counts[ET_SIDES] = {0};
    double squares = 0;
    for (size_t i = 0; i < own->count; i++) {
        double moved[ET_SIDES];
        for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
            moved[side] = ratio_without(own, figure, scale, side, i, out) - out->value[side];
            out->variance[side] += moved[side] * moved[side];
            counts[side] += own->devices[i].x[scale][side] > 0;
        }
        double change = moved[ET_RIGHT] - moved[ET_LEFT];
        squares += change * change;
        out->both += own->devices[i].x[scale][ET_LEFT] > 0 && own->devices[i].x[scale][ET_RIGHT] > 0;
    }
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        out->variance[side] *= (double)(counts[side] - 1) / (double)counts[side];
    }
    out->error_square = squares * (double)(own->count - 1) / (double)own->count;
}

/* Welch's for separate groups of devices; devices that are on both sides make the smaller number count. */
static double freedom_of(const struct ratios *r)
{
    double smaller = fmin(r->freedom[ET_LEFT], r->freedom[ET_RIGHT]);
    double left = r->variance[ET_LEFT], right = r->variance[ET_RIGHT], sum = left + right;
    if (r->both || !(sum > 0)) {
        return smaller;
    }
    return fmax(smaller, sum * sum / (left * left / r->freedom[ET_LEFT] + right * right / r->freedom[ET_RIGHT]));
}

/* Adds the cohort's estimate, weighted. squares: the sum for the degrees of freedom. */
static void estimate_cohort(const struct devices *own, enum figure figure, enum scale scale, struct et_estimate *out,
                            double *squares)
{
    struct ratios r = {0};
    add_side(own, figure, scale, ET_LEFT, &r);
    add_side(own, figure, scale, ET_RIGHT, &r);
    jackknife(own, figure, scale, &r);
    double unit = scale == LOAD ? own->sum[SHARE][ET_LEFT] / own->sum[LOAD][ET_LEFT] : 1;
    double weight = own->weight / unit;
    double square = weight * weight * fmax(r.error_square, r.noise[ET_LEFT] + r.noise[ET_RIGHT]);
    out->spread += weight * weight * fmax(0, r.error_square - r.noise[ET_LEFT] - r.noise[ET_RIGHT]);
    out->unit += weight * weight * own->sample[ET_RIGHT] / own->sum[scale][ET_RIGHT] * unit;
    out->before += weight * r.value[ET_LEFT];
    out->after += weight * r.value[ET_RIGHT];
    out->error += square;
    *squares += square * square / freedom_of(&r);
}

static struct et_estimate estimate(const struct maker *m, enum figure figure, enum scale scale)
{
    struct et_estimate out = {0};
    double squares = 0;
    for (size_t i = 0; i < m->count; i++) {
        estimate_cohort(&m->cohorts[i], figure, scale, &out, &squares);
    }
    out.change = out.after - out.before;
    out.freedom = squares > 0 ? out.error * out.error / squares : 1;
    out.error = sqrt(out.error);
    /* both sides vary alike in relation to what they use */
    out.spread = out.after + out.before > 0 ? sqrt(out.spread) / hypot(out.before, out.after) : 0;
    out.p = out.error > 0 ? et_student_beyond(out.change / out.error, out.freedom) : 1;
    return out;
}

/* ---- rows ---- */

static const struct et_fleet_cell *find_cell(const struct et_fleet *fleet, size_t entry, uint32_t function)
{
    const uint64_t *cell = et_map_find(&fleet->cells, (uint64_t)entry << 32 | function);
    return cell ? &fleet->entries[entry].cells[*cell - 1] : NULL;
}

/* Sets the devices' y to the function's usage; function 0: of all. */
static void set_function(struct maker *m, uint32_t function)
{
    for (size_t i = 0; i < m->count; i++) {
        for (size_t k = 0; k < m->cohorts[i].count; k++) {
            struct device *device = &m->cohorts[i].devices[k];
            for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
                size_t entry = device->entry[side];
                const struct et_fleet_cell *cell =
                    function && entry != SIZE_MAX ? find_cell(m->fleet, entry, function) : NULL;
                device->y[OWN][side] = cell ? cell->self : function ? 0 : device->x[SHARE][side];
                device->y[TOTAL][side] = cell ? cell->total : device->y[OWN][side];
            }
        }
    }
}

static bool is_compared(const struct et_estimate *share)
{
    return share->before >= ET_DIFF_LEAST_SHARE || share->after >= ET_DIFF_LEAST_SHARE;
}

static void add_row(struct maker *m, uint32_t function, enum figure figure, const struct et_estimate *share)
{
    struct et_verdict *out = m->out;
    out->rows = et_reserve(out->rows, &out->row_capacity, out->row_count + 1, sizeof *out->rows);
    out->rows[out->row_count++] = (struct et_verdict_row){.function = function,
                                                          .total = figure == TOTAL,
                                                          .shared = true,
                                                          .loaded = true,
                                                          .share = *share,
                                                          .load = estimate(m, figure, LOAD)};
    out->tests += 2;
}

static void add_rows(struct maker *m)
{
    m->wanted = et_alloc(m->fleet->strings.count, sizeof *m->wanted);
    for (size_t i = 0; i < m->fleet->count; i++) {
        const struct et_fleet_entry *entry = &m->fleet->entries[i];
        for (size_t k = 0; k < entry->count;
             k++) { /* below half of the least share everywhere, it is below it in all */
            m->wanted[entry->cells[k].function] |= entry->cells[k].total >= entry->total * ET_DIFF_LEAST_SHARE / 2;
        }
    }
    for (uint32_t function = 1; function < m->fleet->strings.count; function++) {
        if (!m->wanted[function]) {
            continue;
        }
        set_function(m, function);
        struct et_estimate own = estimate(m, OWN, SHARE), total = estimate(m, TOTAL, SHARE);
        bool leaf = total.before <= own.before && total.after <= own.after;
        if (is_compared(&own)) {
            add_row(m, function, OWN, &own);
        }
        bool whole = fmin(total.before, total.after) >= 1 - ET_DIFF_LEAST_SHARE; /* `all` says the same */
        if (is_compared(&total) && !leaf && !whole) {
            add_row(m, function, TOTAL, &total);
        }
    }
    set_function(m, 0);
    m->out->all = (struct et_verdict_row){.total = true, .loaded = true, .load = estimate(m, TOTAL, LOAD)};
    m->out->tests++;
}

/* ---- tests ---- */

static int smallest_p_first(const void *a, const void *b)
{
    double x = (*(struct et_estimate *const *)a)->p, y = (*(struct et_estimate *const *)b)->p;
    return x < y ? -1 : x > y;
}

/* Holm: the k-th smallest of m is multiplied by m - k + 1, and is at least the one before it. */
static void correct_tests(struct et_verdict *out)
{
    struct et_estimate **tests = et_alloc(out->tests, sizeof(struct et_estimate *));
    size_t count = 0;
    for (size_t i = 0; i < out->row_count; i++) {
        tests[count++] = &out->rows[i].share;
        tests[count++] = &out->rows[i].load;
    }
    tests[count++] = &out->all.load;
    qsort(tests, count, sizeof(struct et_estimate *), smallest_p_first);
    double before = 0;
    for (size_t i = 0; i < count; i++) {
        struct et_estimate *test = tests[i];
        before = test->p = fmax(before, fmin(1, test->p * (double)(count - i)));
        double wide = test->error * et_student_quantile(ALPHA / (double)count, test->freedom);
        test->low = test->change - wide;
        test->high = test->change + wide;
    }
    free(tests);
}

/* ---- judging ---- */

/* The increase that is found with the probability POWER, with `times` as many devices: so many standard errors as both
 * quantiles together. What is added varies from device to device as the function does, and has samples of its own, so
 * an increase e has the error sqrt(error^2 + spread^2 e (2 before + e) + unit e): an equation of second degree. */
static double found_change(const struct et_verdict *verdict, const struct et_estimate *test, double times)
{
    double freedom = test->freedom * times;
    double deviations =
        et_student_quantile(ALPHA / (double)verdict->tests, freedom) + et_student_quantile(2 * (1 - POWER), freedom);
    double square = deviations * deviations / times, spread = test->spread * test->spread;
    double a = 1 - square * spread, half = square * (spread * test->before + test->unit / 2);
    double found = a > 0 ? (half + sqrt(half * half + a * square * test->error * test->error)) / a : INFINITY;
    return fmax(found, ET_DIFF_LEAST_SHARE);
}

/* The same as an increase of the service's usage: an increase of e makes a share s to (s + e) / (1 + e). */
static double detectable_with(const struct et_verdict *verdict, const struct et_verdict_row *row, double times)
{
    double least = row->loaded ? found_change(verdict, &row->load, times) : INFINITY;
    if (row->shared) {
        double change = found_change(verdict, &row->share, times), rest = 1 - row->share.before - change;
        least = fmin(least, rest > 0 ? change / rest : INFINITY);
    }
    return least;
}

/* Times as many devices as there are. */
static double times_needed(const struct maker *m, const struct et_verdict_row *row)
{
    double low = 1, high = 1;
    while (high < MOST_TIMES_MORE && detectable_with(m->out, row, high) > m->threshold) {
        low = high;
        high *= 2;
    }
    for (int i = 0; i < 10; i++) {
        double middle = (low + high) / 2;
        *(detectable_with(m->out, row, middle) > m->threshold ? &low : &high) = middle;
    }
    return high;
}

/* sign: 1 increases, -1 decreases. */
static bool is_found(const struct et_estimate *test, double sign)
{
    return test->p <= ALPHA && sign * test->change >= ET_DIFF_LEAST_SHARE;
}

/* Whether the 95 % interval of this test alone excludes a change in this direction. */
static bool contradicts(const struct et_estimate *test, double sign)
{
    double wide = test->error * et_student_quantile(ALPHA, test->freedom);
    return sign * test->change + wide < ET_DIFF_LEAST_SHARE;
}

/* By what factor shares changed because of functions that changed the other way; 1: there is none. Such a function's
 * load changed likewise. */
static double factor_of_others(const struct et_verdict *verdict, double sign)
{
    double before = 1, after = 1;
    for (size_t i = 0; i < verdict->row_count; i++) {
        const struct et_verdict_row *row = &verdict->rows[i];
        if (!row->total && is_found(&row->share, -sign) && -sign * row->load.change >= -sign * row->share.change / 2) {
            before -= row->share.before;
            after -= row->share.after;
        }
    }
    return before > 0 && after > 0 ? after / before : 1;
}

/* Whether the change of a share may be due to other functions. */
static bool is_explained(const struct et_estimate *share, double factor, double sign)
{
    double wide = share->error * et_student_quantile(ALPHA, share->freedom);
    double rest = sign * (share->change - share->before * (factor - 1));
    return rest < ET_DIFF_LEAST_SHARE || rest < wide;
}

static enum et_verdict_by found_by(const struct et_verdict_row *row, double sign, double factor)
{
    bool share = row->shared && is_found(&row->share, sign), load = row->loaded && is_found(&row->load, sign);
    if (share && !load && (contradicts(&row->load, sign) || is_explained(&row->share, factor, sign))) {
        return ET_BY_NONE;
    }
    if (load && !share && row->shared && contradicts(&row->share, sign)) {
        return ET_BY_NONE;
    }
    return share && load ? ET_BY_BOTH : share ? ET_BY_SHARE : load ? ET_BY_LOAD : ET_BY_NONE;
}

/* factors: of shares, by functions that became cheaper, and by those that became dearer. */
static void judge_row(const struct maker *m, struct et_verdict_row *row, const double factors[2])
{
    enum et_verdict_by more = found_by(row, 1, factors[0]), less = found_by(row, -1, factors[1]);
    size_t devices =
        m->out->devices[ET_LEFT] < m->out->devices[ET_RIGHT] ? m->out->devices[ET_LEFT] : m->out->devices[ET_RIGHT];
    row->detectable = detectable_with(m->out, row, 1);
    bool unsure = row->detectable > m->threshold;
    row->by = more ? more : less;
    row->judgement = more ? ET_DIFF_MORE : less ? ET_DIFF_LESS : unsure ? ET_DIFF_UNSURE : ET_DIFF_SAME;
    row->devices_needed = unsure && (!row->total || !row->shared) ? ceil(times_needed(m, row) * (double)devices) : 0;
}

static double change_of(const struct et_verdict_row *row)
{
    double share = row->by != ET_BY_LOAD && row->shared ? fabs(row->share.change) : 0;
    return fmax(share, row->by != ET_BY_SHARE && row->loaded ? fabs(row->load.change) : 0);
}

static int compare_rows(const void *a, const void *b)
{
    static const int rank[] = {
        [ET_DIFF_MORE] = 0, [ET_DIFF_LESS] = 1, [ET_DIFF_UNSURE] = 2, [ET_DIFF_SAME] = 3, [ET_DIFF_NO_BASELINE] = 4};
    const struct et_verdict_row *x = a, *y = b;
    double first = change_of(x), second = change_of(y);
    if (rank[x->judgement] != rank[y->judgement]) {
        return rank[x->judgement] - rank[y->judgement];
    }
    return first < second ? 1 : first > second ? -1 : x->total - y->total;
}

static void judge_rows(struct maker *m)
{
    struct et_verdict *out = m->out;
    const double factors[] = {factor_of_others(out, 1), factor_of_others(out, -1)};
    judge_row(m, &out->all, factors);
    bool more = out->all.judgement == ET_DIFF_MORE;
    for (size_t i = 0; i < out->row_count; i++) {
        struct et_verdict_row *row = &out->rows[i];
        judge_row(m, row, factors);
        more |= row->judgement == ET_DIFF_MORE;
        if (!row->total) {
            out->detectable = fmax(out->detectable, row->detectable);
            out->devices_needed = fmax(out->devices_needed, row->devices_needed);
            out->unsure += row->devices_needed > 0;
        }
    }
    if (out->row_count) {
        qsort(out->rows, out->row_count, sizeof *out->rows, compare_rows);
    }
    out->result = more ? ET_VERDICT_REGRESSION : out->unsure ? ET_VERDICT_NOT_YET : ET_VERDICT_SAME;
}

void et_verdict_make(const struct et_fleet *fleet, double threshold, struct et_verdict *out)
{
    struct maker m = {.fleet = fleet, .threshold = threshold, .out = out};
    *out = (struct et_verdict){.result = ET_VERDICT_NOT_YET};
    find_cohorts(&m);
    if (m.count) {
        add_rows(&m);
        correct_tests(out);
        judge_rows(&m);
    } else {
        out->detectable = INFINITY;
        out->devices_needed = ET_VERDICT_LEAST_DEVICES;
    }
    for (size_t i = 0; i < m.count; i++) {
        free(m.cohorts[i].devices);
    }
    free(m.cohorts);
    free(m.wanted);
}

void et_verdict_free(struct et_verdict *verdict)
{
    free(verdict->rows);
    free(verdict->cohorts);
    *verdict = (struct et_verdict){0};
}
