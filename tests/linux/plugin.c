/*
 * A shared object for tests of modules that come and go: it calls back into the program, and its destructor tells that
 * it ran.
 */
#include "plugin.h"

static atomic_uint *ended;

/* The loop keeps the call from becoming a jump. */
unsigned plugin_call(void (*function)(void *), void *argument)
{
    unsigned i;

    for (i = 0; i < 1; i++)
        function(argument);
    return i;
}

void plugin_watch(atomic_uint *counter)
{
    ended = counter;
}

static __attribute__((destructor)) void plugin_end(void)
{
    if (ended)
        (void)atomic_fetch_add(ended, 1);
}
