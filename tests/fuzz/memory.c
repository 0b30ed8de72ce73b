/* See memory.h: the sanitizers call these hooks for every allocation. One thread. */
#include "memory.h"

#include <stdbool.h>

/* Of <sanitizer/allocator_interface.h>, which gcc and clang do not bring alike. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
size_t __sanitizer_get_current_allocated_bytes(void);

static size_t asked, held_before;

static void on_malloc(const volatile void *memory, size_t size)
{
    (void)memory;
    asked += size;
}

static void on_free(const volatile void *memory)
{
    (void)memory;
}

void fuzz_memory_begin(void)
{
    static bool installed;

    if (!installed)
        (void)__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    installed = true;
    asked = 0;
    held_before = __sanitizer_get_current_allocated_bytes();
}

size_t fuzz_memory_asked(void)
{
    return asked;
}

size_t fuzz_memory_held(void)
{
    return __sanitizer_get_current_allocated_bytes() - held_before;
}
