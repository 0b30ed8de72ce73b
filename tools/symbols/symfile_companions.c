/* See symfile.h: files that have a part of another one's debugging information. symfile_split.c has what they say. */
#include "tools/symbols/symfile_parts.h"

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the common file of dwz ---- */

static void write_id(const uint8_t *bytes, size_t size, char id[129])
{
    for (size_t i = 0; i < size && i < 64; i++) {
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* DWARF 5's own form of the link: version, 1 in the common file itself, name, size of the checksum, checksum. */
static bool read_sup(Elf *elf, bool common, char id[129], char *name, size_t size)
{
    const Elf_Data *data = et_symfile_debug_data(elf, "sup");
    const uint8_t *at = data ? data->d_buf : NULL, *end = data && at ? at + data->d_size : NULL;
    if (!at || end - at < 4 || at[2] != common) {
        return false;
    }
    const char *text = (const char *)at + 3;
    size_t length = strnlen(text, (size_t)(end - at) - 3), left = (size_t)(end - at) - 3 - length;
    if (left < 2 || length >= size || at[4 + length] >= 64 || left - 2 < at[4 + length]) {
        return false;
    }
    snprintf(name, size, "%s", text);
    write_id(at + 5 + length, at[4 + length], id);
    return id[0] != '\0';
}

/* ".gnu_debugaltlink": the name, NUL, the build id. */
static bool read_link(Elf *elf, char id[129], char *name, size_t size)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    while ((section = elf_nextscn(elf, section))) {
        const Elf_Data *data =
            et_symfile_section_is(elf, section, &header, ".gnu_debugaltlink") ? elf_rawdata(section, NULL) : NULL;
        size_t length = data && data->d_buf ? strnlen(data->d_buf, data->d_size) : 0;
        if (length > 0 && length < size && length + 1 < data->d_size) {
            snprintf(name, size, "%s", (const char *)data->d_buf);
            write_id((const uint8_t *)data->d_buf + length + 1, data->d_size - length - 1, id);
            return true;
        }
    }
    return false;
}

void et_symfile_find_common(struct et_symfile *file)
{
    struct et_companion *common = &file->common;
    char unused[8];
    bool is_common = read_sup(file->elf, true, common->id, unused, sizeof unused);
    if (!is_common && (read_link(file->elf, common->id, common->name, sizeof common->name) ||
                       read_sup(file->elf, false, common->id, common->name, sizeof common->name))) {
        common->kind = ET_COMPANION_COMMON;
    }
}

static bool take_common(struct et_symfile *file, Elf *elf)
{
    const void *bytes = NULL;
    char id[129] = "", unused[8];
    const char *why;
    ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);
    if (size > 0) {
        write_id(bytes, (size_t)size, id);
    }
    if (strcmp(id, file->common.id) != 0 &&
        (!read_sup(elf, true, id, unused, sizeof unused) || strcmp(id, file->common.id) != 0)) {
        return false;
    }
    Dwarf *dwarf = et_symfile_unpack(file, elf, &why) ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
    if (dwarf) {
        dwarf_setalt(file->dwarf, dwarf);
        file->common_dwarf = dwarf;
    }
    return dwarf != NULL;
}

/* ---- asking, and taking ---- */

bool et_symfile_has_companions(const struct et_symfile *file)
{
    return file->dwarf && (file->common.kind != ET_COMPANION_NONE || file->skeletons > 0);
}

bool et_symfile_lacks(struct et_symfile *file, uint64_t address, struct et_companion *lacked)
{
    if (file->dwarf && file->common.kind != ET_COMPANION_NONE && !file->common_asked) {
        file->common_asked = true;
        *lacked = file->common;
        return true;
    }
    return file->skeletons > 0 && et_symfile_lacks_split(file, address, lacked);
}

char *et_symfile_room(struct et_symfile *file, uint64_t size)
{
    if (size == 0 || size > file->unpacked_left) {
        return NULL;
    }
    file->unpacked_left -= size;
    return et_symfile_buffer(file, (size_t)size);
}

bool et_symfile_supply(struct et_symfile *file, const struct et_companion *companion, char *bytes, uint64_t size)
{
    Elf *elf = elf_memory(bytes, (size_t)size);
    bool taken = false;
    if (elf && elf_kind(elf) == ELF_K_ELF) {
        taken = companion->kind == ET_COMPANION_COMMON ? !file->common_dwarf && take_common(file, elf)
                                                       : et_symfile_take_split(file, companion, elf);
    }
    if (!taken) {
        elf_end(elf);
        return false;
    }
    file->elfs = et_reserve(file->elfs, &file->elf_capacity, file->elf_count + 1, sizeof *file->elfs);
    file->elfs[file->elf_count++] = elf;
    return true;
}

void et_symfile_close_companions(struct et_symfile *file)
{
    et_symfile_close_splits(file);
    dwarf_end(file->common_dwarf);
    for (size_t i = 0; i < file->elf_count; i++) {
        elf_end(file->elfs[i]);
    }
    free(file->elfs);
}
