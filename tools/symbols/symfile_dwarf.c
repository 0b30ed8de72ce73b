/*
 * See symfile.h: DWARF's functions in a sorted array, one compilation unit at a time when an address of it is first
 * asked for: a NativeAOT program is one unit with 20,000 functions, and libdw's own search would walk all of them for
 * every address.
 */
#include "tools/symbols/symfile_parts.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

static int by_start(const void *a, const void *b)
{
    const struct et_symfile_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static const struct et_symfile_range *find_range(const struct et_symfile_range *ranges, size_t count, uint64_t address)
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

enum { RANGES_OF_A_DIE = ET_SYMFILE_RANGES_OF_A_DIE, SIBLINGS = 1 << 16 };

/* Of the unit that is added next. */
static void add_unit_range(struct et_symfile *file, Dwarf_Addr start, Dwarf_Addr end)
{
    file->ranges_left--;
    file->ranges = et_reserve(file->ranges, &file->range_capacity, file->range_count + 1, sizeof *file->ranges);
    file->ranges[file->range_count++] = (struct et_symfile_range){.start = start, .end = end, .unit = file->unit_count};
}

/* The address and whether a sequence of lines ends there; false: the table is unsound. */
static bool read_line(Dwarf_Lines *lines, size_t i, Dwarf_Addr *address, bool *last)
{
    Dwarf_Line *line = dwarf_onesrcline(lines, i);
    return line && dwarf_lineaddr(line, address) == 0 && dwarf_lineendsequence(line, last) == 0;
}

/* The ranges that a unit's lines have. What the linker left out begins at 0. */
static void add_ranges_of_lines(struct et_symfile *file, Dwarf_Die *die)
{
    Dwarf_Lines *lines;
    size_t count;
    Dwarf_Addr start = 0, address;
    bool within = false, last;
    if (dwarf_getsrclines(die, &lines, &count) != 0) {
        return;
    }
    for (size_t i = 0; i < count && file->ranges_left > 0 && read_line(lines, i, &address, &last); i++) {
        start = within ? start : address;
        within = !last;
        if (last && start != 0 && address > start) {
            add_unit_range(file, start, address);
        }
    }
}

static int add_range_of_function(Dwarf_Die *die, void *context)
{
    struct et_symfile *file = context;
    Dwarf_Addr start, end;
    if (file->ranges_left > 0 && dwarf_lowpc(die, &start) == 0 && dwarf_highpc(die, &end) == 0 && start != 0 &&
        end > start) {
        add_unit_range(file, start, end);
    }
    return file->ranges_left > 0 ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static void add_own_ranges(struct et_symfile *file, Dwarf_Die *die)
{
    ptrdiff_t offset = 0;
    Dwarf_Addr base, start, end;
    for (int i = 0;
         i < RANGES_OF_A_DIE && file->ranges_left > 0 && (offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0;
         i++) {
        add_unit_range(file, start, end);
    }
}

/* Strict DWARF 2 cannot say that code is in several sections: a unit has one range, maybe of one of them, or none. */
static void add_unit(struct et_symfile *file, Dwarf_Die *die, Dwarf_Half version, bool skeleton)
{
    bool code = skeleton || dwarf_tag(die) == DW_TAG_compile_unit;
    size_t before = file->range_count;
    file->units = et_reserve(file->units, &file->unit_capacity, file->unit_count + 1, sizeof *file->units);
    file->units[file->unit_count].die = dwarf_dieoffset(die);
    file->units[file->unit_count].skeleton = skeleton;
    file->skeletons += skeleton;
    file->partials += dwarf_tag(die) == DW_TAG_partial_unit;
    if (version > 2 || dwarf_hasattr(die, DW_AT_ranges)) {
        add_own_ranges(file, die);
    }
    if (code && file->range_count == before) {
        add_ranges_of_lines(file, die);
    }
    if (code && file->range_count == before) {
        dwarf_getfuncs(die, add_range_of_function, file, 0);
    }
    if (version <= 2 && file->range_count == before) {
        add_own_ranges(file, die);
    }
    file->unit_count++;
}

void et_symfile_load_units(struct et_symfile *file)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    Dwarf_Half version;
    uint8_t type;
    while (dwarf_get_units(file->dwarf, cu, &cu, &version, &type, &die, NULL) == 0) {
        if (type == DW_UT_compile || type == DW_UT_partial || type == DW_UT_skeleton) {
            add_unit(file, &die, version, type == DW_UT_skeleton);
        }
    }
    if (file->range_count) {
        qsort(file->ranges, file->range_count, sizeof *file->ranges, by_start);
    }
}

struct et_symfile_unit *et_symfile_unit_at(struct et_symfile *file, uint64_t address)
{
    const struct et_symfile_range *range = file->dwarf ? find_range(file->ranges, file->range_count, address) : NULL;
    return range ? &file->units[range->unit] : NULL;
}

/* Of the unit itself, or of the other half of split DWARF. */
static void each_range(const struct et_symfile_unit *unit, Dwarf_Die *die,
                       bool (*range)(void *context, uint64_t start, uint64_t end), void *context)
{
    if (unit->split) {
        et_symfile_split_ranges(unit->split, die, range, context);
        return;
    }
    ptrdiff_t offset = 0;
    Dwarf_Addr base, start, end;
    for (int i = 0; i < RANGES_OF_A_DIE && (offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0 &&
                    range(context, start, end);
         i++) {
    }
}

struct function_load {
    struct et_symfile *file;
    struct et_symfile_unit *unit;
    Dwarf_Off die;
};

static bool add_function_range(void *context, uint64_t start, uint64_t end)
{
    const struct function_load *load = context;
    struct et_symfile_unit *unit = load->unit;
    load->file->ranges_left--;
    if (start != 0) {
        unit->functions = et_reserve(unit->functions, &unit->capacity, unit->count + 1, sizeof *unit->functions);
        unit->functions[unit->count++] = (struct et_symfile_range){.start = start, .end = end, .die = load->die};
    }
    return load->file->ranges_left > 0;
}

static int add_function(Dwarf_Die *die, void *context)
{
    struct function_load *load = context;
    load->die = dwarf_dieoffset(die);
    if (load->file->ranges_left > 0) {
        each_range(load->unit, die, add_function_range, load);
    }
    return load->file->ranges_left > 0 ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static void load_functions(struct et_symfile *file, struct et_symfile_unit *unit, Dwarf_Die *die)
{
    if (unit->loaded) {
        return;
    }
    unit->loaded = true;
    dwarf_getfuncs(die, add_function, &(struct function_load){.file = file, .unit = unit}, 0);
    if (unit->count) {
        qsort(unit->functions, unit->count, sizeof *unit->functions, by_start);
    }
}

struct covering {
    uint64_t address;
    bool covered;
};

static bool look_at_range(void *context, uint64_t start, uint64_t end)
{
    struct covering *covering = context;
    covering->covered = covering->address >= start && covering->address < end;
    return !covering->covered;
}

static bool covers(const struct et_symfile_unit *unit, Dwarf_Die *die, uint64_t address)
{
    struct covering covering = {.address = address};
    if (!unit->split) {
        return dwarf_haspc(die, address) == 1;
    }
    et_symfile_split_ranges(unit->split, die, look_at_range, &covering);
    return covering.covered;
}

/* libdw 0.188 does not follow DWARF 5's reference into the common file: it finds an entry without a tag. */
static bool follow_sup(const struct et_symfile *file, Dwarf_Die *die, Dwarf_Die *origin)
{
    Dwarf_Attribute attribute;
    uint32_t offset;
    if (!file->common_dwarf || !dwarf_attr(die, DW_AT_abstract_origin, &attribute) ||
        dwarf_whatform(&attribute) != DW_FORM_ref_sup4) {
        return false;
    }
    memcpy(&offset, attribute.valp, sizeof offset);
    return dwarf_offdie(file->common_dwarf, offset, origin) != NULL;
}

static const char *function_name(const struct et_symfile *file, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    Dwarf_Die origin;
    if (follow_sup(file, die, &origin)) {
        die = &origin;
    }
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));
    return name ? name : dwarf_diename(die);
}

/* The chain of inlined calls that covers address, outermost first. */
static size_t inlined_calls(const struct et_symfile_unit *unit, Dwarf_Die *function, uint64_t address, Dwarf_Die *calls,
                            size_t limit)
{
    size_t count = 0;
    Dwarf_Die child, parent = *function;
    for (int depth = 0; depth < 256; depth++) {
        int more = dwarf_child(&parent, &child), siblings = 0;
        while (more == 0 && !covers(unit, &child, address)) {
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
    struct et_symfile_unit *known = et_symfile_unit_at(file, address);
    Dwarf_Die unit, half, function, inlined[64];
    if (!known || !dwarf_offdie(file->dwarf, known->die, &unit)) {
        return 0;
    }
    half = unit;
    Dwarf *dwarf = known->split ? et_symfile_split_unit(known->split, &half) : file->dwarf;
    if (dwarf) {
        load_functions(file, known, &half);
    }
    uint32_t line;
    const char *source = source_line(&unit, address, &line);
    const struct et_symfile_range *in_function = find_range(known->functions, known->count, address);
    if (!in_function || !dwarf_offdie(dwarf, in_function->die, &function)) {
        call(context, NULL, source, line);
        return 1;
    }
    size_t count = inlined_calls(known, &function, address, inlined, sizeof inlined / sizeof *inlined);
    int shown = 1;
    for (size_t i = count; i-- > 0;) {
        const char *name = function_name(file, &inlined[i]);
        if (name) { /* else it is in a file that is missing: the line of its call stays */
            call(context, name, source, line);
            shown++;
        }
        source = call_site(&unit, &inlined[i], &line);
    }
    call(context, function_name(file, &function), source, line);
    return shown;
}
