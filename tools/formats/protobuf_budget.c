/* See protobuf_budget.h. Freed memory is not returned to the budget: decoding frees only after it has failed. */
#include "tools/formats/protobuf_budget.h"

#include <stdlib.h>

static void *budget_alloc(void *data, size_t size)
{
    size_t *left = data;
    if (size > *left) {
        return NULL;
    }
    *left -= size;
    return malloc(size);
}

static void budget_free(void *data, void *memory)
{
    (void)data;
    free(memory);
}

ProtobufCAllocator et_budget_allocator(size_t *left)
{
    return (ProtobufCAllocator){.alloc = budget_alloc, .free = budget_free, .allocator_data = left};
}
