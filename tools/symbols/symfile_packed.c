/*
 * See symfile.h: what is compressed in a file. libelf knows zlib; zstd and the symbol table of .gnu_debugdata, an ELF
 * file within xz, are unpacked here. A few bytes may say that they are gigabytes, so all of a file together has a
 * limit.
 */
#include "tools/symbols/symfile_parts.h"

#include <endian.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

/* UNPACKED: for a file of no size. All is less than the process of a file may have (reader_process.c). */
enum { UNPACKED = 64 << 20, UNPACKED_A_BYTE = 5, XZ_MEMORY = 80 << 20, XZ_STEP = 1 << 20 };
static const uint64_t UNPACKED_MOST = (uint64_t)480 << 20;

uint64_t et_symfile_unpacked_most(uint64_t bytes)
{
    uint64_t most = UNPACKED + UNPACKED_A_BYTE * bytes;
    return most < UNPACKED_MOST ? most : UNPACKED_MOST;
}

char *et_symfile_buffer(struct et_symfile *file, size_t size)
{
    file->buffers = et_reserve(file->buffers, &file->buffer_capacity, file->buffer_count + 1, sizeof *file->buffers);
    return file->buffers[file->buffer_count++] = et_alloc(size + ET_SYMFILE_GUARD, 1);
}

/* ---- sections ---- */

/* Names of the sections that are read, behind ".debug_" or ".zdebug_" and before ".dwo". */
static bool is_read(const char *name)
{
    static const char *const names[] = {"info", "abbrev", "line",     "line_str", "str", "str_offsets",
                                        "addr", "ranges", "rnglists", "types",    "sup", "cu_index"};
    size_t size = strlen(name);
    if (size > 4 && strcmp(name + size - 4, ".dwo") == 0) {
        size -= 4;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == size && strncmp(name, names[i], size) == 0) {
            return true;
        }
    }
    return false;
}

/* What follows ".debug_"; NULL: another kind of section. gnu: ".zdebug_", an older form of compression. */
static const char *debug_name(Elf *elf, const GElf_Shdr *header, bool *gnu)
{
    size_t strings;
    const char *name = elf_getshdrstrndx(elf, &strings) == 0 ? elf_strptr(elf, strings, header->sh_name) : NULL;
    *gnu = name && strncmp(name, ".zdebug_", 8) == 0;
    return *gnu ? name + 8 : name && strncmp(name, ".debug_", 7) == 0 ? name + 7 : NULL;
}

const Elf_Data *et_symfile_debug_data(Elf *elf, const char *name)
{
    Elf_Scn *section = NULL;
    size_t size = strlen(name);
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        bool gnu;
        const char *own =
            gelf_getshdr(section, &header) && header.sh_type != SHT_NOBITS ? debug_name(elf, &header, &gnu) : NULL;
        if (own && strncmp(own, name, size) == 0 && (!own[size] || strcmp(own + size, ".dwo") == 0)) {
            return elf_getdata(section, NULL);
        }
    }
    return NULL;
}

enum et_packing et_symfile_packing(Elf_Scn *section, const GElf_Shdr *header, bool gnu, uint64_t *size)
{
    GElf_Chdr packed;
    *size = 0;
    if (gnu) {
        const Elf_Data *data = elf_rawdata(section, NULL);
        if (!data || data->d_size < 12 || memcmp(data->d_buf, "ZLIB", 4) != 0) {
            return ET_PACKED_STRANGE;
        }
        memcpy(size, (const char *)data->d_buf + 4, sizeof *size);
        *size = be64toh(*size);
        return ET_PACKED_ZLIB;
    }
    if (!(header->sh_flags & SHF_COMPRESSED)) {
        return ET_PLAIN;
    }
    if (!gelf_getchdr(section, &packed)) {
        return ET_PACKED_STRANGE;
    }
    *size = packed.ch_size;
    return packed.ch_type == ELFCOMPRESS_ZLIB   ? ET_PACKED_ZLIB
           : packed.ch_type == ELFCOMPRESS_ZSTD ? ET_PACKED_ZSTD
                                                : ET_PACKED_STRANGE;
}

/* libdw takes the section for one that was never compressed. */
static bool unpack_zstd(struct et_symfile *file, Elf *elf, Elf_Scn *section, GElf_Shdr *header, size_t size)
{
    Elf_Data *data = elf_getdata(section, NULL);
    size_t skipped = gelf_getclass(elf) == ELFCLASS32 ? sizeof(Elf32_Chdr) : sizeof(Elf64_Chdr);
    if (!data || data->d_size < skipped) {
        return false;
    }
    char *bytes = et_symfile_buffer(file, size);
    header->sh_flags &= ~(GElf_Xword)SHF_COMPRESSED;
    if (ZSTD_decompress(bytes, size, (const char *)data->d_buf + skipped, data->d_size - skipped) != size ||
        !gelf_update_shdr(section, header)) {
        return false;
    }
    data->d_buf = bytes;
    data->d_size = size;
    data->d_type = ELF_T_BYTE;
    return true;
}

static bool leave_out(Elf_Scn *section, GElf_Shdr *header)
{
    header->sh_type = SHT_NOBITS;
    return gelf_update_shdr(section, header) != 0;
}

static bool unpack_section(struct et_symfile *file, Elf *elf, Elf_Scn *section, const char **why)
{
    GElf_Shdr header;
    bool gnu = false;
    uint64_t size;
    const char *name =
        gelf_getshdr(section, &header) && header.sh_type != SHT_NOBITS ? debug_name(elf, &header, &gnu) : NULL;
    enum et_packing packing = name ? et_symfile_packing(section, &header, gnu, &size) : ET_PLAIN;
    if (packing == ET_PLAIN) {
        return true;
    }
    if (!is_read(name)) {
        return leave_out(section, &header); /* libdw would unpack it */
    }
    *why = packing == ET_PACKED_STRANGE ? "its debugging information is compressed in a way that is not known"
                                        : "its debugging information would be too large when unpacked";
    if (packing == ET_PACKED_STRANGE || size > file->unpacked_left) {
        return false;
    }
    file->unpacked_left -= size;
    *why = packing == ET_PACKED_ZSTD ? "its debugging information is corrupt: zstd"
                                     : "its debugging information is corrupt: zlib";
    return packing == ET_PACKED_ZSTD ? unpack_zstd(file, elf, section, &header, (size_t)size)
           : gnu                     ? elf_compress_gnu(section, 0, 0) >= 0
                                     : elf_compress(section, 0, 0) >= 0;
}

/* libdw would open the file that it names, whatever it is. */
static bool leave_out_link(Elf *elf, Elf_Scn *section)
{
    GElf_Shdr header;
    return !et_symfile_section_is(elf, section, &header, ".gnu_debugaltlink") || leave_out(section, &header);
}

bool et_symfile_unpack(struct et_symfile *file, Elf *elf, const char **why)
{
    Elf_Scn *section = NULL;
    bool good = true;
    while (good && (section = elf_nextscn(elf, section))) {
        good = leave_out_link(elf, section) && unpack_section(file, elf, section, why);
    }
    return good;
}

/* ---- .gnu_debugdata ---- */

/* All of the stream, or NULL. */
static char *unpack_xz(const uint8_t *bytes, size_t size, uint64_t most, size_t *unpacked)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    struct et_buf out = {0};
    lzma_ret code = lzma_stream_decoder(&stream, XZ_MEMORY, 0);
    uint8_t *step = et_alloc(XZ_STEP, 1);
    stream.next_in = bytes;
    stream.avail_in = size;
    while (code == LZMA_OK && out.size <= most) {
        stream.next_out = step;
        stream.avail_out = XZ_STEP;
        code = lzma_code(&stream, LZMA_FINISH);
        et_buf_add(&out, step, XZ_STEP - stream.avail_out);
    }
    lzma_end(&stream);
    free(step);
    if (code != LZMA_STREAM_END || out.size > most) { /* nothing of it is used */
        et_buf_free(&out);
    }
    *unpacked = out.size;
    return out.data;
}

Elf *et_symfile_open_mini(struct et_symfile *file)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    while ((section = elf_nextscn(file->elf, section))) {
        const Elf_Data *data =
            et_symfile_section_is(file->elf, section, &header, ".gnu_debugdata") ? elf_rawdata(section, NULL) : NULL;
        size_t size;
        char *bytes = data && data->d_buf ? unpack_xz(data->d_buf, data->d_size, file->unpacked_left, &size) : NULL;
        if (bytes) {
            char *kept = et_symfile_buffer(file, size);
            memcpy(kept, bytes, size);
            free(bytes);
            file->unpacked_left -= size;
            return elf_memory(kept, size);
        }
    }
    return NULL;
}
