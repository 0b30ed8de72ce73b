/* See pages.h. */
#include "tools/lib/pages.h"

#include <stdlib.h>

/* Pages with smaller numbers are in a table, which has 4 MiB at most; others in a map. */
enum { NEAR_MOST = 1 << 19 };

void *et_pages_find_page(const struct et_pages *pages, uint64_t id)
{
    uint64_t number = id / ET_PAGE_VALUES;
    if (number < NEAR_MOST) {
        return number < pages->near_count ? pages->near[number] : NULL;
    }
    const uint64_t *index = et_map_find(&pages->far, number);
    return index ? pages->far_pages[*index - 1] : NULL;
}

static void add_far(struct et_pages *pages, uint64_t number, void *page)
{
    pages->far_pages =
        et_reserve(pages->far_pages, &pages->far_capacity, pages->far_count + 1, sizeof *pages->far_pages);
    pages->far_pages[pages->far_count++] = page;
    *et_map_at(&pages->far, number) = pages->far_count;
}

void *et_pages_page(struct et_pages *pages, uint64_t id, size_t size)
{
    uint64_t number = id / ET_PAGE_VALUES;
    void *page = et_pages_find_page(pages, id);
    if (page) {
        return page;
    }
    page = et_alloc(ET_PAGE_VALUES, size);
    size_t before = pages->near_capacity;
    if (number < NEAR_MOST) {
        pages->near = et_reserve(pages->near, &pages->near_capacity, (size_t)number + 1, sizeof *pages->near);
        pages->near_count = number >= pages->near_count ? (size_t)number + 1 : pages->near_count;
        pages->near[number] = page;
    } else {
        add_far(pages, number, page);
    }
    pages->bytes += ET_PAGE_VALUES * size + (pages->near_capacity - before) * sizeof *pages->near +
                    (number < NEAR_MOST ? 0 : sizeof page + 2 * sizeof(struct et_map_entry));
    return page;
}

void et_pages_free(struct et_pages *pages)
{
    for (size_t i = 0; i < pages->near_count; i++) {
        free(pages->near[i]);
    }
    for (size_t i = 0; i < pages->far_count; i++) {
        free(pages->far_pages[i]);
    }
    free(pages->near);
    free(pages->far_pages);
    et_map_free(&pages->far);
    *pages = (struct et_pages){0};
}
