/*
 * Memory of the process that is in RAM, for programs that watch it.
 */
#include "linux.h"
#include <edgeprof/edgeprof.h>
#include <edgeprof/port.h>

#include <unistd.h>

/* The second number of statm, in pages. */
uint64_t ep_port_resident(void)
{
    char text[128];
    int got = ep_port_file_read("/proc/self/statm", text, sizeof text - 1);
    const char *at = text;
    uint64_t pages = 0;

    text[got > 0 ? got : 0] = 0;
    while (*at && *at++ != ' ') {
    }
    for (; *at >= '0' && *at <= '9'; at++)
        pages = pages * 10 + (uint64_t)(*at - '0');
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
