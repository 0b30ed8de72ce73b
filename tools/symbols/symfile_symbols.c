/* See symfile.h: the symbol table, copied into a sorted array. */
#include "tools/symbols/symfile_parts.h"
#include "tools/lib/hash.h"

#include <stdlib.h>
#include <string.h>

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

/* A table that is read. */
struct table {
    Elf *elf;
    GElf_Half machine;
    size_t strings;
    const char *names; /* the strings, which end with a NUL; NULL: libelf has to look for each */
    size_t names_size;
    uint64_t *ends; /* of sections */
    size_t sections;
};

/* libelf locks for each question, and a table has 200,000 symbols. */
static void read_section_ends(struct table *table)
{
    GElf_Shdr header;
    if (elf_getshdrnum(table->elf, &table->sections) != 0 || table->sections > SHN_LORESERVE) {
        table->sections = table->sections > SHN_LORESERVE ? SHN_LORESERVE : 0;
    }
    table->ends = et_alloc(table->sections + 1, sizeof *table->ends);
    for (size_t i = 1; i < table->sections; i++) {
        table->ends[i] = gelf_getshdr(elf_getscn(table->elf, i), &header) ? header.sh_addr + header.sh_size : 0;
    }
}

/* For each name libelf locks, and looks for the NUL that ends the table. */
static void find_names(struct table *table)
{
    Elf_Scn *section = elf_getscn(table->elf, table->strings);
    GElf_Shdr header;
    const Elf_Data *data =
        section && gelf_getshdr(section, &header) && header.sh_type == SHT_STRTAB && !(header.sh_flags & SHF_COMPRESSED)
            ? elf_rawdata(section, NULL)
            : NULL;
    if (data && data->d_buf && data->d_size && ((const char *)data->d_buf)[data->d_size - 1] == '\0') {
        table->names = data->d_buf;
        table->names_size = data->d_size;
    }
}

static const char *name_at(const struct table *table, size_t offset)
{
    if (!table->names) {
        return elf_strptr(table->elf, table->strings, offset);
    }
    return offset < table->names_size ? table->names + offset : NULL;
}

/* Where the symbol's section ends; 0 when it has none: constants, versions and what is elsewhere are no addresses here.
 */
static uint64_t section_end(const struct table *table, const GElf_Sym *sym)
{
    if (sym->st_shndx == SHN_XINDEX) {
        return UINT64_MAX; /* more sections than the symbol can say */
    }
    return sym->st_shndx < table->sections ? table->ends[sym->st_shndx] : 0;
}

/* What linkers make for the start and end of a section whose name is a C identifier. It names no function there. */
static bool names_section(unsigned type, const char *name)
{
    return type == STT_NOTYPE && (strncmp(name, "__start_", 8) == 0 || strncmp(name, "__stop_", 7) == 0);
}

/* $a, $d, $t and $x, alone or with .suffix (RISC-V: also $xrv64...), say what kind of code or data begins. Swift's
 * functions begin with $s. */
static bool is_mapping_symbol(GElf_Half machine, unsigned type, const char *name)
{
    bool marked = machine == EM_ARM || machine == EM_AARCH64 || machine == EM_RISCV || machine == EM_CSKY;
    return marked && type == STT_NOTYPE && name[0] == '$' && name[1] && strchr("adtx", name[1]) &&
           (!name[2] || name[2] == '.' || (machine == EM_RISCV && strncmp(name, "$xrv", 4) == 0));
}

static void add_symbol(struct et_symfile *file, const struct table *table, const GElf_Sym *sym)
{
    const char *name = name_at(table, sym->st_name);
    unsigned type = GELF_ST_TYPE(sym->st_info);
    bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
    bool data = type == STT_OBJECT || type == STT_NOTYPE; /* descriptors of types are either */
    uint64_t limit = section_end(table, sym);
    if (!name || !*name || is_mapping_symbol(table->machine, type, name) || limit == 0 || (!function && !data) ||
        names_section(type, name)) {
        return;
    }
    const char *own = strip_label(name);
    if (!own || !*own) {
        return;
    }
    uint64_t start = sym->st_value & ~(uint64_t)(table->machine == EM_ARM && function);
    int rank = (function ? 4 : 0) + (sym->st_size != 0 ? 2 : 0) + (GELF_ST_BIND(sym->st_info) != STB_LOCAL ? 1 : 0);
    file->symbols = et_reserve(file->symbols, &file->symbol_capacity, file->symbol_count + 1, sizeof *file->symbols);
    file->symbols[file->symbol_count++] = (struct et_symfile_symbol){
        .start = start, .end = start + sym->st_size, .limit = limit, .name = own, .rank = rank};
}

static void read_symbols(struct et_symfile *file, Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
    Elf_Data *data = elf_getdata(section, NULL);
    GElf_Ehdr head;
    if (!data || header->sh_entsize == 0 || !gelf_getehdr(elf, &head)) {
        return;
    }
    struct table table = {.elf = elf, .machine = head.e_machine, .strings = header->sh_link};
    size_t count = data->d_size / header->sh_entsize;
    read_section_ends(&table);
    find_names(&table);
    for (size_t i = 0; i < count && i < INT32_MAX; i++) {
        GElf_Sym sym;
        if (gelf_getsym(data, (int)i, &sym)) {
            add_symbol(file, &table, &sym);
        }
    }
    free(table.ends);
}

struct key {
    uint64_t start;
    size_t at; /* of a symbol */
};

static int by_start(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start) : (x->at > y->at) - (x->at < y->at);
}

/* The places of all symbols by their start: to sort the symbols themselves moves six times as much. */
static struct key *sorted_keys(const struct et_symfile *file)
{
    size_t count = file->symbol_count;
    struct key *keys = et_alloc(count, sizeof *keys);
    for (size_t i = 0; i < count; i++) {
        keys[i] = (struct key){file->symbols[i].start, i};
    }
    qsort(keys, count, sizeof *keys, by_start);
    return keys;
}

static bool is_better(const struct et_symfile_symbol *a, const struct et_symfile_symbol *b)
{
    return a->rank != b->rank ? a->rank > b->rank : strcmp(a->name, b->name) < 0;
}

/* One symbol an address, the best; those without a size reach to the next one, but not out of their section. */
static void sort_symbols(struct et_symfile *file)
{
    if (file->symbol_count == 0) {
        return;
    }
    struct key *keys = sorted_keys(file);
    struct et_symfile_symbol *sorted = et_alloc(file->symbol_count, sizeof *sorted);
    size_t kept = 0;
    for (size_t i = 0; i < file->symbol_count; i++) {
        const struct et_symfile_symbol *symbol = &file->symbols[keys[i].at];
        if (kept == 0 || sorted[kept - 1].start != symbol->start) {
            sorted[kept++] = *symbol;
        } else if (is_better(symbol, &sorted[kept - 1])) {
            sorted[kept - 1] = *symbol;
        }
    }
    free(keys);
    free(file->symbols);
    file->symbols = sorted;
    file->symbol_count = file->symbol_capacity = kept;
    for (size_t i = 0; i + 1 < kept; i++) {
        if (sorted[i].end == sorted[i].start) {
            sorted[i].end = sorted[i + 1].start < sorted[i].limit ? sorted[i + 1].start : sorted[i].limit;
        }
    }
}

/* Whether there were any. */
static bool read_table(struct et_symfile *file, Elf *elf, const char *name)
{
    size_t before = file->symbol_count;
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        if (et_symfile_section_is(elf, section, &header, name)) {
            read_symbols(file, elf, section, &header);
        }
    }
    return file->symbol_count > before;
}

/* The table within a file has what its dynamic symbols lack. */
void et_symfile_load_symbols(struct et_symfile *file)
{
    bool whole = read_table(file, file->elf, ".symtab");
    file->mini = whole ? NULL : et_symfile_open_mini(file);
    bool more = whole || (file->mini && read_table(file, file->mini, ".symtab"));
    bool dynamic = !whole && read_table(file, file->elf, ".dynsym");
    file->quality |= (more ? ET_QUALITY_SYMTAB : 0) | (dynamic ? ET_QUALITY_DYNAMIC : 0);
    sort_symbols(file);
}

void et_symfile_find_managed(struct et_symfile *file)
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

size_t et_symfile_symbols_up_to(const struct et_symfile *file, uint64_t address)
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
    return low;
}

/* Funclets lie inside no sized symbol, so the search goes back over a few. */
const char *et_symfile_symbol(struct et_symfile *file, uint64_t address)
{
    size_t low = et_symfile_symbols_up_to(file, address);
    for (size_t back = 0; back < 4 && back < low; back++) {
        const struct et_symfile_symbol *symbol = &file->symbols[low - 1 - back];
        if (address < symbol->end) {
            return symbol->name;
        }
    }
    return file->entry != 0 && et_symfile_function(file, address) == file->entry ? "_start" : NULL;
}

/* A state machine of an iterator is told from an async method's by these methods. A name is searched for each frame of
 * such a method, and all names are too many for that: they took 5 s for the 2,000 frames of a busy service. */
static const char *const disposals[] = {"__System_IDisposable_Dispose", "__System_IAsyncDisposable_DisposeAsync"};

static void find_iterators(struct et_symfile *file)
{
    file->iterators_found = true;
    for (size_t i = 0; i < file->symbol_count; i++) {
        const char *name = file->symbols[i].name;
        size_t size = strlen(name);
        for (size_t k = 0; k < sizeof disposals / sizeof *disposals; k++) {
            size_t tail = strlen(disposals[k]);
            if (size > tail && memcmp(name + size - tail, disposals[k], tail) == 0) {
                *et_map_at(&file->iterators, et_hash_bytes(name, size - tail)) = 1;
            }
        }
    }
}

bool et_symfile_is_iterator(struct et_symfile *file, const char *name, size_t size)
{
    if (!file->iterators_found) {
        find_iterators(file);
    }
    return et_map_find(&file->iterators, et_hash_bytes(name, size)) != NULL;
}
