/* OpenTelemetry's contexts on the simulated port: one process with one library, and no other module. See sim.h. */
#include "sim.h"

#include <errno.h>
#include <string.h>

#define BYTES 4096u

static struct {
    bool open;
    _Alignas(16) uint8_t bytes[BYTES];
} context;

int ep_port_context_open(size_t size, void **memory)
{
    int error = ep_sim_fails("context_open");

    if (error)
        return error;
    if (size > sizeof context.bytes)
        return -ENOMEM;
    *memory = context.bytes;
    if (context.open)
        return 1;
    memset(context.bytes, 0, sizeof context.bytes);
    context.open = true;
    return 0;
}

bool ep_port_context_mine(void **memory)
{
    *memory = context.open ? context.bytes : NULL;
    return context.open;
}

int ep_port_context_changed(void)
{
    return ep_sim_fails("context_changed");
}

void ep_port_context_close(void)
{
    context.open = false;
}

int ep_port_context_symbol(const char *name)
{
    (void)name;
    return ep_sim_fails("context_symbol");
}

int ep_port_thread_context_find(const char *name, bool skip_own)
{
    (void)name;
    (void)skip_own;
    return ep_sim_fails("thread_context_find");
}
