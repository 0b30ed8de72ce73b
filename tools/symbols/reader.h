/*
 * Symbol files as the tool reads them. After et_reader_start(), each file is opened by a process for that purpose and
 * parsed in a process of its own: it can compute, and answer about this file. Whatever the file does there, it is ended
 * when it crashes, takes too much CPU time or memory, does not answer or answers wrongly. That is one line on stderr
 * and counted, and the file is not read again until it changes. Before et_reader_start() files are parsed in this
 * process.
 *
 * Answers are checked: they are bounded, text is clean UTF-8, and what must be in a range is.
 */
#ifndef ET_READER_H
#define ET_READER_H

#include "tools/symbols/resolve.h"

#include <stdatomic.h>

/* Starts the process that opens files. It ends when this process does. confined: it and those of files give up rights
 * (tools/lib/confine.h). Returns 0 or a negative errno value. Context: once, before the process has a second thread. */
int et_reader_start(bool confined);
bool et_reader_runs(void);

/* Reads a file's headers; remembers them until the file changes. -EINVAL: no file, or no (sound) ELF file; -EBADMSG: it
 * broke a process; or another negative errno value. Context: any thread. */
int et_reader_examine(const char *path, struct et_symfile_facts *facts);

/* The same, with the quality of what can really be read: reads all of the file. *why (appended): what of it cannot be
 * read, if anything. */
int et_reader_examine_all(const char *path, struct et_symfile_facts *facts, struct et_buf *why);

struct et_reader;

/* Opens a file; build_id: the file's, "" for none. NULL: *why says what is wrong, "" when a line was said; else what of
 * it cannot be read, if anything. stopping: ends the waiting. Context: any thread. */
struct et_reader *et_reader_open(const char *path, const char *build_id, const atomic_bool *stopping,
                                 struct et_buf *why);
/* The kernel's own code of this machine, when it is the one with that build id; else NULL. */
struct et_reader *et_reader_open_vdso(const char *build_id);
/* NULL: nothing. */
void et_reader_close(struct et_reader *reader);
/* What was really read of the file: enum et_quality, added up. */
unsigned et_reader_quality(const struct et_reader *reader);
/* Bytes of memory that it has, about. */
uint64_t et_reader_memory(const struct et_reader *reader);

/* Where companions of a file may be (et_symfile.h). place() appends the index'th path, the likeliest first; false:
 * there is no more. missing(): none of them was right. */
struct et_reader_places {
    bool (*place)(void *context, const struct et_companion *companion, size_t index, struct et_buf *path);
    void (*missing)(void *context, const struct et_companion *companion);
    void *context;
};

/* Calls answer() for each address, in order, as et_resolve() has it. module: the path that senders have for the file.
 * 0; -ECANCELED: stopping; -EAGAIN: the file changed or its process ended: open it again, if that is possible. Context:
 * one thread at a time. */
int et_reader_names(struct et_reader *reader, const struct et_reader_places *places, const char *module,
                    const uint64_t *addresses, size_t count,
                    void (*answer)(void *context, uint64_t address, const struct et_resolved *resolved), void *context,
                    const atomic_bool *stopping);

/* Files that were given up, since the start. Context: any thread. */
enum et_reader_failure { ET_READER_CRASH, ET_READER_TIME, ET_READER_MEMORY, ET_READER_ANSWER, ET_READER_FAILURES };
const char *et_reader_failure_name(enum et_reader_failure failure);
uint64_t et_reader_failures(enum et_reader_failure failure);

#endif
