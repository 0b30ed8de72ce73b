/* What the reader knows of files: their facts, and which of them broke the process that read them. Context: any thread.
 */
#ifndef ET_READER_KNOWN_H
#define ET_READER_KNOWN_H

#include "tools/symbols/reader.h"
#include "tools/symbols/reader_process.h"

/* Whether no process is to read the file any more. */
bool et_file_given_up(const struct et_file_identity *file);

/* Whether the file is given up by this death. One whose process answered before may have used up its CPU time. */
bool et_file_note_death(const struct et_file_identity *file, bool answered);

/* The facts of a file as they were remembered. False: they are not known, or the file has changed. */
bool et_file_recall(const struct et_file_identity *file, struct et_symfile_facts *facts);
void et_file_remember(const struct et_file_identity *file, const struct et_symfile_facts *facts);

/* Counts a failure for et_reader_failures(). */
void et_reader_failed(enum et_reader_failure failure);

#endif
