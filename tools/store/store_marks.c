/* See store_marks.h. */
#include "tools/store/store_marks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Nearly a database page. */
enum { PART_IDS = 32000, PART_BYTES = PART_IDS / 8 };

struct mark_part {
    int64_t number;
    bool changed;
    uint8_t bits[PART_BYTES];
};

static struct mark_part *find_part(struct marks *marks, int64_t id)
{
    int64_t number = id / PART_IDS;
    if (marks->count && marks->parts[marks->last].number == number) {
        return &marks->parts[marks->last];
    }
    uint64_t *index = et_map_at(&marks->index, (uint64_t)number);
    if (!*index) {
        marks->parts = et_reserve(marks->parts, &marks->capacity, marks->count + 1, sizeof *marks->parts);
        struct mark_part *part = &marks->parts[marks->count];
        *part = (struct mark_part){.number = number};
        sqlite3_stmt *row = et_store_bind(marks->store, "SELECT bits FROM mark WHERE part = ?", "i", number);
        int got = et_store_step(marks->store, row);
        if (got == 1 && sqlite3_column_bytes(row, 0) == PART_BYTES) {
            memcpy(part->bits, sqlite3_column_blob(row, 0), PART_BYTES);
        } else if (got) {
            marks->err = got < 0 ? got : -EIO;
        }
        sqlite3_reset(row);
        *index = ++marks->count;
    }
    marks->last = (size_t)*index - 1;
    return &marks->parts[marks->last];
}

bool et_marks_has(struct marks *marks, int64_t id)
{
    return find_part(marks, id)->bits[id % PART_IDS / 8] >> id % 8 & 1;
}

bool et_marks_add(struct marks *marks, int64_t id)
{
    if (id < 1 || et_marks_has(marks, id)) {
        return false;
    }
    struct mark_part *part = find_part(marks, id);
    part->bits[id % PART_IDS / 8] |= (uint8_t)(1 << id % 8);
    part->changed = true;
    return true;
}

void et_marks_add_ancestors(struct marks *marks, int64_t id)
{
    while (!marks->err && et_marks_add(marks, id)) {
        sqlite3_stmt *row = et_store_bind(marks->store, "SELECT parent FROM node WHERE id = ?", "i", id);
        int got = et_store_step(marks->store, row);
        int64_t parent = got == 1 ? sqlite3_column_int64(row, 0) : 0;
        sqlite3_reset(row);
        marks->err = got < 0 ? got : marks->err;
        marks->lookups++;
        id = parent < id ? parent : 0; /* a damaged database may have circles */
    }
}

static void forget_marks(struct marks *marks)
{
    et_map_free(&marks->index);
    free(marks->parts);
    *marks = (struct marks){.store = marks->store, .err = marks->err};
}

int et_marks_save(struct marks *marks, int err)
{
    err = err < 0 ? err : marks->err;
    for (size_t i = 0; i < marks->count && !err; i++) {
        const struct mark_part *part = &marks->parts[i];
        if (part->changed) {
            err = et_store_run(marks->store, "INSERT OR REPLACE INTO mark (part, bits) VALUES (?, ?)", "ib",
                               part->number, (const void *)part->bits, (size_t)PART_BYTES);
        }
    }
    forget_marks(marks);
    return err;
}

int et_marks_clear(struct marks *marks)
{
    forget_marks(marks);
    return et_store_run(marks->store, "DELETE FROM mark", "");
}
