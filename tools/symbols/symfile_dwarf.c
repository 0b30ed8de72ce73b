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

/* A corrupt file may describe endless lists, and many entries may share a long one. */
enum { RANGES_OF_A_DIE = 1 << 16, SIBLINGS = 1 << 16 };

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
        file->ranges[file->range_count++] =
            (struct et_symfile_range){.start = start, .end = end, .unit = file->unit_count};
    }
    file->unit_count++;
}

void et_symfile_load_units(struct et_symfile *file)
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
    struct et_symfile_unit *unit;
};

static int add_function(Dwarf_Die *die, void *context)
{
    const struct function_load *load = context;
    struct et_symfile_unit *unit = load->unit;
    ptrdiff_t offset = 0;
    Dwarf_Addr base, start, end;
    for (int i = 0; i < RANGES_OF_A_DIE && load->file->ranges_left > 0 &&
                    (offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0;
         i++) {
        load->file->ranges_left--;
        if (start != 0) {
            unit->functions = et_reserve(unit->functions, &unit->capacity, unit->count + 1, sizeof *unit->functions);
            unit->functions[unit->count++] =
                (struct et_symfile_range){.start = start, .end = end, .die = dwarf_dieoffset(die)};
        }
    }
    return load->file->ranges_left > 0 ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static void load_functions(struct et_symfile *file, struct et_symfile_unit *unit, Dwarf_Die *die)
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
    const struct et_symfile_range *in_unit = file->dwarf ? find_range(file->ranges, file->range_count, address) : NULL;
    Dwarf_Die unit, function, inlined[64];
    if (!in_unit || !dwarf_offdie(file->dwarf, file->units[in_unit->unit].die, &unit)) {
        return 0;
    }
    struct et_symfile_unit *known = &file->units[in_unit->unit];
    load_functions(file, known, &unit);
    uint32_t line;
    const char *source = source_line(&unit, address, &line);
    const struct et_symfile_range *in_function = find_range(known->functions, known->count, address);
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
