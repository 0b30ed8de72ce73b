/* Modules and what is known of them, for symbols.c and its parts: symbols_modules.c and symbols_work.c. */
#ifndef ET_SYMBOLS_PARTS_H
#define ET_SYMBOLS_PARTS_H

#include "tools/symbols/debuginfod.h"
#include "tools/symbols/places.h"
#include "tools/symbols/reader.h"
#include "tools/symbols/symbols.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum et_symbols_state {
    UNKNOWN, /* to be looked for */
    ABSENT,
    OPEN,
    CLOSED, /* to make room; the answers stay */
};

struct et_symbols_answer {
    uint32_t function, source, line; /* numbers of strings; function 0: no name */
    bool more;                       /* the next answer belongs to the same address */
    uint64_t start;                  /* without a name: of the function */
};

struct et_symbols_module {
    char *build_id, *path; /* of a module without build id also its key; else of whom asked last */
    int64_t file_ns;       /* of a module without build id also its key: see et_symbols_file_time() */
    enum et_symbols_state state;
    struct et_reader *file; /* the busy thread's */
    char *file_path, *fetched;
    char debuglink[256]; /* of the file */
    unsigned quality;
    struct et_map known; /* address -> PENDING, or index + FIRST into answers */
    struct et_symbols_answer *answers;
    size_t answer_count, answer_capacity;
    struct et_strings strings;
    uint64_t *pending; /* addresses without an answer yet */
    size_t pending_count, pending_capacity;
    time_t tried;
    bool queued, busy;          /* a worker has to look at it; one does */
    bool look_again;            /* there may be a better file than the one in use */
    struct et_companion lacked; /* by the file in use */
    bool lacked_fetched;        /* a server had it */
    bool ask_queued, asking;    /* the same of an asker */
    bool slow;                  /* somebody has waited in vain for what is being done */
    unsigned users;             /* requests */
    uint64_t used;              /* when, in requests */
};

enum { PENDING = 1, FIRST = 2 };

enum { WORKERS = 4, ASKERS = 2 };

struct et_symbols {
    struct et_places *places;
    struct et_debuginfod *debuginfod;
    int64_t wait_ns; /* 0: the asking thread does the work itself */
    pthread_mutex_t lock;
    pthread_cond_t work, answered;
    pthread_t threads[WORKERS + ASKERS];
    size_t thread_count;
    atomic_bool stopping;
    struct et_symbols_module **modules;
    size_t module_count, module_capacity;
    size_t answer_count;
    size_t parsing; /* workers that wait for a file's process */
    uint64_t requests;
};

/* What a worker has to do for it. */
static inline bool et_symbols_has_work(const struct et_symbols_module *module)
{
    return module->pending_count || module->state == UNKNOWN || module->look_again;
}

/* ---- symbols_modules.c; Context: holds the lock ---- */

enum { ET_FILE_CHANGED = -1, ET_FILE_ABSENT = 0 };
/* When the file at this path was last changed or put there; ET_FILE_CHANGED: after `since_ns`, so it may not be the one
 * that ran. Context: any thread. */
int64_t et_symbols_file_time(const char *path, int64_t since_ns);

/* Finds the module or adds it, and marks it as used. The least recently used goes when there are too many. since_ns:
 * when its addresses were sampled. */
struct et_symbols_module *et_symbols_get_module(struct et_symbols *symbols, const char *build_id, const char *path,
                                                int64_t since_ns);
void et_symbols_free_module(struct et_symbols_module *module);
/* Drops the module's answers; they are to be found again. */
void et_symbols_forget(struct et_symbols *symbols, struct et_symbols_module *module);
/* Closes files, the least recently used first, until there is room for one more; but: not this one. */
void et_symbols_close_files(struct et_symbols *symbols, const struct et_symbols_module *but);

/* ---- symbols_work.c; Context: holds the lock, and gives it up meanwhile ---- */

/* Finds the file of a module and the names of its pending addresses. */
void et_symbols_work(struct et_symbols *symbols, struct et_symbols_module *module);
void et_symbols_start_threads(struct et_symbols *symbols);

#endif
