/*
 * A program with sentry-native's handlers of fatal signals, the real ones, installed before or after edgeprof's, or
 * after and then behind it by ep_crash_in_front(). It crashes in do_null() or do_abort(); the report is in the folder.
 * No header of sentry-native comes with the package that has its archive.
 *
 *   sentry before|after|front null|abort|idle FOLDER
 */

#include "../../program.h"
#include "own.h"

#define HANDLERS 6 /* sentry-native's: of all signals that edgeprof watches */

/* The archive was made with glibc 2.38, whose names these are. Without _GNU_SOURCE the right sides are the older ones.
 */
long __isoc23_strtol(const char *text, char **end, int base);
long long __isoc23_strtoll(const char *text, char **end, int base);
unsigned long long __isoc23_strtoull(const char *text, char **end, int base);
int __isoc23_sscanf(const char *text, const char *format, ...);

long __isoc23_strtol(const char *text, char **end, int base)
{
    return strtol(text, end, base);
}

long long __isoc23_strtoll(const char *text, char **end, int base)
{
    return strtoll(text, end, base);
}

unsigned long long __isoc23_strtoull(const char *text, char **end, int base)
{
    return strtoull(text, end, base);
}

int __isoc23_sscanf(const char *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    const int count = vsscanf(text, format, arguments);
    va_end(arguments);
    return count;
}

void *sentry_options_new(void);
void sentry_options_set_dsn(void *options, const char *dsn);
void sentry_options_set_database_path(void *options, const char *path);
int sentry_init(void *options);

static void report_to(const char *folder)
{
    void *options = sentry_options_new();

    sentry_options_set_dsn(options, "http://key@127.0.0.1:9/1");
    sentry_options_set_database_path(options, folder);
    if (sentry_init(options) != 0)
        fprintf(stderr, "sentry-native does not start\n");
}

static volatile uintptr_t nowhere = 16;
static volatile int zero;

__attribute__((noinline, noclone)) static int do_null(void)
{
    return *(volatile int *)nowhere;
}

__attribute__((noinline, noclone)) static int do_abort(void)
{
    abort();
    return zero;
}

__attribute__((noinline, noclone)) static int middle(const char *how)
{
    return (strcmp(how, "null") == 0 ? do_null() : strcmp(how, "abort") == 0 ? do_abort() : 0) + zero;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const int first = strcmp(argv[1], "before") == 0;
    if (first)
        report_to(argv[3]);
    begin();
    if (!first)
        report_to(argv[3]);
    if (strcmp(argv[1], "front") == 0)
        in_front(HANDLERS);
    int result = middle(argv[2]);
    end();
    return result;
}
