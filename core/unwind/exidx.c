/*
 * Exception index tables of 32-bit ARM, evaluated in place: .ARM.exidx says where each function starts and how to undo
 * its frame, as byte codes in the index or in .ARM.extab. What comes out is a row like that of cfi.c.
 *
 * Formats: Exception Handling ABI for the Arm Architecture (IHI 0038), sections 5 (index), 6 (entries) and 10.3 (byte
 * codes). The tables describe a function's body, neither its prologue nor its epilogue. Every read is bounds-checked
 * and every loop ends with the bytes it reads.
 *
 *   ep_exidx_find -> entry_search -> codes_open -> run
 */
#include "core/unwind/cfi.h"

#include <errno.h>
#include <string.h>

#define WORD        4
#define CANTUNWIND  1u
#define CODES_MOST  1024 /* of one function */
#define LOCALLOC_SP 9    /* where the .NET compiler keeps sp in functions with stackalloc */
#define OFFSET_MOST 0x1000000

struct codes {
    uintptr_t at;  /* the word that holds the next byte */
    unsigned left; /* bytes */
    unsigned lane; /* byte in the word, 3 is first */
};

struct frame {
    const struct ep_cfi_registers *registers;
    struct ep_cfi_rules rules; /* offsets from where the CFA's register points, until the end */
    int32_t offset;
    bool by_saved_fp; /* the CFA follows from where the caller's frame pointer lies, which is where fp points */
    bool bad;
};

static bool word_at(const struct ep_module *module, uintptr_t at, uint32_t *word)
{
    if (at < module->image_start || at >= module->image_end || module->image_end - at < WORD)
        return false;
    memcpy(word, (const void *)at, sizeof *word);
    return true;
}

/* A 31-bit offset relative to where it stands. */
static uintptr_t prel31(uintptr_t at, uint32_t word)
{
    return at + (uintptr_t)(intptr_t)((int32_t)(word << 1) >> 1);
}

static uintptr_t function_at(const struct ep_module *module, uint32_t index)
{
    uintptr_t at = module->table + (uintptr_t)index * 8;
    uint32_t word;

    memcpy(&word, (const void *)at, sizeof word);
    return prel31(at, word) & ~(uintptr_t)1;
}

/* Index of the last entry that starts at or before pc, UINT32_MAX when there is none. */
static uint32_t entry_search(const struct ep_module *module, uintptr_t pc)
{
    uint32_t low = 0, high = (uint32_t)(module->table_size / 8);

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (function_at(module, middle) <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

static uint8_t next(const struct ep_module *module, struct codes *codes)
{
    uint32_t word;

    if (codes->left == 0 || !word_at(module, codes->at, &word))
        return 0xb0; /* finish: implied at the end */
    uint8_t byte = (uint8_t)(word >> 8 * codes->lane);
    codes->left--;
    if (codes->lane-- == 0) {
        codes->lane = 3;
        codes->at += WORD;
    }
    return byte;
}

/* Where the byte codes of an entry are. */
static int codes_open(const struct ep_module *module, uintptr_t entry, struct codes *codes)
{
    uint32_t word;
    uintptr_t at = entry + WORD;

    if (!word_at(module, at, &word))
        return -EINVAL;
    if (word == CANTUNWIND)
        return -ENOENT;
    if (!(word >> 31)) { /* in .ARM.extab */
        at = prel31(at, word);
        if (!word_at(module, at, &word))
            return -EINVAL;
        if (!(word >> 31)) { /* a personality routine of its own, then a count and codes */
            at += WORD;
            if (!word_at(module, at, &word))
                return -EINVAL;
            *codes = (struct codes){.at = at, .lane = 2, .left = 3 + 4 * (word >> 24)};
            return codes->left <= CODES_MOST ? 0 : -EINVAL;
        }
    }
    unsigned personality = word >> 24 & 0xf;
    if (personality == 0)
        *codes = (struct codes){.at = at, .lane = 2, .left = 3};
    else
        *codes = (struct codes){.at = at, .lane = 1, .left = 2 + 4 * (word >> 16 & 0xff)};
    return personality <= 2 ? 0 : -EINVAL;
}

static void popped(struct frame *frame, unsigned reg)
{
    const struct ep_cfi_registers *r = frame->registers;
    unsigned at = reg == r->fp                ? EP_CFI_REG_FP
                  : reg == r->base            ? EP_CFI_REG_BASE
                  : reg == r->ra || reg == 15 ? EP_CFI_REG_RA
                                              : EP_CFI_REGS;

    if (at < EP_CFI_REGS) {
        frame->rules.state[at] = EP_CFI_SAVED;
        frame->rules.offset[at] = frame->offset;
    }
    frame->bad |= reg == r->sp;
    frame->offset += WORD;
}

static void pop_mask(struct frame *frame, unsigned mask, unsigned first)
{
    for (unsigned reg = first; mask; reg++, mask >>= 1)
        if (mask & 1)
            popped(frame, reg);
}

/* vsp = register: what was popped before would be relative to something else. */
static void from_register(struct frame *frame, unsigned reg)
{
    const struct ep_cfi_registers *r = frame->registers;

    for (unsigned i = 0; i < EP_CFI_REGS; i++)
        frame->bad |= frame->rules.state[i] == EP_CFI_SAVED;
    if (reg == LOCALLOC_SP) { /* not among what is tracked, but such frames of .NET have a frame pointer */
        frame->by_saved_fp = true;
        reg = r->fp;
    }
    frame->rules.cfa = reg == r->fp ? EP_CFI_FP : reg == r->base ? EP_CFI_BASE : EP_CFI_OTHER;
    frame->offset = 0;
}

static int32_t uleb(const struct ep_module *module, struct codes *codes)
{
    uint32_t value = 0;

    for (unsigned shift = 0; shift < 28; shift += 7) {
        uint8_t byte = next(module, codes);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value > OFFSET_MOST ? OFFSET_MOST : (int32_t)value;
}

/* Codes 0xb1 to 0xff, but for the finish. */
static void run_high(const struct ep_module *module, struct codes *codes, struct frame *frame, uint8_t code)
{
    if (code == 0xb1) {
        uint8_t mask = next(module, codes);
        frame->bad |= mask == 0 || mask > 0xf;
        pop_mask(frame, mask, 0);
    } else if (code == 0xb2) {
        frame->offset += 0x204 + uleb(module, codes) * 4;
    } else if (code == 0xb3) { /* FSTMFDX: one word more */
        frame->offset += ((next(module, codes) & 0xf) + 1) * 8 + WORD;
    } else if (code == 0xb4) { /* return address authentication code */
        frame->offset += WORD;
    } else if ((code & 0xf8) == 0xb8) {
        frame->offset += ((code & 7) + 1) * 8 + WORD;
    } else if (code == 0xc8 || code == 0xc9) {
        frame->offset += ((next(module, codes) & 0xf) + 1) * 8;
    } else if ((code & 0xf8) == 0xd0) {
        frame->offset += ((code & 7) + 1) * 8;
    } else {
        frame->bad = true;
    }
}

static void run(const struct ep_module *module, struct codes *codes, struct frame *frame)
{
    uint8_t code;

    while (!frame->bad && (code = next(module, codes)) != 0xb0) {
        if (code < 0x40)
            frame->offset += (code << 2) + WORD;
        else if (code < 0x80)
            frame->offset -= ((code & 0x3f) << 2) + WORD;
        else if (code < 0x90) {
            unsigned mask = (unsigned)(code & 0xf) << 8 | next(module, codes);
            frame->bad |= mask == 0; /* refuse to unwind */
            pop_mask(frame, mask, 4);
        } else if (code < 0xa0) {
            from_register(frame, code & 0xf);
        } else if (code < 0xb0) {
            pop_mask(frame, (2u << (code & 7)) - 1, 4);
            if (code & 8)
                popped(frame, frame->registers->ra);
        } else {
            run_high(module, codes, frame, code);
        }
        frame->bad |= frame->offset > OFFSET_MOST || frame->offset < -OFFSET_MOST;
    }
}

int ep_exidx_find(const struct ep_module *module, const struct ep_cfi_registers *registers, uintptr_t pc,
                  struct ep_cfi_row *row)
{
    uint32_t index = module->table ? entry_search(module, pc) : UINT32_MAX;
    struct codes codes;
    struct frame frame;

    if (index == UINT32_MAX)
        return -ENOENT;
    int error = codes_open(module, module->table + (uintptr_t)index * 8, &codes);
    if (error)
        return error;
    bool last = (index + 1) >= module->table_size / 8;
    uintptr_t start = function_at(module, index), end = last ? module->end : function_at(module, index + 1);
    if (start < module->start) /* its code will be looked at */
        return -EINVAL;
    memset(&frame, 0, sizeof frame);
    frame.registers = registers;
    frame.rules.cfa = EP_CFI_SP;
    run(module, &codes, &frame);
    if (frame.bad)
        return -EINVAL;
    frame.rules.cfa_offset = frame.offset;
    for (unsigned i = 0; i < EP_CFI_REGS; i++)
        frame.rules.offset[i] -= frame.offset;
    if (frame.by_saved_fp) {
        if (frame.rules.state[EP_CFI_REG_FP] != EP_CFI_SAVED)
            return -EINVAL;
        frame.rules.cfa_offset = -frame.rules.offset[EP_CFI_REG_FP];
    }
    *row = (struct ep_cfi_row){.rules = frame.rules, .start = start, .end = end < module->end ? end : module->end};
    return 0;
}
