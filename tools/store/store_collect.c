/*
 * See store_collect.h. A pass marks what is used and deletes the rest, in this order:
 *
 *   STACKS, CHUNKS        mark nodes of stored profiles and of segments' dictionaries, and the series' label sets
 *   PARENTS               marks parents, from the greatest id down, because parents have smaller ids
 *   PAIRS, NODES          delete label sets of series, and nodes
 *   USED_FRAMES, FRAMES   mark the frames of nodes, delete frames
 *   MODULES, LABELS, ORIGINS   delete rows that no row refers to
 *
 * Progress and marks are rows that each step writes in its transaction, so a rollback undoes them, too. Messages that
 * arrive between two steps may use unmarked rows again. Their profiles and nodes have greater ids than all before, so
 * a deleting step first marks what those use. Writers of dictionaries mark by et_collect_use().
 */
#include "tools/store/store_collect.h"
#include "tools/store/store_marks.h"
#include "tools/store/bounds.h"
#include "tools/store/store_keep.h"
#include "tools/store/store_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum phase { IDLE, STACKS, CHUNKS, PARENTS, PAIRS, NODES, USED_FRAMES, FRAMES, MODULES, LABELS, ORIGINS };

/* Work of one step: about 10 ms. */
enum {
    STACKS_AT_ONCE = 50000,
    ROWS_AT_ONCE = 500,
    VISITED_AT_ONCE = 10000,
    DELETED_AT_ONCE = 300,
    PARTS_AT_ONCE = 256
};
enum { STACKS_A_LOOKUP = 10 }; /* reading a parent costs as much as marking so many stacks */

enum { PASS_HOURS = 24 };
static const int64_t HOUR = 3600 * ET_NS_PER_S, DAY = 86400 * ET_NS_PER_S;

/* The row of the table `collect`. */
struct pass {
    int64_t phase;
    int64_t cursor;     /* last id done; in CHUNKS, the segment */
    int64_t sequence;   /* CHUNKS: of the last chunk */
    int64_t seen;       /* profiles up to this id are marked; from USED_FRAMES on: frames of nodes up to this id */
    int64_t number;     /* of the pass */
    int64_t started_ns; /* start of the last pass */
    int64_t hours;      /* deleted since then */
};

static int load_pass(struct et_store *store, struct pass *pass)
{
    sqlite3_stmt *row =
        et_store_bind(store, "SELECT phase, cursor, sequence, seen, number, started_ns, hours FROM collect", "");
    int got = et_store_step(store, row);
    if (got == 1) {
        *pass = (struct pass){.phase = sqlite3_column_int64(row, 0),
                              .cursor = sqlite3_column_int64(row, 1),
                              .sequence = sqlite3_column_int64(row, 2),
                              .seen = sqlite3_column_int64(row, 3),
                              .number = sqlite3_column_int64(row, 4),
                              .started_ns = sqlite3_column_int64(row, 5),
                              .hours = sqlite3_column_int64(row, 6)};
        sqlite3_reset(row);
    }
    return got == 1 ? 0 : got ? got : -EIO;
}

static const char PASS_PUT[] =
    "UPDATE collect SET phase = ?, cursor = ?, sequence = ?, seen = ?, number = ?, started_ns = ?, hours = ?";

static int save_pass(struct et_store *store, const struct pass *pass)
{
    return et_store_run(store, PASS_PUT, "iiiiiii", pass->phase, pass->cursor, pass->sequence, pass->seen, pass->number,
                        pass->started_ns, pass->hours);
}

int et_collect_note_hour(struct et_store *store)
{
    return et_store_run(store, "UPDATE collect SET hours = hours + 1", "");
}

/* ---- marking ---- */

static const char PAIR_MARK[] =
    "INSERT INTO series_labels (series, labels, pass) VALUES (?1, ?2, ?3) ON CONFLICT (series, labels) DO UPDATE"
    " SET pass = ?3 WHERE pass <> ?3";

/* Marks the label sets that the series' stacks have. */
static int mark_pairs(struct et_store *store, const struct pass *pass, int64_t series, struct et_blob label_sets)
{
    const uint8_t *at = label_sets.bytes, *end = label_sets.size ? at + label_sets.size : at;
    struct et_map known = {0};
    uint64_t labels, ids[3];
    int err = 0;
    while (!err && at < end && et_label_set_next(&at, end, &labels, ids)) {
        uint64_t *seen = labels ? et_map_at(&known, labels) : NULL;
        if (seen && !*seen) {
            *seen = 1;
            err = et_store_run(store, PAIR_MARK, "iui", series, labels, pass->number);
        }
    }
    et_map_free(&known);
    return err;
}

/* A row of PASS_PROFILES. -EBADMSG: the stacks are damaged. */
static int mark_profile(struct marks *marks, const struct pass *pass, sqlite3_stmt *row, bool parents,
                        struct et_unpacked *unpacked)
{
    struct et_blob stacks = et_column_blob(row, 4);
    enum et_packing packing = (enum et_packing)sqlite3_column_int(row, 3);
    if (et_unpack(unpacked, packing, sqlite3_column_int(row, 2), stacks.bytes, stacks.size)) {
        return -EBADMSG;
    }
    for (size_t i = 0; i < unpacked->count && !marks->err; i++) {
        int64_t node = (int64_t)unpacked->stacks[i].node;
        if (parents) {
            et_marks_add_ancestors(marks, node);
        } else {
            et_marks_add(marks, node);
        }
    }
    int err = marks->err;
    return err ? err : mark_pairs(marks->store, pass, sqlite3_column_int64(row, 1), et_column_blob(row, 5));
}

static const char PASS_PROFILES[] =
    "SELECT p.id, p.series, p.columns, p.packing, s.stacks, s.contexts FROM profile p LEFT JOIN stacks s"
    " ON s.profile = p.id WHERE p.id > ? ORDER BY p.id LIMIT ?";

/* Marks what profiles after pass->seen use. parents: with the ancestors of their nodes. Returns 1: there may be more;
 * 0: all is marked; or an error. */
static int mark_profiles(struct marks *marks, struct pass *pass, bool parents)
{
    struct et_unpacked unpacked = {0};
    size_t stacks = 0, count = 0;
    sqlite3_stmt *row = et_store_bind(marks->store, PASS_PROFILES, "ii", pass->seen, (int64_t)ROWS_AT_ONCE);
    int got, err = 0;
    while ((got = et_store_step(marks->store, row)) == 1 && stacks < STACKS_AT_ONCE && marks->count < PARTS_AT_ONCE) {
        err = mark_profile(marks, pass, row, parents, &unpacked);
        if (err) {
            break;
        }
        pass->seen = sqlite3_column_int64(row, 0);
        count++;
        stacks += unpacked.count + STACKS_A_LOOKUP * marks->lookups;
        marks->lookups = 0;
    }
    sqlite3_reset(row);
    et_unpacked_free(&unpacked);
    return err ? err : got ? got : count == ROWS_AT_ONCE;
}

static const char PASS_CHUNKS[] =
    "SELECT segment, sequence, nodes FROM chunk WHERE (segment, sequence) > (?, ?) ORDER BY segment, sequence"
    " LIMIT ?";

static int mark_chunks(struct marks *marks, struct pass *pass)
{
    size_t nodes = 0, count = 0;
    sqlite3_stmt *row =
        et_store_bind(marks->store, PASS_CHUNKS, "iii", pass->cursor, pass->sequence, (int64_t)ROWS_AT_ONCE);
    int got;
    while ((got = et_store_step(marks->store, row)) == 1 && nodes < STACKS_AT_ONCE) {
        struct et_blob chunk = et_column_blob(row, 2);
        const uint8_t *at = chunk.bytes, *end = chunk.size ? at + chunk.size : at;
        uint64_t node, depth;
        while (at < end && et_varint_get(&at, end, &node) && et_varint_get(&at, end, &depth)) {
            et_marks_add(marks, (int64_t)node);
            nodes++;
        }
        pass->cursor = sqlite3_column_int64(row, 0);
        pass->sequence = sqlite3_column_int64(row, 1);
        count++;
    }
    sqlite3_reset(row);
    return got ? got : count == ROWS_AT_ONCE;
}

static int mark_parents(struct marks *marks, struct pass *pass)
{
    int visited = 0, got;
    sqlite3_stmt *row = et_store_bind(marks->store, "SELECT id, parent FROM node WHERE id < ? ORDER BY id DESC LIMIT ?",
                                      "ii", pass->cursor, (int64_t)VISITED_AT_ONCE);
    while ((got = et_store_step(marks->store, row)) == 1 && marks->count < PARTS_AT_ONCE) {
        int64_t id = sqlite3_column_int64(row, 0);
        if (id > 0 && et_marks_has(marks, id)) {
            et_marks_add(marks, sqlite3_column_int64(row, 1));
        }
        pass->cursor = id;
        visited++;
    }
    sqlite3_reset(row);
    return got ? got : visited == VISITED_AT_ONCE;
}

/* Marks the frames of nodes after pass->seen. Returns as mark_profiles(). */
static int mark_frames(struct marks *marks, struct pass *pass)
{
    int visited = 0, got;
    sqlite3_stmt *row = et_store_bind(marks->store, "SELECT id, frame FROM node WHERE id > ? ORDER BY id LIMIT ?", "ii",
                                      pass->seen, (int64_t)VISITED_AT_ONCE);
    while ((got = et_store_step(marks->store, row)) == 1 && marks->count < PARTS_AT_ONCE) {
        et_marks_add(marks, sqlite3_column_int64(row, 1));
        pass->seen = sqlite3_column_int64(row, 0);
        visited++;
    }
    sqlite3_reset(row);
    return got ? got : visited == VISITED_AT_ONCE;
}

/* ---- deleting ---- */

struct swept_table {
    const char *last, *next, *drop; /* greatest id; ids after one; delete one */
    enum et_deleted what;
};

static const struct swept_table SWEPT_NODES = {"SELECT max(id) FROM node",
                                               "SELECT id FROM node WHERE id > ? ORDER BY id LIMIT ?",
                                               "DELETE FROM node WHERE id = ?", ET_DELETED_NODES};
static const struct swept_table SWEPT_FRAMES = {"SELECT max(id) FROM frame",
                                                "SELECT id FROM frame WHERE id > ? ORDER BY id LIMIT ?",
                                                "DELETE FROM frame WHERE id = ?", ET_DELETED_FRAMES};

/* Deletes some unmarked rows. Returns 1: there may be more; 0: the table is done; or an error. */
static int sweep_table(struct marks *marks, struct pass *pass, const struct swept_table *table)
{
    struct et_store *store = marks->store;
    int64_t ids[DELETED_AT_ONCE], last = et_store_number(store, table->last, "");
    size_t most = marks->count + PARTS_AT_ONCE; /* beside what new rows used */
    int visited = 0, count = 0, got = 1;
    sqlite3_stmt *row = et_store_bind(store, table->next, "ii", pass->cursor, (int64_t)VISITED_AT_ONCE);
    while (count < DELETED_AT_ONCE && marks->count < most && (got = et_store_step(store, row)) == 1) {
        pass->cursor = sqlite3_column_int64(row, 0);
        visited++;
        if (pass->cursor < last && !et_marks_has(marks, pass->cursor)) {
            ids[count++] = pass->cursor;
        }
    }
    sqlite3_reset(row);
    int err = last < 0 ? (int)last : got < 0 ? got : marks->err;
    for (int i = 0; i < count && !err; i++) {
        err = et_store_run(store, table->drop, "i", ids[i]);
    }
    if (count) {
        et_known_clear(&store->known);
    }
    err = err || !count ? err : et_store_note_deleted(store, table->what, count);
    return err ? err : got || visited == VISITED_AT_ONCE;
}

static const char PAIRS_END[] =
    "SELECT max(series) FROM (SELECT series FROM series_labels WHERE series > ? ORDER BY series LIMIT 300)";

/* Deletes label sets of series whose stacks do not have them any more. */
static int sweep_pairs(struct et_store *store, struct pass *pass)
{
    int64_t end = et_store_number(store, PAIRS_END, "i", pass->cursor);
    int err = end <= 0
                  ? (int)end
                  : et_store_run(store, "DELETE FROM series_labels WHERE series > ?1 AND series <= ?2 AND pass <> ?3",
                                 "iii", pass->cursor, end, pass->number);
    pass->cursor = end > 0 ? end : pass->cursor;
    return err ? err : end > 0;
}

struct referred_table {
    const char *end, *unused; /* last of some ids; delete those in between that no row refers to */
    enum et_deleted what;
};

static const char MODULES_UNUSED[] =
    "DELETE FROM module WHERE id > ?1 AND id <= ?2 AND id < (SELECT max(id) FROM module) AND NOT EXISTS (SELECT 1"
    " FROM frame f WHERE f.module = module.id) AND NOT EXISTS (SELECT 1 FROM span s WHERE s.module = module.id)"
    " RETURNING id";
static const char LABELS_UNUSED[] =
    "DELETE FROM labels WHERE id > ?1 AND id <= ?2 AND id < (SELECT max(id) FROM labels) AND NOT EXISTS (SELECT 1"
    " FROM series_labels s WHERE s.labels = labels.id) AND NOT EXISTS (SELECT 1 FROM labelset l"
    " WHERE l.labels = labels.id) RETURNING lines";
static const char ORIGINS_UNUSED[] =
    "DELETE FROM origin WHERE id > ?1 AND id <= ?2 AND id < (SELECT max(id) FROM origin) AND NOT EXISTS (SELECT 1"
    " FROM series s WHERE s.origin = origin.id) AND NOT EXISTS (SELECT 1 FROM segment g"
    " WHERE g.origin = origin.id AND NOT g.ended) RETURNING service, tags";

static const struct referred_table REFERRED[] = {
    [MODULES] = {"SELECT max(id) FROM (SELECT id FROM module WHERE id > ? ORDER BY id LIMIT 100)", MODULES_UNUSED,
                 ET_DELETED_MODULES},
    [LABELS] = {"SELECT max(id) FROM (SELECT id FROM labels WHERE id > ? ORDER BY id LIMIT 100)", LABELS_UNUSED,
                ET_DELETED_LABELS},
    [ORIGINS] = {"SELECT max(id) FROM (SELECT id FROM origin WHERE id > ? ORDER BY id LIMIT 100)", ORIGINS_UNUSED,
                 ET_DELETED_ORIGINS},
};

/* Names that are gone make room for others. row: what was deleted. */
static void release_names(struct et_store *store, enum et_deleted what, sqlite3_stmt *row)
{
    if (what == ET_DELETED_LABELS) {
        et_bounds_note_labels(store->bounds, et_column_text(row, 0), false);
    } else if (what == ET_DELETED_ORIGINS) {
        et_bounds_note_series(store->bounds, et_column_text(row, 0), et_column_text(row, 1), false);
    }
}

static int sweep_referred(struct et_store *store, struct pass *pass)
{
    const struct referred_table *table = &REFERRED[pass->phase];
    int64_t end = et_store_number(store, table->end, "i", pass->cursor), count = 0;
    if (end <= 0) {
        return (int)end;
    }
    sqlite3_stmt *row = et_store_bind(store, table->unused, "ii", pass->cursor, end);
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        release_names(store, table->what, row);
        count++;
    }
    pass->cursor = end;
    if (count) {
        et_known_clear(&store->known);
    }
    got = got || !count ? got : et_store_note_deleted(store, table->what, count);
    return got ? got : 1;
}

/* ---- the pass ---- */

static bool is_due(const struct pass *pass, int64_t now_ns, bool urgent)
{
    int64_t age = now_ns - pass->started_ns;
    return pass->hours && (pass->hours >= PASS_HOURS || age < 0 || age >= (urgent ? HOUR : DAY));
}

static int begin_pass(struct marks *marks, struct pass *pass, int64_t now_ns)
{
    *pass = (struct pass){.phase = STACKS, .number = pass->number + 1, .started_ns = now_ns};
    return et_marks_clear(marks);
}

static int next_phase(struct marks *marks, struct pass *pass)
{
    int64_t ended = pass->phase;
    pass->phase = ended == ORIGINS ? IDLE : ended + 1;
    pass->cursor = pass->phase == CHUNKS ? INT64_MIN : pass->phase == PARENTS ? INT64_MAX : 0;
    pass->sequence = -1;
    pass->seen = ended == NODES ? 0 : pass->seen;
    int err = ended == NODES || ended == FRAMES ? et_marks_clear(marks) : 0;
    return err || pass->phase != IDLE ? err : et_store_note_deleted(marks->store, ET_DELETED_PASSES, 1);
}

/* Without the damaged stacks it is not known what is used. The next pass begins a day later. */
static int give_up(struct marks *marks, struct pass *pass)
{
    pass->phase = IDLE;
    pass->hours++;
    int err = et_marks_clear(marks);
    return err ? err : et_store_note_deleted(marks->store, ET_DELETED_NOTHING, 1);
}

/* Returns 1: the phase goes on; 0: it is done; or an error. */
static int run_phase(struct marks *marks, struct pass *pass)
{
    int got = 0;
    switch ((enum phase)pass->phase) {
    case STACKS:
        return mark_profiles(marks, pass, false);
    case CHUNKS:
        return mark_chunks(marks, pass);
    case PARENTS:
        return mark_parents(marks, pass);
    case PAIRS:
        got = mark_profiles(marks, pass, true);
        return got ? got : sweep_pairs(marks->store, pass);
    case NODES:
        got = mark_profiles(marks, pass, true);
        return got ? got : sweep_table(marks, pass, &SWEPT_NODES);
    case USED_FRAMES:
        return mark_frames(marks, pass);
    case FRAMES:
        got = mark_frames(marks, pass);
        return got ? got : sweep_table(marks, pass, &SWEPT_FRAMES);
    default:
        return sweep_referred(marks->store, pass);
    }
}

int et_collect_step(struct et_store *store, int64_t now_ns, bool urgent)
{
    struct pass pass;
    struct marks marks = {.store = store};
    int err = load_pass(store, &pass);
    if (err || (pass.phase == IDLE && !is_due(&pass, now_ns, urgent))) {
        return err;
    }
    int got = pass.phase == IDLE ? begin_pass(&marks, &pass, now_ns) : 0;
    got = got ? got : run_phase(&marks, &pass);
    if (got == -EBADMSG) {
        got = give_up(&marks, &pass);
    } else if (got == 0) {
        got = next_phase(&marks, &pass);
    }
    err = et_marks_save(&marks, got);
    err = err ? err : save_pass(store, &pass);
    return err ? err : 1;
}

int et_collect_use(struct et_store *store, const int64_t *nodes, size_t count)
{
    struct pass pass;
    struct marks marks = {.store = store};
    int err = load_pass(store, &pass);
    if (err || pass.phase < STACKS || pass.phase > NODES) {
        return err;
    }
    for (size_t i = 0; i < count && !marks.err; i++) {
        et_marks_add_ancestors(&marks, nodes[i]);
    }
    return et_marks_save(&marks, 0);
}
