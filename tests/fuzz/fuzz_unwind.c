/*
 * Fuzz target: tables, code and stacks that nobody made on purpose, through cfi.c, rules.c, unwind.c and the
 * architecture's file. An input is a mapped image (code, .eh_frame_hdr, .eh_frame), registers and a stack:
 *
 *   struct head | stack (head.stack bytes) | image (the rest)
 *
 * Invariants:
 *   1. Nothing outside the image, the stack and the profiler is read: their surroundings are poisoned for ASan.
 *   2. ep_cfi_find() returns 0, -ENOENT or -EINVAL, and with 0 the pc lies in [row.start, row.end) and offsets are
 *      within what narrow() lets through.
 *   3. ep_unwind() ends, with 1 to EP_MAX_DEPTH frames, the first of them the pc; the stack is cut if and only if it
 *      says what stands in for its root.
 *   4. The same input walks the same way again, from the rules in the cache as from the tables.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sanitizer/asan_interface.h>

#include "core/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IMAGE_MOST  65536u
#define STACK_MOST  1024u
#define MARGIN      4096u
#define OFFSET_MOST 0x1000000

struct head {
    uint16_t table, table_size; /* in the image */
    uint16_t code, code_size;
    uint16_t pc;           /* in the code */
    uint16_t sp, fp, base; /* in the stack, or a little beyond */
    uint16_t stack;
    uint8_t relocate; /* stack words whose low bits say so become addresses */
    uint8_t reserved;
};

static struct ep ep;
static _Alignas(16) uint8_t image_area[IMAGE_MOST + 2 * MARGIN], stack_area[STACK_MOST + 2 * MARGIN];
static uint8_t *const image = image_area + MARGIN, *const stack = stack_area + MARGIN;

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void fence(uint8_t *area, size_t area_size, const uint8_t *start, size_t size)
{
    ASAN_POISON_MEMORY_REGION(area, area_size);
    ASAN_UNPOISON_MEMORY_REGION(start, size);
}

static void open_fences(void)
{
    ASAN_UNPOISON_MEMORY_REGION(image_area, sizeof image_area);
    ASAN_UNPOISON_MEMORY_REGION(stack_area, sizeof stack_area);
}

/* Real frame chains are addresses: of two bits in each word some make it one, of the stack or of the code. */
static void relocate(const struct head *head, size_t stack_size)
{
    for (size_t at = 0; head->relocate && at + sizeof(uintptr_t) <= stack_size; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, stack + at, sizeof word);
        if ((word & 3) == 1)
            word = (uintptr_t)stack + (word >> 2) % (STACK_MOST + 64) / 8 * 8;
        else if ((word & 3) == 2)
            word = (uintptr_t)image + head->code + (word >> 2) % (head->code_size + 1u);
        memcpy(stack + at, &word, sizeof word);
    }
}

static bool module_make(const struct head *head, size_t image_size)
{
    struct ep_module *m = &ep.modules.slot[0];
    uintptr_t start = (uintptr_t)image;

    if (head->code_size == 0 || (size_t)head->code + head->code_size > image_size ||
        (size_t)head->table + head->table_size > image_size)
        return false;
    memset(&ep, 0, sizeof ep);
    *m = (struct ep_module){
        .start = start + head->code,
        .end = start + head->code + head->code_size,
        .bias = start,
        .table = head->table_size ? start + head->table : 0,
        .table_size = head->table_size,
        .image_start = start,
        .image_end = start + image_size,
        .path = "/fuzz",
    };
    atomic_store(&ep.modules.count, 1);
    return true;
}

static void check_tables(const struct head *head)
{
    static const struct ep_cfi_registers registers = {.sp = 7, .fp = 6, .base = 3, .ra = 16};
    const struct ep_module *m = &ep.modules.slot[0];
    unsigned step = head->code_size / 16 + 1;

    for (unsigned at = head->pc % step; at < head->code_size; at += step) {
        struct ep_cfi_row row;
        int error = ep_cfi_find(m, &registers, m->start + at, &row);
        must(error == 0 || error == -ENOENT || error == -EINVAL);
        if (error)
            continue;
        must(m->start + at - row.start < row.end - row.start);
        must(row.rules.cfa <= EP_CFI_OTHER);
        must(abs(row.rules.cfa_offset) <= OFFSET_MOST + 8);
        for (unsigned reg = 0; reg < EP_CFI_REGS; reg++)
            must(row.rules.state[reg] <= EP_CFI_UNDEFINED && abs(row.rules.offset[reg]) <= OFFSET_MOST);
    }
}

static unsigned walk(const struct ep_context *context, atomic_uintptr_t *pcs)
{
    struct ep_stack walked = {.pc = pcs};

    ep_unwind(context, &walked);
    must(walked.depth >= 1 && walked.depth <= EP_MAX_DEPTH);
    must(pcs[0] == context->pc);
    must((walked.quality == EP_STACK_CUT) == (walked.end != EP_FRAME_NONE));
    must(walked.quality <= EP_STACK_CUT && walked.end < EP_FRAME_SPECIALS);
    return walked.depth;
}

static void check_walk(const struct head *head, size_t stack_size)
{
    static atomic_uintptr_t first[EP_MAX_DEPTH], second[EP_MAX_DEPTH];
    const struct ep_context context = {
        .pc = ep.modules.slot[0].start + head->pc % head->code_size,
        .sp = (uintptr_t)stack + head->sp % (STACK_MOST + 16),
        .fp = (uintptr_t)stack + head->fp % (STACK_MOST + 16),
        .base = (uintptr_t)stack + head->base % (STACK_MOST + 16),
        .stack_start = (uintptr_t)stack,
        .stack_end = (uintptr_t)stack + stack_size,
    };

    unsigned depth = walk(&context, first);
    must(walk(&context, second) == depth);
    for (unsigned i = 0; i < depth; i++)
        must(first[i] == second[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct head head;

    if (size < sizeof head)
        return 0;
    memcpy(&head, data, sizeof head);
    size_t rest = size - sizeof head;
    size_t stack_size = head.stack < rest ? head.stack : rest;
    stack_size = stack_size < STACK_MOST ? stack_size : STACK_MOST;
    size_t image_size = rest - stack_size < IMAGE_MOST ? rest - stack_size : IMAGE_MOST;

    open_fences();
    if (!module_make(&head, image_size))
        return 0;
    memcpy(stack, data + sizeof head, stack_size);
    memcpy(image, data + sizeof head + stack_size, image_size);
    relocate(&head, stack_size);
    fence(image_area, sizeof image_area, image, image_size);
    fence(stack_area, sizeof stack_area, stack, stack_size);
    ep_publish(&ep);
    check_tables(&head);
    check_walk(&head, stack_size);
    open_fences();
    return 0;
}
