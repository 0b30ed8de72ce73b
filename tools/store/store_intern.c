/* See store.h: modules, frames, nodes, origins and labels, which are stored once. */
#include "tools/store/bounds.h"
#include "tools/store/store_internal.h"

#include <string.h>

/* The name of a row with texts, in store->key: the table's letter, numbers, and texts with their ends. */
static struct et_known_name make_name(struct et_store *store, char table, const int64_t *numbers, size_t count,
                                      const char *const *texts)
{
    struct et_buf *key = &store->key;
    key->size = 0;
    et_buf_add(key, &table, 1);
    et_buf_add(key, numbers, count * sizeof *numbers);
    for (size_t i = 0; texts[i]; i++) {
        et_buf_add(key, texts[i], strlen(texts[i]) + 1);
    }
    return (struct et_known_name){.bytes = key->data, .size = key->size};
}

static int64_t note_id(struct et_store *store, const struct et_known_name *name, int64_t id)
{
    if (id > 0) {
        et_known_note(&store->known, name, id);
    }
    return id;
}

int64_t et_store_module(struct et_store *store, const char *build_id, const char *path)
{
    const char *const texts[] = {build_id, path, NULL};
    struct et_known_name name = make_name(store, 'm', NULL, 0, texts);
    int64_t id = et_known_find(&store->known, &name);
    if (!id) {
        id = et_store_number(store, "SELECT id FROM module WHERE build_id = ? AND path = ?", "ss", build_id, path);
        id =
            id ? id : et_store_insert(store, "INSERT INTO module (build_id, path) VALUES (?, ?)", "ss", build_id, path);
        note_id(store, &name, id);
    }
    return id;
}

static const char FRAME_FIND[] =
    "SELECT id FROM frame WHERE module = ? AND address = ? AND name = ? AND file = ? AND line = ?";
static const char FRAME_ADD[] =
    "INSERT OR IGNORE INTO frame (module, address, name, file, line) VALUES (?, ?, ?, ?, ?)";

int64_t et_store_frame(struct et_store *store, int64_t module, uint64_t address, const char *name, const char *file,
                       uint32_t line)
{
    const int64_t at = (int64_t)line, numbers[] = {module, (int64_t)address, at};
    const char *const texts[] = {name, file, NULL};
    struct et_known_name key = make_name(store, 'f', numbers, 3, texts);
    int64_t id = et_known_find(&store->known, &key);
    if (id) {
        return id;
    }
    for (int tries = 0; tries < 2 && !id; tries++) {
        id = store->new_frames ? et_store_insert(store, FRAME_ADD, "iussi", module, address, name, file, at)
                               : et_store_number(store, FRAME_FIND, "iussi", module, address, name, file, at);
        store->new_frames = store->new_frames != (id == 0);
    }
    return note_id(store, &key, id);
}

static const char NODE_FIND[] = "SELECT id FROM node WHERE parent = ? AND frame = ?";
static const char NODE_ADD[] = "INSERT OR IGNORE INTO node (parent, frame) VALUES (?, ?)";

int64_t et_store_node(struct et_store *store, int64_t parent, int64_t frame)
{
    const struct et_known_name name = {.first = parent, .second = frame};
    int64_t id = et_known_find(&store->known, &name);
    if (id) {
        return id;
    }
    for (int tries = 0; tries < 2 && !id; tries++) {
        id = store->new_nodes ? et_store_insert(store, NODE_ADD, "ii", parent, frame)
                              : et_store_number(store, NODE_FIND, "ii", parent, frame);
        store->new_nodes = store->new_nodes != (id == 0);
    }
    return note_id(store, &name, id);
}

/* Runs the statement with the origin's columns. */
static int64_t origin_row(struct et_store *store,
                          int64_t (*run)(struct et_store *store, const char *sql, const char *format, ...),
                          const char *sql, const struct et_origin *o)
{
    return run(store, sql, "ssssisssu", o->service, o->tags, o->host, o->boot_id, (int64_t)o->pid, o->executable,
               o->arch, o->agent, o->process_start_ns);
}

static const char ORIGIN_FIND[] =
    "SELECT id FROM origin WHERE service = ? AND tags = ? AND host = ? AND boot_id = ? AND pid = ?"
    " AND executable = ? AND arch = ? AND agent = ? AND process_start = ?";
static const char ORIGIN_ADD[] =
    "INSERT INTO origin (service, tags, host, boot_id, pid, executable, arch, agent, process_start) VALUES (?, ?,"
    " ?, ?, ?, ?, ?, ?, ?)";

int64_t et_store_origin(struct et_store *store, const struct et_origin *origin)
{
    const char *const texts[] = {origin->service,    origin->tags, origin->host,  origin->boot_id,
                                 origin->executable, origin->arch, origin->agent, NULL};
    const int64_t numbers[] = {(int64_t)origin->pid, (int64_t)origin->process_start_ns};
    struct et_known_name name = make_name(store, 'o', numbers, 2, texts);
    int64_t id = et_known_find(&store->known, &name);
    if (id) {
        return id;
    }
    id = origin_row(store, et_store_number, ORIGIN_FIND, origin);
    if (!id) {
        id = origin_row(store, et_store_insert, ORIGIN_ADD, origin);
        if (id > 0) {
            et_bounds_note_series(store->bounds, origin->service, origin->tags, true);
        }
    }
    return note_id(store, &name, id);
}

/* Tells the bounds of an origin that was added by its id. */
static int64_t note_origin(struct et_store *store, int64_t id)
{
    sqlite3_stmt *row = id > 0 ? et_store_bind(store, "SELECT service, tags FROM origin WHERE id = ?", "i", id) : NULL;
    int got = id > 0 ? et_store_step(store, row) : 0;
    if (got == 1) {
        et_bounds_note_series(store->bounds, et_column_text(row, 0), et_column_text(row, 1), true);
        sqlite3_reset(row);
    }
    return got < 0 ? got : id;
}

static const char UNDATED_FIND[] =
    "SELECT u.id FROM origin o JOIN origin u USING (service, host, boot_id, pid, executable, arch, agent,"
    " process_start) WHERE o.id = ? AND u.tags = o.tags || 'undated=true' || char(10)";
static const char UNDATED_ADD[] =
    "INSERT INTO origin (service, tags, host, boot_id, pid, executable, arch, agent, process_start)"
    " SELECT service, tags || 'undated=true' || char(10), host, boot_id, pid, executable, arch, agent,"
    " process_start FROM origin WHERE id = ?";

int64_t et_store_origin_undated(struct et_store *store, int64_t origin)
{
    int64_t id = et_store_number(store, UNDATED_FIND, "i", origin);
    return id ? id : note_origin(store, et_store_insert(store, UNDATED_ADD, "i", origin));
}

int et_store_stats(struct et_store *store, int64_t origin, const void *stats, size_t size)
{
    int err = et_store_count_losses(store, origin, stats, size);
    return err ? err : et_store_run(store, "UPDATE origin SET stats = ?2 WHERE id = ?1", "ib", origin, stats, size);
}

int et_store_skipped(struct et_store *store, int64_t origin)
{
    return et_store_run(store, "UPDATE origin SET skipped = skipped + 1 WHERE id = ?", "i", origin);
}

int64_t et_store_labels(struct et_store *store, const char *lines)
{
    const char *const texts[] = {lines, NULL};
    struct et_known_name name = make_name(store, 'l', NULL, 0, texts);
    int64_t id = *lines ? et_known_find(&store->known, &name) : 0;
    if (id || !*lines) {
        return id;
    }
    id = et_store_number(store, "SELECT id FROM labels WHERE lines = ?", "s", lines);
    if (!id) {
        id = et_store_insert(store, "INSERT INTO labels (lines) VALUES (?)", "s", lines);
        if (id > 0) {
            et_bounds_note_labels(store->bounds, lines, true);
        }
    }
    return note_id(store, &name, id);
}
