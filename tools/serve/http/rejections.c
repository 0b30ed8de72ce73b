/* See rejections.h. */
#include "tools/serve/http/rejections.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUIET_SECONDS = 60 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t count, said; /* said: of those, when it was last said */
    time_t quiet_until;   /* 0: never said */
} reasons[ET_REJECTIONS];

/* Whether it is to be said now; *unsaid: how many there were before this one that were not. */
static bool count(enum et_rejection reason, uint64_t *unsaid)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&lock);
    *unsaid = reasons[reason].count++ - reasons[reason].said;
    bool say = reasons[reason].quiet_until == 0 || now.tv_sec >= reasons[reason].quiet_until;
    if (say) {
        reasons[reason].said = reasons[reason].count;
        reasons[reason].quiet_until = now.tv_sec + QUIET_SECONDS;
    }
    pthread_mutex_unlock(&lock);
    return say;
}

void et_reject(enum et_rejection reason, const char *format, ...)
{
    uint64_t unsaid;
    char *text = NULL;
    va_list args;
    if (!count(reason, &unsaid)) {
        return;
    }
    va_start(args, format);
    int size = vasprintf(&text, format, args);
    va_end(args);
    char *clean = et_clean(size < 0 ? "" : text, size < 0 ? 0 : (size_t)size);
    if (unsaid) {
        et_error("refused: %s (and %llu more for such a reason)", clean, (unsigned long long)unsaid);
    } else {
        et_error("refused: %s", clean);
    }
    free(clean);
    free(text);
}

uint64_t et_rejection_count(enum et_rejection reason)
{
    pthread_mutex_lock(&lock);
    uint64_t number = reasons[reason].count;
    pthread_mutex_unlock(&lock);
    return number;
}

const char *et_rejection_name(enum et_rejection reason)
{
    static const char *const names[ET_REJECTIONS] = {"malformed",   "size",   "rate",       "bounds",
                                                     "connections", "access", "certificate"};
    return names[reason];
}
