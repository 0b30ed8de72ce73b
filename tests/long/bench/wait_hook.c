/*
 * What the preload library's hooks add to a call that could wait but returns at once: the call by its name, which the
 * library interposes, against the C library's own function, in short rounds that take turns. Prints "NAME NANOSECONDS"
 * for each call, the median of the rounds' differences. Usage: wait_hook ROUNDS
 */
#include "../../program.h"

#define CALLS       64u
#define ROUNDS_MOST 20000u

typedef int poll_function(struct pollfd *events, nfds_t count, int timeout);
typedef ssize_t read_function(int fd, void *bytes, size_t size);
typedef int lock_function(pthread_mutex_t *lock);

/* The function of this name as the program sees it, and the C library's. */
union function {
    void *symbol;
    poll_function *poll;
    read_function *read;
    lock_function *lock;
};

static int quiet[2], closed[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* A socket without data, in non-blocking mode. */
static void read_socket(union function function)
{
    char byte;

    for (unsigned i = 0; i < CALLS; i++)
        (void)function.read(quiet[0], &byte, 1);
}

/* A pipe at its end. */
static void read_pipe(union function function)
{
    char byte;

    for (unsigned i = 0; i < CALLS; i++)
        (void)function.read(closed[0], &byte, 1);
}

static void poll_writable(union function function)
{
    struct pollfd event = {.fd = quiet[0], .events = POLLOUT};

    for (unsigned i = 0; i < CALLS; i++)
        (void)function.poll(&event, 1, 1000);
}

static void lock_free(union function function)
{
    for (unsigned i = 0; i < CALLS; i++) {
        (void)function.lock(&mutex);
        (void)pthread_mutex_unlock(&mutex);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_difference(void (*call)(union function), union function hooked, union function bare,
                                unsigned rounds)
{
    static double difference[ROUNDS_MOST];

    for (unsigned i = 0; i < rounds; i++) {
        bool hooked_first = i % 2;
        uint64_t start = now_ns();
        call(hooked_first ? hooked : bare);
        uint64_t between = now_ns();
        call(hooked_first ? bare : hooked);
        double first = (double)(between - start), second = (double)(now_ns() - between);
        difference[i] = (hooked_first ? first - second : second - first) / CALLS;
    }
    qsort(difference, rounds, sizeof *difference, compare);
    return difference[rounds / 2];
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *function;
        void (*call)(union function);
    } calls[] = {{"read_socket", "read", read_socket},
                 {"read_pipe", "read", read_pipe},
                 {"poll", "poll", poll_writable},
                 {"lock", "pthread_mutex_lock", lock_free}};
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    void *library = dlopen("libc.so.6", RTLD_NOW);

    if (rounds == 0 || rounds > ROUNDS_MOST || !library ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, quiet) != 0 || pipe(closed) != 0 || close(closed[1]) != 0)
        return 1;
    for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        union function hooked = {.symbol = dlsym(RTLD_DEFAULT, calls[i].function)};
        union function bare = {.symbol = dlsym(library, calls[i].function)};
        if (!hooked.symbol || !bare.symbol)
            return 1;
        calls[i].call(hooked);
        printf("%s %.1f\n", calls[i].name, median_difference(calls[i].call, hooked, bare, rounds));
    }
    return 0;
}
