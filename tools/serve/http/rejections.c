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
    uint64_t count, said; /* said: value of count at the last message */
    time_t quiet_until;   /* 0: no message yet */
} reasons[ET_REJECTIONS];

/* Counts one. Returns whether to write a message now; *unsaid: number of rejections without a message before this one.
 */
static bool count_rejection(enum et_rejection reason, uint64_t *unsaid)
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

/* unsaid: lines left out since the last one; more: what they are. */
__attribute__((format(printf, 4, 0))) static void say_line(const char *what, uint64_t unsaid, const char *more,
                                                           const char *format, va_list args)
{
    char *text = NULL;
    int size = vasprintf(&text, format, args);
    char *clean = et_clean(size < 0 ? "" : text, size < 0 ? 0 : (size_t)size);
    if (unsaid) {
        et_error("%s: %s (%llu more %s)", what, clean, (unsigned long long)unsaid, more);
    } else {
        et_error("%s: %s", what, clean);
    }
    free(clean);
    if (size >= 0) {
        free(text);
    }
}

void et_reject(enum et_rejection reason, const char *format, ...)
{
    uint64_t unsaid;
    va_list args;
    if (!count_rejection(reason, &unsaid)) {
        return;
    }
    va_start(args, format);
    say_line("refused", unsaid, "for this reason", format, args);
    va_end(args);
}

/* Whether there is room for a line; *missing: lines that had none. */
static bool count_audit(uint64_t *missing)
{
    static struct {
        time_t minute;
        unsigned lines;
        uint64_t missing;
    } audit;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&lock);
    if (now.tv_sec - audit.minute >= QUIET_SECONDS || audit.minute == 0) {
        audit.minute = now.tv_sec;
        audit.lines = 0;
    }
    bool say = audit.lines < ET_AUDIT_LINES;
    audit.lines += say;
    *missing = audit.missing;
    audit.missing = say ? 0 : audit.missing + 1;
    pthread_mutex_unlock(&lock);
    return say;
}

void et_audit(const char *format, ...)
{
    uint64_t missing;
    va_list args;
    if (!count_audit(&missing)) {
        return;
    }
    va_start(args, format);
    say_line("audit", missing, "actions before it", format, args);
    va_end(args);
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
