/*
 * The spool's files and bytes (core/FORMAT.md, "Spool files"): batches of records with a CRC, recovery, and the mark of
 * delivery. Every batch starts at a new block, so a block with acknowledged records is never written again. spool.c
 * decides what is stored when, and delivers it.
 *
 *   open   -> load_all -> file_scan -> record_load  a file ends at its first incomplete record
 *   retry  -> file_scan                            of files that could not be read
 *   begin, add ... commit -> oldest_delete -> the port writes and syncs; a failed batch is cut off
 *   read   -> record_load, next_file              in the order of the files' numbers
 *
 * File numbers only grow, and the mark contains one, so a mark of deleted files does not apply to new ones.
 */
#include "core/features/spool/spool_log.h"

#include <errno.h>
#include <string.h>

#define MAGIC        0x31535045u /* EPS1 */
#define MAGIC_MARK   0x314d5045u /* EPM1 */
#define MARK_FILE    EP_SPOOL_FILES
#define MARK_BYTES   24u
#define ORIGIN_TYPE  1u
#define SIZE_LARGEST (1u << 30) /* nothing behind this is searched */

/* ---- bytes ---- */

static void put_number(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++, value >>= 8)
        at[i] = (uint8_t)value;
}

static uint64_t number(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;

    while (bytes-- > 0)
        value = value << 8 | at[bytes];
    return value;
}

/* CRC-32C by half bytes, with a table of 64 bytes instead of 1 KiB. */
static uint32_t crc(const uint8_t *bytes, size_t size)
{
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    uint32_t sum = 0xffffffff;

    for (size_t i = 0; i < size; i++) {
        sum = table[(sum ^ bytes[i]) & 15] ^ sum >> 4;
        sum = table[(sum ^ (uint32_t)bytes[i] >> 4) & 15] ^ sum >> 4;
    }
    return ~sum;
}

static uint32_t block_up(uint64_t size)
{
    return (uint32_t)((size + EP_SPOOL_BLOCK - 1) & ~(uint64_t)(EP_SPOOL_BLOCK - 1));
}

/* Writes the record's head at `at`. Its bytes must follow already, for the CRC. */
static void put_head(uint8_t *at, const struct ep_spool_record *record)
{
    put_number(at, MAGIC, 4);
    put_number(at + 8, record->size, 4);
    put_number(at + 12, record->file, 4);
    put_number(at + 16, record->index, 4);
    put_number(at + 20, record->sequence, 4);
    put_number(at + 24, record->segment, 8);
    put_number(at + 32, record->start_ns, 8);
    put_number(at + 40, record->duration_ns, 8);
    put_number(at + 48, record->unix_minus_uptime_ns, 8);
    put_number(at + 56, record->cpu_ns, 8);
    put_number(at + 64, record->samples, 8);
    put_number(at + 72, 0, 8);
    put_number(at + 80, record->lost_ns, 8);
    put_number(at + 88, record->origin, 2);
    put_number(at + 4, crc(at + 8, EP_SPOOL_RECORD - 8 + record->size), 4);
}

static void get_head(const uint8_t *at, struct ep_spool_record *record)
{
    *record = (struct ep_spool_record){
        .size = (uint32_t)number(at + 8, 4),
        .file = (uint32_t)number(at + 12, 4),
        .index = (uint32_t)number(at + 16, 4),
        .sequence = (uint32_t)number(at + 20, 4),
        .segment = number(at + 24, 8),
        .start_ns = number(at + 32, 8),
        .duration_ns = number(at + 40, 8),
        .unix_minus_uptime_ns = number(at + 48, 8),
        .cpu_ns = number(at + 56, 8),
        .samples = number(at + 64, 8),
        .lost_ns = number(at + 80, 8),
        .origin = number(at + 88, 2) == ORIGIN_TYPE,
    };
}

/* ---- counts ---- */

static void count_add(struct ep_spool_count *sum, const struct ep_spool_count *more)
{
    sum->messages += more->messages;
    sum->samples += more->samples;
    sum->cpu_ns += more->cpu_ns;
    sum->lost_ns += more->lost_ns;
}

static struct ep_spool_count count_of(const struct ep_spool_record *record)
{
    return (struct ep_spool_count){!record->origin, record->samples, record->cpu_ns, record->lost_ns};
}

static struct ep_spool_file *file_at(struct ep_spool_log *log, uint32_t n)
{
    return &log->file[n % EP_SPOOL_FILES];
}

/* The oldest file; NULL: none. */
static struct ep_spool_file *oldest_file(struct ep_spool_log *log)
{
    struct ep_spool_file *found = NULL;

    for (unsigned i = 0; i < EP_SPOOL_FILES; i++)
        if (log->file[i].number && (!found || log->file[i].number < found->number))
            found = &log->file[i];
    return found;
}

static void dropped_add(const struct ep_spool_log *log, const struct ep_spool_file *file,
                        struct ep_spool_dropped *dropped)
{
    count_add(&dropped->all, &file->left);
    if (file->number >= log->first_own)
        dropped->own_cpu_ns += file->left.cpu_ns;
}

/* Deletes the file. If the system does not delete it, its number is still used up. */
static void file_release(struct ep_spool_log *log, struct ep_spool_file *file)
{
    (void)ep_port_spool_cut(file->number % EP_SPOOL_FILES, 0);
    log->bytes -= file->size;
    if (log->write.file == file->number)
        log->write = (struct ep_spool_place){0};
    *file = (struct ep_spool_file){0};
}

static void next_file(struct ep_spool_log *log)
{
    const struct ep_spool_file *first = oldest_file(log);

    log->read = (struct ep_spool_place){.file = first ? first->number : 0};
}

/* ---- reading records ---- */

/* Reads the record at that place into the buffer, head first; its index may be higher than the place's. Returns 0;
 * -ENOENT: no record; -EBADMSG: a damaged record whose size may be right; else the disk's error. */
static int record_load(struct ep_spool_log *log, const struct ep_spool_place *place, struct ep_spool_record *record)
{
    unsigned slot = place->file % EP_SPOOL_FILES;
    int64_t got = ep_port_spool_read(slot, place->offset, log->buffer, EP_SPOOL_RECORD);

    if (got < (int64_t)EP_SPOOL_RECORD)
        return got < 0 ? (int)got : -ENOENT;
    get_head(log->buffer, record);
    if (number(log->buffer, 4) != MAGIC || record->file != place->file || record->index < place->index ||
        record->size > log->size - EP_SPOOL_RECORD || record->origin != (record->index == 0))
        return -ENOENT;
    got = ep_port_spool_read(slot, place->offset + EP_SPOOL_RECORD, log->buffer + EP_SPOOL_RECORD, record->size);
    if (got < (int64_t)record->size)
        return got < 0 ? (int)got : -ENOENT;
    return number(log->buffer + 4, 4) == crc(log->buffer + 8, EP_SPOOL_RECORD - 8 + record->size) ? 0 : -EBADMSG;
}

static bool is_damage(int error)
{
    return error == -ENOENT || error == -EBADMSG;
}

/* Finds the first record behind damage, as record_load() reported it: the next record, or else that at the start of a
 * batch. */
static int record_find(struct ep_spool_log *log, struct ep_spool_place *place, struct ep_spool_record *record,
                       int error)
{
    int64_t size = ep_port_spool_size(place->file % EP_SPOOL_FILES);
    uint32_t end = size < (int64_t)SIZE_LARGEST ? (uint32_t)(size > 0 ? size : 0) : SIZE_LARGEST;
    uint32_t at = place->offset < end ? block_up((uint64_t)place->offset + 1) : end;

    if (size < 0)
        return (int)size;
    if (error == -EBADMSG) {
        place->offset += EP_SPOOL_RECORD + record->size;
        error = record_load(log, place, record);
    }
    for (; is_damage(error) && at < end; at += EP_SPOOL_BLOCK) {
        place->offset = at;
        error = record_load(log, place, record);
    }
    return is_damage(error) ? -ENOENT : error;
}

/* Like record_load(), but goes on to the next block if the batch has ended, and past damage. Moves the place to the
 * record. Returns 0, -ENOENT: the file has ended, or the disk's error. */
static int record_load_next(struct ep_spool_log *log, struct ep_spool_place *place, struct ep_spool_record *record)
{
    struct ep_spool_place at = *place;
    int error = record_load(log, &at, record);

    if (error == -ENOENT && at.offset % EP_SPOOL_BLOCK) {
        at.offset = block_up(at.offset);
        error = record_load(log, &at, record);
    }
    if (is_damage(error))
        error = record_find(log, &at, record, error);
    if (error == 0)
        *place = (struct ep_spool_place){.file = at.file, .offset = at.offset, .index = record->index};
    return error;
}

static void place_advance(struct ep_spool_place *place, const struct ep_spool_record *record)
{
    place->offset += EP_SPOOL_RECORD + record->size;
    place->index++;
}

/* ---- recovery ---- */

/* Reads the file's number from the first readable record at the start of a batch. Returns 0, -ENOENT or the disk's
 * error. */
static int file_number_read(struct ep_spool_log *log, unsigned slot, uint32_t *file)
{
    struct ep_spool_place place = {0};
    struct ep_spool_record record;
    int64_t size = ep_port_spool_size(slot), got = 0;

    for (; place.offset < SIZE_LARGEST && (int64_t)place.offset < size; place.offset += EP_SPOOL_BLOCK) {
        got = ep_port_spool_read(slot, place.offset, log->buffer, EP_SPOOL_RECORD);
        if (got < (int64_t)EP_SPOOL_RECORD)
            return got < 0 ? (int)got : -ENOENT;
        place.file = (uint32_t)number(log->buffer + 12, 4);
        int error = place.file && place.file % EP_SPOOL_FILES == slot ? record_load(log, &place, &record) : -ENOENT;
        *file = error ? 0 : place.file;
        if (!is_damage(error))
            return error;
    }
    return size < 0 ? (int)size : -ENOENT;
}

/* Counts what is missing between two records that follow each other in the file. */
static void damage_add(struct ep_spool_log *log, const struct ep_spool_place *expected,
                       const struct ep_spool_place *found)
{
    bool marked = expected->file == log->marked.file;
    uint32_t from = marked && log->marked.index > expected->index ? log->marked.index : expected->index;

    from += from == 0; /* not a message */
    log->damaged += found->index > from ? found->index - from : 0;
    log->damaged_bytes += found->offset - expected->offset;
}

/* Reads a file's records, and counts undelivered messages and damage. Returns -ENOENT at its end, or the disk's error.
 */
static int file_read(struct ep_spool_log *log, unsigned slot, struct ep_spool_file *file)
{
    struct ep_spool_place place = {0};
    struct ep_spool_record record;
    int error = file_number_read(log, slot, &place.file);

    while (error == 0) {
        const struct ep_spool_place expected = place;
        error = record_load_next(log, &place, &record);
        if (error)
            break;
        if (place.index != expected.index)
            damage_add(log, &expected, &place);
        struct ep_spool_count this = count_of(&record);
        if (place.file > log->marked.file || (place.file == log->marked.file && place.index >= log->marked.index))
            count_add(&file->left, &this);
        place_advance(&place, &record);
    }
    file->number = place.file;
    file->size = block_up(place.offset);
    return error;
}

/* Reads a file, and cuts what follows its records. A file that cannot be read stays as it is, and so does its slot.
 * Returns 0 or the disk's error. */
static int file_scan(struct ep_spool_log *log, unsigned slot)
{
    struct ep_spool_file file = {0};
    uint64_t damaged = log->damaged, damaged_bytes = log->damaged_bytes;
    int error = file_read(log, slot, &file);
    int64_t size = error == -ENOENT ? ep_port_spool_size(slot) : error;

    if (file.number >= log->next)
        log->next = file.number + 1;
    if (size < 0) {
        log->damaged = damaged;
        log->damaged_bytes = damaged_bytes;
        log->unread |= 1u << slot;
        return (int)size;
    }
    log->unread &= ~(1u << slot);
    log->file[slot] = file;
    log->bytes += file.size;
    if (size > (int64_t)file.size)
        log->damaged_bytes += (uint64_t)size - file.size;
    if (file.number && (file.number < log->marked.file || file.left.messages == 0))
        file_release(log, &log->file[slot]);
    else if (size > (int64_t)file.size)
        (void)ep_port_spool_cut(slot, file.size); /* on a read-only disk the torn end is found again next time */
    return 0;
}

/* Returns 0 or the disk's error. */
static int load_mark(struct ep_spool_log *log)
{
    uint8_t bytes[MARK_BYTES];

    for (unsigned i = 0; i < 2; i++) {
        int64_t got = ep_port_spool_read(MARK_FILE, i * EP_SPOOL_BLOCK, bytes, sizeof bytes);
        if (got < 0)
            return (int)got;
        if (got < (int64_t)sizeof bytes || number(bytes, 4) != MAGIC_MARK ||
            number(bytes + 4, 4) != crc(bytes + 8, sizeof bytes - 8) || number(bytes + 8, 4) < log->marks)
            continue;
        log->marks = (uint32_t)number(bytes + 8, 4);
        log->marked = (struct ep_spool_place){.file = (uint32_t)number(bytes + 12, 4),
                                              .offset = (uint32_t)number(bytes + 16, 4),
                                              .index = (uint32_t)number(bytes + 20, 4)};
    }
    return 0;
}

/* Reads the mark and all files. Without the mark, delivered files cannot be told from others. Returns 0 or the
 * disk's error. */
static int load_all(struct ep_spool_log *log)
{
    int error = load_mark(log), file_error = 0;

    log->next = log->marked.file + 1;
    for (unsigned slot = 0; slot < EP_SPOOL_FILES && !error; slot++) {
        int failed = file_scan(log, slot);
        file_error = failed ? failed : file_error;
    }
    if (log->unread)
        log->next += EP_SPOOL_FILES; /* behind the numbers that could not be read */
    return error ? error : log->unread == UINT32_MAX ? file_error : 0;
}

int ep_spool_log_open(struct ep_spool_log *log, const char *dir)
{
    uint8_t *buffer = log->buffer;
    uint32_t size = log->size;
    uint64_t cap = log->cap;
    int error = ep_port_spool_open(dir);

    if (error)
        return error;
    *log = (struct ep_spool_log){.buffer = buffer, .size = size, .cap = cap};
    error = load_all(log);
    if (error) {
        ep_port_spool_close();
        return error;
    }
    log->first_own = log->next;
    const struct ep_spool_file *first = oldest_file(log);
    if (first && first->number == log->marked.file)
        log->read = log->marked;
    else if (first)
        log->read = (struct ep_spool_place){.file = first->number};
    return 0;
}

int ep_spool_log_retry(struct ep_spool_log *log)
{
    int error = 0;

    for (unsigned slot = 0; slot < EP_SPOOL_FILES; slot++) {
        int failed = log->unread >> slot & 1 ? file_scan(log, slot) : 0;
        error = failed ? failed : error;
    }
    if (!log->read.file)
        next_file(log);
    return error;
}

/* ---- the mark ---- */

/* Writes the mark, alternating between two blocks: if one is torn, the other is still valid. */
static void mark_write(struct ep_spool_log *log)
{
    uint8_t *block = log->buffer;
    const struct ep_spool_file *first = oldest_file(log);

    if (log->unread || !first || first->number != log->read.file)
        return; /* the next run would take an older file for delivered */
    memset(block, 0, EP_SPOOL_BLOCK);
    put_number(block, MAGIC_MARK, 4);
    put_number(block + 8, log->marks + 1, 4);
    put_number(block + 12, log->read.file, 4);
    put_number(block + 16, log->read.offset, 4);
    put_number(block + 20, log->read.index, 4);
    put_number(block + 4, crc(block + 8, MARK_BYTES - 8), 4);
    if (ep_port_spool_write(MARK_FILE, (log->marks + 1) % 2 * EP_SPOOL_BLOCK, block, EP_SPOOL_BLOCK) != 0)
        return; /* some messages may then be delivered twice */
    log->written += EP_SPOOL_BLOCK;
    if (ep_port_spool_sync(MARK_FILE) != 0)
        return;
    log->marks++;
    log->marked = log->read;
}

void ep_spool_log_close(struct ep_spool_log *log, bool mark)
{
    if (mark && log->read.file && (log->read.file != log->marked.file || log->read.index != log->marked.index))
        mark_write(log);
    ep_port_spool_close();
}

/* ---- writing ---- */

void ep_spool_log_turn(struct ep_spool_log *log)
{
    log->write = (struct ep_spool_place){0};
}

/* Appends a record to the batch. */
static bool batch_append(struct ep_spool_log *log, struct ep_spool_record record, const void *bytes)
{
    if (record.size > log->size - log->fill || EP_SPOOL_RECORD > log->size - log->fill - record.size)
        return false;
    memcpy(log->buffer + log->fill + EP_SPOOL_RECORD, bytes, record.size);
    record.file = log->write.file;
    record.index = log->write.index++;
    put_head(log->buffer + log->fill, &record);
    log->fill += EP_SPOOL_RECORD + record.size;
    struct ep_spool_count this = count_of(&record);
    count_add(&log->batch, &this);
    return true;
}

/* Moves `next` on to a free slot, or else to one that may be made free. */
static void number_choose(struct ep_spool_log *log)
{
    uint32_t used = 0;

    for (unsigned i = 0; i < EP_SPOOL_FILES; i++)
        used |= (uint32_t)(log->file[i].number != 0) << i;
    used = (used | log->unread) == UINT32_MAX ? log->unread : used | log->unread;
    while (used >> log->next % EP_SPOOL_FILES & 1)
        log->next++;
}

void ep_spool_log_begin(struct ep_spool_log *log, const char *origin, uint32_t origin_size)
{
    log->fill = 0;
    log->batch = (struct ep_spool_count){0};
    if (log->write.file)
        return;
    number_choose(log);
    log->write = (struct ep_spool_place){.file = log->next};
    (void)batch_append(log, (struct ep_spool_record){.size = origin_size, .origin = ORIGIN_TYPE}, origin);
}

bool ep_spool_log_add(struct ep_spool_log *log, const struct ep_spool_record *record, const void *bytes)
{
    return batch_append(log, *record, bytes);
}

/* Deletes the oldest files until there is room for `bytes` more. */
static void oldest_delete(struct ep_spool_log *log, uint32_t bytes, struct ep_spool_dropped *dropped)
{
    struct ep_spool_file *file, *in_place = file_at(log, log->write.file);

    while ((file = oldest_file(log)) != NULL && file->number != log->write.file &&
           (log->bytes + bytes > log->cap || (in_place->number && in_place->number != log->write.file))) {
        dropped_add(log, file, dropped);
        file_release(log, file);
    }
}

/* Cuts off a failed batch and begins a new file: neither this batch on disk nor a later one in its place is
 * reliable. */
static void batch_abandon(struct ep_spool_log *log)
{
    unsigned slot = log->write.file % EP_SPOOL_FILES;
    uint32_t size = log->file[slot].number == log->write.file ? log->file[slot].size : 0;

    (void)ep_port_spool_cut(slot, size);
    if (log->next == log->write.file)
        log->next++;
    ep_spool_log_turn(log);
}

int ep_spool_log_commit(struct ep_spool_log *log, struct ep_spool_dropped *dropped)
{
    uint32_t bytes = block_up(log->fill), slot = log->write.file % EP_SPOOL_FILES;
    struct ep_spool_file *file = &log->file[slot];

    oldest_delete(log, bytes, dropped);
    memset(log->buffer + log->fill, 0, bytes - log->fill);
    int error = ep_port_spool_write(slot, log->write.offset, log->buffer, bytes);
    if (error == 0) {
        log->written += bytes;
        error = ep_port_spool_sync(slot);
    }
    if (error) {
        batch_abandon(log);
        return error;
    }
    if (log->next == log->write.file)
        log->next++;
    file->number = log->write.file;
    file->size += bytes;
    count_add(&file->left, &log->batch);
    log->bytes += bytes;
    log->write.offset = file->size;
    if (!log->read.file)
        log->read = (struct ep_spool_place){.file = file->number};
    return 0;
}

/* ---- delivery ---- */

/* Deletes a file that was read to its end. Messages still missing were damaged. */
static void file_done(struct ep_spool_log *log, struct ep_spool_dropped *damaged)
{
    struct ep_spool_file *file = file_at(log, log->read.file);

    if (file->number == log->read.file) {
        log->damaged += file->left.messages;
        dropped_add(log, file, damaged);
        file_release(log, file);
    }
    next_file(log);
}

static bool keep_origin(struct ep_spool_log *log, const struct ep_spool_record *record)
{
    unsigned texts = 0;

    if (record->size > sizeof log->origin)
        return false;
    memcpy(log->origin, log->buffer + EP_SPOOL_RECORD, record->size);
    for (uint32_t i = 0; i < record->size; i++)
        texts += log->origin[i] == 0;
    log->origin_of = texts == 3 && log->origin[record->size - 1] == 0 ? record->file : 0;
    return log->origin_of != 0;
}

/* Loads the origin of the file being read, wherever reading begins. Returns 0, -ENOENT or the disk's error. */
static int origin_load(struct ep_spool_log *log)
{
    struct ep_spool_place start = {.file = log->read.file};
    struct ep_spool_record record;

    if (log->origin_of == log->read.file)
        return 0;
    int error = record_load(log, &start, &record);
    return is_damage(error) ? -ENOENT : error ? error : record.origin && keep_origin(log, &record) ? 0 : -ENOENT;
}

int ep_spool_log_read(struct ep_spool_log *log, struct ep_spool_record *record, const uint8_t **bytes,
                      struct ep_spool_dropped *damaged)
{
    *bytes = NULL;
    while (log->read.file) {
        const struct ep_spool_file *file = file_at(log, log->read.file);
        if (file->number != log->read.file) {
            next_file(log); /* it was deleted to make room */
            continue;
        }
        int error = file->left.messages ? origin_load(log) : -ENOENT;
        if (error == 0)
            error = record_load_next(log, &log->read, record);
        if (error == -ENOENT) {
            file_done(log, damaged);
            continue;
        }
        if (error)
            return error;
        if (!record->origin) {
            *bytes = log->buffer + EP_SPOOL_RECORD;
            return 0;
        }
        place_advance(&log->read, record);
    }
    return 0;
}

void ep_spool_log_pass(struct ep_spool_log *log, const struct ep_spool_record *record, bool mark)
{
    struct ep_spool_file *file = file_at(log, log->read.file);

    file->left.messages--;
    file->left.samples -= record->samples;
    file->left.cpu_ns -= record->cpu_ns;
    file->left.lost_ns -= record->lost_ns;
    place_advance(&log->read, record);
    if (file->left.messages == 0)
        file_done(log, &(struct ep_spool_dropped){0});
    else if (mark)
        mark_write(log);
}

int ep_spool_log_back(struct ep_spool_log *log, const struct ep_spool_record *record)
{
    struct ep_spool_place place = {.file = record->file}, start = {0};
    struct ep_spool_record earlier;
    struct ep_spool_count again = {0};
    int error = 0;

    while ((error = record_load_next(log, &place, &earlier)) == 0 && place.index < record->index) {
        if (!earlier.origin && earlier.segment == record->segment) {
            struct ep_spool_count this = count_of(&earlier);
            count_add(&again, &this);
            start = start.file ? start : place;
        }
        place_advance(&place, &earlier);
    }
    if (error && error != -ENOENT)
        return error;
    if (!start.file || place.index != record->index)
        return 0;
    count_add(&file_at(log, record->file)->left, &again);
    log->read = start;
    return 1;
}

bool ep_spool_log_is_last(const struct ep_spool_log *log)
{
    return log->file[log->read.file % EP_SPOOL_FILES].left.messages == 1;
}

bool ep_spool_log_empty(const struct ep_spool_log *log)
{
    return ep_spool_log_messages(log) == 0;
}

uint64_t ep_spool_log_messages(const struct ep_spool_log *log)
{
    uint64_t messages = 0;

    for (unsigned i = 0; i < EP_SPOOL_FILES; i++)
        messages += log->file[i].left.messages;
    return messages;
}
