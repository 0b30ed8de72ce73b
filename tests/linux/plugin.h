/* What tests/linux/plugin.c exports. */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <stdatomic.h>

/* Calls function(argument). Returns 1. */
unsigned plugin_call(void (*function)(void *), void *argument);

/* The destructor will add 1 to the counter. */
void plugin_watch(atomic_uint *counter);

#endif
