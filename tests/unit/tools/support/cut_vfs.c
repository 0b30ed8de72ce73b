/*
 * See cut_vfs.h. A file has the contents that programs see (`now`) and the contents that are surely on the disk
 * (`safe`). Changes since the last sync are a list of operations: a sync applies those of its file, power_off() applies
 * a random part.
 */
#include "cut_vfs.h"
#include "tools/lib/util.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 16, SECTOR = 4096, REGIONS = 64, SLOTS = SQLITE_SHM_NLOCK };

struct image {
    uint8_t *bytes;
    size_t size, capacity;
    bool exists;
};

struct file {
    char name[128];
    struct image now, safe;
    struct handle *reserved, *exclusive;
    unsigned readers;
    void *regions[REGIONS];
    unsigned shared[SLOTS];
    struct handle *owner[SLOTS];
};

struct handle {
    sqlite3_file base;
    struct file *file;
    int level;
    bool trusting; /* that bytes beside a torn write are safe */
    unsigned shared;
};

enum change { WRITE, TRUNCATE, REMOVE, CREATE };

struct operation {
    enum change change;
    struct file *file;
    uint64_t at;
    size_t size;
    uint8_t *bytes;
};

struct cut_disk cut_disk;
static struct file files[FILES];
static struct operation *operations;
static size_t operation_count, operation_capacity;
static sqlite3_vfs *real;

static uint32_t dice(uint32_t sides)
{
    cut_disk.dice = cut_disk.dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(cut_disk.dice >> 33) % sides;
}

/* ---- images ---- */

static void resize(struct image *image, size_t size)
{
    image->bytes = et_reserve(image->bytes, &image->capacity, size, 1);
    if (size < image->size) {
        memset(image->bytes + size, 0, image->size - size);
    }
    image->size = size;
}

static void put(struct image *image, uint64_t at, const uint8_t *bytes, size_t size)
{
    if (image->size < at + size) {
        resize(image, (size_t)at + size);
    }
    memcpy(image->bytes + at, bytes, size);
}

static void copy(struct image *to, const struct image *from)
{
    resize(to, 0);
    if (from->size) {
        put(to, 0, from->bytes, from->size);
    }
    to->exists = from->exists;
}

static void apply(struct image *image, const struct operation *operation)
{
    switch (operation->change) {
    case WRITE:
        put(image, operation->at, operation->bytes, operation->size);
        break;
    case TRUNCATE:
        resize(image, (size_t)operation->at);
        break;
    case REMOVE:
    case CREATE:
        resize(image, 0);
        image->exists = operation->change == CREATE;
        break;
    }
}

/* ---- power ---- */

/* A part of a write within one sector. */
static void land_piece(struct image *image, uint64_t at, const uint8_t *bytes, size_t size)
{
    uint64_t sector = at / SECTOR * SECTOR;
    switch (dice(5)) {
    case 0:
        break;
    case 1:
        put(image, at, bytes, dice((uint32_t)size));
        break;
    case 2:
        resize(image, image->size > sector + SECTOR ? image->size : (size_t)sector + SECTOR);
        for (size_t i = 0; i < SECTOR; i++) {
            image->bytes[sector + i] = (uint8_t)dice(256);
        }
        break;
    default:
        put(image, at, bytes, size);
    }
}

static void land_write(struct image *image, const struct operation *operation)
{
    for (size_t done = 0; done < operation->size;) {
        size_t left = operation->size - done, room = SECTOR - (size_t)((operation->at + done) % SECTOR);
        size_t piece = left < room ? left : room;
        land_piece(image, operation->at + done, operation->bytes + done, piece);
        done += piece;
    }
}

/* Applies a random part of a file's operations. Operations after a lost removal or creation affected a file that no
 * longer exists. */
static void land_file(struct file *file)
{
    for (size_t i = 0; i < operation_count; i++) {
        struct operation *operation = &operations[i];
        if (operation->file != file) {
            continue;
        }
        if (operation->change == WRITE) {
            land_write(&file->safe, operation);
        } else if (dice(2)) {
            apply(&file->safe, operation);
        } else if (operation->change != TRUNCATE) {
            return;
        }
    }
}

/* Removes the operations of a file (NULL: all files) before the end-th. */
static void forget(const struct file *file, size_t end)
{
    size_t kept = 0;
    for (size_t i = 0; i < operation_count; i++) {
        if (i < end && (!file || operations[i].file == file)) {
            free(operations[i].bytes);
        } else {
            operations[kept++] = operations[i];
        }
    }
    operation_count = kept;
}

static void power_off(void)
{
    cut_disk.off = true;
    cut_disk.cuts++;
    for (size_t i = 0; i < FILES; i++) {
        land_file(&files[i]);
    }
    forget(NULL, operation_count);
}

/* Whether a modifying call may proceed: 0 or an error. The power fails after the operation is queued. */
static int change(void)
{
    if (cut_disk.off) {
        return SQLITE_IOERR;
    }
    if (++cut_disk.calls == cut_disk.cut_at) {
        power_off();
        return SQLITE_IOERR;
    }
    return cut_disk.error;
}

static int operate(enum change what, struct file *file, uint64_t at, const void *bytes, size_t size)
{
    if (cut_disk.off || cut_disk.error) {
        return change();
    }
    operations = et_reserve(operations, &operation_capacity, operation_count + 1, sizeof *operations);
    struct operation *operation = &operations[operation_count++];
    *operation = (struct operation){.change = what, .file = file, .at = at, .size = size};
    if (size) {
        operation->bytes = et_alloc(size, 1);
        memcpy(operation->bytes, bytes, size);
    }
    apply(&file->now, operation);
    return change();
}

static void land_all(struct file *file)
{
    for (size_t i = 0; i < operation_count; i++) {
        if (operations[i].file == file) {
            apply(&file->safe, &operations[i]);
        }
    }
    forget(file, operation_count);
}

/* Makes the directory durable. Writes to a file before its removal or new creation no longer matter. */
static void land_directory(void)
{
    for (size_t i = 0; i < operation_count;) {
        struct operation operation = operations[i];
        size_t before = operation_count;
        if (operation.change == REMOVE || operation.change == CREATE) {
            apply(&operation.file->safe, &operation);
            forget(operation.file, i + 1);
        }
        i += 1 - (before - operation_count);
    }
}

static bool is_new(const struct file *file)
{
    for (size_t i = 0; i < operation_count; i++) {
        if (operations[i].file == file && operations[i].change == CREATE) {
            return true;
        }
    }
    return false;
}

/* As on Linux, where a new journal's directory is synced. */
static int sync_file(struct file *file)
{
    int code = change();
    if (code == SQLITE_OK) {
        if (is_new(file)) {
            land_directory();
        }
        land_all(file);
        cut_disk.syncs++;
    }
    return code;
}

static void drop_regions(struct file *file)
{
    for (size_t i = 0; i < REGIONS; i++) {
        free(file->regions[i]);
        file->regions[i] = NULL;
    }
}

void cut_disk_restart(void)
{
    cut_disk.off = false;
    cut_disk.cut_at = cut_disk.calls = 0;
    for (size_t i = 0; i < FILES; i++) {
        copy(&files[i].now, &files[i].safe);
        drop_regions(&files[i]);
    }
}

void cut_disk_reset(void)
{
    forget(NULL, operation_count);
    for (size_t i = 0; i < FILES; i++) {
        drop_regions(&files[i]);
        free(files[i].now.bytes);
        free(files[i].safe.bytes);
        files[i] = (struct file){0};
    }
    free(operations);
    operations = NULL;
    operation_capacity = 0;
    cut_disk = (struct cut_disk){.dice = 1};
}

/* ---- files ---- */

static struct file *of(sqlite3_file *file)
{
    return ((struct handle *)file)->file;
}

static struct file *find(const char *name)
{
    for (size_t i = 0; i < FILES; i++) {
        if (strcmp(files[i].name, name) == 0) {
            return &files[i];
        }
        if (!files[i].name[0]) {
            memcpy(files[i].name, name, strlen(name) + 1);
            return &files[i];
        }
    }
    abort();
}

static int on_unlock(sqlite3_file *file, int level);

static int on_close(sqlite3_file *file)
{
    return on_unlock(file, SQLITE_LOCK_NONE);
}

static int on_read(sqlite3_file *file, void *bytes, int amount, sqlite3_int64 offset)
{
    const struct image *image = &of(file)->now;
    size_t size = (size_t)amount, at = (size_t)offset;
    if (cut_disk.off) {
        return SQLITE_IOERR_READ;
    }
    size_t got = at >= image->size ? 0 : image->size - at < size ? image->size - at : size;
    if (got) {
        memcpy(bytes, image->bytes + at, got);
    }
    memset((char *)bytes + got, 0, size - got);
    return got == size ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int on_write(sqlite3_file *file, const void *bytes, int amount, sqlite3_int64 offset)
{
    return operate(WRITE, of(file), (uint64_t)offset, bytes, (size_t)amount);
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return operate(TRUNCATE, of(file), (uint64_t)size, NULL, 0);
}

static int on_sync(sqlite3_file *file, int flags)
{
    (void)flags;
    return sync_file(of(file));
}

static int on_size(sqlite3_file *file, sqlite3_int64 *size)
{
    *size = (sqlite3_int64)of(file)->now.size;
    return cut_disk.off ? SQLITE_IOERR : SQLITE_OK;
}

/* ---- locks ---- */

static int on_lock(sqlite3_file *base, int level)
{
    struct handle *handle = (struct handle *)base;
    struct file *file = handle->file;
    if (level <= handle->level) {
        return SQLITE_OK;
    }
    bool others = file->readers > (handle->level >= SQLITE_LOCK_SHARED);
    if ((file->exclusive && file->exclusive != handle) ||
        (level >= SQLITE_LOCK_RESERVED && file->reserved && file->reserved != handle) ||
        (level == SQLITE_LOCK_EXCLUSIVE && others)) {
        return SQLITE_BUSY;
    }
    file->readers += handle->level < SQLITE_LOCK_SHARED;
    file->reserved = level >= SQLITE_LOCK_RESERVED ? handle : file->reserved;
    file->exclusive = level == SQLITE_LOCK_EXCLUSIVE ? handle : file->exclusive;
    handle->level = level;
    return SQLITE_OK;
}

static int on_unlock(sqlite3_file *base, int level)
{
    struct handle *handle = (struct handle *)base;
    struct file *file = handle->file;
    if (level >= handle->level) {
        return SQLITE_OK;
    }
    file->exclusive = file->exclusive == handle ? NULL : file->exclusive;
    file->reserved = file->reserved == handle ? NULL : file->reserved;
    file->readers -= level == SQLITE_LOCK_NONE;
    handle->level = level;
    return SQLITE_OK;
}

static int on_reserved(sqlite3_file *file, int *reserved)
{
    *reserved = of(file)->reserved != NULL;
    return SQLITE_OK;
}

static int on_control(sqlite3_file *file, int operation, void *argument)
{
    struct handle *handle = (struct handle *)file;
    int *value = argument;
    if (operation != SQLITE_FCNTL_POWERSAFE_OVERWRITE) {
        return SQLITE_NOTFOUND;
    }
    handle->trusting = *value < 0 ? handle->trusting : *value != 0;
    *value = handle->trusting;
    return SQLITE_OK;
}

static int on_sector_size(sqlite3_file *file)
{
    (void)file;
    return SECTOR;
}

static int on_characteristics(sqlite3_file *file)
{
    return ((struct handle *)file)->trusting ? SQLITE_IOCAP_POWERSAFE_OVERWRITE : 0;
}

/* ---- shared memory ---- */

static int on_shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **memory)
{
    void **at = &of(file)->regions[region];
    if (!*at && extend) {
        *at = et_alloc(1, (size_t)size);
    }
    *memory = *at;
    return SQLITE_OK;
}

static bool shm_free(const struct handle *handle, unsigned slot, bool exclusive)
{
    const struct file *file = handle->file;
    bool own = handle->shared & 1u << slot;
    return (!file->owner[slot] || file->owner[slot] == handle) && (!exclusive || file->shared[slot] == own);
}

static void shm_set(struct handle *handle, unsigned slot, int flags)
{
    struct file *file = handle->file;
    bool own = handle->shared & 1u << slot;
    if (flags & SQLITE_SHM_EXCLUSIVE) {
        file->owner[slot] = flags & SQLITE_SHM_LOCK ? handle : NULL;
    } else if (own != !!(flags & SQLITE_SHM_LOCK)) {
        handle->shared ^= 1u << slot;
        file->shared[slot] += own ? -1u : 1u;
    }
}

static int on_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    struct handle *handle = (struct handle *)file;
    unsigned first = (unsigned)offset, end = first + (unsigned)count;
    for (unsigned slot = first; slot < end && flags & SQLITE_SHM_LOCK; slot++) {
        if (!shm_free(handle, slot, flags & SQLITE_SHM_EXCLUSIVE)) {
            return SQLITE_BUSY;
        }
    }
    for (unsigned slot = first; slot < end; slot++) {
        shm_set(handle, slot, flags);
    }
    return SQLITE_OK;
}

static void on_shm_barrier(sqlite3_file *file)
{
    (void)file;
}

static int on_shm_unmap(sqlite3_file *file, int remove)
{
    if (remove) {
        drop_regions(of(file));
    }
    return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_reserved,
    .xFileControl = on_control,
    .xSectorSize = on_sector_size,
    .xDeviceCharacteristics = on_characteristics,
    .xShmMap = on_shm_map,
    .xShmLock = on_shm_lock,
    .xShmBarrier = on_shm_barrier,
    .xShmUnmap = on_shm_unmap,
};

/* ---- the VFS ---- */

static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *out)
{
    struct handle *handle = (struct handle *)base;
    (void)vfs;
    if (!name) { /* temporary: not needed after a cut */
        return real->xOpen(real, name, base, flags, out);
    }
    *handle = (struct handle){.file = find(name), .trusting = true};
    if (!handle->file->now.exists) {
        int code = flags & SQLITE_OPEN_CREATE ? operate(CREATE, handle->file, 0, NULL, 0) : SQLITE_CANTOPEN;
        if (code != SQLITE_OK) {
            return code;
        }
    }
    if (out) {
        *out = flags;
    }
    handle->base.pMethods = &methods;
    return cut_disk.off ? SQLITE_CANTOPEN : SQLITE_OK;
}

static int on_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    struct file *file = find(name);
    (void)vfs;
    if (!file->now.exists) {
        return SQLITE_IOERR_DELETE_NOENT;
    }
    int code = operate(REMOVE, file, 0, NULL, 0);
    return code == SQLITE_OK && sync ? sync_file(file) : code;
}

static int on_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    (void)vfs;
    (void)flags;
    *out = find(name)->now.exists;
    return cut_disk.off ? SQLITE_IOERR_ACCESS : SQLITE_OK;
}

static int on_full_path(sqlite3_vfs *vfs, const char *name, int size, char *out)
{
    (void)vfs;
    sqlite3_snprintf(size, out, "%s", name);
    return SQLITE_OK;
}

void cut_vfs_register(void)
{
    static sqlite3_vfs vfs;
    real = sqlite3_vfs_find(NULL);
    vfs = *real;
    vfs.zName = "cut";
    vfs.szOsFile = vfs.szOsFile > (int)sizeof(struct handle) ? vfs.szOsFile : (int)sizeof(struct handle);
    vfs.xOpen = on_open;
    vfs.xDelete = on_delete;
    vfs.xAccess = on_access;
    vfs.xFullPathname = on_full_path;
    sqlite3_vfs_register(&vfs, 1);
    cut_disk_reset();
}
