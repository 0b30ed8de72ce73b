/*
 * How libFuzzer's inputs change: beside its own blind changes, such that stay an image with a table, code and stacks.
 * Not part of replaying.
 */
#include <string.h>

#include "fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

#define WORD sizeof(uintptr_t)

static uint32_t state;

static uint32_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static uint32_t below(uint32_t limit)
{
    return limit ? next_random() % limit : 0;
}

static void put(uint8_t *image, size_t size, size_t at, const uint8_t *piece, unsigned piece_size)
{
    if (at < size)
        memcpy(image + at, piece, piece_size < size - at ? piece_size : size - at);
}

/* Instructions in a row, from the pc, behind a random place or at the function's start. */
static void change_code(const struct head *head, uint8_t *image, size_t size)
{
    size_t at = head->code + (below(2) ? head->pc % (head->code_size + 1u) : below(head->code_size)) / 2 * 2;
    uint8_t piece[FUZZ_PIECE];

    at -= below(3) ? 0 : at < 16 ? at : 4 * below(5);
    for (uint32_t left = 1 + below(6); left > 0; left--) {
        unsigned used = fuzz_code(piece, next_random());
        put(image, size, at, piece, used);
        at += used;
    }
}

static void change_table(const struct head *head, uint8_t *image, size_t size)
{
    uint8_t piece[FUZZ_PIECE];
    size_t at = below(2) ? below((uint32_t)size) : head->table + below(head->table_size + 64u);

    if (at - head->code < head->code_size)
        at = head->table;
    for (uint32_t left = 1 + below(4); left > 0; left--) {
        unsigned used = fuzz_table(piece, next_random());
        put(image, size, at, piece, used);
        at += used;
    }
}

/* A word as relocate() takes it. */
static void change_stack(uint8_t *stack, size_t size)
{
    uintptr_t word = (uintptr_t)below(0x10000) << 2;

    switch (below(6)) {
    case 0:
        word = below(64);
        break;
    case 1:
        word |= 3;
        break;
    case 2:
    case 3:
        word = (uintptr_t)below(2 * (uint32_t)size + 64) << 2 | 1;
        break;
    default:
        word |= 2;
    }
    if (size >= WORD)
        memcpy(stack + below((uint32_t)(size / WORD)) * WORD, &word, sizeof word);
}

static void change_head(struct head *head, size_t rest)
{
    uint16_t word = (uint16_t)(below(head->stack + 64u) / WORD * WORD);

    switch (below(12)) {
    case 0:
        head->pc = (uint16_t)below(head->code_size);
        break;
    case 1:
        head->sp = word;
        break;
    case 2:
        head->fp = word;
        break;
    case 3:
        head->base = word;
        break;
    case 4:
        head->lr = (uint16_t)below(head->code_size);
        break;
    case 5:
        head->flags ^= (uint8_t)(1u << below(6));
        break;
    case 6:
        head->root = word;
        break;
    case 7:
        head->alt = below(2) ? word : 0;
        break;
    case 8:
        head->gap = (uint16_t)(below(2) ? below(8) * 16 : 4300 + below(64) * 16);
        head->gap_at = word;
        break;
    case 9:
        head->hijack = (uint16_t)below(head->code_size);
        break;
    case 10:
        head->table_size = (uint16_t)below((uint32_t)rest);
        break;
    default: /* nothing behind the code */
        head->relocate = 1;
        if (rest > head->stack && rest - head->stack > head->code)
            head->code_size = (uint16_t)(rest - head->stack - head->code);
    }
}

/* sp and fp some words farther, fp and what it points to together. */
static void change_frame(struct head *head, uint8_t *stack, size_t size)
{
    uintptr_t record[2] = {(uintptr_t)below((uint32_t)size + 64) << 2 | 1, (uintptr_t)below(0x10000) << 2 | 2};

    head->sp = (uint16_t)(below((uint32_t)size / 2 + 1) / WORD * WORD);
    head->fp = (uint16_t)(head->sp + below(16) * WORD);
    head->flags &= (uint8_t) ~(FLAG_SP_WILD | FLAG_FP_WILD);
    if (head->fp + sizeof record <= size)
        memcpy(stack + head->fp, record, sizeof record);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    struct head head;

    state = seed | 1;
    if (size < sizeof head + 16 || below(4) == 0)
        return LLVMFuzzerMutate(data, size, most);
    memcpy(&head, data, sizeof head);
    uint8_t *stack = data + sizeof head;
    size_t rest = size - sizeof head, stack_size = head.stack < rest ? head.stack : rest;

    for (uint32_t left = 1 + below(4); left > 0; left--) {
        uint32_t what = below(10);
        if (what < 3)
            change_code(&head, stack + stack_size, rest - stack_size);
        else if (what < 5)
            change_table(&head, stack + stack_size, rest - stack_size);
        else if (what < 7)
            change_stack(stack, stack_size);
        else if (what < 9)
            change_head(&head, rest);
        else
            change_frame(&head, stack, stack_size);
    }
    memcpy(data, &head, sizeof head);
    return size;
}
