/*
 * Call frame information, evaluated in place: .eh_frame_hdr's sorted table gives the function's entry, its few
 * instructions are run up to the pc, and what comes out is one row: how to find the caller's frame, its frame pointer
 * and return address. Everything else the tables say is skipped.
 *
 * Formats: DWARF 5 section 6.4 (instructions), the LSB Core specification chapter 10.6 (.eh_frame, .eh_frame_hdr).
 * Every read is bounds-checked against the mapped image and every loop ends with the bytes it reads: broken tables give
 * -EINVAL, never a fault. Only the encodings that linkers write are understood (pc-relative and hdr-relative sdata4).
 *
 *   ep_cfi_find -> entry_search -> fde_read -> cie_read -> run (twice: the CIE's instructions, the function's)
 */
#include "core/unwind/cfi.h"

#include "core/unwind/ahead.h"

#include <errno.h>
#include <string.h>

#define ENC_PCREL_SDATA4   0x1b
#define ENC_DATAREL_SDATA4 0x3b
#define ENC_OMIT           0xff
#define REMEMBER_DEPTH     4
#define TAKEN_MOST         8

struct reader {
    uintptr_t at, end;
    bool bad;
};

struct cie {
    struct reader instructions;
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding;
    bool augmented, signal_frame;
};

struct machine {
    const struct ep_cfi_registers *registers;
    const struct cie *cie;
    struct ep_cfi_rules rules, initial;
    struct ep_cfi_rules saved[REMEMBER_DEPTH];
    unsigned depth;
    uintptr_t location, since; /* since: the last one that is not behind the pc */
};

/* The next bytes, or zeros when there are not so many. Copied by the caller, who knows how many. */
static __attribute__((hot, noinline)) const uint8_t *take(struct reader *reader, size_t size)
{
    static const uint8_t zeros[TAKEN_MOST];
    const uint8_t *at = (const uint8_t *)reader->at;

    if (reader->bad || reader->end - reader->at < size || reader->at > reader->end) {
        reader->bad = true;
        return zeros;
    }
    reader->at += size;
    return at;
}

static __attribute__((hot)) uint8_t take_u8(struct reader *reader)
{
    return *take(reader, 1);
}

static uint16_t take_u16(struct reader *reader)
{
    uint16_t value;

    memcpy(&value, take(reader, sizeof value), sizeof value);
    return value;
}

static __attribute__((hot)) uint32_t take_u32(struct reader *reader)
{
    uint32_t value;

    memcpy(&value, take(reader, sizeof value), sizeof value);
    return value;
}

static __attribute__((hot)) void skip(struct reader *reader, uint64_t size)
{
    if (size > reader->end - reader->at)
        reader->bad = true;
    else
        reader->at += (uintptr_t)size;
}

static __attribute__((hot, noinline)) uint64_t take_uleb(struct reader *reader)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = take_u8(reader);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    reader->bad = true;
    return 0;
}

/* Mostly one byte. */
static inline __attribute__((always_inline)) uint64_t take_short_uleb(struct reader *reader)
{
    if (reader->at < reader->end && *(const uint8_t *)reader->at < 0x80)
        return *(const uint8_t *)reader->at++;
    return take_uleb(reader);
}

static __attribute__((hot)) int64_t take_sleb(struct reader *reader)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = take_u8(reader);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            if ((byte & 0x40) && shift < 57)
                value |= ~(uint64_t)0 << (shift + 7);
            return (int64_t)value;
        }
    }
    reader->bad = true;
    return 0;
}

/* A 4-byte value relative to where it stands. */
static uintptr_t take_pcrel(struct reader *reader)
{
    uintptr_t at = reader->at;

    return at + (uintptr_t)(intptr_t)(int32_t)take_u32(reader);
}

/* Offsets that do not fit are made invalid here once, so that nobody else has to care. */
static __attribute__((hot)) int32_t narrow(struct reader *reader, int64_t value)
{
    if (value < -0x1000000 || value > 0x1000000) {
        reader->bad = true;
        return 0;
    }
    return (int32_t)value;
}

/* The same for a number that the tables tell in units. */
static __attribute__((hot)) int32_t scaled(struct reader *reader, int64_t value, int64_t unit)
{
    int64_t product;

    if (__builtin_mul_overflow(value, unit, &product)) {
        reader->bad = true;
        return 0;
    }
    return narrow(reader, product);
}

static __attribute__((hot)) void cfa_set(struct machine *m, uint64_t number, int32_t offset)
{
    const struct ep_cfi_registers *r = m->registers;

    m->rules.cfa = number == r->sp     ? EP_CFI_SP
                   : number == r->fp   ? EP_CFI_FP
                   : number == r->base ? EP_CFI_BASE
                                       : EP_CFI_OTHER;
    m->rules.other = number < EP_CFI_REGISTERS ? (uint8_t)number : EP_CFI_REGISTERS;
    m->rules.cfa_offset = offset;
}

/* The register's column, EP_CFI_REGS when nobody cares. */
static __attribute__((hot)) unsigned column(const struct machine *m, uint64_t number)
{
    const struct ep_cfi_registers *r = m->registers;

    return number == r->fp     ? EP_CFI_REG_FP
           : number == r->base ? EP_CFI_REG_BASE
           : number == r->ra   ? EP_CFI_REG_RA
                               : EP_CFI_REGS;
}

static __attribute__((hot)) void place_set(struct machine *m, uint64_t number, enum ep_cfi_state state, int32_t offset)
{
    unsigned at = column(m, number);

    if (at < EP_CFI_REGS) {
        m->rules.state[at] = (uint8_t)state;
        m->rules.offset[at] = offset;
    }
}

static void place_restored(struct machine *m, uint64_t number)
{
    unsigned at = column(m, number);

    if (at < EP_CFI_REGS) {
        m->rules.state[at] = m->initial.state[at];
        m->rules.offset[at] = m->initial.offset[at];
    }
}

/* Saved where only a DWARF expression tells. Known is "fp, at its own frame": DW_OP_breg<fp> 0 of a realigned stack. */
static void place_expression(struct machine *m, struct reader *r, uint64_t number, uint64_t size)
{
    uint8_t op[2];
    struct reader peek = *r;

    memcpy(op, take(&peek, sizeof op), sizeof op);
    bool at_fp = size == 2 && op[0] == 0x70 + m->registers->fp && op[1] == 0;
    if (at_fp && column(m, number) == EP_CFI_REG_FP)
        place_set(m, number, EP_CFI_SAVED_AT_FP, 0);
    else if (!m->cie->signal_frame && column(m, number) != EP_CFI_REG_BASE)
        r->bad |= column(m, number) < EP_CFI_REGS;
    skip(r, size);
}

/* The rest of such an expression, behind breg<fp> or breg<sp>. Leaves the reader where it was if it is another one. */
static bool is_load(struct reader *e, uintptr_t end, bool of_fp, bool of_sp, struct machine *m)
{
    uint8_t op[3] = {0};

    if (e->bad || end - e->at > sizeof op || !(of_fp || of_sp))
        return false;
    const size_t size = end - e->at;
    memcpy(op, take(e, size), size);
    if (size == 1 && of_fp && op[0] == 0x06)
        m->rules.cfa = EP_CFI_FP_LOAD;
    else if (size == 3 && op[0] == 0x06 && op[1] == 0x23 && op[2] == sizeof(uintptr_t))
        m->rules.other = of_fp ? m->registers->fp : m->registers->sp;
    else
        e->at = end - size;
    return e->at == end;
}

/* DW_CFA_def_cfa_expression, as far as compilers and linkers use it on purpose:
 *   breg<fp> n, deref                                   a realigned stack
 *   breg<sp or fp> n, deref, plus_uconst <word>         the same in assembly, such as OpenSSL's
 *   breg<sp> 8, breg<ra> 0, lit15, and, lit<n>, ge, lit3, shl, plus   the linker's .plt: one push from entry n on */
static void cfa_expression(struct machine *m, struct reader *r, uintptr_t pc)
{
    uint64_t size = take_uleb(r);
    struct reader e = *r;
    skip(r, size);
    const uintptr_t end = r->at;
    uint8_t first = take_u8(&e);
    int32_t offset = narrow(&e, take_sleb(&e));

    m->rules.cfa = EP_CFI_OTHER;
    m->rules.other = EP_CFI_REGISTERS;
    m->rules.cfa_offset = 0;
    if (is_load(&e, end, first == 0x70 + m->registers->fp, first == 0x70 + m->registers->sp, m)) {
        m->rules.cfa_offset = offset;
    } else if (first == 0x70 + m->registers->sp && size == 11) {
        uint8_t op[8];
        memcpy(op, take(&e, sizeof op), sizeof op);
        static const uint8_t plt[8] = {0x80, 0x00, 0x3f, 0x1a, 0, 0x2a, 0x33, 0x24};
        unsigned limit = op[4] - 0x30u;
        op[4] = 0;
        if (memcmp(op, plt, sizeof op) == 0 && limit < 16 && take_u8(&e) == 0x22) {
            m->rules.cfa = EP_CFI_SP;
            m->rules.cfa_offset = offset + ((pc & 15) >= limit ? 8 : 0);
        }
    }
    r->bad |= e.bad;
}

static void remember(struct machine *m, struct reader *r)
{
    if (m->depth == REMEMBER_DEPTH)
        r->bad = true;
    else
        m->saved[m->depth++] = m->rules;
}

static void restore(struct machine *m, struct reader *r)
{
    if (m->depth == 0)
        r->bad = true;
    else
        m->rules = m->saved[--m->depth];
}

/* The instructions whose opcode fills the byte. */
static __attribute__((hot)) void extended(struct machine *m, struct reader *r, uint8_t op, uintptr_t pc)
{
    int64_t factor = m->cie->data_align;
    uint64_t number;

    switch (op) {
    case 0x2d: /* GNU_window_save; on aarch64: toggles return address signing */
        break;
    case 0x01: /* set_loc */
        m->location = take_pcrel(r);
        break;
    case 0x02: /* advance_loc1 */
        m->location += (uintptr_t)(take_u8(r) * m->cie->code_align);
        break;
    case 0x03: /* advance_loc2 */
        m->location += (uintptr_t)(take_u16(r) * m->cie->code_align);
        break;
    case 0x04: /* advance_loc4 */
        m->location += (uintptr_t)(take_u32(r) * m->cie->code_align);
        break;
    case 0x05: /* offset_extended */
        number = take_uleb(r);
        place_set(m, number, EP_CFI_SAVED, scaled(r, (int64_t)take_uleb(r), factor));
        break;
    case 0x06: /* restore_extended */
        place_restored(m, take_uleb(r));
        break;
    case 0x07: /* undefined */
        place_set(m, take_uleb(r), EP_CFI_UNDEFINED, 0);
        break;
    case 0x08: /* same_value */
        place_set(m, take_uleb(r), EP_CFI_KEPT, 0);
        break;
    case 0x09: /* register */
        number = take_uleb(r);
        r->bad |= number == m->registers->ra || number == m->registers->fp;
        (void)take_uleb(r);
        break;
    case 0x0a:
        remember(m, r);
        break;
    case 0x0b:
        restore(m, r);
        break;
    case 0x0c: /* def_cfa */
        number = take_uleb(r);
        cfa_set(m, number, narrow(r, (int64_t)take_uleb(r)));
        break;
    case 0x0d: /* def_cfa_register */
        cfa_set(m, take_uleb(r), m->rules.cfa_offset);
        break;
    case 0x0f:
        cfa_expression(m, r, pc);
        break;
    case 0x10: /* expression */
        number = take_uleb(r);
        place_expression(m, r, number, take_uleb(r));
        break;
    case 0x11: /* offset_extended_sf */
        number = take_uleb(r);
        place_set(m, number, EP_CFI_SAVED, scaled(r, take_sleb(r), factor));
        break;
    case 0x12: /* def_cfa_sf */
        number = take_uleb(r);
        cfa_set(m, number, scaled(r, take_sleb(r), factor));
        break;
    case 0x13: /* def_cfa_offset_sf */
        m->rules.cfa_offset = scaled(r, take_sleb(r), factor);
        break;
    case 0x2e: /* GNU_args_size */
        (void)take_uleb(r);
        break;
    default: /* val_offset, val_expression: never seen for the registers that matter */
        r->bad = true;
    }
}

/* Where a register is saved that the walk needs; others are many. */
static inline void take_place(struct machine *m, struct reader *r, uint8_t number)
{
    uint64_t value = take_short_uleb(r);

    if (column(m, number) < EP_CFI_REGS)
        place_set(m, number, EP_CFI_SAVED, scaled(r, (int64_t)value, m->cie->data_align));
}

/* Runs instructions until the row for pc is complete. The most common ones are told first. */
static __attribute__((hot)) bool run(struct machine *m, struct reader r, uintptr_t pc)
{
    while (r.at < r.end && !r.bad) {
        uint8_t op = *(const uint8_t *)r.at++;
        uint8_t low = op & 0x3f;
        if (op == 0x00 || op == 0x0e || op >> 6 == 2) { /* nop, def_cfa_offset, offset: in the same row */
            if (op >> 6 == 2)
                take_place(m, &r, low);
            else if (op)
                m->rules.cfa_offset = narrow(&r, (int64_t)take_short_uleb(&r));
            continue;
        }
        if (op >> 6 == 1) /* advance_loc */
            m->location += (uintptr_t)(low * m->cie->code_align);
        else if (op >> 6 == 3) /* restore */
            place_restored(m, low);
        else
            extended(m, &r, op, pc);
        if (m->location > pc)
            break;
        m->since = m->location;
    }
    return !r.bad;
}

/* One length-prefixed entry; what follows the length is the reader. */
static __attribute__((hot)) struct reader entry_open(const struct ep_module *module, uintptr_t at)
{
    struct reader r = {.at = at, .end = module->image_end};

    if (at < module->image_start || at >= module->image_end) {
        r.bad = true;
        return r;
    }
    uint32_t length = take_u32(&r);
    if (length == 0 || length > r.end - r.at) /* 0xffffffff: 64-bit DWARF, not made by any linker for .eh_frame */
        r.bad = true;
    else
        r.end = r.at + length;
    return r;
}

/* Parses the letters of "zPLRS": what each of them puts into the augmentation data. */
static __attribute__((hot)) void augmentation(struct reader *r, uintptr_t letters, struct cie *cie)
{
    uint8_t size_of_sdata4 = 4;
    uint64_t size = take_uleb(r);
    struct reader data = *r;

    skip(r, size);
    data.end = r->at;
    for (const char *c = (const char *)letters + 1; *c; c++) {
        if (*c == 'R') {
            cie->encoding = take_u8(&data);
        } else if (*c == 'P') {
            uint8_t encoding = take_u8(&data);
            skip(&data, (encoding & 7) == 0 || (encoding & 7) == 4 ? sizeof(uintptr_t) : size_of_sdata4);
        } else if (*c == 'L') {
            (void)take_u8(&data);
        } else if (*c == 'S') {
            cie->signal_frame = true;
        } else if (*c != 'B') {
            data.bad = true;
        }
    }
    r->bad |= data.bad;
}

static __attribute__((hot)) bool cie_read(const struct ep_module *module, uintptr_t at, struct cie *cie)
{
    struct reader r = entry_open(module, at);

    if (take_u32(&r) != 0) /* the CIE id */
        return false;
    uint8_t version = take_u8(&r);
    uintptr_t letters = r.at;
    while (take_u8(&r) != 0 && !r.bad) {
    }
    if (r.bad || (version != 1 && version != 3))
        return false;
    cie->code_align = take_uleb(&r);
    cie->data_align = take_sleb(&r);
    (void)(version == 1 ? take_u8(&r) : take_uleb(&r)); /* return address column: fixed by the ABI */
    cie->encoding = 0;
    cie->signal_frame = false;
    cie->augmented = *(const char *)letters == 'z';
    if (cie->augmented)
        augmentation(&r, letters, cie);
    cie->instructions = r;
    return !r.bad && cie->encoding == ENC_PCREL_SDATA4;
}

/* The header's sorted table. */
struct index {
    const struct ep_module *module;
    uintptr_t table;
    uint32_t count;
};

static bool index_open(const struct ep_module *module, struct index *index)
{
    struct reader r = {.at = module->table, .end = module->table + module->table_size};
    uint8_t version = take_u8(&r), frame_encoding = take_u8(&r), count_encoding = take_u8(&r);
    uint8_t table_encoding = take_u8(&r);

    skip(&r, 4); /* eh_frame_ptr */
    uint32_t count = take_u32(&r);
    *index = (struct index){.module = module, .table = r.at, .count = count};
    return !r.bad && version == 1 && frame_encoding == ENC_PCREL_SDATA4 && count_encoding == 0x03 &&
           table_encoding == ENC_DATAREL_SDATA4 && count <= (r.end - r.at) / 8;
}

/* column: 0: where the function begins, 1: its entry. */
static inline uintptr_t index_at(const struct index *index, uint32_t at, unsigned column)
{
    int32_t value;

    memcpy(&value, (const void *)(index->table + (uintptr_t)at * 8 + column * 4u), sizeof value);
    return index->module->table + (uintptr_t)(intptr_t)value;
}

/* What lies before `low` starts at or before pc, and what lies at `high` or behind it does not. */
struct range {
    uint32_t low, high;
};

static __attribute__((hot)) bool narrow_at(const struct index *index, uintptr_t pc, uint32_t at, struct range *range)
{
    bool before = index_at(index, at, 0) <= pc;

    if (before)
        range->low = at + 1;
    else
        range->high = at;
    return before;
}

/* In growing steps away from a guess: a binary search of the whole table reads a dozen cache lines in as many pages. */
static __attribute__((hot)) void narrow_near(const struct index *index, uintptr_t pc, uint32_t guess,
                                             struct range *range)
{
    bool up = narrow_at(index, pc, guess, range);

    for (uint32_t step = 4; range->high - range->low > step; step *= 2)
        if (narrow_at(index, pc, up ? range->low + step : range->high - step, range) != up)
            return;
}

/* The number of functions that start at or before pc. */
static __attribute__((hot)) uint32_t index_search(const struct index *index, uintptr_t pc)
{
    struct range range = {.low = 0, .high = index->count};
    const struct ep_module *module = index->module;
    uintptr_t place = pc >> EP_NEAR_SHIFT;
    _Atomic uint32_t *near = (_Atomic uint32_t *)((uintptr_t)module + module->near) + place % EP_NEAR;
    uint32_t tag = (uint32_t)(place / EP_NEAR) << EP_NEAR_BITS;
    uint32_t hint = module->near ? atomic_load_explicit(near, memory_order_relaxed) ^ tag : UINT32_MAX;

    if (hint >> EP_NEAR_BITS == 0 && hint < index->count)
        narrow_near(index, pc, hint, &range);
    while (range.low < range.high)
        (void)narrow_at(index, pc, range.low + (range.high - range.low) / 2, &range);
    if (module->near && range.low > 0 && range.low <= 1u << EP_NEAR_BITS)
        atomic_store_explicit(near, tag | (range.low - 1), memory_order_relaxed);
    return range.low;
}

/* Search in the header's table; the function's entry or 0. *start: where the table says that it begins. */
static __attribute__((hot)) uintptr_t entry_search(const struct ep_module *module, uintptr_t pc, uintptr_t *start)
{
    struct index index;

    if (!index_open(module, &index))
        return 0;
    uint32_t found = index_search(&index, pc);
    if (found == 0)
        return 0;
    *start = index_at(&index, found - 1, 0);
    return index_at(&index, found - 1, 1);
}

bool ep_cfi_starts(const struct ep_module *module, uintptr_t pc)
{
    uintptr_t start;

    return module->table && entry_search(module, pc, &start) && start == pc;
}

__attribute__((hot)) int ep_cfi_find(const struct ep_module *module, const struct ep_cfi_registers *registers,
                                     uintptr_t pc, struct ep_cfi_row *row)
{
    uintptr_t start, at = module->table ? entry_search(module, pc, &start) : 0;
    if (!at)
        return -ENOENT;

    ep_code_ahead(start, 1); /* it will be looked at */
    struct reader r = entry_open(module, at);
    uintptr_t back_from = r.at;
    uint32_t back = take_u32(&r);
    struct cie cie;
    if (r.bad || back == 0 || !cie_read(module, back_from - back, &cie))
        return -EINVAL;
    start = take_pcrel(&r);
    uint32_t size = take_u32(&r);
    if (cie.augmented)
        skip(&r, take_uleb(&r));
    if (r.bad)
        return -EINVAL;
    if (pc - start >= size)
        return -ENOENT;
    if (start < module->start || size > module->end - start) /* its code will be looked at */
        return -EINVAL;

    struct machine m;
    m.registers = registers;
    m.cie = &cie;
    m.initial = m.rules = (struct ep_cfi_rules){.cfa = EP_CFI_OTHER, .other = EP_CFI_REGISTERS};
    m.depth = 0;
    m.location = start;
    if (!run(&m, cie.instructions, UINTPTR_MAX))
        return -EINVAL;
    m.initial = m.rules;
    m.location = m.since = start;
    if (!run(&m, r, pc))
        return -EINVAL;
    *row = (struct ep_cfi_row){
        .rules = m.rules, .signal_frame = cie.signal_frame, .start = start, .end = start + size, .since = m.since};
    return 0;
}

uintptr_t ep_function_end(const struct ep_modules *modules, uintptr_t function)
{
    const struct ep_module *module = ep_module_find(modules, function);
    struct ep_cfi_row row;

    return module && ep_cfi_find(module, &ep_cfi_registers, function, &row) == 0 ? row.end : 0;
}

uintptr_t ep_function_start(const struct ep_module *module, uintptr_t pc)
{
    struct ep_cfi_row row;

    return ep_cfi_find(module, &ep_cfi_registers, pc, &row) == 0 ? row.start : 0;
}
