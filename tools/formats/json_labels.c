/* See json.h: the labels of a profile's stacks. A service may have thousands of values; only the largest are written.
 */
#include "tools/formats/json.h"
#include "tools/lib/labels.h"
#include "tools/lib/json_write.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 100, VALUES = 200 };

struct label_value {
    uint32_t key, line; /* string numbers: "key", "key=value" */
    uint64_t sum;
};

struct label_list {
    struct et_strings keys, lines;
    struct et_map index; /* line -> value + 1 */
    struct label_value *values;
    size_t count, capacity;
    uint64_t shown; /* of the set of labels in progress */
};

static void add_label_value(void *context, const char *key, const char *value)
{
    struct label_list *list = context;
    struct et_buf text = {0};
    et_buf_printf(&text, "%s=%s", key, value);
    uint32_t line = et_intern(&list->lines, text.data);
    uint64_t *known = et_map_at(&list->index, line);
    et_buf_free(&text);
    if (!*known) {
        list->values = et_reserve(list->values, &list->capacity, list->count + 1, sizeof *list->values);
        list->values[list->count] = (struct label_value){.key = et_intern(&list->keys, key), .line = line};
        *known = ++list->count;
    }
    list->values[*known - 1].sum += list->shown;
}

static int by_key_and_sum(const void *a, const void *b)
{
    const struct label_value *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    if (x->sum != y->sum) {
        return x->sum < y->sum ? 1 : -1;
    }
    return x->line < y->line ? -1 : x->line > y->line;
}

/* Number of values from `first` on with the same key. */
static size_t same_key(const struct label_list *list, size_t first)
{
    size_t count = 1;
    while (first + count < list->count && list->values[first + count].key == list->values[first].key) {
        count++;
    }
    return count;
}

static void values(struct et_buf *out, const struct label_list *list, size_t first, size_t count)
{
    const char *key = et_text(&list->keys, list->values[first].key);
    et_json_string(out, key);
    et_buf_text(out, ":{");
    for (size_t i = 0; i < count && i < VALUES; i++) {
        const struct label_value *value = &list->values[first + i];
        et_buf_text(out, i ? "," : "");
        et_json_string(out, et_text(&list->lines, value->line) + strlen(key) + 1);
        et_buf_printf(out, ":%llu", (unsigned long long)value->sum);
    }
    et_buf_char(out, '}');
}

static void write_list(struct et_buf *out, const struct label_list *list)
{
    struct et_buf counts = {0};
    size_t keys = 0, count;
    et_buf_text(out, "\"labels\":{");
    for (size_t i = 0; i < list->count && keys < KEYS; i += count, keys++) {
        count = same_key(list, i);
        et_buf_text(out, i ? "," : "");
        values(out, list, i, count);
        et_buf_text(&counts, i ? "," : "");
        et_json_string(&counts, et_text(&list->keys, list->values[i].key));
        et_buf_printf(&counts, ":%zu", count);
    }
    et_buf_printf(out, "},\"label_values\":{%s},\n", counts.data ? counts.data : "");
    et_buf_free(&counts);
}

void et_json_labels(struct et_buf *out, const struct et_profile *profile)
{
    struct label_list list = {0};
    et_intern(&list.keys, "");
    et_intern(&list.lines, "");
    for (size_t i = 0; i < profile->label_count; i++) {
        list.shown = et_entry_shown(profile, &profile->label_sums[i]);
        et_labels_each(et_text(&profile->strings, profile->label_sums[i].labels), add_label_value, &list);
    }
    if (list.count) {
        qsort(list.values, list.count, sizeof *list.values, by_key_and_sum);
    }
    write_list(out, &list);
    et_strings_free(&list.keys);
    et_strings_free(&list.lines);
    et_map_free(&list.index);
    free(list.values);
}
