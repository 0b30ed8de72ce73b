/* See relay_fill.h. */
#include "tools/serve/relay/relay_fill.h"
#include "tools/store/age.h"

#include <stdio.h>
#include <stdlib.h>

#define NS_PER_S 1000000000LL
#define MIB      ((size_t)1 << 20)

/* Maximum rows of a window. */
enum { ROWS_MOST = 4096 };

/* Reports that the next profile cannot be read. It is retried, because no profile may be skipped. */
static void report_unreadable(struct relay_destination *d, const char *why)
{
    bool begins = !d->failing;
    pthread_mutex_lock(&d->relay->lock);
    d->failing = true;
    snprintf(d->why, sizeof d->why, "database: %s", why);
    pthread_mutex_unlock(&d->relay->lock);
    if (begins) {
        et_error("relay %s: %s", d->config->name, d->why);
    }
}

static int read_next_row(struct relay_destination *d, int64_t after, struct et_arrival *row)
{
    /* without a budget: nobody waits, and there is no smaller request to fall back on */
    struct et_store *store = et_server_read(d->relay->server, NULL);
    int got = et_store_next(store, after, row);
    if (got < 0) {
        report_unreadable(d, et_store_why(store));
    }
    et_server_read_done(d->relay->server, store);
    return got;
}

/* True: the server would refuse it by its time. */
static bool untimely(const struct relay_destination *d, int64_t start_ns)
{
    const struct et_relay_backend *backend = d->config->backend;
    int64_t now = et_age_now(et_server_age(d->relay->server));
    return (d->config->oldest_ns && start_ns < now - d->config->oldest_ns) ||
           (backend->newest_s && start_ns > now + backend->newest_s * NS_PER_S);
}

static void cut_row(struct relay_destination *d, const struct et_arrival *arrival, size_t row)
{
    const struct et_relay_backend *backend = d->config->backend;
    struct et_window *window = &d->window;
    struct et_window_target target = {window, row};
    size_t before = window->part_count;
    d->form.limit = window->limit;
    backend->cut(&d->form, arrival, et_window_add_part, &target);
    bool too_large = false;
    for (size_t i = before; i < window->part_count; i++) {
        too_large |= window->parts[i].part.inflated > backend->burst && window->parts[i].part.entries == 1;
    }
    if (too_large && backend->pace) { /* it could never be taken */
        et_error("relay %s: a stack is larger than %s takes; skipping its profile", d->config->name, backend->name);
        et_window_drop(window, row, ET_PART_REFUSED);
    }
}

/* For good: what is sent cannot be named later. */
static void add_names(const struct relay_destination *d, struct et_profile *profile)
{
    struct et_symbols *symbols = et_server_symbols(d->relay->server);
    if (symbols && d->config->naming != ET_NAMING_NONE) {
        et_symbolize_waiting(symbols, profile, d->config->naming == ET_NAMING_FULL);
    }
}

static void add_row(struct relay_destination *d, struct et_arrival *row)
{
    bool keep = d->config->backend->keeps_rows, late = untimely(d, row->profile->start_ns);
    struct et_arrival *kept = et_alloc(1, sizeof *kept);
    *kept = *row;
    d->read = row->id;
    et_window_add_row(&d->window, row->id, row->profile->start_ns, keep && !late ? kept : NULL);
    if (late) {
        et_window_drop(&d->window, d->window.row_count - 1, ET_PART_LOST);
    } else {
        add_names(d, row->profile);
        cut_row(d, kept, d->window.row_count - 1);
    }
    if (!keep || late) {
        et_profile_free(row->profile);
        free(kept);
    }
}

void et_relay_recut(struct relay_destination *d)
{
    struct et_window_row *again = et_window_recut(&d->window);
    struct et_arrival row;
    if (!again) {
        return;
    }
    if (again->arrival) {
        cut_row(d, again->arrival, (size_t)(again - d->window.rows));
    } else if (read_next_row(d, again->id - 1, &row) == 1) {
        if (row.id == again->id) {
            add_names(d, row.profile);
            cut_row(d, &row, (size_t)(again - d->window.rows));
        }
        et_profile_free(row.profile);
    }
}

void et_relay_fill(struct relay_destination *d)
{
    size_t enough = 2 * d->config->backend->burst;
    struct et_arrival row;
    enough = enough > MIB / 4 ? enough : MIB / 4;
    while (!atomic_load(&d->relay->stop) && d->window.bytes < enough && d->window.row_count < ROWS_MOST &&
           read_next_row(d, d->read, &row) == 1) {
        add_row(d, &row);
    }
}

void et_relay_drop_late(struct relay_destination *d)
{
    for (size_t i = 0; i < d->window.row_count; i++) {
        if (d->window.rows[i].open && untimely(d, d->window.rows[i].start_ns)) {
            et_window_drop(&d->window, i, ET_PART_LOST);
        }
    }
}

bool et_relay_choose(struct relay_destination *d)
{
    struct et_window *window = &d->window;
    if (et_window_same(window)) {
        return true;
    }
    size_t count = et_window_choose(window, d->config->rows);
    const struct et_relay_part **parts = et_alloc(count ? count : 1, sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        parts[i] = &window->parts[window->chosen[i]].part;
    }
    et_buf_free(&d->body);
    if (count) {
        d->config->backend->join(&d->form, parts, count, &d->body, d->type);
    }
    free(parts);
    return count > 0;
}
