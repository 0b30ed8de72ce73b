/*
 * A copy of a database of profiles while others read and write it: what was committed when the copy began, whole, in
 * one file that needs no log beside it.
 */
#ifndef ET_BACKUP_H
#define ET_BACKUP_H

#include "tools/lib/util.h"

/*
 * Copies `from` to `to`, says how far it is (progress.h). It grows as `to`.part, is checked (integrity_check), synced,
 * and only then gets its name, in place of an older file of that name; when it fails, or is killed, that one is still
 * there. 0, or a negative errno value and one line at *why: what, where and what to do.
 */
int et_backup(const char *from, const char *to, struct et_buf *why);

#endif
