/*
 * See symfile.h. The symbol table is copied into a sorted array, DWARF's functions into another, one compilation unit
 * at a time when an address of it is first asked for: a NativeAOT program is one unit with 20,000 functions, and
 * libdw's own search would walk all of them for every address.
 */
#include "tools/symbols/symfile.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
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

struct symbol {
    uint64_t start, end;
    uint64_t limit; /* the end of its section */
    const char *name;
    int rank; /* among symbols at one address: the better one is larger */
};

struct range {
    uint64_t start, end;
    Dwarf_Off die;
    size_t unit; /* ranges of units: index into units */
};

struct unit {
    Dwarf_Off die;
    bool loaded;
    struct range *functions;
    size_t count, capacity;
};

struct et_symfile {
    char *image; /* the whole file, and GUARD */
    size_t bytes, mapped;
    Elf *elf;
    Dwarf *dwarf;
    Dwarf_CFI *tables; /* for unwinding; NULL: none in this file */
    uint64_t entry;
    struct span {
        uint64_t start, end;
    } managed[4]; /* sections __managedcode and __unbox */
    size_t managed_count;
    struct symbol *symbols;
    size_t symbol_count, symbol_capacity;
    struct unit *units;
    size_t unit_count, unit_capacity;
    struct range *ranges; /* of units */
    size_t range_count, range_capacity;
    size_t ranges_left; /* of units and functions, that may still be read */
};

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

static bool section_is(Elf *elf, Elf_Scn *section, GElf_Shdr *header, const char *name)
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
        if (section_is(elf, section, &header, ".debug_info")) {
            quality |= 4;
        } else if (section_is(elf, section, &header, ".symtab")) {
            quality |= 2;
        } else if (section_is(elf, section, &header, ".dynsym")) {
            quality |= 1;
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

/* ---- symbol table ---- */

/* ILC names funclets (catch and finally blocks) only by labels of their parent's name: _fram1Parent. */
static const char *strip_label(const char *name)
{
    static const char *const prefixes[] = {"_fram", "_lsda"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t size = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], size) == 0 && name[size] >= '0' && name[size] <= '9') {
            size_t digits = strspn(name + size, "0123456789");
            return i == 0 ? name + size + digits : NULL;
        }
    }
    return name;
}

/* Where the symbol's section ends; 0 when it has none: constants, versions and what is elsewhere are no addresses here.
 */
static uint64_t section_end(struct et_symfile *file, const GElf_Sym *sym)
{
    GElf_Shdr header;
    if (sym->st_shndx == SHN_XINDEX) {
        return UINT64_MAX; /* more sections than the symbol can say */
    }
    if (sym->st_shndx == SHN_UNDEF || sym->st_shndx >= SHN_LORESERVE ||
        !gelf_getshdr(elf_getscn(file->elf, sym->st_shndx), &header)) {
        return 0;
    }
    return header.sh_addr + header.sh_size;
}

/* What linkers make for the start and end of a section whose name is a C identifier. It names no function there. */
static bool names_section(unsigned type, const char *name)
{
    return type == STT_NOTYPE && (strncmp(name, "__start_", 8) == 0 || strncmp(name, "__stop_", 7) == 0);
}

static void add_symbol(struct et_symfile *file, const GElf_Sym *sym, const char *name, bool thumb)
{
    unsigned type = GELF_ST_TYPE(sym->st_info);
    bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
    bool data = type == STT_OBJECT || type == STT_NOTYPE; /* descriptors of types are either */
    uint64_t limit = section_end(file, sym);
    if (!name || !*name || *name == '$' || limit == 0 || (!function && !data) || names_section(type, name)) {
        return;
    }
    const char *own = strip_label(name);
    if (!own || !*own) {
        return;
    }
    uint64_t start = sym->st_value & ~(uint64_t)(thumb && function);
    int rank = (function ? 4 : 0) + (sym->st_size != 0 ? 2 : 0) + (GELF_ST_BIND(sym->st_info) != STB_LOCAL ? 1 : 0);
    file->symbols = et_reserve(file->symbols, &file->symbol_capacity, file->symbol_count + 1, sizeof *file->symbols);
    file->symbols[file->symbol_count++] =
        (struct symbol){.start = start, .end = start + sym->st_size, .limit = limit, .name = own, .rank = rank};
}

static int by_address(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    if (x->start != y->start) {
        return x->start < y->start ? -1 : 1;
    }
    return x->rank != y->rank ? y->rank - x->rank : strcmp(x->name, y->name);
}

static void read_symbols(struct et_symfile *file, Elf_Scn *section, const GElf_Shdr *header)
{
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Ehdr elf;
    if (!data || header->sh_entsize == 0 || !gelf_getehdr(file->elf, &elf)) {
        return;
    }
    size_t count = data->d_size / header->sh_entsize;
    for (size_t i = 0; i < count && i < INT32_MAX; i++) {
        GElf_Sym sym;
        if (gelf_getsym(data, (int)i, &sym)) {
            add_symbol(file, &sym, elf_strptr(file->elf, header->sh_link, sym.st_name), elf.e_machine == EM_ARM);
        }
    }
}

/* One symbol an address, the best; those without a size reach to the next one, but not out of their section. */
static void sort_symbols(struct et_symfile *file)
{
    if (file->symbol_count == 0) {
        return;
    }
    qsort(file->symbols, file->symbol_count, sizeof *file->symbols, by_address);
    size_t kept = 1;
    for (size_t i = 1; i < file->symbol_count; i++) {
        if (file->symbols[i].start != file->symbols[kept - 1].start) {
            file->symbols[kept++] = file->symbols[i];
        }
    }
    file->symbol_count = kept;
    for (size_t i = 0; i + 1 < kept; i++) {
        if (file->symbols[i].end == file->symbols[i].start) {
            uint64_t next = file->symbols[i + 1].start, limit = file->symbols[i].limit;
            file->symbols[i].end = next < limit ? next : limit;
        }
    }
}

static void load_symbols(struct et_symfile *file)
{
    for (int pass = 0; pass < 2 && file->symbol_count == 0; pass++) {
        Elf_Scn *section = NULL;
        while ((section = elf_nextscn(file->elf, section))) {
            GElf_Shdr header;
            if (section_is(file->elf, section, &header, pass == 0 ? ".symtab" : ".dynsym")) {
                read_symbols(file, section, &header);
            }
        }
    }
    sort_symbols(file);
}

static void find_managed(struct et_symfile *file)
{
    size_t strings;
    Elf_Scn *section = NULL;
    while (elf_getshdrstrndx(file->elf, &strings) == 0 && (section = elf_nextscn(file->elf, section))) {
        GElf_Shdr header;
        const char *name = gelf_getshdr(section, &header) ? elf_strptr(file->elf, strings, header.sh_name) : NULL;
        bool code = name && (strcmp(name, "__managedcode") == 0 || strcmp(name, "__unbox") == 0);
        if (code && file->managed_count < sizeof file->managed / sizeof *file->managed) {
            file->managed[file->managed_count++] =
                (struct span){.start = header.sh_addr, .end = header.sh_addr + header.sh_size};
        }
    }
}

bool et_symfile_managed(const struct et_symfile *file, uint64_t address)
{
    for (size_t i = 0; i < file->managed_count; i++) {
        if (address >= file->managed[i].start && address < file->managed[i].end) {
            return true;
        }
    }
    return false;
}

/* Files with debugging information alone keep the headers of tables that are elsewhere. */
static void find_tables(struct et_symfile *file)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Ehdr elf;
    while (!file->tables && (section = elf_nextscn(file->elf, section))) {
        if (section_is(file->elf, section, &header, ".eh_frame")) {
            file->tables = dwarf_getcfi_elf(file->elf);
        }
    }
    file->entry = gelf_getehdr(file->elf, &elf) ? elf.e_entry : 0;
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
    }
    return start;
}

/* Funclets lie inside no sized symbol, so the search goes back over a few. */
const char *et_symfile_symbol(struct et_symfile *file, uint64_t address)
{
    size_t low = 0, high = file->symbol_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (file->symbols[middle].start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (size_t back = 0; back < 4 && back < low; back++) {
        const struct symbol *symbol = &file->symbols[low - 1 - back];
        if (address < symbol->end) {
            return symbol->name;
        }
    }
    return file->entry != 0 && et_symfile_function(file, address) == file->entry ? "_start" : NULL;
}

bool et_symfile_has(const struct et_symfile *file, const char *name, size_t size, const char *ending)
{
    for (size_t i = 0; i < file->symbol_count; i++) {
        const char *own = file->symbols[i].name;
        if (strncmp(own, name, size) == 0 && strcmp(own + size, ending) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- DWARF ---- */

static int by_start(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static const struct range *find_range(const struct range *ranges, size_t count, uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && address < ranges[low - 1].end ? &ranges[low - 1] : NULL;
}

/* A corrupt file may describe endless lists, and many entries may share a long one. RANGES: 64 MiB for a file. */
enum { RANGES_OF_A_DIE = 1 << 16, SIBLINGS = 1 << 16, RANGES = 1 << 21 };

static void add_unit(struct et_symfile *file, Dwarf_Die *die)
{
    file->units = et_reserve(file->units, &file->unit_capacity, file->unit_count + 1, sizeof *file->units);
    file->units[file->unit_count].die = dwarf_dieoffset(die);
    ptrdiff_t offset = 0;
    Dwarf_Addr base, start, end;
    for (int i = 0;
         i < RANGES_OF_A_DIE && file->ranges_left > 0 && (offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0;
         i++) {
        file->ranges_left--;
        file->ranges = et_reserve(file->ranges, &file->range_capacity, file->range_count + 1, sizeof *file->ranges);
        file->ranges[file->range_count++] = (struct range){.start = start, .end = end, .unit = file->unit_count};
    }
    file->unit_count++;
}

static void load_units(struct et_symfile *file)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, sub;
    Dwarf_Half version;
    uint8_t type;
    while (dwarf_get_units(file->dwarf, cu, &cu, &version, &type, &die, &sub) == 0) {
        if (type == DW_UT_compile || type == DW_UT_partial) {
            add_unit(file, &die);
        }
    }
    if (file->range_count) {
        qsort(file->ranges, file->range_count, sizeof *file->ranges, by_start);
    }
}

struct function_load {
    struct et_symfile *file;
    struct unit *unit;
};

static int add_function(Dwarf_Die *die, void *context)
{
    const struct function_load *load = context;
    struct unit *unit = load->unit;
    ptrdiff_t offset = 0;
    Dwarf_Addr base, start, end;
    for (int i = 0; i < RANGES_OF_A_DIE && load->file->ranges_left > 0 &&
                    (offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0;
         i++) {
        load->file->ranges_left--;
        if (start != 0) {
            unit->functions = et_reserve(unit->functions, &unit->capacity, unit->count + 1, sizeof *unit->functions);
            unit->functions[unit->count++] = (struct range){.start = start, .end = end, .die = dwarf_dieoffset(die)};
        }
    }
    return load->file->ranges_left > 0 ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static void load_functions(struct et_symfile *file, struct unit *unit, Dwarf_Die *die)
{
    if (unit->loaded) {
        return;
    }
    unit->loaded = true;
    dwarf_getfuncs(die, add_function, &(struct function_load){file, unit}, 0);
    if (unit->count) {
        qsort(unit->functions, unit->count, sizeof *unit->functions, by_start);
    }
}

static const char *function_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));
    return name ? name : dwarf_diename(die);
}

/* The chain of inlined calls that covers address, outermost first. */
static size_t inlined_calls(Dwarf_Die *function, uint64_t address, Dwarf_Die *calls, size_t limit)
{
    size_t count = 0;
    Dwarf_Die child, parent = *function;
    for (int depth = 0; depth < 256; depth++) {
        int more = dwarf_child(&parent, &child), siblings = 0;
        while (more == 0 && dwarf_haspc(&child, address) != 1) {
            more = ++siblings < SIBLINGS ? dwarf_siblingof(&child, &child) : 1;
        }
        if (more != 0) {
            return count;
        }
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_inlined_subroutine && count < limit) {
            calls[count++] = child;
        } else if (tag != DW_TAG_lexical_block && tag != DW_TAG_inlined_subroutine) {
            return count;
        }
        parent = child;
    }
    return count;
}

/* Where an inlined call was written. */
static const char *call_site(Dwarf_Die *unit, Dwarf_Die *call, uint32_t *line)
{
    Dwarf_Attribute attribute;
    Dwarf_Word file = 0, number = 0;
    Dwarf_Files *files;
    size_t count;
    if (dwarf_formudata(dwarf_attr(call, DW_AT_call_line, &attribute), &number) != 0) {
        number = 0;
    }
    *line = number <= UINT32_MAX ? (uint32_t)number : 0;
    if (dwarf_formudata(dwarf_attr(call, DW_AT_call_file, &attribute), &file) != 0 ||
        dwarf_getsrcfiles(unit, &files, &count) != 0 || file >= count) {
        return NULL;
    }
    return dwarf_filesrc(files, (size_t)file, NULL, NULL);
}

static const char *source_line(Dwarf_Die *unit, uint64_t address, uint32_t *number)
{
    Dwarf_Line *line = dwarf_getsrc_die(unit, address);
    int value = 0;
    *number = line && dwarf_lineno(line, &value) == 0 && value > 0 ? (uint32_t)value : 0;
    return line ? dwarf_linesrc(line, NULL, NULL) : NULL;
}

int et_symfile_lines(struct et_symfile *file, uint64_t address,
                     void (*call)(void *context, const char *function, const char *source, uint32_t line),
                     void *context)
{
    const struct range *in_unit = file->dwarf ? find_range(file->ranges, file->range_count, address) : NULL;
    Dwarf_Die unit, function, inlined[64];
    if (!in_unit || !dwarf_offdie(file->dwarf, file->units[in_unit->unit].die, &unit)) {
        return 0;
    }
    struct unit *known = &file->units[in_unit->unit];
    load_functions(file, known, &unit);
    uint32_t line;
    const char *source = source_line(&unit, address, &line);
    const struct range *in_function = find_range(known->functions, known->count, address);
    if (!in_function || !dwarf_offdie(file->dwarf, in_function->die, &function)) {
        call(context, NULL, source, line);
        return 1;
    }
    size_t count = inlined_calls(&function, address, inlined, sizeof inlined / sizeof *inlined);
    for (size_t i = count; i-- > 0;) {
        call(context, function_name(&inlined[i]), source, line);
        source = call_site(&unit, &inlined[i], &line);
    }
    call(context, function_name(&function), source, line);
    return (int)count + 1;
}

/* ---- the file ---- */

static struct et_symfile *read_file(struct et_symfile *file, const char **why)
{
    file->ranges_left = RANGES;
    load_symbols(file);
    find_managed(file);
    find_tables(file);
    file->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
    if (file->dwarf) {
        load_units(file);
    }
    if (file->symbol_count == 0 && file->range_count == 0) {
        *why = "no symbols";
        et_symfile_close(file);
        return NULL;
    }
    return file;
}

/* GUARD: zeros behind the file, since libdw looks for the end of a text beyond the end of its section. */
enum { FILE_MOST = 1 << 30, GUARD = 4096 };

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
    file->mapped = size + GUARD;
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

void et_symfile_close(struct et_symfile *file)
{
    if (!file) {
        return;
    }
    for (size_t i = 0; i < file->unit_count; i++) {
        free(file->units[i].functions);
    }
    free(file->units);
    free(file->ranges);
    free(file->symbols);
    dwarf_end(file->dwarf);
    if (file->tables) {
        dwarf_cfi_end(file->tables);
    }
    elf_end(file->elf);
    if (file->image) {
        munmap(file->image, file->mapped);
    }
    free(file);
}
