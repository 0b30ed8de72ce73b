/*
 * The spool's log: the interface between spool.c (policy) and spool_log.c (files and bytes, core/FORMAT.md).
 *
 * Numbered files hold records in the order in which they were stored. A run of the profiler appends to its own files;
 * it only reads files of earlier runs. Context of everything here: deliver.
 *
 * Always:
 *  (1) A batch is in the log only after its write and its sync have succeeded. A failed batch is cut off, and its file
 *      is never continued.
 *  (2) A batch starts at a new block, so no block with acknowledged records is written again.
 *  (3) File numbers only grow. A file's place is its number modulo EP_SPOOL_FILES.
 *  (4) The mark is written only while the oldest file is the one being read and no file is unread, because the next
 *      run takes everything before the mark as delivered.
 *  (5) A file that could not be read keeps its place until a retry succeeds (log->unread).
 *  (6) A stored message leaves file[].left once: passed, dropped for room, or damaged.
 *      ep_spool_log_back() adds messages again that a receiver needs once more.
 */
#ifndef EP_SPOOL_LOG_H
#define EP_SPOOL_LOG_H

#include "core/deliver/deliver.h"

#define EP_SPOOL_FILES       32u   /* maximum number of files, without the mark's file */
#define EP_SPOOL_BLOCK       4096u /* unit and alignment of writes */
#define EP_SPOOL_RECORD      90u   /* size of a record's head */
#define EP_SPOOL_ORIGIN_SIZE (EP_STRINGS_BYTES + 48u)

struct ep_spool_count {
    uint64_t messages, samples, cpu_ns, lost_ns; /* lost_ns: the part of cpu_ns already counted as lost */
};

struct ep_spool_file {
    uint32_t number; /* 0: none */
    uint32_t size;   /* whole blocks */
    struct ep_spool_count left;
};

/* A record's head, decoded. */
struct ep_spool_record {
    uint32_t size, file, index, sequence;
    uint64_t segment, start_ns, duration_ns, unix_minus_uptime_ns, cpu_ns, lost_ns, samples;
    uint8_t origin; /* 1: the file's first record, with the origin; 0: a message */
};

struct ep_spool_place {
    uint32_t file, offset, index;
};

struct ep_spool_log {
    struct ep_spool_file file[EP_SPOOL_FILES]; /* by number % EP_SPOOL_FILES */
    uint64_t cap, bytes;                       /* upper limit and current size of all files */
    uint64_t written;                          /* bytes written so far */
    uint64_t damaged, damaged_bytes;           /* messages that cannot be read any more; bytes skipped or cut off */
    uint32_t next;                             /* number of the next file */
    uint32_t unread;                           /* bitmap of files that could not be read yet: not in file[] */
    uint32_t first_own;                        /* files from this number on belong to this run */
    struct ep_spool_place write;               /* place of the next record; file 0: a new file */
    struct ep_spool_place read, marked;
    uint32_t marks;
    uint32_t fill; /* bytes used in the buffer while a batch is made */
    struct ep_spool_count batch;
    uint8_t *buffer;
    uint32_t size;
    uint32_t origin_of; /* the file that `origin` belongs to: service, tags, boot id, each 0-terminated */
    char origin[EP_SPOOL_ORIGIN_SIZE];
};

/* Reads the files of earlier runs and cuts records torn by a power cut. Returns 0, or the error of the directory or of
 * the mark; then the log is closed and nothing has changed. Files that cannot be read are in log->unread. */
int ep_spool_log_open(struct ep_spool_log *log, const char *dir);
/* Tries the files in log->unread again. Returns 0, or the disk's error: some are still there. */
int ep_spool_log_retry(struct ep_spool_log *log);
/* Closes the directory. mark: what was passed is delivered, so write the mark. */
void ep_spool_log_close(struct ep_spool_log *log, bool mark);

/* A batch consists of records for one file. It is completely in the log when ep_spool_log_commit() returns 0;
 * otherwise the caller keeps the messages. ep_spool_log_add() returns false if there is no room. *dropped: the
 * messages deleted to make room, of all runs and of this one. */
struct ep_spool_dropped {
    struct ep_spool_count all;
    uint64_t own_cpu_ns;
};
void ep_spool_log_begin(struct ep_spool_log *log, const char *origin, uint32_t origin_size);
bool ep_spool_log_add(struct ep_spool_log *log, const struct ep_spool_record *record, const void *bytes);
int ep_spool_log_commit(struct ep_spool_log *log, struct ep_spool_dropped *dropped);
/* The next record begins a new file. */
void ep_spool_log_turn(struct ep_spool_log *log);

/* The oldest remaining message: sets *bytes to it and fills *record and log->origin; NULL: none. Returns 0, or the
 * disk's error: nothing has changed, try again later. *damaged: messages that cannot be read any more. */
int ep_spool_log_read(struct ep_spool_log *log, struct ep_spool_record *record, const uint8_t **bytes,
                      struct ep_spool_dropped *damaged);
/* Removes the message just read; its bytes become invalid. mark: write the mark at once. */
void ep_spool_log_pass(struct ep_spool_log *log, const struct ep_spool_record *record, bool mark);
/* Continues reading at the first message of this message's segment in its file. Returns 1; 0: this is the first; or the
 * disk's error. */
int ep_spool_log_back(struct ep_spool_log *log, const struct ep_spool_record *record);
/* True if the message just read is the last one in its file. */
bool ep_spool_log_is_last(const struct ep_spool_log *log);
bool ep_spool_log_empty(const struct ep_spool_log *log);
uint64_t ep_spool_log_messages(const struct ep_spool_log *log);

#endif
