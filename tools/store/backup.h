/*
 * A copy of a profile database while other processes read and write it. It has everything committed when the copy
 * began, in one file without a log.
 */
#ifndef ET_BACKUP_H
#define ET_BACKUP_H

#include "tools/lib/util.h"

/*
 * Copies `from` to `to` and reports progress (progress.h). The copy is written to `to`.part, checked (integrity_check)
 * and synced; then it replaces `to`. After a failure, or when killed, an older file `to` is unchanged. Nothing is
 * written when a newer edgeprof wrote `from`: this one cannot check its copy. Returns 0, or a negative errno value and
 * one line at *why: what failed, where, what to do.
 */
int et_backup(const char *from, const char *to, struct et_buf *why);

#endif
