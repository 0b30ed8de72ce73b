/*
 * The spool's log: what spool.c (when and what) needs of spool_log.c (files and their bytes, core/FORMAT.md).
 *
 * Numbered files hold records in the order in which they were put; the oldest goes first when there are too many bytes.
 * A run of the profiler appends to files of its own alone, so what an earlier one left behind is only ever read.
 * Context of everything here: deliver.
 */
#ifndef EP_SPOOL_LOG_H
#define EP_SPOOL_LOG_H

#include "core/deliver/deliver.h"

#define EP_SPOOL_FILES       32u   /* at most, one more has the mark */
#define EP_SPOOL_BLOCK       4096u /* what is written, and where */
#define EP_SPOOL_RECORD      90u   /* bytes in front of a message */
#define EP_SPOOL_ORIGIN_SIZE (EP_STRINGS_BYTES + 48u)

struct ep_spool_count {
    uint64_t messages, samples, cpu_ns;
};

struct ep_spool_file {
    uint32_t number; /* 0: none */
    uint32_t size;   /* whole blocks */
    struct ep_spool_count left;
};

/* A record's head by name. */
struct ep_spool_record {
    uint32_t size, file, index, sequence;
    uint64_t segment, start_ns, duration_ns, unix_minus_uptime_ns, cpu_ns, samples;
    char family[16]; /* pprof; compact: "" */
    uint8_t origin;  /* the file's first record: who speaks; 0: a message */
};

struct ep_spool_place {
    uint32_t file, offset, index;
};

struct ep_spool_log {
    struct ep_spool_file file[EP_SPOOL_FILES]; /* by number % EP_SPOOL_FILES */
    uint64_t cap, bytes;                       /* of all files */
    uint64_t written;                          /* bytes, ever */
    uint32_t next;                             /* number of the next file */
    uint32_t first_own;                        /* files from here on are this run's */
    struct ep_spool_place write;               /* where the next record goes; file 0: a new file */
    struct ep_spool_place read, marked;
    uint32_t marks;
    uint32_t fill; /* of the buffer, while a batch is made */
    struct ep_spool_count batch;
    uint8_t *buffer;
    uint32_t size;
    uint32_t origin_of; /* the file whose origin this is: service, tags, boot id, each with a 0 */
    char origin[EP_SPOOL_ORIGIN_SIZE];
};

/* Finds what earlier runs have left, and cuts what a power cut has torn. 0, or why the directory cannot be used. */
int ep_spool_log_open(struct ep_spool_log *log, const char *dir);
/* Notes what has been delivered, and lets go of the directory. */
void ep_spool_log_close(struct ep_spool_log *log);

/* A batch is made of records for one file, and is in the log whole when commit returns 0; in all other cases the
 * messages are still the caller's. add: false, no room. *dropped: what had to go for it, of this run and of all. */
struct ep_spool_dropped {
    struct ep_spool_count all;
    uint64_t own_cpu_ns;
};
void ep_spool_log_begin(struct ep_spool_log *log, const char *origin, uint32_t origin_size);
bool ep_spool_log_add(struct ep_spool_log *log, const struct ep_spool_record *record, const void *bytes);
int ep_spool_log_commit(struct ep_spool_log *log, struct ep_spool_dropped *dropped);
/* What comes next goes to another file. */
void ep_spool_log_turn(struct ep_spool_log *log);

/* The oldest message that is left, its bytes and its file's origin; NULL: none is left. *damaged: messages that were
 * in the log and cannot be read any more. */
const uint8_t *ep_spool_log_read(struct ep_spool_log *log, struct ep_spool_record *record,
                                 struct ep_spool_dropped *damaged);
/* It is done with, its bytes are gone. mark: at once on the disk. */
void ep_spool_log_pass(struct ep_spool_log *log, const struct ep_spool_record *record, bool mark);
/* Reads that message's segment again from where it begins in its file. False: it begins with that message. */
bool ep_spool_log_back(struct ep_spool_log *log, const struct ep_spool_record *record);
bool ep_spool_log_empty(const struct ep_spool_log *log);
uint64_t ep_spool_log_messages(const struct ep_spool_log *log);

#endif
