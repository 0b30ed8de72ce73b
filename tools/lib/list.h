/* A list of strings. It does not own the strings. */
#ifndef ET_LIST_H
#define ET_LIST_H

#include "tools/lib/util.h"

/* Zeroed: empty. free() the items. */
struct et_list {
    const char **items;
    size_t count, capacity;
};

static inline void et_list_add(struct et_list *list, const char *item)
{
    list->items = et_reserve(list->items, &list->capacity, list->count + 1, sizeof *list->items);
    list->items[list->count++] = item;
}

#endif
