/*
 * cfi.c compared with elfutils's libdw, row by row: in libc, libstdc++, the dynamic linker and all other loaded
 * modules, at the first address of each row and at the byte before the next. Rules for CFA, frame pointer, base
 * register (rbx) and return address are equal, or cfi.c reports that it does not support them. Unsupported rows are
 * listed by kind and must be few.
 */
#include "unit.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#define UNKNOWN_PER_1000 5u

#if !defined(__x86_64__)
#error "the comparison knows x86-64's registers"
#endif

static const struct ep_cfi_registers registers = {.sp = 7, .fp = 6, .base = 3, .ra = 16};
static const int dwarf_numbers[EP_CFI_REGS] = {[EP_CFI_REG_FP] = 6, [EP_CFI_REG_BASE] = 3, [EP_CFI_REG_RA] = 16};

struct tally {
    uint64_t rows, equal;
    uint64_t not_found, broken, other_cfa;              /* not supported by cfi.c */
    uint64_t wrong_cfa, wrong_register, wrong_presence; /* must be zero */
};

/* ---- libdw's answer in our types ---- */

struct place {
    enum ep_cfi_state state;
    int64_t offset;
    bool other; /* an unsupported expression */
};

static struct place place_of(Dwarf_Frame *frame, int number)
{
    Dwarf_Op memory[3], *ops;
    size_t count;

    if (dwarf_frame_register(frame, number, memory, &ops, &count) != 0)
        return (struct place){.other = true};
    if (count == 0)
        return (struct place){.state = ops == memory ? EP_CFI_UNDEFINED : EP_CFI_KEPT};
    if (ops[0].atom == DW_OP_call_frame_cfa && count == 1)
        return (struct place){.state = EP_CFI_SAVED};
    if (ops[0].atom == DW_OP_call_frame_cfa && count == 2 && ops[1].atom == DW_OP_plus_uconst)
        return (struct place){.state = EP_CFI_SAVED, .offset = (int64_t)ops[1].number};
    if (count == 1 && ops[0].atom == DW_OP_breg6 && (int64_t)ops[0].number == 0)
        return (struct place){.state = EP_CFI_SAVED_AT_FP};
    return (struct place){.other = true};
}

struct cfa {
    enum ep_cfi_cfa kind;
    int64_t offset;
};

static enum ep_cfi_cfa kind_of(uint64_t number)
{
    return number == 7 ? EP_CFI_SP : number == 6 ? EP_CFI_FP : number == 3 ? EP_CFI_BASE : EP_CFI_OTHER;
}

/* The linker's .plt entries: sp + 8 + ((pc & 15) >= n) * 8. */
static bool is_plt(const Dwarf_Op *ops, size_t count, uint64_t pc, struct cfa *cfa)
{
    static const uint8_t atoms[] = {DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0,
                                    DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,   DW_OP_plus};

    if (count != sizeof atoms)
        return false;
    for (size_t i = 0; i < count; i++)
        if (i != 4 && ops[i].atom != atoms[i])
            return false;
    cfa->kind = EP_CFI_SP;
    cfa->offset = (int64_t)ops[0].number + ((pc & 15) >= (uint64_t)ops[4].atom - DW_OP_lit0 ? 8u : 0u);
    return true;
}

static struct cfa cfa_of(Dwarf_Frame *frame, uint64_t pc)
{
    struct cfa cfa = {EP_CFI_OTHER, 0};
    Dwarf_Op *ops;
    size_t count;

    if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count == 0 || is_plt(ops, count, pc, &cfa))
        return cfa;
    bool deref = count == 2 && ops[1].atom == DW_OP_deref;
    if (count == 1 && ops[0].atom == DW_OP_bregx)
        return (struct cfa){kind_of(ops[0].number), (int64_t)ops[0].number2};
    if (count == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31)
        return (struct cfa){kind_of(ops[0].atom - DW_OP_breg0), (int64_t)ops[0].number};
    if (deref && ops[0].atom == DW_OP_breg6)
        return (struct cfa){EP_CFI_FP_LOAD, (int64_t)ops[0].number};
    return cfa;
}

/* ---- the comparison ---- */

static bool registers_equal(Dwarf_Frame *frame, const struct ep_cfi_row *row, uint64_t pc)
{
    for (unsigned reg = 0; reg < EP_CFI_REGS; reg++) {
        struct place theirs = place_of(frame, dwarf_numbers[reg]);
        uint8_t state = row->rules.state[reg];
        /* libdw starts from the ABI's callee-saved registers, and its list for x86-64 names register 0 for rbx. */
        if (reg == EP_CFI_REG_BASE && theirs.state == EP_CFI_UNDEFINED && state == EP_CFI_KEPT)
            continue;
        if (theirs.other && (row->signal_frame || reg == EP_CFI_REG_BASE))
            continue; /* rows do not use a signal frame's registers; an unknown base is never used */
        if (theirs.other || state != theirs.state ||
            (state == EP_CFI_SAVED && row->rules.offset[reg] != theirs.offset)) {
            print_error("pc %#llx, register %d: ours %u %d, libdw %s%d %lld\n", (unsigned long long)pc,
                        dwarf_numbers[reg], state, row->rules.offset[reg], theirs.other ? "other " : "", theirs.state,
                        (long long)theirs.offset);
            return false;
        }
    }
    return true;
}

/* Any hint, also one of another module: it may cost steps, and changes no row. */
static void mislead(const struct ep_module *module, uintptr_t pc)
{
    static uint64_t dice = 1;
    uint32_t count;

    memcpy(&count, (const void *)(module->table + 8), sizeof count);
    uintptr_t place = pc >> EP_NEAR_SHIFT;
    _Atomic uint32_t *near = (_Atomic uint32_t *)((uintptr_t)module + module->near);
    near[place % EP_NEAR] = (uint32_t)(place / EP_NEAR) << EP_NEAR_BITS | unit_random(&dice) % (count + count / 8 + 2);
}

static void compare(Dwarf_Frame *frame, const struct ep_module *module, uint64_t address, struct tally *tally)
{
    struct ep_cfi_row row;
    struct cfa theirs = cfa_of(frame, address);

    tally->rows++;
    mislead(module, module->bias + address);
    int error = ep_cfi_find(module, &registers, module->bias + address, &row);
    if (error) {
        error == -ENOENT ? tally->not_found++ : tally->broken++;
        return;
    }
    if (row.rules.cfa == EP_CFI_OTHER && !row.signal_frame) {
        tally->other_cfa++;
        return;
    }
    bool cfa = row.signal_frame || (row.rules.cfa == theirs.kind && row.rules.cfa_offset == theirs.offset);
    if (!cfa)
        print_error("pc %#llx: CFA ours %u%+d, libdw %u%+lld\n", (unsigned long long)address, row.rules.cfa,
                    row.rules.cfa_offset, theirs.kind, (long long)theirs.offset);
    bool regs = registers_equal(frame, &row, address);
    tally->wrong_cfa += !cfa;
    tally->wrong_register += !regs;
    tally->equal += cfa && regs;
}

/* Compares all rows of one function. It is an error, too, if only cfi.c has an entry. */
static void function(Dwarf_CFI *cfi, const struct ep_module *module, uint64_t start, uint64_t limit,
                     struct tally *tally)
{
    for (uint64_t at = start; at < limit;) {
        Dwarf_Frame *frame;
        Dwarf_Addr row_start, row_end;
        bool signal;
        if (dwarf_cfi_addrframe(cfi, at, &frame) != 0) {
            struct ep_cfi_row row;
            mislead(module, module->bias + at);
            tally->wrong_presence += ep_cfi_find(module, &registers, module->bias + at, &row) == 0;
            return;
        }
        assert_true(dwarf_frame_info(frame, &row_start, &row_end, &signal) >= 0);
        compare(frame, module, at, tally);
        if (row_end - 1 > at)
            compare(frame, module, row_end - 1, tally);
        free(frame);
        at = row_end;
    }
}

/* The functions' start addresses, from the sorted table of the header in memory. */
static void functions(Dwarf_CFI *cfi, const struct ep_module *module, struct tally *tally)
{
    const int32_t *entry = (const int32_t *)(module->table + 12);
    uint32_t count;

    memcpy(&count, (const void *)(module->table + 8), sizeof count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = module->table + (uintptr_t)(intptr_t)entry[2 * i] - module->bias;
        uint64_t next =
            i + 1 < count ? module->table + (uintptr_t)(intptr_t)entry[2 * i + 2] - module->bias : start + 4096;
        function(cfi, module, start, next, tally);
    }
}

/* ---- modules of this process ---- */

static unsigned compared;
static uint64_t all_rows, all_unknown;

static void check(const char *path, const struct ep_module *module)
{
    struct tally t = {0};
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    Dwarf_CFI *cfi = elf ? dwarf_getcfi_elf(elf) : NULL;
    assert_non_null(cfi);
    functions(cfi, module, &t);
    uint64_t unknown = t.not_found + t.broken + t.other_cfa;
    print_message(
        "             %s: %llu rows, %llu equal, not understood %llu (no entry %llu, broken %llu, CFA %llu)\n", path,
        (unsigned long long)t.rows, (unsigned long long)t.equal, (unsigned long long)unknown,
        (unsigned long long)t.not_found, (unsigned long long)t.broken, (unsigned long long)t.other_cfa);
    assert_int_equal(t.wrong_cfa, 0);
    assert_int_equal(t.wrong_register, 0);
    assert_int_equal(t.wrong_presence, 0);
    /* libgcc_s has __morestack, which switches stacks: its rows are not sp, fp or rbx plus a number. */
    assert_true(t.rows > 100 && (strstr(path, "libgcc_s") || unknown * 1000 <= t.rows * UNKNOWN_PER_1000));
    all_rows += t.rows;
    all_unknown += unknown;
    (void)dwarf_cfi_end(cfi);
    (void)elf_end(elf);
    (void)close(fd);
    compared++;
}

static int module_of(struct dl_phdr_info *info, size_t size, void *context)
{
    static struct ep_modules modules;
    struct ep_module *module = &modules.slot[0];

    *module =
        (struct ep_module){.bias = info->dlpi_addr, .near = (uint32_t)((uintptr_t)modules.near - (uintptr_t)module)};
    (void)size;
    (void)context;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_GNU_EH_FRAME) {
            module->table = module->bias + h->p_vaddr;
            module->table_size = h->p_memsz;
        }
    }
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t start = module->bias + h->p_vaddr;
        if (h->p_type == PT_LOAD && module->table - start < h->p_memsz) {
            module->image_start = start;
            module->image_end = start + h->p_memsz;
        }
        if (h->p_type == PT_LOAD && (h->p_flags & PF_X)) {
            module->start = start;
            module->end = start + h->p_memsz;
        }
    }
    const char *path = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
    if (module->table && path[0] == '/')
        check(path, module);
    return 0;
}

TEST(test_rows)
{
    assert_non_null(dlopen("libstdc++.so.6", RTLD_NOW));
    (void)elf_version(EV_CURRENT);
    (void)dl_iterate_phdr(module_of, NULL);
    assert_true(compared >= 5);
    assert_true(all_unknown * 1000 <= all_rows * UNKNOWN_PER_1000);
}

TEST_MAIN
