/* The crash record's file on the simulated port, in memory. No signal comes there. */
#include "sim.h"

#include <errno.h>
#include <string.h>

static struct {
    bool open;
    size_t size;
    uint8_t bytes[65536];
} file;

int ep_port_crash_open(const char *dir, size_t size)
{
    int error = ep_sim_fails("crash_open");

    (void)dir;
    if (error)
        return error;
    if (file.open)
        return -EBUSY;
    if (size > sizeof file.bytes)
        return -ENOSPC;
    file.size = size;
    file.open = true;
    return 0;
}

void ep_port_crash_close(void)
{
    file.open = false;
}

int64_t ep_port_crash_read(uint64_t at, void *bytes, size_t size)
{
    int error = ep_sim_fails("crash_read");

    if (error)
        return error;
    if (at >= file.size)
        return 0;
    if (size > file.size - at)
        size = (size_t)(file.size - at);
    memcpy(bytes, file.bytes + at, size);
    return (int64_t)size;
}

int ep_port_crash_write(uint64_t at, const void *bytes, size_t size)
{
    int error = ep_sim_fails("crash_write");

    if (error)
        return error;
    if (at > file.size || size > file.size - at)
        return -ENOSPC;
    memcpy(file.bytes + at, bytes, size);
    return 0;
}

int ep_port_crash_sync(void)
{
    return ep_sim_fails("crash_sync");
}

int ep_port_crash_watch(uint32_t limit_ms)
{
    (void)limit_ms;
    return ep_sim_fails("crash_watch");
}

void ep_port_crash_unwatch(void) {}

int ep_port_crash_in_front(void)
{
    return 0;
}

void ep_port_crash_threads(void (*fn)(uint32_t tid))
{
    for (unsigned i = 0; i < ep_sim.thread_count; i++)
        fn(ep_sim.thread[i].tid);
}

const char *ep_port_crash_text(size_t *size)
{
    *size = 0;
    return NULL;
}
