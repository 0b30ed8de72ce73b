/* See symfile.h: opening and closing files. symfile_symbols.c has the symbol table, symfile_dwarf.c DWARF,
 * symfile_tables.c unwind tables. */
#include "tools/symbols/symfile_parts.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening ---- */

/* A pipe must not be waited for, and opening a device may do something: a watchdog is armed by it. */
int et_symfile_open_file(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        return -errno;
    }
    int fd = S_ISREG(status.st_mode) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) {
        return S_ISREG(status.st_mode) ? -errno : -EINVAL;
    }
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        return -EINVAL;
    }
    return fd;
}

static bool is_sound(Elf *elf, const char **why)
{
    GElf_Ehdr header;
    size_t sections;
    if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header) || elf_getshdrnum(elf, &sections) != 0) {
        *why = elf && elf_kind(elf) != ELF_K_ELF ? "not an ELF file" : elf_errmsg(-1);
        return false;
    }
    return true;
}

bool et_symfile_section_is(Elf *elf, Elf_Scn *section, GElf_Shdr *header, const char *name)
{
    size_t strings;
    if (!gelf_getshdr(section, header) || elf_getshdrstrndx(elf, &strings) != 0) {
        return false;
    }
    const char *own = elf_strptr(elf, strings, header->sh_name);
    return own && strcmp(own, name) == 0 && header->sh_type != SHT_NOBITS;
}

static unsigned read_quality(Elf *elf)
{
    unsigned quality = 0;
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        bool gnu = et_symfile_section_is(elf, section, &header, ".zdebug_info");
        uint64_t size;
        if (gnu || et_symfile_section_is(elf, section, &header, ".debug_info")) {
            bool known = et_symfile_packing(section, &header, gnu, &size) != ET_PACKED_STRANGE;
            quality |= known ? ET_QUALITY_DWARF : 0;
        } else if (et_symfile_section_is(elf, section, &header, ".symtab") ||
                   et_symfile_section_is(elf, section, &header, ".gnu_debugdata")) {
            quality |= ET_QUALITY_SYMTAB;
        } else if (et_symfile_section_is(elf, section, &header, ".dynsym")) {
            quality |= ET_QUALITY_DYNAMIC;
        }
    }
    return quality;
}

static void read_build_id(Elf *elf, char id[129])
{
    const void *bytes = NULL;
    ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);
    id[0] = '\0';
    for (ssize_t i = 0; i < size && i < 64; i++) {
        snprintf(id + 2 * i, 3, "%02x", ((const uint8_t *)bytes)[i]);
    }
}

static void read_debuglink(Elf *elf, char *name, size_t size)
{
    GElf_Word crc;
    const char *link = dwelf_elf_gnu_debuglink(elf, &crc);
    bool fits = link && *link && !strchr(link, '/') && strlen(link) < size;
    snprintf(name, size, "%s", fits ? link : "");
}

int et_symfile_examine(int fd, struct et_symfile_facts *facts)
{
    const char *why;
    *facts = (struct et_symfile_facts){0};
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    bool sound = is_sound(elf, &why);
    if (sound) {
        facts->quality = read_quality(elf);
        read_build_id(elf, facts->build_id);
        read_debuglink(elf, facts->debuglink, sizeof facts->debuglink);
    }
    elf_end(elf);
    return sound ? 0 : -EINVAL;
}

/* ---- the file ---- */

static struct et_symfile *read_file(struct et_symfile *file, const char **why)
{
    file->ranges_left = ET_SYMFILE_RANGES;
    file->unpacked_left = et_symfile_unpacked_most(file->bytes);
    bool promised = read_quality(file->elf) & ET_QUALITY_DWARF;
    et_symfile_load_symbols(file);
    et_symfile_find_managed(file);
    et_symfile_find_tables(file);
    et_symfile_find_common(file);
    if (et_symfile_unpack(file, file->elf, &file->trouble)) {
        file->trouble = NULL;
        file->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
    }
    if (file->dwarf) {
        et_symfile_load_units(file);
    }
    bool common = file->symbol_count == 0 && file->partials > 0; /* of others: it has no code */
    if (file->range_count > 0 || common) {
        file->quality |= ET_QUALITY_DWARF;
    } else if (promised && !file->trouble) {
        file->trouble = "its debugging information cannot be read";
    }
    if (file->symbol_count == 0 && file->range_count == 0 && !common) {
        *why = file->trouble ? file->trouble : "no symbols";
        et_symfile_close(file);
        return NULL;
    }
    return file;
}

enum { FILE_MOST = 1 << 30 };

static bool copy_file(struct et_symfile *file, int fd, size_t size, const char **why)
{
    ssize_t got = 1;
    while (got > 0 && file->bytes < size) {
        got = pread(fd, file->image + file->bytes, size - file->bytes, (off_t)file->bytes);
        file->bytes += got > 0 ? (size_t)got : 0;
    }
    *why = got < 0 ? strerror(errno) : "cut while it was read";
    return file->bytes == size;
}

static bool map_file(struct et_symfile *file, int fd, size_t size, const char **why)
{
    /* libelf changes the headers of sections that it decompresses */
    const int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED;
    void *mapped = size ? mmap(file->image, size, access, flags, fd, 0) : MAP_FAILED;
    file->bytes = size;
    *why = mapped == MAP_FAILED ? strerror(errno) : "";
    return mapped != MAP_FAILED;
}

static bool read_image(struct et_symfile *file, int fd, bool map, const char **why)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || status.st_size > FILE_MOST) {
        *why = "larger than 1 GiB";
        return false;
    }
    size_t size = (size_t)status.st_size;
    file->mapped = size + ET_SYMFILE_GUARD;
    void *image =
        mmap(NULL, file->mapped, map ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (image == MAP_FAILED) {
        *why = strerror(errno);
        return false;
    }
    file->image = image;
    return map ? map_file(file, fd, size, why) : copy_file(file, fd, size, why);
}

struct et_symfile *et_symfile_open(int fd, bool map, const char **why)
{
    struct et_symfile *file = et_alloc(1, sizeof *file);
    bool whole = read_image(file, fd, map, why);
    file->elf = whole && elf_version(EV_CURRENT) != EV_NONE ? elf_memory(file->image, file->bytes) : NULL;
    if (whole && !is_sound(file->elf, why)) {
        whole = false;
    }
    if (!whole) {
        et_symfile_close(file);
        return NULL;
    }
    return read_file(file, why);
}

struct et_symfile *et_symfile_open_vdso(const char *build_id)
{
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
    const char *why;
    char id[129];
    if (!header || elf_version(EV_CURRENT) == EV_NONE) {
        return NULL;
    }
    size_t size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
    Elf *elf = elf_memory((char *)(uintptr_t)header, size);
    if (elf) {
        read_build_id(elf, id);
    }
    if (!elf || !id[0] || strcmp(id, build_id) != 0) {
        elf_end(elf);
        return NULL;
    }
    struct et_symfile *file = et_alloc(1, sizeof *file);
    file->elf = elf;
    return read_file(file, &why);
}

uint64_t et_symfile_bytes(const struct et_symfile *file)
{
    return file->bytes;
}

unsigned et_symfile_quality(const struct et_symfile *file)
{
    return file->quality;
}

const char *et_symfile_trouble(const struct et_symfile *file)
{
    return file->trouble;
}

void et_symfile_close(struct et_symfile *file)
{
    if (!file) {
        return;
    }
    for (size_t i = 0; i < file->unit_count; i++) {
        free(file->units[i].functions);
    }
    dwarf_end(file->dwarf);
    et_symfile_close_companions(file);
    free(file->units);
    free(file->ranges);
    free(file->symbols);
    et_map_free(&file->iterators);
    if (file->tables) {
        dwarf_cfi_end(file->tables);
    }
    elf_end(file->elf);
    elf_end(file->mini);
    for (size_t i = 0; i < file->buffer_count; i++) {
        free(file->buffers[i]);
    }
    free(file->buffers);
    if (file->image) {
        munmap(file->image, file->mapped);
    }
    free(file);
}
