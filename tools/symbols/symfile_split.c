/*
 * See symfile.h: split DWARF. A unit of the program is a skeleton: it has the ranges, the lines and the addresses; its
 * functions are in a file .dwo, or with those of other units in a package .dwp. libdw 0.188 reads no packages, and
 * finds a .dwo only by opening it, which the process of a file cannot. So libdw gets an ELF file that is made here, of
 * headers alone: its sections' contents are parts of those files.
 */
#include "tools/symbols/symfile_parts.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    const uint8_t *bytes;
    size_t size;
};

enum { INFO, ABBREV, STR_OFFSETS, RNGLISTS, STR, ADDR, RANGES, PIECES };
enum { RNGLISTS_HEADER = 12 };
static const char *const piece_names[PIECES] = {"info", "abbrev", "str_offsets", "rnglists", "str", "addr", "ranges"};

struct et_symfile_split {
    Dwarf *dwarf;
    Elf *elf;
    Dwarf_Off die;
    uint64_t low; /* of the skeleton */
    unsigned address_size, version;
    struct piece pieces[PIECES];
    struct {
        Elf64_Ehdr header;
        Elf64_Shdr sections[PIECES + 2];
        char names[256];
    } image;
};

static struct piece piece_of(Elf *elf, const char *name)
{
    const Elf_Data *data = et_symfile_debug_data(elf, name);
    return data && data->d_buf ? (struct piece){data->d_buf, data->d_size} : (struct piece){0};
}

static struct piece piece_from(struct piece whole, uint64_t start, uint64_t size)
{
    if (start > whole.size) {
        return (struct piece){0};
    }
    uint64_t left = whole.size - start;
    return (struct piece){whole.bytes + start, (size_t)(size < left ? size : left)};
}

/* ---- skeletons ---- */

bool et_symfile_split_id(Dwarf_Die *unit, uint64_t *id)
{
    Dwarf_Half version;
    Dwarf_Attribute attribute;
    Dwarf_Word word;
    uint8_t type;
    if (dwarf_cu_info(unit->cu, &version, &type, NULL, NULL, id, NULL, NULL) != 0) {
        return false;
    }
    if (version >= 5) {
        return type == DW_UT_skeleton || type == DW_UT_split_compile;
    }
    bool there = dwarf_formudata(dwarf_attr(unit, DW_AT_GNU_dwo_id, &attribute), &word) == 0;
    *id = there ? word : 0;
    return there;
}

static const char *text_of(Dwarf_Die *die, unsigned name, unsigned other)
{
    Dwarf_Attribute attribute;
    const char *text = dwarf_formstring(dwarf_attr(die, name, &attribute));
    return text ? text : dwarf_formstring(dwarf_attr(die, other, &attribute));
}

static uint64_t number_of(Dwarf_Die *die, unsigned name, unsigned other)
{
    Dwarf_Attribute attribute;
    Dwarf_Word word;
    if (dwarf_formudata(dwarf_attr(die, name, &attribute), &word) == 0 ||
        dwarf_formudata(dwarf_attr(die, other, &attribute), &word) == 0) {
        return word;
    }
    return 0;
}

bool et_symfile_lacks_split(struct et_symfile *file, uint64_t address, struct et_companion *lacked)
{
    struct et_symfile_unit *unit = et_symfile_unit_at(file, address);
    Dwarf_Die die;
    uint64_t id;
    if (!unit || !unit->skeleton || unit->split || unit->asked || !dwarf_offdie(file->dwarf, unit->die, &die) ||
        !et_symfile_split_id(&die, &id)) {
        return false;
    }
    *lacked = (struct et_companion){.kind = ET_COMPANION_PACKAGE};
    if (file->package_asked) {
        const char *name = text_of(&die, DW_AT_dwo_name, DW_AT_GNU_dwo_name);
        const char *folder = text_of(&die, DW_AT_comp_dir, DW_AT_comp_dir);
        lacked->kind = ET_COMPANION_SPLIT;
        unit->asked = true;
        snprintf(lacked->name, sizeof lacked->name, "%s", name ? name : "");
        snprintf(lacked->folder, sizeof lacked->folder, "%s", folder ? folder : "");
    }
    file->package_asked = true;
    snprintf(lacked->id, sizeof lacked->id, "%016llx", (unsigned long long)id);
    return true;
}

/* ---- packages ---- */

static uint32_t word_at(struct piece piece, uint64_t at)
{
    uint32_t word = 0;
    if (at <= piece.size && piece.size - at >= sizeof word) {
        memcpy(&word, piece.bytes + at, sizeof word);
    }
    return word;
}

/* Which of our pieces a column of the index is of; PIECES: none. */
static unsigned piece_of_column(uint32_t column, uint32_t version)
{
    return column == 1                   ? INFO
           : column == 3                 ? ABBREV
           : column == 6                 ? STR_OFFSETS
           : column == 8 && version >= 5 ? RNGLISTS
                                         : PIECES;
}

/* The unit's row in .debug_cu_index: a hash table of ids, their rows, columns, and tables of offsets and of sizes. */
static bool find_in_package(Elf *package, uint64_t id, struct piece pieces[PIECES])
{
    struct piece index = piece_of(package, "cu_index");
    uint32_t version = word_at(index, 0), columns = word_at(index, 4), units = word_at(index, 8),
             slots = word_at(index, 12), row = 0;
    version = version == 2 ? version : version & 0xffff;
    uint64_t rows = 16 + 8 * (uint64_t)slots, heads = rows + 4 * (uint64_t)slots,
             offsets = heads + 4 * (uint64_t)columns, sizes = offsets + 4 * (uint64_t)columns * units;
    if ((version != 2 && version != 5) || columns > 8 || sizes + 4 * (uint64_t)columns * units > index.size) {
        return false;
    }
    for (uint32_t i = 0; i < slots && row == 0; i++) {
        uint64_t signature;
        memcpy(&signature, index.bytes + 16 + 8 * (uint64_t)i, sizeof signature);
        row = signature == id ? word_at(index, rows + 4 * (uint64_t)i) : 0;
    }
    if (row == 0 || row > units) {
        return false;
    }
    for (uint32_t i = 0; i < columns; i++) {
        unsigned which = piece_of_column(word_at(index, heads + 4 * (uint64_t)i), version);
        uint64_t place = 4 * ((uint64_t)(row - 1) * columns + i);
        if (which < PIECES) {
            pieces[which] = piece_from(piece_of(package, piece_names[which]), word_at(index, offsets + place),
                                       word_at(index, sizes + place));
        }
    }
    pieces[STR] = piece_of(package, "str");
    return true;
}

/* ---- a unit ---- */

/* Without contents: libelf gets them afterwards. */
static void make_image(struct et_symfile_split *split, Elf *elf)
{
    Elf64_Ehdr *header = &split->image.header;
    size_t used = 1, last = PIECES + 1;
    const char *ident = elf_getident(elf, NULL);
    memcpy(header->e_ident, ident, EI_NIDENT);
    header->e_ident[EI_CLASS] = ELFCLASS64;
    header->e_type = ET_EXEC;
    header->e_machine = EM_X86_64; /* of no account */
    header->e_version = EV_CURRENT;
    header->e_ehsize = sizeof *header;
    header->e_shoff = sizeof *header;
    header->e_shentsize = sizeof(Elf64_Shdr);
    header->e_shnum = PIECES + 2;
    header->e_shstrndx = (Elf64_Half)last;
    for (size_t i = 0; i < PIECES; i++) {
        split->image.sections[i + 1] =
            (Elf64_Shdr){.sh_name = (Elf64_Word)used, .sh_type = SHT_PROGBITS, .sh_addralign = 1};
        int size = snprintf(split->image.names + used, sizeof split->image.names - used, ".debug_%s", piece_names[i]);
        used += (size_t)size + 1;
    }
    split->image.sections[last] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                               .sh_offset = (size_t)(split->image.names - (const char *)&split->image),
                                               .sh_size = used,
                                               .sh_addralign = 1};
}

static bool fill_image(struct et_symfile_split *split)
{
    for (size_t i = 0; i < PIECES; i++) {
        Elf_Data *data = elf_getdata(elf_getscn(split->elf, i + 1), NULL);
        if (!data) {
            return false;
        }
        data->d_buf = (void *)(uintptr_t)split->pieces[i].bytes;
        data->d_size = split->pieces[i].size;
    }
    return true;
}

static bool find_split_unit(struct et_symfile_split *split, uint64_t id)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    uint8_t type;
    uint64_t own;
    Dwarf_Half version;
    while (dwarf_get_units(split->dwarf, cu, &cu, &version, &type, &die, NULL) == 0) {
        uint8_t address_size;
        if (type == DW_UT_split_compile && et_symfile_split_id(&die, &own) && own == id &&
            dwarf_cu_info(cu, NULL, NULL, NULL, NULL, NULL, &address_size, NULL) == 0 &&
            (address_size == 4 || address_size == 8)) {
            split->die = dwarf_dieoffset(&die);
            split->version = version;
            split->address_size = address_size;
            return true;
        }
    }
    return false;
}

static void close_split(struct et_symfile_split *split)
{
    if (split) {
        dwarf_end(split->dwarf);
        elf_end(split->elf);
        free(split);
    }
}

/* Puts together what the skeleton and its other half have. NULL: it is not its half. */
static struct et_symfile_split *make_split(struct et_symfile *file, Dwarf_Die *skeleton, uint64_t id,
                                           const struct piece pieces[PIECES])
{
    struct et_symfile_split *split = et_alloc(1, sizeof *split);
    Dwarf_Addr low;
    memcpy(split->pieces, pieces, sizeof split->pieces);
    split->pieces[ADDR] =
        piece_from(piece_of(file->elf, "addr"), number_of(skeleton, DW_AT_addr_base, DW_AT_GNU_addr_base), UINT64_MAX);
    split->pieces[RANGES] = piece_from(piece_of(file->elf, "ranges"),
                                       number_of(skeleton, DW_AT_GNU_ranges_base, DW_AT_GNU_ranges_base), UINT64_MAX);
    split->low = dwarf_lowpc(skeleton, &low) == 0 ? low : 0;
    make_image(split, file->elf);
    split->elf = elf_memory((char *)&split->image, sizeof split->image);
    split->dwarf = split->elf && fill_image(split) ? dwarf_begin_elf(split->elf, DWARF_C_READ, NULL) : NULL;
    if (!split->dwarf || !find_split_unit(split, id)) {
        close_split(split);
        return NULL;
    }
    return split;
}

static bool is_little(Elf *elf)
{
    const char *ident = elf_getident(elf, NULL);
    return ident && ident[EI_DATA] == ELFDATA2LSB && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

/* A package may have any of the units; a file has one, of the id that was asked for. */
bool et_symfile_take_split(struct et_symfile *file, const struct et_companion *companion, Elf *elf)
{
    const char *why;
    bool package = companion->kind == ET_COMPANION_PACKAGE, taken = false;
    uint64_t wanted = strtoull(companion->id, NULL, 16), id;
    if (!is_little(elf) || !is_little(file->elf) || !et_symfile_unpack(file, elf, &why)) {
        return false;
    }
    for (size_t i = 0; i < file->unit_count; i++) {
        struct et_symfile_unit *unit = &file->units[i];
        struct piece pieces[PIECES] = {0};
        Dwarf_Die die;
        if (!unit->skeleton || unit->split || !dwarf_offdie(file->dwarf, unit->die, &die) ||
            !et_symfile_split_id(&die, &id) || (package ? !find_in_package(elf, id, pieces) : id != wanted)) {
            continue;
        }
        for (size_t k = 0; k <= STR && !package; k++) {
            pieces[k] = piece_of(elf, piece_names[k]);
        }
        unit->split = make_split(file, &die, id, pieces);
        unit->loaded = unit->loaded && !unit->split;
        taken |= unit->split != NULL;
    }
    return taken;
}

void et_symfile_close_splits(struct et_symfile *file)
{
    for (size_t i = 0; i < file->unit_count; i++) {
        close_split(file->units[i].split);
    }
}

Dwarf *et_symfile_split_unit(const struct et_symfile_split *split, Dwarf_Die *unit)
{
    return dwarf_offdie(split->dwarf, split->die, unit) ? split->dwarf : NULL;
}

/* ---- ranges: relative to the skeleton, of which libdw does not know ---- */

struct cursor {
    const uint8_t *at, *end;
    bool sound;
};

static uint64_t read_leb(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0; c->at < c->end; shift += 7) {
        uint8_t byte = *c->at++;
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (!(byte & 0x80)) {
            return value;
        }
    }
    c->sound = false;
    return 0;
}

static uint64_t read_address(const struct et_symfile_split *split, struct cursor *c)
{
    uint64_t value = 0;
    if ((size_t)(c->end - c->at) < split->address_size) {
        c->sound = false;
        return 0;
    }
    memcpy(&value, c->at, split->address_size);
    c->at += split->address_size;
    return value;
}

static uint64_t read_indexed(const struct et_symfile_split *split, struct cursor *c)
{
    uint64_t index = read_leb(c), most = split->pieces[ADDR].size / split->address_size;
    struct cursor there = {split->pieces[ADDR].bytes + (index < most ? index : 0) * split->address_size,
                           split->pieces[ADDR].bytes + split->pieces[ADDR].size, true};
    c->sound &= index < most;
    return index < most ? read_address(split, &there) : 0;
}

/* One entry of .debug_rnglists. 1: *start and *end are a range; 0: they are not; -1: the list ends. */
static int read_entry(const struct et_symfile_split *split, struct cursor *c, uint64_t *base, uint64_t *start,
                      uint64_t *end)
{
    switch (c->at < c->end ? *c->at++ : DW_RLE_end_of_list) {
    case DW_RLE_base_addressx:
        *base = read_indexed(split, c);
        return 0;
    case DW_RLE_startx_endx:
        *start = read_indexed(split, c);
        *end = read_indexed(split, c);
        return 1;
    case DW_RLE_startx_length:
        *start = read_indexed(split, c);
        *end = *start + read_leb(c);
        return 1;
    case DW_RLE_offset_pair:
        *start = *base + read_leb(c);
        *end = *base + read_leb(c);
        return 1;
    case DW_RLE_base_address:
        *base = read_address(split, c);
        return 0;
    case DW_RLE_start_end:
        *start = read_address(split, c);
        *end = read_address(split, c);
        return 1;
    case DW_RLE_start_length:
        *start = read_address(split, c);
        *end = *start + read_leb(c);
        return 1;
    default:
        return -1;
    }
}

/* The same of .debug_ranges, before DWARF 5. */
static int read_pair(const struct et_symfile_split *split, struct cursor *c, uint64_t *base, uint64_t *start,
                     uint64_t *end)
{
    const uint64_t highest = split->address_size == 4 ? UINT32_MAX : UINT64_MAX;
    *start = read_address(split, c);
    *end = read_address(split, c);
    if (!c->sound || (*start == 0 && *end == 0)) {
        return -1;
    }
    if (*start == highest) {
        *base = *end;
        return 0;
    }
    *start += *base;
    *end += *base;
    return 1;
}

void et_symfile_split_ranges(const struct et_symfile_split *split, Dwarf_Die *die,
                             bool (*range)(void *context, uint64_t start, uint64_t end), void *context)
{
    Dwarf_Attribute attribute;
    Dwarf_Addr start, end;
    Dwarf_Word offset;
    uint64_t base = split->low;
    if (dwarf_lowpc(die, &start) == 0 && dwarf_highpc(die, &end) == 0) {
        range(context, start, end);
        return;
    }
    struct piece piece = split->pieces[split->version >= 5 ? RNGLISTS : RANGES];
    if (dwarf_formudata(dwarf_attr(die, DW_AT_ranges, &attribute), &offset) != 0) {
        return;
    }
    if (dwarf_whatform(&attribute) == DW_FORM_rnglistx) { /* an index into the offsets behind the header */
        offset = offset < piece.size ? RNGLISTS_HEADER + word_at(piece, RNGLISTS_HEADER + 4 * offset) : piece.size;
    }
    if (offset >= piece.size) {
        return;
    }
    struct cursor c = {piece.bytes + offset, piece.bytes + piece.size, true};
    int found = 0;
    bool more = true;
    for (int i = 0; i < ET_SYMFILE_RANGES_OF_A_DIE && more && found >= 0 && c.sound; i++) {
        found = split->version >= 5 ? read_entry(split, &c, &base, &start, &end)
                                    : read_pair(split, &c, &base, &start, &end);
        more = found != 1 || !c.sound || range(context, start, end);
    }
}
