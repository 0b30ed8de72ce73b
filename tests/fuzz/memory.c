/* See memory.h: the sanitizers call these hooks for every allocation, of every thread: libFuzzer has one of its own. */
#include "memory.h"

#include <stdbool.h>

/* Of <sanitizer/allocator_interface.h>, which gcc and clang do not bring alike. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *memory);

static _Thread_local bool counts;
static size_t asked, held;

static void on_malloc(const volatile void *memory, size_t size)
{
    (void)size;
    if (!counts)
        return;
    asked += __sanitizer_get_allocated_size(memory);
    held += __sanitizer_get_allocated_size(memory);
}

static void on_free(const volatile void *memory)
{
    if (counts && memory)
        held -= __sanitizer_get_allocated_size(memory);
}

void fuzz_memory_begin(void)
{
    static bool installed;

    if (!installed)
        (void)__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    installed = counts = true;
    asked = held = 0;
}

size_t fuzz_memory_asked(void)
{
    return asked;
}

size_t fuzz_memory_held(void)
{
    return held;
}
