/*
 * What processes left that ended before they could send their last profile: by exit_group(), a signal, exec, the
 * out-of-memory killer. Each has its profiler's memory in a file of a folder on tmpfs
 * (core/features/outlive/README.md).
 */
#ifndef ET_OUTLIVED_H
#define ET_OUTLIVED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct et_outlived {
    char folder[64];    /* "": there is none, and such processes lose what they have not sent */
    uint64_t oom_kills; /* of the system, when the folder was made */
};

/* Makes the folder. It stays "" where there is no tmpfs. */
void et_outlived_begin(struct et_outlived *outlived);

/* Has the rest of each process sent that has ended or has called exec, by a program with `environment`, in which
 * LD_PRELOAD names the preload library. Waits for that. Returns whether `program` was one of them. */
bool et_outlived_sweep(const struct et_outlived *outlived, char *const *environment, pid_t program);

/* Removes the folder. */
void et_outlived_end(struct et_outlived *outlived);

/* Number of processes that the kernel has ended for want of memory since et_outlived_begin(). */
uint64_t et_outlived_oom_kills(const struct et_outlived *outlived);

#endif
