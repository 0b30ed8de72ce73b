/*
 * A disk in memory as SQLite's default VFS. Its power can fail at any modifying call.
 *
 * After a power failure, unsynced data is partly present. Each sector of a write is present, absent, torn (first bytes
 * new, the rest old) or garbage, including bytes beside the write. Writes between two syncs may be reordered.
 * Truncations and removals have happened or not. A new file surely exists after a sync. Sectors have 4096 bytes,
 * SQLite's assumption on Linux. Bytes beside a torn write are not safe, although a database may assume it
 * (SQLITE_FCNTL_POWERSAFE_OVERWRITE).
 *
 * Several connections of one thread may use the disk. It does not simulate false syncs or later bit errors.
 */
#ifndef CUT_VFS_H
#define CUT_VFS_H

#include <stdbool.h>
#include <stdint.h>

struct cut_disk {
    uint64_t dice;
    unsigned cut_at; /* the power fails within this call; 0: never */
    int error;       /* SQLite error of every modifying call; 0: none */

    /* ---- counters ---- */
    unsigned calls, syncs, cuts;
    bool off; /* every call fails */
};
extern struct cut_disk cut_disk;

/* Registers the default VFS. Call it once. */
void cut_vfs_register(void);

/* Removes all files. No file may be open. */
void cut_disk_reset(void);

/* Restores the power, with the remaining data. Earlier connections must be closed. */
void cut_disk_restart(void);

#endif
