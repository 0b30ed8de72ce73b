/*
 * Private to the port: memory that outlives the process (core/features/outlive/README.md).
 */
#ifndef EP_LINUX_OUTLIVE_H
#define EP_LINUX_OUTLIVE_H

#include <edgeprof/outlive.h>

/* Room for `size` bytes of memory for the profiler with what ep_linux_outlive_begin() needs around it: whole pages of 4
 * KiB. */
#define EP_OUTLIVE_PAGE       4096u
#define EP_OUTLIVE_ROOM(size) (((size) + 3 * EP_OUTLIVE_PAGE + EP_OUTLIVE_HEAD) & ~(EP_OUTLIVE_PAGE - 1))

/* Gives config->memory_size bytes at config->memory, a part of which will be a file in the folder: at once, or when
 * ep_port_outlive() is called. config->memory is the start of such room, or NULL: of a new mapping. The file's name has
 * oom_kills, by which its reader in a later process judges the end of this one. Calls ep_outlive_begin(). Returns 0 or
 * a negative errno value. Context: init. */
int ep_linux_outlive_begin(struct ep_config *config, const struct ep_own_text *own_text, const char *folder,
                           uint64_t oom_kills, bool at_once);

/* Copies what a process left in the open file, at most 1 GiB, to memory that nobody else can change, and to be unmapped
 * by the caller. NULL: it cannot be read, or has no such size. Context: init. */
uint8_t *ep_linux_outlived_read(int fd, size_t *size);

/* Returns how many processes the kernel has ended for want of memory since the system's start. Context: init. */
uint64_t ep_linux_oom_kills(void);

#endif
