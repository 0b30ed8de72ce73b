/*
 * The profiles on their way to one destination: read from the database, cut into parts, not all answered yet. The
 * window decides which parts are the next request, and what an answer means for each of them:
 *
 *   taken       they are sent; the next request may be larger
 *   refused     halves the request until a bad part stands alone, which is skipped. Pyroscope stores what is good of a
 *               request, and its answer says what it refuses: that is skipped, and only what may be missing is sent
 *               again, each part alone. An answer that tells one failure may hide others of the moment, so after a
 *               failure everything else is sent again
 *   too large   halves the request; a single part is cut again
 *   too fast    halves the request after a pause
 *   broken      (5xx) the same request again, then halves. A part that fails alone several times waits while others go
 *               first; if it fails again after others passed, it is set aside
 *
 * So no part holds up the others for good. Context: the destination's thread.
 */
#ifndef ET_RELAY_WINDOW_H
#define ET_RELAY_WINDOW_H

#include "tools/serve/relay/relay_backend.h"

enum et_part_fate { ET_PART_OPEN, ET_PART_SENT, ET_PART_REFUSED, ET_PART_LOST, ET_PART_ASIDE, ET_PART_RECUT };

struct et_window_row {
    int64_t id, start_ns;
    struct et_arrival *arrival; /* NULL: not kept */
    bool fates[ET_PART_RECUT + 1];
    size_t open; /* parts without a result */
};

struct et_window_part {
    struct et_relay_part part;
    size_t row; /* index in rows */
    enum et_part_fate fate;
    bool single;       /* goes alone */
    unsigned failures; /* 5xx while it was alone */
};

struct et_window {
    struct et_window_row *rows; /* in the order of the database */
    struct et_window_part *parts;
    size_t row_count, row_capacity, part_count, part_capacity;
    size_t *chosen; /* indices of the parts of the request under way */
    size_t chosen_count, chosen_capacity;
    size_t bytes; /* of open parts, inflated */
    const struct et_relay_backend *backend;
    size_t burst, budget;      /* inflated bytes of a request: the most ever, and at present */
    size_t span;               /* parts of a request at present */
    unsigned broken, too_fast; /* answers in a row */
    bool doubtful;             /* the last answer but refusals was a failure of the moment */
    bool trial;                /* others passed while a part waited: its turn */
    int64_t recut;             /* row to be cut again, with smaller parts; 0: none */
    size_t limit;              /* maximum bytes of a part, learned; 0: the backend's */
};

enum et_relay_result {
    ET_RESULT_TAKEN,
    ET_RESULT_REFUSED,
    ET_RESULT_TOO_LARGE,
    ET_RESULT_TOO_FAST,
    ET_RESULT_BROKEN,
    ET_RESULT_AWAY, /* no answer, or one that says nothing about the profiles */
};

void et_window_open(struct et_window *window, const struct et_relay_backend *backend);
void et_window_close(struct et_window *window);

/* Adds a row, whose parts follow with et_window_add_part(). The window owns `keep`, which may be NULL. */
void et_window_add_row(struct et_window *window, int64_t id, int64_t start_ns, struct et_arrival *keep);
/* Adds a part of the row `context` (struct et_window_target); an et_relay_take. */
struct et_window_target {
    struct et_window *window;
    size_t row;
};
void et_window_add_part(void *context, const struct et_relay_part *part);
/* The row to be cut again: removes its old parts. NULL: there is none. */
struct et_window_row *et_window_recut(struct et_window *window);
/* All open parts of the row get this fate. */
void et_window_drop(struct et_window *window, size_t row, enum et_part_fate fate);

/* Chooses the parts of the next request, of at most so many rows. Returns their number. */
size_t et_window_choose(struct et_window *window, size_t rows);
/* The inflated bytes of the request. */
size_t et_window_chosen_bytes(const struct et_window *window);

/* Notes the answer to the request. words: its text, "" when a part of it is missing. Returns true: the next request
 * has to wait. *bad: the part that was refused or set aside; NULL: none. */
bool et_window_answer(struct et_window *window, enum et_relay_result result, const char *words,
                      const struct et_window_part **bad);
/* True: the request is still the right one to be sent. */
bool et_window_same(const struct et_window *window);

/* Removes the finished rows before the first unfinished one. Adds them to *done, whose cursor becomes the last id, or
 * stays. Returns the number of those set aside. */
size_t et_window_finish(struct et_window *window, struct et_relay_mark *done);

#endif
