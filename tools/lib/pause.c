/* See pause.h. */
#include "tools/lib/pause.h"

#include <errno.h>

void et_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct timespec et_monotonic_after(int64_t ns)
{
    static const int64_t second = 1000000000;
    struct timespec then;
    clock_gettime(CLOCK_MONOTONIC, &then);
    ns += then.tv_nsec;
    then.tv_sec += (time_t)(ns / second);
    then.tv_nsec = (long)(ns % second);
    return then;
}

void et_pause_init(struct et_pause *pause)
{
    pthread_mutex_init(&pause->lock, NULL);
    et_cond_init(&pause->wake);
    pause->stopping = false;
}

void et_pause_destroy(struct et_pause *pause)
{
    pthread_cond_destroy(&pause->wake);
    pthread_mutex_destroy(&pause->lock);
}

bool et_pause_wait(struct et_pause *pause, int64_t ns)
{
    struct timespec until = et_monotonic_after(ns);
    pthread_mutex_lock(&pause->lock);
    int code = 0;
    while (!pause->stopping && code != ETIMEDOUT) {
        code = pthread_cond_timedwait(&pause->wake, &pause->lock, &until);
    }
    bool stopping = pause->stopping;
    pthread_mutex_unlock(&pause->lock);
    return !stopping;
}

void et_pause_stop(struct et_pause *pause)
{
    pthread_mutex_lock(&pause->lock);
    pause->stopping = true;
    pthread_cond_broadcast(&pause->wake);
    pthread_mutex_unlock(&pause->lock);
}
