/*
 * See bounds.h. `counts` has a number for the hash of each name: for a tag set, the number of origins that have it; for
 * a label's value, the number of label sets; for a service, its tag sets; for a label, its values. Changes since the
 * last commit are kept, so that they can be undone.
 */
#include "tools/store/bounds.h"
#include "tools/store/age.h"
#include "tools/lib/hash.h"
#include "tools/lib/labels.h"
#include "tools/lib/time_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum line { SERVICES, SERIES, VALUES, LABELS, NAME, VALUE, MEMORY, FUTURE, PAST, LINES };

struct bound_change {
    uint64_t name, group; /* hashes */
    bool added, label;
};

struct et_bounds {
    struct et_bounds_config limit;
    struct et_age *age; /* NULL: the system's clock */
    struct et_map counts;
    uint64_t services, label_names;
    struct bound_change *changes;
    size_t change_count, capacity, part; /* part: first change of the current transaction or part of a group */
    bool loading;
    char lines[LINES][128];
};

struct et_bounds *et_bounds_new(const struct et_bounds_config *config)
{
    static const char *const forms[LINES] = {
        [SERVICES] = "too many services: more than %llu, see services in [limits]",
        [SERIES] = "too many tag sets: more than %llu per service, see series in [limits]",
        [VALUES] = "too many values of one label, or labels: more than %llu, see label-values in [limits]",
        [LABELS] = "more than %llu labels at once, see labels in [limits]",
        [NAME] = "a label's name is longer than %llu bytes, see label-name in [limits]",
        [VALUE] = "a label's value or a service's name is longer than %llu bytes, see label-value in [limits]",
        [MEMORY] = "too many names: their table would take more than %llu bytes, see names in [limits]",
        [FUTURE] = "more than %llu s in the future, see future in [limits]; is the sender's clock right?",
        [PAST] = "more than %llu s old, see past in [limits]",
    };
    struct et_bounds *bounds = et_alloc(1, sizeof *bounds);
    bounds->limit = *config;
    const uint64_t numbers[LINES] = {
        [SERVICES] = config->services,
        [SERIES] = config->series,
        [VALUES] = config->label_values,
        [LABELS] = config->labels,
        [NAME] = config->name_bytes,
        [VALUE] = config->value_bytes,
        [MEMORY] = config->memory,
        [FUTURE] = (uint64_t)config->future_ns / 1000000000,
        [PAST] = (uint64_t)config->past_ns / 1000000000,
    };
    for (size_t i = 0; i < LINES; i++) {
        struct et_buf line = {0};
        const char *number = strstr(forms[i], "%llu");
        et_buf_add(&line, forms[i], (size_t)(number - forms[i]));
        et_buf_printf(&line, "%llu%s", (unsigned long long)numbers[i], number + strlen("%llu"));
        snprintf(bounds->lines[i], sizeof bounds->lines[i], "%s", line.data);
        et_buf_free(&line);
    }
    return bounds;
}

void et_bounds_set_age(struct et_bounds *bounds, struct et_age *age)
{
    bounds->age = age;
}

void et_bounds_free(struct et_bounds *bounds)
{
    if (bounds) {
        et_map_free(&bounds->counts);
        free(bounds->changes);
        free(bounds);
    }
}

enum et_outcome et_bounds_outcome(const char *refused)
{
    return strncmp(refused, "too many ", strlen("too many ")) == 0 ? ET_LIMITED : ET_MALFORMED;
}

/* ---- names ---- */

/* Types: 's' a service, 't' its tags, 'k' a label, 'v' its value. */
static uint64_t hash_name(char type, const char *text, const char *more)
{
    struct et_buf key = {0};
    et_buf_printf(&key, "%c%s\n%s", type, text, more);
    uint64_t hash = et_hash_bytes(key.data, key.size);
    et_buf_free(&key);
    return hash;
}

static uint64_t count_of(const struct et_bounds *bounds, char type, const char *text, const char *more)
{
    const uint64_t *count = et_map_find(&bounds->counts, hash_name(type, text, more));
    return count ? *count : 0;
}

/* Whether so many more names would need a table larger than allowed. The table has at least FIRST_CAPACITY entries, is
 * at most half full, and doubles. One that the existing names have made larger is full until enough are deleted. */
static bool is_full(const struct et_bounds *bounds, size_t more)
{
    enum { FIRST_CAPACITY = 64 };
    const struct et_map *map = &bounds->counts;
    size_t most = FIRST_CAPACITY, entries = bounds->limit.memory / sizeof *map->entries;
    while (most <= entries / 2) {
        most *= 2;
    }
    return bounds->limit.memory && (map->count + more - 1) * 2 >= most;
}

static void add_name(struct et_bounds *bounds, const struct bound_change *change)
{
    if (++*et_map_at(&bounds->counts, change->name) == 1 && ++*et_map_at(&bounds->counts, change->group) == 1) {
        ++*(change->label ? &bounds->label_names : &bounds->services);
    }
}

/* Returns whether it is now 0 and gone. */
static bool count_down(struct et_bounds *bounds, uint64_t hash)
{
    uint64_t *count = et_map_find(&bounds->counts, hash);
    bool last = count && --*count == 0;
    if (last) {
        et_map_remove(&bounds->counts, hash);
    }
    return last;
}

static void remove_name(struct et_bounds *bounds, const struct bound_change *change)
{
    if (count_down(bounds, change->name) && count_down(bounds, change->group)) {
        --*(change->label ? &bounds->label_names : &bounds->services);
    }
}

static void note_change(struct et_bounds *bounds, const struct bound_change *change)
{
    if (!change->added && !et_map_find(&bounds->counts, change->name)) {
        return; /* another process has added it */
    }
    if (change->added) {
        add_name(bounds, change);
    } else {
        remove_name(bounds, change);
    }
    if (!bounds->loading) {
        bounds->changes =
            et_reserve(bounds->changes, &bounds->capacity, bounds->change_count + 1, sizeof *bounds->changes);
        bounds->changes[bounds->change_count++] = *change;
    }
}

void et_bounds_note_series(struct et_bounds *bounds, const char *service, const char *tags, bool added)
{
    if (bounds) {
        const struct bound_change change = {
            .name = hash_name('t', service, tags), .group = hash_name('s', service, ""), .added = added};
        note_change(bounds, &change);
    }
}

struct noted_labels {
    struct et_bounds *bounds;
    bool added;
};

static void note_label(void *context, const char *key, const char *value)
{
    const struct noted_labels *noted = context;
    const struct bound_change change = {
        .name = hash_name('v', key, value), .group = hash_name('k', key, ""), .added = noted->added, .label = true};
    note_change(noted->bounds, &change);
}

void et_bounds_note_labels(struct et_bounds *bounds, const char *lines, bool added)
{
    if (bounds) {
        et_labels_each(lines, note_label, &(struct noted_labels){bounds, added});
    }
}

void et_bounds_begin(struct et_bounds *bounds)
{
    if (bounds) {
        bounds->part = bounds->change_count;
    }
}

size_t et_bounds_mark(const struct et_bounds *bounds)
{
    return bounds ? bounds->change_count : 0;
}

void et_bounds_undo_to(struct et_bounds *bounds, size_t mark)
{
    while (bounds && bounds->change_count > mark) {
        const struct bound_change *change = &bounds->changes[--bounds->change_count];
        if (change->added) {
            remove_name(bounds, change);
        } else {
            add_name(bounds, change);
        }
    }
}

void et_bounds_undo(struct et_bounds *bounds, bool all)
{
    et_bounds_undo_to(bounds, all || !bounds ? 0 : bounds->part);
}

void et_bounds_commit(struct et_bounds *bounds)
{
    if (bounds) {
        bounds->change_count = bounds->part = 0;
    }
}

/* ---- checks ---- */

struct label_check {
    struct et_bounds *bounds;
    uint64_t labels;
    size_t names; /* new ones so far: values, and labels */
    const char *wrong;
    bool values;
};

static void check_label(void *context, const char *key, const char *value)
{
    struct label_check *check = context;
    struct et_bounds *bounds = check->bounds;
    const struct et_bounds_config *limit = &bounds->limit;
    check->labels++;
    if (limit->labels && check->labels > limit->labels) {
        check->wrong = bounds->lines[LABELS];
    } else if (limit->name_bytes && strlen(key) > limit->name_bytes) {
        check->wrong = bounds->lines[NAME];
    } else if (limit->value_bytes && strlen(value) > limit->value_bytes) {
        check->wrong = bounds->lines[VALUE];
    } else if (check->values && !count_of(bounds, 'v', key, value)) {
        uint64_t values = count_of(bounds, 'k', key, ""), there = values ? values : bounds->label_names;
        bool many = limit->label_values && there >= limit->label_values;
        check->names += values ? 1 : 2;
        check->wrong = many                            ? bounds->lines[VALUES]
                       : is_full(bounds, check->names) ? bounds->lines[MEMORY]
                                                       : check->wrong;
    }
}

const char *et_bounds_series(struct et_bounds *bounds, const char *service, const char *tags)
{
    enum { NEW_NAMES = 3 }; /* the service, its tags, and these with undated=true */
    struct label_check check = {.bounds = bounds};
    if (!bounds || count_of(bounds, 't', service, tags)) {
        return NULL;
    }
    et_labels_each(tags, check_label, &check);
    if (check.wrong) {
        return check.wrong;
    }
    if (bounds->limit.value_bytes && strlen(service) > bounds->limit.value_bytes) {
        return bounds->lines[VALUE];
    }
    uint64_t sets = count_of(bounds, 's', service, "");
    if (bounds->limit.services && !sets && bounds->services >= bounds->limit.services) {
        return bounds->lines[SERVICES];
    }
    if (bounds->limit.series && sets >= bounds->limit.series) {
        return bounds->lines[SERIES];
    }
    return is_full(bounds, NEW_NAMES) ? bounds->lines[MEMORY] : NULL;
}

const char *et_bounds_labels(struct et_bounds *bounds, const char *lines)
{
    struct label_check check = {.bounds = bounds, .values = true};
    if (bounds) {
        et_labels_each(lines, check_label, &check);
    }
    return check.wrong;
}

/* ---- time ---- */

const char *et_bounds_time(struct et_bounds *bounds, int64_t from_ns, int64_t until_ns)
{
    int64_t clock = et_now(), count = et_age_now(bounds ? bounds->age : NULL);
    int64_t latest = clock > count ? clock : count, earliest = clock < count ? clock : count;
    if (bounds && bounds->limit.future_ns &&
        (from_ns > latest + bounds->limit.future_ns || until_ns > latest + bounds->limit.future_ns)) {
        return bounds->lines[FUTURE];
    }
    return bounds && bounds->limit.past_ns && until_ns < earliest - bounds->limit.past_ns ? bounds->lines[PAST] : NULL;
}

/* ---- existing names ---- */

static void load_series(void *context, const char *service, const char *tags)
{
    et_bounds_note_series(context, service, tags, true);
}

static void load_labels(void *context, const char *lines)
{
    et_bounds_note_labels(context, lines, true);
}

int et_bounds_load(struct et_bounds *bounds, struct et_store *store)
{
    bounds->loading = true;
    int err = et_store_all_tags(store, load_series, bounds);
    err = err ? err : et_store_all_labels(store, load_labels, bounds);
    bounds->loading = false;
    return err;
}
