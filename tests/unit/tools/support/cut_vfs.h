/*
 * A disk in memory as SQLite's default VFS, whose power can be cut at any call that changes something.
 *
 * What was not synced when the power goes is then there in part: of each write each sector is there, is not, is torn
 * (its first bytes new, the rest old) or is rubbish as a whole, with what it held beside the write; writes of one
 * window between two syncs come in any order; truncations and removals have happened or not; a new file is there for
 * certain once it was synced. Sectors have the 4096 bytes that SQLite takes for granted on Linux, and as there a
 * database may believe that bytes beside a torn write are safe (SQLITE_FCNTL_POWERSAFE_OVERWRITE): here they are not.
 *
 * Several connections of one thread may have the disk. What it does not simulate: a disk that lies about syncs, bits
 * that change later.
 */
#ifndef CUT_VFS_H
#define CUT_VFS_H

#include <stdbool.h>
#include <stdint.h>

struct cut_disk {
    uint64_t dice;
    unsigned cut_at; /* the power goes in the middle of this call, 0: never */
    int error;       /* SQLite's code, of every call that changes something; 0: none */

    /* ---- what has happened ---- */
    unsigned calls, syncs, cuts;
    bool off; /* everything fails */
};
extern struct cut_disk cut_disk;

/* Makes it the default. Once. */
void cut_vfs_register(void);

/* No files. Nothing may be open. */
void cut_disk_reset(void);

/* Power again, with what is left. Connections of before must have been closed. */
void cut_disk_restart(void);

#endif
