/*
 * Any bytes as a file of the spool, as its mark, and as what lies in the way: recovery and reading end, read inside
 * their memory, and give out only records whose CRC is right, in order.
 *
 * The first byte says what is mended before: bit 0: magic, file and CRC of the records, so that the bytes behind them
 * are reached; bit 1: the last 24 bytes are the mark's. bit 2: a batch is written behind it afterwards.
 */
#include <stdlib.h>
#include <string.h>

#include "core/features/spool/spool_log.h"

#define LARGEST (256u * 1024u)
#define FILES   (EP_SPOOL_FILES + 1)

static uint8_t bytes[FILES][LARGEST];
static int64_t sizes[FILES];
static uint64_t memory[40 * 1024 / 8];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a disk ---- */

int ep_port_spool_open(const char *dir)
{
    (void)dir;
    return 0;
}

void ep_port_spool_close(void) {}

int64_t ep_port_spool_size(unsigned file)
{
    return sizes[file];
}

int64_t ep_port_spool_read(unsigned file, uint64_t at, void *to, size_t size)
{
    uint64_t left = at < (uint64_t)sizes[file] ? (uint64_t)sizes[file] - at : 0;

    size = left < size ? (size_t)left : size;
    if (size == 0)
        return 0; /* `at` may be anywhere */
    memcpy(to, bytes[file] + at, size);
    return (int64_t)size;
}

int ep_port_spool_write(unsigned file, uint64_t at, const void *from, size_t size)
{
    if (file >= FILES || at % EP_SPOOL_BLOCK || size % EP_SPOOL_BLOCK || at + size > LARGEST)
        abort();
    memcpy(bytes[file] + at, from, size);
    if (sizes[file] < (int64_t)(at + size))
        sizes[file] = (int64_t)(at + size);
    return 0;
}

int ep_port_spool_sync(unsigned file)
{
    (void)file;
    return 0;
}

int ep_port_spool_cut(unsigned file, uint64_t size)
{
    if (sizes[file] > (int64_t)size)
        sizes[file] = (int64_t)size;
    return 0;
}

/* ---- bytes that nearly are a spool ---- */

static uint32_t crc(const uint8_t *at, size_t size)
{
    static uint32_t table[256];
    uint32_t sum = 0xffffffff;

    for (uint32_t i = 0; i < 256 && !table[255]; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78 : 0);
    }
    for (size_t i = 0; i < size; i++)
        sum = table[(sum ^ at[i]) & 255] ^ sum >> 8;
    return ~sum;
}

static uint32_t number(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++, value >>= 8)
        at[i] = (uint8_t)value;
}

/* Records with sizes of up to 1 KiB, one behind the other, a block's rest now and then. */
static void mend(uint8_t *file, size_t size)
{
    uint32_t index = 0;

    for (size_t at = 0; at + EP_SPOOL_RECORD <= size; index++) {
        uint32_t length = number(file + at + 8) % 1024;
        if (length > size - at - EP_SPOOL_RECORD)
            return;
        memcpy(file + at, "EPS1", 4);
        put(file + at + 8, length);
        put(file + at + 12, 1);
        put(file + at + 16, index);
        file[at + 88] = index == 0;
        file[at + 89] = 0;
        put(file + at + 4, crc(file + at + 8, EP_SPOOL_RECORD - 8 + length));
        at += EP_SPOOL_RECORD + length;
        if (length % 7 == 0)
            at = (at + EP_SPOOL_BLOCK - 1) / EP_SPOOL_BLOCK * EP_SPOOL_BLOCK;
    }
}

static void write_one(struct ep_spool_log *log)
{
    static const char origin[] = "service\0tags\0boot";
    const struct ep_spool_record record = {.size = 5, .segment = 1, .samples = 1, .cpu_ns = 1};
    struct ep_spool_dropped dropped = {0};

    ep_spool_log_begin(log, origin, sizeof origin);
    if (!ep_spool_log_add(log, &record, "12345") || ep_spool_log_commit(log, &dropped) != 0)
        abort();
}

static uint64_t read_all(struct ep_spool_log *log)
{
    struct ep_spool_dropped damaged = {0};
    struct ep_spool_record record;
    const uint8_t *message;
    uint32_t file = 0, index = 0;
    uint64_t count = 0, before = ep_spool_log_messages(log);

    for (; ep_spool_log_read(log, &record, &message, &damaged) == 0 && message; count++) {
        if (number(message - EP_SPOOL_RECORD + 4) !=
            crc(message - EP_SPOOL_RECORD + 8, EP_SPOOL_RECORD - 8 + record.size))
            abort();
        if (record.file < file || (record.file == file && record.index <= index))
            abort();
        file = record.file;
        index = record.index;
        ep_spool_log_pass(log, &record, record.lost_ns != 0);
    }
    if (count + damaged.all.messages != before)
        abort();
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ep_spool_log log;
    uint8_t how = size ? data[0] : 0;
    size_t marks = how & 2 && size > 25 ? 24 : 0;

    if (size < 1 || size > LARGEST / 2)
        return 0;
    memset(sizes, 0, sizeof sizes);
    sizes[1] = (int64_t)(size - 1 - marks);
    memcpy(bytes[1], data + 1, (size_t)sizes[1]);
    if (how & 1)
        mend(bytes[1], (size_t)sizes[1]);
    if (marks) {
        memcpy(bytes[EP_SPOOL_FILES], data + size - 24, 24);
        put(bytes[EP_SPOOL_FILES], 0x314d5045);
        put(bytes[EP_SPOOL_FILES] + 4, crc(bytes[EP_SPOOL_FILES] + 8, 16));
        sizes[EP_SPOOL_FILES] = 24;
    }
    log = (struct ep_spool_log){.cap = 100 * 1024, .buffer = (uint8_t *)memory, .size = sizeof memory};
    if (ep_spool_log_open(&log, "") != 0)
        abort();
    if (how & 4)
        write_one(&log);
    if (read_all(&log) < (how & 4 ? 1 : 0) || ep_spool_log_messages(&log) != 0)
        abort();
    ep_spool_log_close(&log, true);
    return 0;
}
