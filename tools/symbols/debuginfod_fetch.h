/*
 * One symbol file from one debuginfod server, by elfutils' client library in a process of its own.
 *
 * A process, because the library takes its settings from the environment, which a program with threads cannot change;
 * because it unpacks what servers compress and does not look at how much that is; and because it can be ended at any
 * moment. DEBUGINFOD_MAXSIZE, _MAXTIME and _TIMEOUT count when they are lower than the limits here.
 */
#ifndef ET_DEBUGINFOD_FETCH_H
#define ET_DEBUGINFOD_FETCH_H

#include "tools/lib/util.h"

#include <pthread.h>
#include <sys/types.h>

/* Fetches that somebody may end. */
struct et_fetches {
    pthread_mutex_t lock;
    pid_t processes[4]; /* 0: free */
    bool stopped;
};
void et_fetches_stop(struct et_fetches *fetches);
bool et_fetches_stopped(struct et_fetches *fetches);

/* 1: the file is FOLDER/ID/debuginfo, unchecked; 0: the server does not have it; a negative errno value: it failed,
 * *why. Leaves files of the library in the folder. Blocks for at most two minutes. Context: any thread. */
int et_debuginfod_fetch(struct et_fetches *fetches, const char *url, const char *id, const char *folder,
                        struct et_buf *why);

/* main() of that process. -1: these are no arguments of it. */
int et_debuginfod_fetcher(int argc, char **argv);

#endif
