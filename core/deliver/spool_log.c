/*
 * The spool's files and their bytes (core/FORMAT.md, "Spool files"): batches of records with a CRC, each batch at the
 * start of a block of its own, so that no block with acknowledged records is ever written again; recovery; the mark
 * that says how far delivery has come. Not here: what is put when, and delivery (spool.c).
 *
 *   open   -> recover -> scan -> load            a file ends where its first record that is not whole begins
 *   begin, add ... commit -> make_room -> the port: write, sync; a batch that failed is cut off
 *   read   -> load, next_file                    in the order of the files' numbers
 *
 * Numbers only grow, and the mark has one: so a mark of files that are gone says nothing about new ones.
 */
#include "core/deliver/spool_log.h"

#include <errno.h>
#include <string.h>

#define MAGIC       0x31535045u /* EPS1 */
#define MAGIC_MARK  0x314d5045u /* EPM1 */
#define MARK_FILE   EP_SPOOL_FILES
#define MARK_BYTES  24u
#define ORIGIN_TYPE 1u

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

/* CRC-32C, by half bytes: a table of 64 bytes instead of 1 KiB. */
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

/* The record's head at `at`, where its bytes follow already. */
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
    memcpy(at + 72, record->family, sizeof record->family);
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
        .origin = number(at + 88, 2) == ORIGIN_TYPE,
    };
    memcpy(record->family, at + 72, sizeof record->family - 1);
}

/* ---- counts ---- */

static void count(struct ep_spool_count *sum, const struct ep_spool_count *more)
{
    sum->messages += more->messages;
    sum->samples += more->samples;
    sum->cpu_ns += more->cpu_ns;
}

static struct ep_spool_count one(const struct ep_spool_record *record)
{
    return (struct ep_spool_count){!record->origin, record->samples, record->cpu_ns};
}

static struct ep_spool_file *file_at(struct ep_spool_log *log, uint32_t n)
{
    return &log->file[n % EP_SPOOL_FILES];
}

/* The oldest file, NULL: there is none. */
static struct ep_spool_file *oldest(struct ep_spool_log *log)
{
    struct ep_spool_file *found = NULL;

    for (unsigned i = 0; i < EP_SPOOL_FILES; i++)
        if (log->file[i].number && (!found || log->file[i].number < found->number))
            found = &log->file[i];
    return found;
}

static void lose(const struct ep_spool_log *log, const struct ep_spool_file *file, struct ep_spool_dropped *dropped)
{
    count(&dropped->all, &file->left);
    if (file->number >= log->first_own)
        dropped->own_cpu_ns += file->left.cpu_ns;
}

/* The file is gone, or, when the system does not let go of it, not ours any more: its number is used up. */
static void let_go(struct ep_spool_log *log, struct ep_spool_file *file)
{
    (void)ep_port_store_cut(file->number % EP_SPOOL_FILES, 0);
    log->bytes -= file->size;
    if (log->write.file == file->number)
        log->write = (struct ep_spool_place){0};
    *file = (struct ep_spool_file){0};
}

/* ---- reading records ---- */

/* The record at that place into the buffer, its head first. 0; -ENOENT: there is none, or not all of it; else the
 * disk's error. */
static int load(struct ep_spool_log *log, const struct ep_spool_place *place, struct ep_spool_record *record)
{
    unsigned slot = place->file % EP_SPOOL_FILES;
    int64_t got = ep_port_store_read(slot, place->offset, log->buffer, EP_SPOOL_RECORD);

    if (got < (int64_t)EP_SPOOL_RECORD)
        return got < 0 ? (int)got : -ENOENT;
    get_head(log->buffer, record);
    if (number(log->buffer, 4) != MAGIC || record->file != place->file || record->index != place->index ||
        record->size > log->size - EP_SPOOL_RECORD || record->origin != (place->index == 0))
        return -ENOENT;
    got = ep_port_store_read(slot, place->offset + EP_SPOOL_RECORD, log->buffer + EP_SPOOL_RECORD, record->size);
    if (got < (int64_t)record->size)
        return got < 0 ? (int)got : -ENOENT;
    return number(log->buffer + 4, 4) == crc(log->buffer + 8, EP_SPOOL_RECORD - 8 + record->size) ? 0 : -ENOENT;
}

/* The same, or the first of the next batch when this one has ended. */
static int load_next(struct ep_spool_log *log, struct ep_spool_place *place, struct ep_spool_record *record)
{
    int error = load(log, place, record);

    if (error != -ENOENT || place->offset % EP_SPOOL_BLOCK == 0)
        return error;
    place->offset = block_up(place->offset);
    return load(log, place, record);
}

static void step(struct ep_spool_place *place, const struct ep_spool_record *record)
{
    place->offset += EP_SPOOL_RECORD + record->size;
    place->index++;
}

/* ---- recovery ---- */

/* The file's number, by its first record. 0, -ENOENT or the disk's error. */
static int number_of(struct ep_spool_log *log, unsigned slot, uint32_t *number)
{
    struct ep_spool_record record;
    int64_t got = ep_port_store_read(slot, 0, log->buffer, EP_SPOOL_RECORD);

    if (got < (int64_t)EP_SPOOL_RECORD)
        return got < 0 ? (int)got : -ENOENT;
    get_head(log->buffer, &record);
    *number = record.file % EP_SPOOL_FILES == slot ? record.file : 0;
    return *number ? 0 : -ENOENT;
}

/* What a file has that is whole and not yet delivered. */
static void scan(struct ep_spool_log *log, unsigned slot)
{
    struct ep_spool_file *file = &log->file[slot];
    struct ep_spool_place place = {0};
    struct ep_spool_record record;
    uint32_t end = 0;
    int error = number_of(log, slot, &place.file);

    while (error == 0 && (error = load_next(log, &place, &record)) == 0) {
        struct ep_spool_count this = one(&record);
        if (place.file > log->marked.file || (place.file == log->marked.file && place.index >= log->marked.index))
            count(&file->left, &this);
        step(&place, &record);
        end = place.offset;
    }
    file->number = place.file;
    file->size = block_up(end);
    log->bytes += file->size;
    if (error != -ENOENT)
        return; /* what cannot be read now may be read another time */
    if (file->number && (file->number < log->marked.file || file->left.messages == 0))
        let_go(log, file);
    else if (ep_port_store_size(slot) > (int64_t)file->size)
        (void)ep_port_store_cut(slot, file->size); /* read-only: what is torn is found again next time */
}

static void load_mark(struct ep_spool_log *log)
{
    uint8_t bytes[MARK_BYTES];

    for (unsigned i = 0; i < 2; i++) {
        if (ep_port_store_read(MARK_FILE, i * EP_SPOOL_BLOCK, bytes, sizeof bytes) < (int64_t)sizeof bytes ||
            number(bytes, 4) != MAGIC_MARK || number(bytes + 4, 4) != crc(bytes + 8, sizeof bytes - 8) ||
            number(bytes + 8, 4) < log->marks)
            continue;
        log->marks = (uint32_t)number(bytes + 8, 4);
        log->marked = (struct ep_spool_place){.file = (uint32_t)number(bytes + 12, 4),
                                              .offset = (uint32_t)number(bytes + 16, 4),
                                              .index = (uint32_t)number(bytes + 20, 4)};
    }
}

int ep_spool_log_open(struct ep_spool_log *log, const char *dir)
{
    uint8_t *buffer = log->buffer;
    uint32_t size = log->size;
    uint64_t cap = log->cap;
    int error = ep_port_store_open(dir);

    if (error)
        return error;
    *log = (struct ep_spool_log){.buffer = buffer, .size = size, .cap = cap};
    load_mark(log);
    log->next = log->marked.file + 1;
    for (unsigned slot = 0; slot < EP_SPOOL_FILES; slot++) {
        scan(log, slot);
        if (log->file[slot].number >= log->next)
            log->next = log->file[slot].number + 1;
    }
    log->first_own = log->next;
    const struct ep_spool_file *first = oldest(log);
    if (first && first->number == log->marked.file)
        log->read = log->marked;
    else if (first)
        log->read = (struct ep_spool_place){.file = first->number};
    return 0;
}

/* ---- the mark ---- */

/* Two blocks by turns: when one is torn the other still says something. */
static void mark(struct ep_spool_log *log)
{
    uint8_t *block = log->buffer;

    memset(block, 0, EP_SPOOL_BLOCK);
    put_number(block, MAGIC_MARK, 4);
    put_number(block + 8, log->marks + 1, 4);
    put_number(block + 12, log->read.file, 4);
    put_number(block + 16, log->read.offset, 4);
    put_number(block + 20, log->read.index, 4);
    put_number(block + 4, crc(block + 8, MARK_BYTES - 8), 4);
    if (ep_port_store_write(MARK_FILE, (log->marks + 1) % 2 * EP_SPOOL_BLOCK, block, EP_SPOOL_BLOCK) != 0)
        return; /* messages may be delivered twice then */
    log->written += EP_SPOOL_BLOCK;
    if (ep_port_store_sync(MARK_FILE) != 0)
        return;
    log->marks++;
    log->marked = log->read;
}

void ep_spool_log_close(struct ep_spool_log *log)
{
    if (log->read.file && (log->read.file != log->marked.file || log->read.index != log->marked.index))
        mark(log);
    ep_port_store_close();
}

/* ---- writing ---- */

void ep_spool_log_turn(struct ep_spool_log *log)
{
    log->write = (struct ep_spool_place){0};
}

/* Behind what the batch has so far. */
static bool stage(struct ep_spool_log *log, struct ep_spool_record record, const void *bytes)
{
    if (record.size > log->size - log->fill || EP_SPOOL_RECORD > log->size - log->fill - record.size)
        return false;
    memcpy(log->buffer + log->fill + EP_SPOOL_RECORD, bytes, record.size);
    record.file = log->write.file;
    record.index = log->write.index++;
    put_head(log->buffer + log->fill, &record);
    log->fill += EP_SPOOL_RECORD + record.size;
    struct ep_spool_count this = one(&record);
    count(&log->batch, &this);
    return true;
}

void ep_spool_log_begin(struct ep_spool_log *log, const char *origin, uint32_t origin_size)
{
    log->fill = 0;
    log->batch = (struct ep_spool_count){0};
    if (log->write.file)
        return;
    log->write = (struct ep_spool_place){.file = log->next};
    (void)stage(log, (struct ep_spool_record){.size = origin_size, .origin = ORIGIN_TYPE}, origin);
}

bool ep_spool_log_add(struct ep_spool_log *log, const struct ep_spool_record *record, const void *bytes)
{
    return stage(log, *record, bytes);
}

/* The oldest files go until there is room for so many bytes more. */
static void make_room(struct ep_spool_log *log, uint32_t bytes, struct ep_spool_dropped *dropped)
{
    struct ep_spool_file *file, *in_place = file_at(log, log->write.file);

    while ((file = oldest(log)) != NULL && file->number != log->write.file &&
           (log->bytes + bytes > log->cap || (in_place->number && in_place->number != log->write.file))) {
        lose(log, file, dropped);
        let_go(log, file);
    }
}

/* What the disk has of the batch is not to be trusted, nor what it says of the next one in the same place. */
static void give_up(struct ep_spool_log *log)
{
    unsigned slot = log->write.file % EP_SPOOL_FILES;
    uint32_t size = log->file[slot].number == log->write.file ? log->file[slot].size : 0;

    (void)ep_port_store_cut(slot, size);
    if (log->next == log->write.file)
        log->next++;
    ep_spool_log_turn(log);
}

int ep_spool_log_commit(struct ep_spool_log *log, struct ep_spool_dropped *dropped)
{
    uint32_t bytes = block_up(log->fill), slot = log->write.file % EP_SPOOL_FILES;
    struct ep_spool_file *file = &log->file[slot];

    make_room(log, bytes, dropped);
    memset(log->buffer + log->fill, 0, bytes - log->fill);
    int error = ep_port_store_write(slot, log->write.offset, log->buffer, bytes);
    if (error == 0) {
        log->written += bytes;
        error = ep_port_store_sync(slot);
    }
    if (error) {
        give_up(log);
        return error;
    }
    if (log->next == log->write.file)
        log->next++;
    file->number = log->write.file;
    file->size += bytes;
    count(&file->left, &log->batch);
    log->bytes += bytes;
    log->write.offset = file->size;
    if (!log->read.file)
        log->read = (struct ep_spool_place){.file = file->number};
    return 0;
}

/* ---- delivery ---- */

static void next_file(struct ep_spool_log *log)
{
    const struct ep_spool_file *first = oldest(log);

    log->read = (struct ep_spool_place){.file = first ? first->number : 0};
}

/* The file is read to its end: nothing more will come in it. What should have come, has been damaged. */
static void file_done(struct ep_spool_log *log, struct ep_spool_dropped *damaged)
{
    struct ep_spool_file *file = file_at(log, log->read.file);

    if (file->number == log->read.file) {
        lose(log, file, damaged);
        let_go(log, file);
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

/* The origin of the file that is read, wherever in it reading begins. */
static bool origin_known(struct ep_spool_log *log)
{
    struct ep_spool_place start = {.file = log->read.file};
    struct ep_spool_record record;

    return log->origin_of == log->read.file || (load(log, &start, &record) == 0 && keep_origin(log, &record));
}

const uint8_t *ep_spool_log_read(struct ep_spool_log *log, struct ep_spool_record *record,
                                 struct ep_spool_dropped *damaged)
{
    while (log->read.file) {
        const struct ep_spool_file *file = file_at(log, log->read.file);
        if (file->number != log->read.file) {
            next_file(log); /* it had to make room */
            continue;
        }
        if (file->left.messages == 0 || !origin_known(log) || load_next(log, &log->read, record) != 0) {
            file_done(log, damaged);
            continue;
        }
        if (!record->origin)
            return log->buffer + EP_SPOOL_RECORD;
        step(&log->read, record);
    }
    return NULL;
}

void ep_spool_log_pass(struct ep_spool_log *log, const struct ep_spool_record *record, bool now)
{
    struct ep_spool_file *file = file_at(log, log->read.file);

    file->left.messages--;
    file->left.samples -= record->samples;
    file->left.cpu_ns -= record->cpu_ns;
    step(&log->read, record);
    if (file->left.messages == 0)
        file_done(log, &(struct ep_spool_dropped){0});
    else if (now)
        mark(log);
}

bool ep_spool_log_back(struct ep_spool_log *log, const struct ep_spool_record *record)
{
    struct ep_spool_place place = {.file = record->file}, start = {0};
    struct ep_spool_record earlier;
    struct ep_spool_count again = {0};

    while (place.index < record->index && load_next(log, &place, &earlier) == 0) {
        if (!earlier.origin && earlier.segment == record->segment) {
            struct ep_spool_count this = one(&earlier);
            count(&again, &this);
            start = start.file ? start : place;
        }
        step(&place, &earlier);
    }
    if (!start.file || place.index != record->index)
        return false;
    count(&file_at(log, record->file)->left, &again);
    log->read = start;
    return true;
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
