/* For tests of code that reads instructions: a module of given code, and functions with tables of their own. */
#ifndef UNIT_CODE_H
#define UNIT_CODE_H

#include <sys/mman.h>

#include "unit.h"

#include "core/unwind/cfi.h"

#define PAGE   4096u
#define ROUNDS 200000u

static uint64_t dice = 1;

/* A function with tables of its own starts there; 0: none does. What includes the unwinder's sources asks here. */
static uintptr_t tabled;

static inline bool starts_tabled(const struct ep_module *module, uintptr_t pc)
{
    (void)module;
    return tabled == pc;
}

static inline struct ep_module code_of(const void *code, size_t size)
{
    return (struct ep_module){.start = (uintptr_t)code, .end = (uintptr_t)code + size};
}

/* A page between two that nobody may touch. */
static inline uint8_t *guarded_page(void)
{
    uint8_t *area = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(area, MAP_FAILED);
    assert_int_equal(mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
    return area + PAGE;
}

static inline void guarded_page_free(uint8_t *page)
{
    assert_int_equal(munmap(page - PAGE, 3 * PAGE), 0);
}

#endif
