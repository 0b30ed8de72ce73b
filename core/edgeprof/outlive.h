/*
 * Memory of the profiler that outlives the process: for a port and its preload library. Programs call
 * ep_outlive_start() (spool.h).
 *
 *   writer   ep_outlive_begin -> ep_start -> ... -> ep_outlive_due -> ep_port_outlive, which shares the memory with a
 *            file -> ... -> ep_stop -> ep_outlive_end
 *   reader   ep_outlive_check -> ep_start with EP_MANUAL and memory of the same size -> ep_outlive_adopt -> ep_stop,
 *            which delivers
 *
 * Both are the same library in two processes, so they have the same layout; ep_outlive_check() checks it. The memory is
 * [private | shared | head]: the first two are config->memory, and the shared part starts at a page.
 */
#ifndef EP_EDGEPROF_OUTLIVE_H
#define EP_EDGEPROF_OUTLIVE_H

#include <edgeprof/edgeprof.h>
#include <edgeprof/hooks.h>
#include <edgeprof/options.h>

/* Bytes of the head, whole pages of 4 KiB. */
#define EP_OUTLIVE_HEAD ((EP_MAX_MODULES * 512u + 8192u + 4095u) & ~4095u)

/* What the reader needs for its ep_start(). The strings are in the head. */
struct ep_outlived {
    const char *service, *tags;
    enum ep_level level;
    uint32_t rate_hz, memory_size;
};

/* Returns the bytes at the start of the profiler's memory that stay private: a multiple of 64. Context: signal. */
size_t ep_outlive_private(size_t memory_size);

/* The next ep_start() keeps its memory for a reader. head: zeroed memory that is shared already, with that of the
 * profiler; NULL: ep_port_outlive() will share both, once the process has used CPU time. Returns 0, or -ENOSPC: there
 * are too many features. Context: init. */
int ep_outlive_begin(const struct ep_own_text *own_text, void *head);

/* Replaces the memory behind the private part and the head by pages with the same bytes that outlive the process, at
 * the same addresses. No other thread uses them meanwhile. A child of fork() must have neither the private nor the
 * shared part. Returns the head, NULL: it failed, and everything is as it was. A port without it has no such memory.
 * Context: signal. */
void *ep_port_outlive(void) __attribute__((weak));

/* The profiler has stopped, and has sent all that it could: there is nothing to adopt. Context: init. */
void ep_outlive_end(void);

/* Checks a head and fills in *outlived. Returns 0; -ESRCH: there is nothing to adopt; -EBADMSG: it is damaged, or of
 * another version. Context: init. */
int ep_outlive_check(void *head, struct ep_outlived *outlived);

/* True if a file of `size` bytes has the shared part and the head of that memory. Context: init. */
bool ep_outlive_fits(const struct ep_outlived *outlived, size_t size);

/* Gives the running profiler, which is manual and has no samples of its own, what a dead one left: the ring, the tree
 * of the open interval, labels, messages, the segment. `shared` are memory_size - ep_outlive_private(memory_size)
 * bytes. They and the checked head stay valid and unchanged until ep_stop(). Every index in them is checked. Returns 0,
 * or -EBADMSG: the list of modules is damaged, or -ENOMEM; nothing was adopted then. Context: init. */
int ep_outlive_adopt(const void *head, const void *shared);

/* ---- without `edgeprof run`: the next process puts the rest into its spool ---- */

/* What a process left, which has ended or has called exec. */
struct ep_outlived_file {
    const char *name;
    const char *reason; /* why it has ended, as far as the system knows */
    uint8_t *left;      /* a copy of the shared part and the head, which nobody can change; NULL: refused */
    size_t size;
    void *memory; /* for the profiler that sends it */
    size_t memory_size;
    int fd; /* the port's */
};

/* ep_outlive_start() for the preload library: `config` already has the memory, as ep_port_outlive_begin() says. Returns
 * 0, -EINVAL or the system's error (ep_start_error()). Context: init. */
int ep_outlive_setup(struct ep_config *config, const char *folder, const struct ep_own_text *own_text, bool at_once);

/* The files of a folder in which processes leave their memory.
 *
 *   open    makes the folder, if its parent exists. Returns 0; -EMEDIUMTYPE: it would wear a disk; -EPERM: another user
 *           can replace it or its files; or the system's error
 *   next    finds the next file of a process that has ended. Returns false if there is no other
 *   done    ends the work with it; `remove`: deletes it
 *   begin   gives config->memory_size bytes at config->memory; a part will be a file in the folder: at_once, or
 *           when ep_port_outlive() is called. config->memory is NULL, or what EP_OUTLIVE_ROOM() describes. Calls
 *           ep_outlive_begin(). Returns 0 or a negative errno value
 *   end     the run has ended: removes its file
 *
 * Context: init. */
int ep_port_outlive_open(const char *folder);
bool ep_port_outlived_next(struct ep_outlived_file *file);
void ep_port_outlived_done(const struct ep_outlived_file *file, bool remove);
int ep_port_outlive_begin(struct ep_config *config, const struct ep_own_text *own_text, bool at_once);
void ep_port_outlive_end(void) __attribute__((weak));

#endif
