/*
 * Arrays with gaps: values of one size by id, in pages that are made when they are first used. Ids that are close
 * together are found fast; any id is allowed. Zeroed: empty.
 */
#ifndef ET_PAGES_H
#define ET_PAGES_H

#include "tools/lib/util.h"

enum { ET_PAGE_VALUES = 64 };

struct et_pages {
    void **near; /* by page number; NULL: not used yet */
    size_t near_count, near_capacity;
    struct et_map far; /* page number -> index + 1 in far_pages */
    void **far_pages;
    size_t far_count, far_capacity;
    size_t bytes; /* of all of it */
};

/* The page with this id; NULL: none. */
void *et_pages_find_page(const struct et_pages *pages, uint64_t id);
/* The same, zeroed if it is new. Pages stay where they are. size: of a value */
void *et_pages_page(struct et_pages *pages, uint64_t id, size_t size);
void et_pages_free(struct et_pages *pages);

/* The value of the id, zeroed if it is new. */
static inline void *et_pages_at(struct et_pages *pages, uint64_t id, size_t size)
{
    uint64_t number = id / ET_PAGE_VALUES;
    void *page = number < pages->near_count ? pages->near[number] : NULL;
    page = page ? page : et_pages_page(pages, id, size);
    return (char *)page + id % ET_PAGE_VALUES * size;
}

/* The value of the id; NULL: its page is not used yet. */
static inline void *et_pages_find(const struct et_pages *pages, uint64_t id, size_t size)
{
    uint64_t number = id / ET_PAGE_VALUES;
    char *page = number < pages->near_count ? pages->near[number] : et_pages_find_page(pages, id);
    return page ? page + id % ET_PAGE_VALUES * size : NULL;
}

#endif
