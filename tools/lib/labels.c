/* See labels.h. */
#include "tools/lib/labels.h"

#include <stdlib.h>
#include <string.h>

static void append_line(struct et_labels *labels, char *line)
{
    labels->lines = et_reserve(labels->lines, &labels->capacity, labels->count + 1, sizeof *labels->lines);
    labels->lines[labels->count++] = line;
}

/* A character of a key, as it is stored. */
static char stored_char(char c)
{
    return c == '=' ? '_' : c;
}

void et_label_escape(char *key)
{
    for (; *key; key++) {
        *key = stored_char(*key);
    }
}

void et_labels_add(struct et_labels *labels, const char *key, const char *value)
{
    struct et_buf raw = {0};
    et_buf_text(&raw, key);
    et_label_escape(raw.data);
    et_buf_printf(&raw, "=%s", value);
    append_line(labels, et_clean(raw.data, raw.size));
    et_buf_free(&raw);
}

void et_labels_add_lines(struct et_labels *labels, const char *lines)
{
    for (const char *end; (end = strchr(lines, '\n')); lines = end + 1) {
        append_line(labels, et_clean(lines, (size_t)(end - lines)));
    }
}

bool et_label_same(const char *a, const char *b)
{
    while (*a && stored_char(*a) == stored_char(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

bool et_label_reserved(const char *key)
{
    bool inner = stored_char(key[0]) == '_' && stored_char(key[1]) == '_' && !et_label_same(key, "__session_id__");
    return inner || et_label_same(key, "service_name") || et_label_same(key, "spy_name");
}

bool et_metric_label(const char *tag, char label[ET_METRIC_LABEL])
{
    static const char *const own[] = {"service", "service_name", "version", "device", "reason", "le", "quantile"};
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    size_t size = strlen(tag);
    if (size == 0 || size >= ET_METRIC_LABEL) {
        return false;
    }
    for (size_t i = 0; i <= size; i++) {
        bool plain = !tag[i] || strchr(first, tag[i]) || (i && tag[i] >= '0' && tag[i] <= '9');
        label[i] = plain ? tag[i] : '_';
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strcmp(label, own[i]) == 0) {
            return false;
        }
    }
    return strncmp(label, "__", 2) != 0;
}

/* Order: by key; for one key, the last added first. */
struct label_order {
    char *line;
    size_t key, number;
};

static int by_key(const void *a, const void *b)
{
    const struct label_order *x = a, *y = b;
    int order = memcmp(x->line, y->line, x->key < y->key ? x->key : y->key);
    if (order || x->key != y->key) {
        return order ? order : x->key < y->key ? -1 : 1;
    }
    return x->number > y->number ? -1 : x->number < y->number;
}

static void free_list(struct et_labels *labels)
{
    for (size_t i = 0; i < labels->count; i++) {
        free(labels->lines[i]);
    }
    free(labels->lines);
    *labels = (struct et_labels){0};
}

char *et_labels_join(struct et_labels *labels)
{
    struct et_buf joined = {0};
    struct label_order *places = et_alloc(labels->count, sizeof *places);
    for (size_t i = 0; i < labels->count; i++) {
        places[i] = (struct label_order){.line = labels->lines[i], .key = strcspn(labels->lines[i], "="), .number = i};
    }
    if (labels->count) {
        qsort(places, labels->count, sizeof *places, by_key);
    }
    et_buf_text(&joined, "");
    for (size_t i = 0; i < labels->count; i++) {
        const struct label_order *before = i ? &places[i - 1] : NULL;
        if (!before || before->key != places[i].key || memcmp(before->line, places[i].line, before->key) != 0) {
            et_buf_text(&joined, places[i].line);
            et_buf_char(&joined, '\n');
        }
    }
    free(places);
    free_list(labels);
    return joined.data;
}

bool et_group_next(const char **rest, struct et_buf *key)
{
    if (!*rest || !**rest) {
        return false;
    }
    size_t size = strcspn(*rest, "\n");
    key->size = 0;
    et_buf_add(key, *rest, size);
    *rest += size + ((*rest)[size] == '\n');
    return true;
}

bool et_group_has(const char *group, const char *key)
{
    struct et_buf own = {0};
    bool found = false;
    while (!found && et_group_next(&group, &own)) {
        found = strcmp(own.data, key) == 0;
    }
    et_buf_free(&own);
    return found;
}

const char *et_labels_value(const char *lines, const char *key, size_t *size)
{
    size_t key_size = strlen(key);
    for (const char *end; (end = strchr(lines, '\n')); lines = end + 1) {
        if ((size_t)(end - lines) > key_size && lines[key_size] == '=' && memcmp(lines, key, key_size) == 0) {
            *size = (size_t)(end - lines) - key_size - 1;
            return lines + key_size + 1;
        }
    }
    return NULL;
}

void et_labels_each(const char *lines, void (*call)(void *context, const char *key, const char *value), void *context)
{
    char *copy = et_strdup(lines), *rest = copy, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *equals = strchr(line, '=');
        if (equals) {
            *equals = '\0';
            call(context, line, equals + 1);
        }
    }
    free(copy);
}
