/*
 * Any bytes as a profile's stacks in the database: tools/store/store_pack.c. The first byte has packing and columns.
 *
 * Checked: what is read has no more stacks than bytes and, packed and read again in both ways, is the same; memory is
 * bounded by the input's size and given back; CPU time is bounded.
 */
#include "spend.h"
#include "tools/store/store_pack.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A deflated block may have a thousand times its size, four bytes a stack, and is packed again. */
enum { MEMORY_FIXED = 1048576, MEMORY_PER_BYTE = 524288 };

static void append_number(struct et_buf *buf, int column, uint64_t value)
{
    if (column) {
        et_varint_put(buf, value);
    }
}

static void again(const struct et_unpacked *was, int columns)
{
    struct et_stacks stacks = {.columns = (uint8_t)columns};
    uint64_t node = 0;
    for (size_t i = 0; i < was->count; i++) {
        int64_t step = (int64_t)(was->stacks[i].node - node);
        node = was->stacks[i].node;
        et_varint_put(&stacks.column[0], (uint64_t)step << 1 ^ (uint64_t)(step >> 63));
        append_number(&stacks.column[1], columns & ET_COLUMN_VALUE, was->stacks[i].value);
        append_number(&stacks.column[2], columns & ET_COLUMN_COUNT, was->stacks[i].count);
        append_number(&stacks.column[3], columns & ET_COLUMN_LABEL_SET, was->stacks[i].label_set);
    }
    for (int deflate = 0; deflate < 2; deflate++) {
        struct et_buf bytes = {0};
        struct et_unpacked now = {0};
        enum et_packing packing = et_pack(&stacks, deflate, &bytes);
        REQUIRE(et_unpack(&now, packing, columns, bytes.data, bytes.size) == 0 && now.count == was->count);
        for (size_t i = 0; i < now.count; i++) {
            REQUIRE(now.stacks[i].node == was->stacks[i].node && now.stacks[i].value == was->stacks[i].value);
            REQUIRE(now.stacks[i].count == was->stacks[i].count && now.stacks[i].label_set == was->stacks[i].label_set);
        }
        et_unpacked_free(&now);
        et_buf_free(&bytes);
    }
    et_stacks_free(&stacks);
}

static void label_sets(const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;
    uint64_t labels, ids[3];
    size_t count = 0;
    while (at < end && et_label_set_next(&at, end, &labels, ids)) {
        char *text = et_label_set_text("a=b\n", ids);
        REQUIRE(strncmp(text, "a=b\n", 4) == 0);
        free(text);
        count++;
    }
    REQUIRE(count <= size / 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct et_unpacked unpacked = {0};
    if (size == 0) {
        return 0;
    }
    int columns = data[0] >> 2 & 7;
    enum et_packing packing = (enum et_packing)((data[0] & 3) % 3);
    const long long began = fuzz_begin();
    if (et_unpack(&unpacked, packing, columns, data + 1, size - 1) == 0) {
        REQUIRE(unpacked.count <= (packing == ET_PACK_DEFLATED ? unpacked.bytes.size : size));
        again(&unpacked, columns);
    }
    label_sets(data + 1, size - 1);
    size_t work = size + unpacked.bytes.size;
    et_unpacked_free(&unpacked);
    return fuzz_end(began, work, MEMORY_FIXED + MEMORY_PER_BYTE * size);
}
