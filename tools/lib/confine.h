/*
 * Rights that this process gives up for good, and all threads and processes that it starts later: to use files
 * (landlock) and system calls (seccomp). The kernel enforces it.
 *
 * Context: before the process has a second thread, because a thread that exists keeps its rights.
 */
#ifndef ET_CONFINE_H
#define ET_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

enum et_confine_right {
    ET_CONFINE_READ,  /* read files and list folders */
    ET_CONFINE_WRITE, /* the same, and create, change, rename and remove them */
};

/* Whether this process may make the system calls that limit it. A filter that it already has, such as systemd's
 * SystemCallFilter=, may end it for one of them, so another process tries. */
bool et_confine_possible(void);

struct et_confine_rules {
    int ruleset;      /* a descriptor */
    uint64_t handled; /* landlock's rights that the rules are about; all others stay */
};

/* Begins rules about files. reading false: only writing is limited. execute: programs may still be started. Returns 0,
 * -ENOSYS when the kernel has no landlock with all that is needed (5.19), or another negative errno value. */
int et_confine_begin(struct et_confine_rules *rules, bool reading, bool execute);
/* Allows a right for a file, or for a folder and all below it, links followed. A path that cannot be reached allows
 * nothing. Keeps a descriptor open: on some file systems (9p, proc) a rule ends with the kernel's last reference.
 * Returns 0 or a negative errno value. */
int et_confine_allow(const struct et_confine_rules *rules, const char *path, enum et_confine_right right);
/* Puts the rules into force and closes them. Signals then reach this process and its children only, where the kernel
 * can limit that (6.12). Returns 0 or a negative errno value. */
int et_confine_files(struct et_confine_rules *rules);

/* System calls that a server has no use for fail with EPERM: mount, ptrace, bpf, modules, keys, clocks and the like.
 * execute: programs may still be started. Returns 0 or a negative errno value; -ENOSYS: not for this processor. */
int et_confine_calls(bool execute);

/* All fail with EPERM but those that a process needs which computes: to read and write what is open, to have memory,
 * and to end. Returns as et_confine_calls(). */
int et_confine_to_computing(void);

#endif
