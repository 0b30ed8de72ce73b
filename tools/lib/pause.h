/* Pauses of a thread that another thread can end, on the monotonic clock. */
#ifndef ET_PAUSE_H
#define ET_PAUSE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* A condition whose timed waits are on the monotonic clock. */
void et_cond_init(pthread_cond_t *condition);
/* That clock in ns nanoseconds, for pthread_cond_timedwait(). */
struct timespec et_monotonic_after(int64_t ns);

struct et_pause {
    pthread_mutex_t lock; /* of `stopping`; others may use it, too */
    pthread_cond_t wake;
    bool stopping;
};

void et_pause_init(struct et_pause *pause);
void et_pause_destroy(struct et_pause *pause);
/* Waits for ns nanoseconds, or until et_pause_stop(). Returns false when the thread must end. */
bool et_pause_wait(struct et_pause *pause, int64_t ns);
/* Ends all waiting, now and later. Context: any thread. */
void et_pause_stop(struct et_pause *pause);

#endif
