/* See store_pack.h. The database may be damaged, so every size is checked. */
#include "tools/store/store_pack.h"
#include "tools/lib/labels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { NODE, VALUE, COUNT, LABEL_SET };

/* zlib's maximum expansion is about 1030. */
enum { RATIO = 1100 };

/* ---- writing ---- */

static uint64_t encode_zigzag(int64_t number)
{
    return (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0);
}

/* The label set's index; 0: none. */
static uint32_t label_set_index(struct et_stacks *stacks, const struct et_stored_label_set *label_set)
{
    char key[96];
    uint64_t fields[] = {(uint64_t)label_set->labels, label_set->span_id, label_set->trace_high, label_set->trace_low};
    if (!(fields[0] | fields[1] | fields[2] | fields[3])) {
        return 0;
    }
    snprintf(key, sizeof key, "%llx.%llx.%llx.%llx", (unsigned long long)fields[0], (unsigned long long)fields[1],
             (unsigned long long)fields[2], (unsigned long long)fields[3]);
    if (stacks->known.count == 0) {
        et_intern(&stacks->known, "");
    }
    size_t before = stacks->known.count;
    uint32_t index = et_intern(&stacks->known, key);
    for (size_t i = 0; stacks->known.count != before && i < 4; i++) {
        et_varint_put(&stacks->label_sets, fields[i]);
    }
    return index;
}

void et_stacks_add(struct et_stacks *stacks, const struct et_stack *stack)
{
    et_varint_put(&stacks->column[NODE], encode_zigzag(stack->node - stacks->last_node));
    stacks->last_node = stack->node;
    if (stacks->columns & ET_COLUMN_VALUE) {
        et_varint_put(&stacks->column[VALUE], stack->value);
    }
    if (stacks->columns & ET_COLUMN_COUNT) {
        et_varint_put(&stacks->column[COUNT], stack->count);
    }
    if (stacks->columns & ET_COLUMN_LABEL_SET) {
        et_varint_put(&stacks->column[LABEL_SET], label_set_index(stacks, &stack->label_set));
    }
}

void et_stacks_free(struct et_stacks *stacks)
{
    for (size_t i = 0; i < 4; i++) {
        et_buf_free(&stacks->column[i]);
    }
    et_buf_free(&stacks->label_sets);
    et_strings_free(&stacks->known);
}

static void deflate_into(const struct et_buf *plain, struct et_buf *out)
{
    uLongf size = compressBound(plain->size);
    Bytef *bytes = et_alloc(size, 1);
    et_varint_put(out, plain->size);
    if (compress2(bytes, &size, (const Bytef *)plain->data, plain->size, 6) == Z_OK) {
        et_buf_add(out, bytes, size);
    } else {
        out->size = 0;
    }
    free(bytes);
}

enum et_packing et_pack(const struct et_stacks *stacks, bool deflate, struct et_buf *out)
{
    struct et_buf plain = {0};
    for (size_t i = NODE; i < LABEL_SET; i++) {
        et_varint_put(&plain, stacks->column[i].size);
    }
    for (size_t i = NODE; i <= LABEL_SET; i++) {
        et_buf_add(&plain, stacks->column[i].data, stacks->column[i].size);
    }
    struct et_buf small = {0};
    if (deflate) {
        deflate_into(&plain, &small);
    }
    bool deflated = small.size && small.size < plain.size;
    et_buf_add(out, deflated ? small.data : plain.data, deflated ? small.size : plain.size);
    et_buf_free(&plain);
    et_buf_free(&small);
    return deflated ? ET_PACK_DEFLATED : ET_PACK_COLUMNS;
}

/* ---- reading ---- */

bool et_stack_number(struct et_stack_reader *reader, int column, uint64_t *value)
{
    return et_varint_get(&reader->at[column], reader->end[column], value);
}

/* The sizes of the first three columns come first. */
static int find_columns(struct et_stack_reader *reader, const uint8_t *at, const uint8_t *end)
{
    uint64_t sizes[LABEL_SET];
    for (size_t i = NODE; i < LABEL_SET; i++) {
        if (!et_varint_get(&at, end, &sizes[i])) {
            return -EIO;
        }
    }
    for (size_t i = NODE; i <= LABEL_SET; i++) {
        size_t left = (size_t)(end - at), size = i == LABEL_SET ? left : (size_t)sizes[i];
        if (size > left) {
            return -EIO;
        }
        reader->at[i] = at;
        reader->end[i] = at += size;
    }
    return 0;
}

static int inflate_into(struct et_buf *out, const uint8_t *at, const uint8_t *end)
{
    uint64_t size;
    if (!et_varint_get(&at, end, &size) || size / RATIO > (uint64_t)(end - at)) {
        return -EIO;
    }
    out->data = et_reserve(out->data, &out->capacity, (size_t)size + 1, 1);
    uLongf got = (uLongf)size;
    int code = uncompress((Bytef *)out->data, &got, at, (uLong)(end - at));
    out->size = got;
    return code == Z_OK && got == size ? 0 : -EIO;
}

int et_stacks_read(struct et_stack_reader *reader, struct et_buf *inflated, enum et_packing packing, int columns,
                   const void *bytes, size_t size)
{
    const uint8_t *at = bytes, *end = size ? at + size : at;
    *reader = (struct et_stack_reader){.columns = columns};
    if (packing == ET_PACK_DEFLATED) {
        if (inflate_into(inflated, at, end)) {
            return -EIO;
        }
        at = (const uint8_t *)inflated->data;
        end = at + inflated->size;
    }
    return find_columns(reader, at, end);
}

int et_unpack(struct et_unpacked *out, enum et_packing packing, int columns, const void *bytes, size_t size)
{
    struct et_stack_reader reader;
    struct et_packed stack;
    int got = et_stacks_read(&reader, &out->bytes, packing, columns, bytes, size);
    out->count = 0;
    while (got >= 0 && (got = et_stack_next(&reader, &stack)) == 1) {
        out->stacks = et_reserve(out->stacks, &out->capacity, out->count + 1, sizeof *out->stacks);
        out->stacks[out->count++] = stack;
    }
    return got;
}

void et_unpacked_free(struct et_unpacked *unpacked)
{
    free(unpacked->stacks);
    et_buf_free(&unpacked->bytes);
}

bool et_label_set_next(const uint8_t **at, const uint8_t *end, uint64_t *labels, uint64_t ids[3])
{
    return *at && et_varint_get(at, end, labels) && et_varint_get(at, end, &ids[0]) &&
           et_varint_get(at, end, &ids[1]) && et_varint_get(at, end, &ids[2]);
}

char *et_label_set_text(const char *lines, const uint64_t ids[3])
{
    struct et_labels all = {0};
    char hex[40];
    et_labels_add_lines(&all, lines);
    if (ids[0]) {
        snprintf(hex, sizeof hex, "%016llx", (unsigned long long)ids[0]);
        et_labels_add(&all, ET_SPAN_ID, hex);
    }
    if (ids[1] || ids[2]) {
        snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)ids[1], (unsigned long long)ids[2]);
        et_labels_add(&all, ET_TRACE_ID, hex);
    }
    return et_labels_join(&all);
}

uint64_t et_packed_count(bool cpu, int columns, uint64_t value, uint64_t count, uint64_t period)
{
    bool unknown = !(columns & ET_COLUMN_COUNT) && cpu && period;
    return unknown ? (value + period / 2) / period : count;
}
