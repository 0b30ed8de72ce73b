/* See store.h: lists of series and labels. The database keeps the label sets that a series' stacks have, so listing
 * does not read profiles. */
#include "tools/lib/labels.h"
#include "tools/store/store_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int select_series(struct et_store *store, const struct et_query *query, struct et_selection *out)
{
    return et_selection_make(store, query, query->kind, 0, out);
}

/* ---- series ---- */

static int compare_series(const void *a, const void *b)
{
    const struct et_series *x = a, *y = b;
    int order = strcmp(x->service, y->service);
    order = order ? order : strcmp(x->tags, y->tags);
    order = order ? order : strcmp(x->host, y->host);
    return order ? order : strcmp(x->kind, y->kind);
}

int et_store_series_list(struct et_store *store, const struct et_query *query,
                         void (*call)(void *context, const struct et_series_row *row), void *context)
{
    struct et_selection selection = {0};
    int err = select_series(store, query, &selection);
    size_t listed = 0;
    if (selection.count) {
        qsort(selection.series, selection.count, sizeof *selection.series, compare_series);
    }
    for (size_t i = 0; i < selection.count && !err && listed < ET_LISTED; i++) {
        const struct et_series *series = &selection.series[i];
        if (i == 0 || compare_series(series, &selection.series[i - 1]) != 0) {
            struct et_series_row row = {.service = series->service,
                                        .tags = series->tags,
                                        .host = series->host,
                                        .kind = series->kind,
                                        .unit = series->unit};
            call(context, &row);
            listed++;
        }
    }
    et_selection_free(&selection);
    return err;
}

/* ---- labels ---- */

/* A set of texts; ignores additions when it is full. */
struct text_set {
    struct et_strings texts;
    const char *name; /* label whose values are listed; NULL: list names */
    const struct et_process *process;
};

static void add_text(struct text_set *listed, const char *text, size_t size)
{
    struct et_buf copy = {0};
    et_buf_add(&copy, text, size);
    if (size && listed->texts.count <= ET_LISTED) {
        et_intern(&listed->texts, copy.data);
    }
    et_buf_free(&copy);
}

static void add_label_name(void *context, const char *key, const char *value)
{
    (void)value;
    add_text(context, key, strlen(key));
}

static void list_value(struct text_set *listed, const char *labels)
{
    size_t size = 0;
    const char *value = et_process_value(labels, listed->process, listed->name, &size);
    if (value) {
        add_text(listed, value, size);
    }
}

static void list_labels(struct text_set *listed, const char *labels)
{
    if (listed->name) {
        list_value(listed, labels);
    } else {
        et_labels_each(labels, add_label_name, listed);
    }
}

static int list_series(struct et_store *store, const struct et_series *series, struct text_set *listed)
{
    listed->process = &series->process;
    list_labels(listed, listed->name ? "" : series->tags);
    if (!listed->name && series->process.host[0]) { /* pushed pprof has none */
        add_text(listed, ET_HOST, strlen(ET_HOST));
    }
    sqlite3_stmt *row = et_series_labels_bind(store, series->id);
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        list_labels(listed, et_column_text(row, 0));
    }
    return got;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_all(struct et_store *store, const struct et_query *query, struct text_set *listed,
                    void (*call)(void *context, const char *text), void *context)
{
    struct et_selection selection = {0};
    bool began = et_store_reading(store);
    et_intern(&listed->texts, "");
    int err = select_series(store, query, &selection);
    if (selection.count && !listed->name) {
        add_text(listed, ET_SERVICE_NAME, strlen(ET_SERVICE_NAME));
    }
    for (size_t i = 0; i < selection.count && !err; i++) {
        err = list_series(store, &selection.series[i], listed);
    }
    et_store_reading_done(store, began);
    size_t count = listed->texts.count - 1;
    char **texts = et_alloc(count, sizeof *texts);
    for (size_t i = 0; i < count; i++) {
        texts[i] = listed->texts.text[i + 1];
    }
    qsort(texts, count, sizeof *texts, compare_texts);
    for (size_t i = 0; i < count && !err; i++) {
        call(context, texts[i]);
    }
    free(texts);
    et_strings_free(&listed->texts);
    et_selection_free(&selection);
    return err;
}

int et_store_label_names(struct et_store *store, const struct et_query *query,
                         void (*call)(void *context, const char *name), void *context)
{
    return list_all(store, query, &(struct text_set){0}, call, context);
}

int et_store_label_values(struct et_store *store, const struct et_query *query, const char *name,
                          void (*call)(void *context, const char *value), void *context)
{
    return list_all(store, query, &(struct text_set){.name = name}, call, context);
}
