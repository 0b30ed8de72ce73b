/* See symfile.h: functions as the tables for unwinding tell them, .eh_frame and, on 32-bit ARM, .ARM.exidx. */
#include "tools/symbols/symfile_parts.h"

#include <stdlib.h>

enum { ENTRY_BYTES = 8, CANNOT_UNWIND = 1 };
static const uint32_t ONE_WORD = 0x80000000; /* else the entry has the place of a table */

static uint32_t get16(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

static uint32_t get32(const uint8_t *at)
{
    return get16(at) | get16(at + 2) << 16;
}

void et_symfile_find_tables(struct et_symfile *file)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Ehdr elf = {0};
    file->entry = gelf_getehdr(file->elf, &elf) ? elf.e_entry : 0;
    bool arm = elf.e_machine == EM_ARM && elf.e_ident[EI_DATA] == ELFDATA2LSB;
    while ((section = elf_nextscn(file->elf, section))) {
        if (!file->tables && et_symfile_section_is(file->elf, section, &header, ".eh_frame")) {
            file->tables = dwarf_getcfi_elf(file->elf);
        }
        const Elf_Data *data =
            arm && et_symfile_section_is(file->elf, section, &header, ".ARM.exidx") ? elf_rawdata(section, NULL) : NULL;
        if (data && data->d_buf) {
            file->index = (struct et_symfile_index){data->d_buf, data->d_size / ENTRY_BYTES, header.sh_addr};
        }
    }
}

/* ---- .ARM.exidx ---- */

static uint64_t entry_start(const struct et_symfile_index *index, size_t at)
{
    uint32_t word = get32(index->bytes + at * ENTRY_BYTES);
    uint32_t distance = (word & 0x7fffffff) | (word & 0x40000000) << 1;
    return (uint32_t)(index->address + at * ENTRY_BYTES + distance) & ~(uint32_t)1;
}

/* How many entries begin at the address or below. */
static size_t entries_up_to(const struct et_symfile_index *index, uint64_t address)
{
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (entry_start(index, middle) <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Whether an entry of one word, three bytes of instructions, takes lr from the stack. */
static bool restores_lr(uint32_t entry)
{
    bool operand = false, restores = false;
    for (unsigned shift = 24; shift > 0; shift -= 8) {
        uint32_t byte = entry >> (shift - 8) & 255;
        restores |= !operand && ((byte & 0xf8) == 0xa8 || (byte & 0xf4) == 0x84);
        bool two_bytes = (byte & 0xf0) == 0x80 || (byte >= 0xb1 && byte <= 0xb3) || (byte >= 0xc6 && byte <= 0xc9);
        operand = !operand && two_bytes;
    }
    return restores;
}

/* Whether this may be push {..., lr}, or str or strd of lr below sp, in either instruction set. */
static bool saves_lr(const uint8_t *code, size_t left)
{
    uint32_t first = get16(code), second = left >= 4 ? get16(code + 2) : 0;
    bool thumb = (first & 0xff00) == 0xb500 || (first == 0xe92d && (second & 0x4000)) ||
                 (first == 0xf84d && (second & 0xff00) == 0xed00) || (first == 0xe96d && (second & 0x0f00) == 0x0e00);
    bool arm = ((second & 0x0fff) == 0x092d && (first & 0x4000)) ||
               ((second & 0x0fff) == 0x052d && (first & 0xf000) == 0xe000);
    return thumb || arm;
}

/* The code of a range, in one section; NULL: this file has none. */
static const uint8_t *code_of(const struct et_symfile *file, uint64_t start, uint64_t end)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    while ((section = elf_nextscn(file->elf, section))) {
        if (gelf_getshdr(section, &header) && header.sh_type == SHT_PROGBITS && (header.sh_flags & SHF_EXECINSTR) &&
            start >= header.sh_addr && end - header.sh_addr <= header.sh_size && end >= start) {
            const Elf_Data *data = elf_rawdata(section, NULL);
            bool whole = data && data->d_buf && data->d_size >= header.sh_size;
            return whole ? (const uint8_t *)data->d_buf + (start - header.sh_addr) : NULL;
        }
    }
    return NULL;
}

/* Linkers join neighbours whose entries are the same word. One function saves lr once. */
static bool is_one_function(const struct et_symfile *file, uint32_t entry, uint64_t start, uint64_t end)
{
    const uint8_t *code = restores_lr(entry) ? code_of(file, start, end) : NULL;
    int saves = 0;
    for (uint64_t at = 0; code && saves < 2 && start + at + 2 <= end; at += 2) {
        bool save = saves_lr(code + at, (size_t)(end - start - at));
        saves += save;
        at += save ? 2 : 0; /* what is half of it is not another */
    }
    return saves == 1;
}

static uint64_t indexed_function(const struct et_symfile *file, uint64_t address)
{
    const struct et_symfile_index *index = &file->index;
    size_t after = entries_up_to(index, address), symbols = et_symfile_symbols_up_to(file, address);
    if (after == 0 || after == index->count) {
        return address; /* the last entry says where code ends */
    }
    uint64_t start = entry_start(index, after - 1), end = entry_start(index, after);
    uint32_t entry = get32(index->bytes + (after - 1) * ENTRY_BYTES + 4);
    bool begun = symbols > 0 && file->symbols[symbols - 1].start > start; /* another function, between */
    bool one = entry != CANNOT_UNWIND && (!(entry & ONE_WORD) || is_one_function(file, entry, start, end));
    return start <= address && !begun && one ? start : address;
}

uint64_t et_symfile_function(struct et_symfile *file, uint64_t address)
{
    Dwarf_Frame *frame;
    Dwarf_Addr start = address;
    if (file->tables && dwarf_cfi_addrframe(file->tables, address, &frame) == 0) {
        if (dwarf_frame_info(frame, &start, NULL, NULL) < 0 || start > address) {
            start = address;
        }
        free(frame);
        return start;
    }
    return indexed_function(file, address);
}
