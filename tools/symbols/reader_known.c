/* See reader_known.h. */
#include "tools/symbols/reader_known.h"
#include "tools/lib/hash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- files that broke their process ---- */

enum { FILES_NOTED = 256, DEATHS_MOST = 4, DEATHS_SECONDS = 3600 };

static struct noted_file {
    struct et_file_identity file;
    unsigned deaths; /* after good answers */
    bool given_up;
    time_t last;
} noted[FILES_NOTED];
static size_t noted_next;
static pthread_mutex_t noted_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_ullong failures[ET_READER_FAILURES];

static bool is_same(const struct et_file_identity *a, const struct et_file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->changed_ns == b->changed_ns;
}

static struct noted_file *find_noted(const struct et_file_identity *file)
{
    for (size_t i = 0; i < FILES_NOTED; i++) {
        if (noted[i].last && is_same(&noted[i].file, file)) {
            return &noted[i];
        }
    }
    return NULL;
}

bool et_file_given_up(const struct et_file_identity *file)
{
    pthread_mutex_lock(&noted_lock);
    const struct noted_file *known = find_noted(file);
    bool given_up = known && known->given_up;
    pthread_mutex_unlock(&noted_lock);
    return given_up;
}

bool et_file_note_death(const struct et_file_identity *file, bool answered)
{
    time_t now = time(NULL);
    pthread_mutex_lock(&noted_lock);
    struct noted_file *known = find_noted(file);
    if (!known) {
        known = &noted[noted_next++ % FILES_NOTED];
        *known = (struct noted_file){.file = *file};
    }
    known->deaths = now - known->last > DEATHS_SECONDS ? 1 : known->deaths + 1;
    known->last = now;
    bool before = known->given_up;
    known->given_up = before || !answered || known->deaths >= DEATHS_MOST;
    bool first = known->given_up && !before;
    pthread_mutex_unlock(&noted_lock);
    return first;
}

const char *et_reader_failure_name(enum et_reader_failure failure)
{
    static const char *const names[] = {"crash", "time", "memory", "answer"};
    return names[failure];
}

void et_reader_failed(enum et_reader_failure failure)
{
    failures[failure]++;
}

uint64_t et_reader_failures(enum et_reader_failure failure)
{
    return failures[failure];
}

/* ---- what is known of files ---- */

/* QUIET_SECONDS: a file that was written to so lately may be written to again without another time. */
enum { FACTS_MOST = 16384, QUIET_SECONDS = 2 };

static struct known_file {
    struct et_file_identity file;
    unsigned quality;
    char *build_id, *debuglink;
} * known_files;
static size_t known_count, known_capacity, known_next;
static struct et_map known_places; /* hash of a file -> index + 1 */
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(const struct et_file_identity *file)
{
    return et_hash_pair(file->device, file->inode);
}

bool et_file_recall(const struct et_file_identity *file, struct et_symfile_facts *facts)
{
    pthread_mutex_lock(&known_lock);
    const uint64_t *place = et_map_find(&known_places, hash_of(file));
    const struct known_file *known = place ? &known_files[*place - 1] : NULL;
    bool same = known && is_same(&known->file, file);
    if (same) {
        facts->quality = known->quality;
        snprintf(facts->build_id, sizeof facts->build_id, "%s", known->build_id);
        snprintf(facts->debuglink, sizeof facts->debuglink, "%s", known->debuglink);
    }
    pthread_mutex_unlock(&known_lock);
    return same;
}

/* That of the same file, a new one, or the one that was taken longest ago. */
static struct known_file *place_for(const struct et_file_identity *file)
{
    const uint64_t *known = et_map_find(&known_places, hash_of(file));
    size_t place = known ? *known - 1 : known_count;
    if (!known && known_count == FACTS_MOST) {
        place = known_next++ % FACTS_MOST;
        et_map_remove(&known_places, hash_of(&known_files[place].file));
    } else if (!known) {
        known_files = et_reserve(known_files, &known_capacity, ++known_count, sizeof *known_files);
    }
    *et_map_at(&known_places, hash_of(file)) = place + 1;
    return &known_files[place];
}

void et_file_remember(const struct et_file_identity *file, const struct et_symfile_facts *facts)
{
    if (time(NULL) - file->changed_ns / 1000000000 < QUIET_SECONDS) {
        return;
    }
    pthread_mutex_lock(&known_lock);
    struct known_file *known = place_for(file);
    free(known->build_id);
    free(known->debuglink);
    *known = (struct known_file){.file = *file,
                                 .quality = facts->quality,
                                 .build_id = et_strdup(facts->build_id),
                                 .debuglink = et_strdup(facts->debuglink)};
    pthread_mutex_unlock(&known_lock);
}
