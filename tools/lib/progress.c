/* See progress.h. A separate thread writes the line, so that it also appears while one long call runs. */
#include "tools/lib/progress.h"
#include "tools/lib/util.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 200, QUIET_MS = 1000 };

static struct {
    pthread_mutex_t lock;
    bool on, never, shown;
    char what[160]; /* "": idle */
    size_t done, total;
    struct timespec since;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static long elapsed_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - state.since.tv_sec) * 1000 + (now.tv_nsec - state.since.tv_nsec) / 1000000;
}

static void clear_line(void)
{
    if (state.shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        state.shown = false;
    }
}

static void show_line(void)
{
    long ms = elapsed_ms();
    if (!state.what[0] || ms < QUIET_MS) {
        return;
    }
    char *what = et_clean(state.what, strlen(state.what));
    fprintf(stderr, "\r\033[Kedgeprof: %s, %ld s", what, ms / 1000);
    free(what);
    if (state.total) {
        fprintf(stderr, ", %zu %%", (size_t)(100.0 * (double)state.done / (double)state.total));
    }
    fflush(stderr);
    state.shown = true;
}

static void *run_progress_thread(void *unused)
{
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
    for (;;) {
        nanosleep(&tick, NULL);
        pthread_mutex_lock(&state.lock);
        show_line();
        pthread_mutex_unlock(&state.lock);
    }
    return unused;
}

static void clear_before_error(void)
{
    pthread_mutex_lock(&state.lock);
    clear_line();
    pthread_mutex_unlock(&state.lock);
}

void et_progress_on(void)
{
    pthread_t thread;
    sigset_t all, before;
    if (state.on || state.never || !isatty(STDERR_FILENO)) {
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    state.on = pthread_create(&thread, NULL, run_progress_thread, NULL) == 0 && pthread_detach(thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    et_before_error = clear_before_error;
}

void et_progress_never(void)
{
    et_progress_end();
    state.never = true;
    state.on = false;
}

/* Returns whether the step has begun. */
static bool begin_step(bool always, const char *format, va_list args)
{
    if (!state.on) {
        return false;
    }
    pthread_mutex_lock(&state.lock);
    bool begins = always || !state.what[0];
    if (begins) {
        vsnprintf(state.what, sizeof state.what, format, args);
        state.done = state.total = 0;
        clock_gettime(CLOCK_MONOTONIC, &state.since);
    }
    pthread_mutex_unlock(&state.lock);
    return begins;
}

void et_progress(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)begin_step(true, format, args);
    va_end(args);
}

bool et_progress_begin(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool begins = begin_step(false, format, args);
    va_end(args);
    return begins;
}

void et_progress_of(size_t done, size_t total)
{
    if (state.on) {
        pthread_mutex_lock(&state.lock);
        state.done = done;
        state.total = total;
        pthread_mutex_unlock(&state.lock);
    }
}

void et_progress_end(void)
{
    if (state.on) {
        pthread_mutex_lock(&state.lock);
        state.what[0] = '\0';
        clear_line();
        pthread_mutex_unlock(&state.lock);
    }
}
