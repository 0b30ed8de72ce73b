/*
 * The simulated disk: keeps unsynced sectors apart, and cuts the power after any number of calls.
 *
 * Each call that changes something counts. When `cut_at` is reached the power fails. Each unsynced sector is then
 * written, not written, or torn (new first bytes and old rest, or random bytes), by the dice; sizes and removals
 * likewise. From then on every call fails until ep_sim_disk_restart().
 */
#include "sim.h"

#include <errno.h>
#include <string.h>

#include <edgeprof/outlive.h>

#define FILES   33u
#define SECTOR  512u
#define LARGEST (1200u * 1024u)

struct file {
    size_t size, safe_size; /* size as programs see it, and size after a power cut */
    size_t used;            /* highest byte ever written */
    bool dirty[LARGEST / SECTOR];
};

struct ep_sim_disk ep_sim_disk;
static struct file files[FILES];
static uint8_t current[FILES][LARGEST], safe[FILES][LARGEST];

void ep_sim_disk_reset(void)
{
    for (unsigned i = 0; i < FILES; i++) {
        memset(current[i], 0, files[i].used);
        memset(safe[i], 0, files[i].used);
    }
    memset(files, 0, sizeof files);
    ep_sim_disk = (struct ep_sim_disk){.dice = 1};
}

static uint32_t dice(uint32_t sides)
{
    ep_sim_disk.dice = ep_sim_disk.dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(ep_sim_disk.dice >> 33) % sides;
}

static void sector_write(unsigned file, unsigned sector)
{
    uint8_t *to = safe[file] + sector * SECTOR, *from = current[file] + sector * SECTOR;
    uint32_t how = dice(5), whole = how == 0 ? 0 : how == 1 ? dice(SECTOR) : SECTOR;

    if (how == 2) {
        for (unsigned i = 0; i < SECTOR; i++)
            to[i] = (uint8_t)dice(256);
        return;
    }
    memcpy(to, from, whole);
}

/* Decides which unsynced sectors are on the disk: any subset. */
static void power_off(void)
{
    ep_sim_disk.off = true;
    for (unsigned f = 0; f < FILES; f++) {
        struct file *file = &files[f];
        if (file->size > file->safe_size) {
            memset(safe[f] + file->safe_size, 0, file->size - file->safe_size);
            uint64_t most = (file->size - file->safe_size) / SECTOR + 1;
            file->safe_size += dice((uint32_t)most) * SECTOR;
        } else if (dice(2)) {
            file->safe_size = file->size;
        }
        for (unsigned s = 0; s < LARGEST / SECTOR; s++)
            if (file->dirty[s])
                sector_write(f, s);
    }
}

void ep_sim_disk_restart(void)
{
    ep_sim_disk.off = ep_sim_disk.open = false;
    ep_sim_disk.cut_at = ep_sim_disk.calls = 0;
    for (unsigned f = 0; f < FILES; f++) {
        files[f].size = files[f].safe_size;
        memset(files[f].dirty, 0, sizeof files[f].dirty);
        memcpy(current[f], safe[f], files[f].used);
        if (files[f].used > files[f].size)
            memset(current[f] + files[f].size, 0, files[f].used - files[f].size);
    }
}

void ep_sim_disk_kill(void)
{
    ep_sim_disk.open = false;
}

uint8_t *ep_sim_disk_bytes(unsigned file, uint64_t *size)
{
    *size = files[file].size;
    return current[file];
}

void ep_sim_disk_put(unsigned file, const void *bytes, size_t size)
{
    memcpy(current[file], bytes, size);
    memcpy(safe[file], bytes, size);
    files[file].size = files[file].safe_size = files[file].used = size;
}

/* Counts a call. Returns the error that it must fail with, or 0. */
static int count_call(void)
{
    unsigned n = ++ep_sim_disk.all_calls;

    if (ep_sim_disk.off)
        return -EIO;
    return n >= ep_sim_disk.fault_at && n < ep_sim_disk.fault_end ? ep_sim_disk.fault : 0;
}

/* Counts a call that changes something. Returns 0 or its error. */
static int count_change(void)
{
    if (ep_sim_disk.off)
        return -EIO;
    ep_sim_disk.calls++;
    if (ep_sim_disk.calls == ep_sim_disk.cut_at) {
        power_off();
        return -EIO;
    }
    return ep_sim_disk.error;
}

int ep_port_spool_open(const char *dir)
{
    int fault = count_call();

    (void)dir;
    if (fault || ep_sim_disk.open_error)
        return fault ? fault : ep_sim_disk.open_error;
    if (ep_sim_disk.open)
        return -EBUSY;
    ep_sim_disk.open = true;
    return 0;
}

void ep_port_spool_close(void)
{
    ep_sim_disk.open = false;
}

int64_t ep_port_spool_size(unsigned file)
{
    int fault = count_call();

    if (fault)
        return fault;
    return (int64_t)files[file].size;
}

int64_t ep_port_spool_read(unsigned file, uint64_t at, void *bytes, size_t size)
{
    int fault = count_call();

    if (fault)
        return fault;
    uint64_t left = at < files[file].size ? files[file].size - at : 0;
    if (left < size)
        size = (size_t)left;
    memcpy(bytes, current[file] + at, size);
    return (int64_t)size;
}

static void mark_dirty(unsigned file, uint64_t at, size_t size)
{
    for (uint64_t s = at / SECTOR; s < (at + size) / SECTOR; s++)
        files[file].dirty[s] = true;
}

int ep_port_spool_write(unsigned file, uint64_t at, const void *bytes, size_t size)
{
    int fault = count_call();

    if (at % 4096 || size % 4096 || at + size > LARGEST)
        ep_sim_disk.misused = true;
    if (fault)
        return fault;
    /* The power may fail when all of the write is on its way. */
    bool cut = ep_sim_disk.calls + 1 == ep_sim_disk.cut_at;
    int error = cut || ep_sim_disk.off ? 0 : count_change();
    if (ep_sim_disk.off || ep_sim_disk.misused)
        return -EIO;
    if (error == -ENOSPC)
        size = size / 2 / SECTOR * SECTOR;
    if (error == 0 || error == -ENOSPC) {
        memcpy(current[file] + at, bytes, size);
        mark_dirty(file, at, size);
        size_t end = (size_t)at + size;
        files[file].size = files[file].size > end ? files[file].size : end;
        files[file].used = files[file].used > end ? files[file].used : end;
        ep_sim_disk.written += size;
    }
    return cut ? count_change() : error;
}

int ep_port_spool_sync(unsigned file)
{
    int fault = count_call(), error = fault ? fault : count_change();

    if (error)
        return error;
    for (unsigned s = 0; s < LARGEST / SECTOR; s++)
        if (files[file].dirty[s])
            memcpy(safe[file] + s * SECTOR, current[file] + s * SECTOR, SECTOR);
    memset(files[file].dirty, 0, sizeof files[file].dirty);
    files[file].safe_size = files[file].size;
    ep_sim_disk.syncs++;
    return 0;
}

int ep_port_spool_cut(unsigned file, uint64_t size)
{
    int fault = count_call();

    if (fault)
        return fault;
    bool cut = ep_sim_disk.calls + 1 == ep_sim_disk.cut_at;
    int error = cut ? 0 : count_change();
    if (error)
        return error;
    if (size < files[file].size) {
        files[file].size = (size_t)size;
        for (uint64_t s = (size + SECTOR - 1) / SECTOR; s < LARGEST / SECTOR; s++)
            files[file].dirty[s] = false;
        memset(current[file] + size, 0, files[file].used - files[file].size);
    }
    if (cut)
        return count_change();
    files[file].safe_size = files[file].size;
    return 0;
}

/* ---- a simulated process leaves no memory ---- */

int ep_port_outlive_open(const char *folder)
{
    (void)folder;
    return -ENOSYS;
}

bool ep_port_outlived_next(struct ep_outlived_file *file)
{
    (void)file;
    return false;
}

void ep_port_outlived_done(const struct ep_outlived_file *file, bool remove)
{
    (void)file;
    (void)remove;
}

int ep_port_outlive_begin(struct ep_config *config, const struct ep_own_text *own_text, bool at_once)
{
    (void)config;
    (void)own_text;
    (void)at_once;
    return -ENOSYS;
}
