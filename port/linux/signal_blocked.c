/*
 * Checks whether a thread blocks edgeprof's signal: lines "SigBlk:" and "SigPnd:" of /proc/self/task/TID/status.
 */
#include "linux.h"

#include <string.h>

/* The lines are in the first kilobyte, after the user's groups. */
#define STATUS_BYTES 3072

/* Reads our signal's bit in the line's hexadecimal number, which has leading zeros. */
static bool bit_of(const char *status, const char *line)
{
    const char *at = strstr(status, line);
    unsigned bit = (unsigned)ep_linux_signal() - 1;

    if (!at)
        return false;
    at += strlen(line);
    size_t digits = strspn(at, "0123456789abcdef");
    if (bit / 4 >= digits)
        return false;
    return (ep_linux_hex_digit(at[digits - 1 - bit / 4]) >> bit % 4 & 1) != 0;
}

bool ep_linux_signal_blocked(uint32_t tid, bool pending)
{
    char status[STATUS_BYTES];

    return ep_linux_task_read(tid, "/status", status, sizeof status) > 0 && bit_of(status, "\nSigBlk:\t") &&
           (!pending || bit_of(status, "\nSigPnd:\t"));
}
