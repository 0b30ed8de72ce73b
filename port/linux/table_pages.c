/*
 * Unwind tables in the page cache. A program never reads its own tables until an exception is thrown, so the first
 * samples would wait in their handlers for a cold disk. The kernel reads them ahead, when a module is found.
 *
 *   eh_frame: [.eh_frame_hdr] + [.eh_frame, as far as the last entry of the index leads]
 *   arm:      [.ARM.extab, from where the first entries lead] + [.ARM.exidx]
 */
#include "linux.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEADER_SIZE 12u  /* of .eh_frame_hdr, with the usual encodings */
#define ENTRY_SIZE  8u   /* of either index */
#define ENTRIES     256u /* of .ARM.exidx that are looked at; most have no part in .ARM.extab */
#define LAST_MOST   4096u

struct range {
    uintptr_t start, end;
};

static int32_t number_at(uintptr_t at)
{
    int32_t value;

    memcpy(&value, (const void *)at, sizeof value);
    return value;
}

static void widen(struct range *range, uintptr_t start, uintptr_t end)
{
    if (start < range->start)
        range->start = start;
    if (end > range->end)
        range->end = end;
}

/* Linux Standard Base, "Exception Frame Header": .eh_frame by its address, the index by offsets from the header. */
static void frames_add(const struct ep_module_info *info, struct range *range)
{
    static const uint8_t usual[] = {1, 0x1b, 0x03, 0x3b};
    uintptr_t table = info->table;

    if (info->table_size < HEADER_SIZE + ENTRY_SIZE || memcmp((const void *)table, usual, sizeof usual) != 0)
        return;
    uint32_t count = (uint32_t)number_at(table + 8);
    if (count == 0 || count > (info->table_size - HEADER_SIZE) / ENTRY_SIZE)
        return;
    uintptr_t last = table + HEADER_SIZE + (count - 1) * (uintptr_t)ENTRY_SIZE;
    widen(range, table + 4 + (uintptr_t)(intptr_t)number_at(table + 4),
          table + (uintptr_t)(intptr_t)number_at(last + 4) + LAST_MOST);
}

static void extab_add(const struct ep_module_info *info, struct range *range)
{
    for (unsigned i = 0; i < ENTRIES && (i + 1) * ENTRY_SIZE <= info->table_size; i++) {
        uintptr_t at = info->table + i * ENTRY_SIZE + 4;
        int32_t word = number_at(at);
        if (word < 0 || word == 1) /* codes in the index, or none */
            continue;
        widen(range, at + (uintptr_t)(intptr_t)((int32_t)((uint32_t)word << 1) >> 1), info->table);
        return;
    }
}

void ep_linux_tables_fetch(const struct ep_module_info *info)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct range range = {info->table, info->table + info->table_size};

    if (!info->table)
        return;
    if (ep_linux_table_segment == PT_GNU_EH_FRAME)
        frames_add(info, &range);
    else
        extab_add(info, &range);
    if (range.start < info->image_start)
        range.start = info->image_start;
    if (range.end > info->image_end)
        range.end = info->image_end;
    range.start &= ~(page - 1);
    (void)madvise((void *)range.start, range.end - range.start, MADV_WILLNEED);
}
