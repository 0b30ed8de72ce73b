/* See relay_window.h. */
#include "tools/serve/relay/relay_window.h"

#include <stdlib.h>
#include <string.h>

/* Failures alone after which others go first; 429 in a row after which a single part is cut smaller; smallest budget,
 * and smallest limit of a part. */
enum { SUSPECT = 3, FAST_MOST = 3, SPAN_MOST = 1 << 20, LEAST = 1 << 16 };

void et_window_open(struct et_window *window, const struct et_relay_backend *backend)
{
    *window =
        (struct et_window){.backend = backend, .burst = backend->burst, .budget = backend->burst, .span = SPAN_MOST};
}

static void free_row(struct et_window_row *row)
{
    if (row->arrival) {
        et_profile_free(row->arrival->profile);
        free(row->arrival);
    }
}

void et_window_close(struct et_window *window)
{
    for (size_t i = 0; i < window->row_count; i++) {
        free_row(&window->rows[i]);
    }
    for (size_t i = 0; i < window->part_count; i++) {
        et_buf_free(&window->parts[i].part.bytes);
    }
    free(window->rows);
    free(window->parts);
    free(window->chosen);
    *window = (struct et_window){0};
}

void et_window_add_row(struct et_window *window, int64_t id, int64_t start_ns, struct et_arrival *keep)
{
    window->rows = et_reserve(window->rows, &window->row_capacity, window->row_count + 1, sizeof *window->rows);
    window->rows[window->row_count++] = (struct et_window_row){.id = id, .start_ns = start_ns, .arrival = keep};
}

void et_window_add_part(void *context, const struct et_relay_part *part)
{
    const struct et_window_target *target = context;
    struct et_window *window = target->window;
    window->parts = et_reserve(window->parts, &window->part_capacity, window->part_count + 1, sizeof *window->parts);
    window->parts[window->part_count++] = (struct et_window_part){.part = *part, .row = target->row};
    window->rows[target->row].open++;
    window->bytes += part->inflated;
}

/* ---- results ---- */

static void settle(struct et_window *window, struct et_window_part *part, enum et_part_fate fate)
{
    part->fate = fate;
    window->rows[part->row].fates[fate] = true;
    window->rows[part->row].open--;
    window->bytes -= part->part.inflated;
    et_buf_free(&part->part.bytes);
}

void et_window_drop(struct et_window *window, size_t row, enum et_part_fate fate)
{
    window->rows[row].fates[fate] = true;
    for (size_t i = 0; i < window->part_count; i++) {
        if (window->parts[i].row == row && window->parts[i].fate == ET_PART_OPEN) {
            settle(window, &window->parts[i], fate);
        }
    }
}

struct et_window_row *et_window_recut(struct et_window *window)
{
    for (size_t i = 0; window->recut && i < window->row_count; i++) {
        if (window->rows[i].id == window->recut) {
            window->recut = 0;
            et_window_drop(window, i, ET_PART_RECUT);
            return &window->rows[i];
        }
    }
    window->recut = 0;
    return NULL;
}

size_t et_window_chosen_bytes(const struct et_window *window)
{
    size_t bytes = 0;
    for (size_t i = 0; i < window->chosen_count; i++) {
        bytes += window->parts[window->chosen[i]].part.inflated;
    }
    return bytes;
}

static struct et_window_part *chosen_part(struct et_window *window, size_t number)
{
    return &window->parts[window->chosen[number]];
}

static enum et_relay_told judge(const struct et_window *window, const char *words, enum et_relay_verdict *verdicts)
{
    if (!window->backend->judge) {
        return ET_TOLD_NOTHING;
    }
    const struct et_relay_part **parts = et_alloc(window->chosen_count, sizeof *parts);
    for (size_t i = 0; i < window->chosen_count; i++) {
        parts[i] = &window->parts[window->chosen[i]].part;
    }
    enum et_relay_told told = window->backend->judge(parts, window->chosen_count, words, verdicts);
    free(parts);
    return told;
}

/* Settles what the answer tells of; the rest goes alone if it was refused. The request is void then, because its body
 * still has what was settled. False: the answer tells nothing, or too little. *bad: a part that was refused. */
static bool settle_told(struct et_window *window, const char *words, bool refused, const struct et_window_part **bad)
{
    enum et_relay_verdict *verdicts = et_alloc(window->chosen_count, sizeof *verdicts);
    enum et_relay_told told = judge(window, words, verdicts);
    bool enough = told == ET_TOLD_ALL || (told == ET_TOLD_ONE && refused);
    bool sure = told == ET_TOLD_ALL || !window->doubtful;
    for (size_t i = 0; enough && i < window->chosen_count; i++) {
        struct et_window_part *part = chosen_part(window, i);
        if (verdicts[i] == ET_VERDICT_REFUSED) {
            settle(window, part, ET_PART_REFUSED);
            *bad = part;
        } else if (verdicts[i] == ET_VERDICT_OPEN) {
            part->single |= refused;
        } else if (sure) {
            settle(window, part, ET_PART_SENT);
        }
    }
    window->chosen_count = enough ? 0 : window->chosen_count;
    free(verdicts);
    return enough;
}

static void on_taken(struct et_window *window)
{
    for (size_t i = 0; i < window->chosen_count; i++) {
        settle(window, chosen_part(window, i), ET_PART_SENT);
    }
    size_t more = window->budget + window->burst / 16 + 1;
    window->budget = more < window->burst ? more : window->burst;
    window->span = window->span < SPAN_MOST ? window->span * 2 : SPAN_MOST;
    window->trial = true;
}

static void halve_span(struct et_window *window)
{
    window->span = window->chosen_count / 2;
}

static const struct et_window_part *on_refused(struct et_window *window, const char *words)
{
    if (window->chosen_count == 1) {
        settle(window, chosen_part(window, 0), ET_PART_REFUSED);
        return chosen_part(window, 0);
    }
    const struct et_window_part *bad = NULL;
    if (!settle_told(window, words, true, &bad)) {
        halve_span(window);
    }
    return bad;
}

/* Cuts the single part smaller, unless it is small, or another part of its row is already sent. */
static bool cut_smaller(struct et_window *window)
{
    const struct et_window_part *part = chosen_part(window, 0);
    const struct et_window_row *row = &window->rows[part->row];
    if (part->part.inflated / 2 < LEAST || part->part.entries < 2 || row->fates[ET_PART_SENT]) {
        return false;
    }
    window->limit = part->part.inflated / 2;
    window->recut = row->id;
    return true;
}

static const struct et_window_part *on_too_large(struct et_window *window)
{
    size_t half = et_window_chosen_bytes(window) / 2;
    if (window->chosen_count > 1) {
        window->budget = half > LEAST ? half : LEAST;
        halve_span(window);
    } else if (!cut_smaller(window)) {
        settle(window, chosen_part(window, 0), ET_PART_REFUSED);
        return chosen_part(window, 0);
    }
    return NULL;
}

static void on_too_fast(struct et_window *window, const char *words)
{
    if (window->chosen_count == 1) {
        if (++window->too_fast >= FAST_MOST && cut_smaller(window)) {
            window->too_fast = 0;
        }
        return;
    }
    size_t half = et_window_chosen_bytes(window) / 2;
    window->budget = half > LEAST ? half : LEAST;
    settle_told(window, words, false, &(const struct et_window_part *){NULL});
}

static const struct et_window_part *on_broken(struct et_window *window, const char *words)
{
    struct et_window_part *part = chosen_part(window, 0);
    const struct et_window_part *bad = NULL;
    if (window->chosen_count == 1) {
        bool others_passed = part->failures >= SUSPECT && window->trial;
        part->failures++;
        window->trial = false;
        if (others_passed) {
            settle(window, part, ET_PART_ASIDE);
            return part;
        }
    } else if (!settle_told(window, words, false, &bad) && ++window->broken >= 2) {
        halve_span(window);
        window->broken = 0;
    }
    return bad;
}

bool et_window_answer(struct et_window *window, enum et_relay_result result, const char *words,
                      const struct et_window_part **bad)
{
    *bad = NULL;
    if (result != ET_RESULT_BROKEN) {
        window->broken = 0;
    }
    if (result != ET_RESULT_TOO_FAST) {
        window->too_fast = 0;
    }
    bool of_moment = result == ET_RESULT_TOO_FAST || result == ET_RESULT_BROKEN || result == ET_RESULT_AWAY;
    window->doubtful = of_moment || (window->doubtful && result != ET_RESULT_TAKEN);
    switch (result) {
    case ET_RESULT_TAKEN:
        on_taken(window);
        return false;
    case ET_RESULT_REFUSED:
        *bad = on_refused(window, words);
        return false;
    case ET_RESULT_TOO_LARGE:
        *bad = on_too_large(window);
        return false;
    case ET_RESULT_TOO_FAST:
        on_too_fast(window, words);
        return true;
    case ET_RESULT_BROKEN:
        *bad = on_broken(window, words);
        return !*bad;
    case ET_RESULT_AWAY:
        break;
    }
    return true;
}

/* ---- choosing ---- */

static void choose_part(struct et_window *window, size_t index)
{
    window->chosen =
        et_reserve(window->chosen, &window->chosen_capacity, window->chosen_count + 1, sizeof *window->chosen);
    window->chosen[window->chosen_count++] = index;
}

static bool suspect(const struct et_window_part *part)
{
    return part->fate == ET_PART_OPEN && part->failures >= SUSPECT;
}

/* The first suspect. */
static bool choose_suspect(struct et_window *window)
{
    for (size_t i = 0; i < window->part_count; i++) {
        if (suspect(&window->parts[i])) {
            choose_part(window, i);
            return true;
        }
    }
    return false;
}

size_t et_window_choose(struct et_window *window, size_t rows)
{
    size_t bytes = 0, used = 0, last = SIZE_MAX;
    window->chosen_count = 0;
    if (window->trial && choose_suspect(window)) {
        return 1;
    }
    for (size_t i = 0; i < window->part_count && window->chosen_count < window->span; i++) {
        const struct et_window_part *part = &window->parts[i];
        if (part->fate != ET_PART_OPEN || suspect(part) || (part->single && window->chosen_count)) {
            continue;
        }
        used += part->row != last;
        bytes += part->part.inflated;
        if (window->chosen_count && (used > rows || bytes > window->budget)) {
            break;
        }
        last = part->row;
        choose_part(window, i);
        if (part->single) {
            break;
        }
    }
    return window->chosen_count || choose_suspect(window) ? window->chosen_count : 0;
}

bool et_window_same(const struct et_window *window)
{
    size_t open = 0;
    for (size_t i = 0; i < window->chosen_count; i++) {
        const struct et_window_part *part = &window->parts[window->chosen[i]];
        open += part->fate == ET_PART_OPEN && !(suspect(part) && !window->trial);
    }
    return window->chosen_count && open == window->chosen_count && !window->recut && open <= window->span &&
           (open == 1 || et_window_chosen_bytes(window) <= window->budget);
}

/* ---- finishing ---- */

/* Counts a finished row. Returns 1 when it is set aside. */
static size_t count_row(const struct et_window_row *row, struct et_relay_mark *done)
{
    bool refused = row->fates[ET_PART_REFUSED] || row->fates[ET_PART_ASIDE];
    done->cursor = row->id;
    done->refused += refused;
    done->lost += !refused && row->fates[ET_PART_LOST];
    done->sent += !refused && !row->fates[ET_PART_LOST] && row->fates[ET_PART_SENT];
    return row->fates[ET_PART_ASIDE];
}

size_t et_window_finish(struct et_window *window, struct et_relay_mark *done)
{
    size_t finished = 0, aside = 0, kept = 0;
    while (finished < window->row_count && !window->rows[finished].open && window->rows[finished].id != window->recut) {
        aside += count_row(&window->rows[finished], done);
        free_row(&window->rows[finished++]);
    }
    if (!finished) {
        return 0;
    }
    for (size_t i = 0; i < window->part_count; i++) {
        if (window->parts[i].row >= finished) {
            window->parts[kept] = window->parts[i];
            window->parts[kept++].row -= finished;
        }
    }
    window->part_count = kept;
    window->chosen_count = 0;
    window->row_count -= finished;
    memmove(window->rows, window->rows + finished, window->row_count * sizeof *window->rows);
    return aside;
}
