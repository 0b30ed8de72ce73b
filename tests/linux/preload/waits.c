/*
 * A program that knows nothing of edgeprof and waits in every way there is a class for, with a stopwatch around each
 * call; at its end it prints "truth CLASS NANOSECONDS". First it makes sure that the C library is what it was: errno,
 * interrupted calls, time left, locks that say no, cancellation. Usage: waits FOLDER
 */
#include "../../program.h"

#include <sys/file.h>

#define MS     1000000
#define ROUNDS 250

enum class { LOCK, SLEEP, NETWORK, DISK, WAIT, CLASSES };

static _Atomic uint64_t truth[CLASSES];
static char file[256];

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "waits: %s (%s)\n", what, strerror(errno));
    _exit(1);
}

#define TIMED(class, call)                                                                                             \
    do {                                                                                                               \
        uint64_t start_ = now_ns();                                                                                    \
        call;                                                                                                          \
        (void)atomic_fetch_add(&truth[class], now_ns() - start_);                                                      \
    } while (0)

static struct timespec in(clockid_t clock, long ns)
{
    struct timespec t = {0};

    if (clock != CLOCK_TAI)
        (void)clock_gettime(clock, &t);
    t.tv_nsec += ns;
    t.tv_sec += t.tv_nsec / (1000 * MS);
    t.tv_nsec %= 1000 * MS;
    return t;
}

static struct timespec for_ns(long ns)
{
    return in(CLOCK_TAI, ns);
}

/* ---- the C library is what it was ---- */

static void on_alarm(int signal)
{
    (void)signal;
}

static void interrupted(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval soon = {.it_value.tv_usec = 30000};
    struct timespec left = {0}, forever = {.tv_sec = 50};
    char byte;
    int ends[2];

    must(sigaction(SIGALRM, &action, NULL) == 0 && pipe(ends) == 0, "setup");
    must(setitimer(ITIMER_REAL, &soon, NULL) == 0, "timer");
    TIMED(SLEEP, must(nanosleep(&forever, &left) == -1 && errno == EINTR && left.tv_sec >= 40, "EINTR, time left"));
    must(setitimer(ITIMER_REAL, &soon, NULL) == 0, "timer");
    TIMED(WAIT, must(read(ends[0], &byte, 1) == -1 && errno == EINTR, "EINTR of read"));
    must(setitimer(ITIMER_REAL, &soon, NULL) == 0, "timer");
    TIMED(SLEEP, must(poll(NULL, 0, 50000) == -1 && errno == EINTR, "EINTR of poll"));
    must(read(-1, &byte, 1) == -1 && errno == EBADF, "errno of read");
    must(open("/nowhere/file", O_RDONLY) == -1 && errno == ENOENT, "errno of open");
    must(connect(ends[0], NULL, 0) == -1 && errno == ENOTSOCK, "errno of connect");
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void files(void)
{
    char bytes[8] = {0};
    struct stat made;

    (void)umask(0);
    int fd = open(file, O_CREAT | O_RDWR | O_TRUNC, 0640);
    must(fd >= 0 && fstat(fd, &made) == 0 && (made.st_mode & 0777) == 0640, "mode of a file that open makes");
    must(pwrite(fd, "abcdef", 6, 2) == 6 && pread(fd, bytes, 3, 4) == 3 && memcmp(bytes, "cde", 3) == 0, "offsets");
    must(write(fd, "xy", 2) == 2 && fsync(fd) == 0 && lseek(fd, 0, SEEK_END) == 8, "size");
    (void)close(fd);
}

static void locks_say_no(void)
{
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;

    (void)pthread_mutexattr_init(&attributes);
    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    (void)pthread_mutex_init(&mutex, &attributes);
    must(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == EDEADLK, "a lock that is ours");
    struct timespec past = for_ns(1);
    must(pthread_mutex_trylock(&mutex) == EBUSY && pthread_mutex_unlock(&mutex) == 0, "a lock that is taken");
    must(pthread_mutex_timedlock(&mutex, &past) == 0, "a lock that is free, too late");
    must(pthread_mutex_unlock(&mutex) == 0, "unlock");
}

static int pipe_ends[2];
static atomic_bool cleaned;

static void clean(void *unused)
{
    (void)unused;
    (void)usleep(1000);
    atomic_store(&cleaned, true);
}

static void *blocked(void *unused)
{
    char byte;

    pthread_cleanup_push(clean, NULL);
    (void)!read(pipe_ends[0], &byte, 1);
    pthread_cleanup_pop(0);
    return unused;
}

static void cancelled(void)
{
    pthread_t thread;
    void *result;

    must(pipe(pipe_ends) == 0 && pthread_create(&thread, NULL, blocked, NULL) == 0, "thread");
    TIMED(SLEEP, (void)usleep(30000));
    must(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0, "cancel");
    must(result == PTHREAD_CANCELED && atomic_load(&cleaned), "a cancelled read");
}

/* ---- waits ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *locks_main(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec hold = for_ns((3 + i % 3) * MS), away = for_ns(MS / 2);
        TIMED(LOCK, must(pthread_mutex_lock(&mutex) == 0, "lock"));
        TIMED(SLEEP, (void)nanosleep(&hold, NULL));
        (void)pthread_mutex_unlock(&mutex);
        TIMED(SLEEP, (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &away, NULL)); /* else it takes the lock again */
    }
    return unused;
}

/* Nobody else wants it: no wait. */
static void free_locks(void)
{
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

    for (int i = 0; i < 300000; i++)
        must(pthread_mutex_lock(&own) == 0 && pthread_mutex_unlock(&own) == 0, "a free lock");
}

static void *file_main(void *unused)
{
    int fd = open(file, O_RDWR);

    for (int i = 0; i < ROUNDS; i++) {
        TIMED(DISK, must(flock(fd, LOCK_EX) == 0, "flock"));
        TIMED(SLEEP, (void)usleep(2500));
        (void)flock(fd, LOCK_UN);
        TIMED(SLEEP, (void)usleep(500));
    }
    (void)close(fd);
    return unused;
}

static int sockets[2];

static void *echo_main(void *unused)
{
    char byte;

    for (;;) {
        ssize_t got;
        TIMED(NETWORK, got = recv(sockets[1], &byte, 1, 0));
        if (got <= 0)
            return unused;
        TIMED(SLEEP, (void)poll(NULL, 0, 3));
        TIMED(NETWORK, must(send(sockets[1], &byte, 1, 0) == 1, "send"));
    }
}

static void round_trips(void)
{
    char byte = 'x';

    for (int i = 0; i < ROUNDS; i++) {
        struct pollfd ready = {.fd = sockets[0], .events = POLLIN};
        TIMED(NETWORK, must(write(sockets[0], &byte, 1) == 1, "write"));
        if (i % 2)
            TIMED(NETWORK, must(poll(&ready, 1, -1) == 1, "poll"));
        TIMED(NETWORK, must(read(sockets[0], &byte, 1) == 1, "read"));
    }
    (void)shutdown(sockets[0], SHUT_RDWR);
}

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void others(void)
{
    static pthread_mutex_t with = PTHREAD_MUTEX_INITIALIZER;
    sem_t semaphore;

    must(sem_init(&semaphore, 0, 0) == 0 && pthread_mutex_lock(&with) == 0, "setup");
    for (int i = 0; i < ROUNDS / 2; i++) {
        struct timespec until = in(CLOCK_REALTIME, 3 * MS);
        TIMED(WAIT, must(pthread_cond_timedwait(&condition, &with, &until) == ETIMEDOUT, "condition"));
        until = in(CLOCK_REALTIME, 2 * MS);
        TIMED(WAIT, must(sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT, "semaphore"));
    }
    (void)pthread_mutex_unlock(&with);
    pid_t child = fork();
    if (child == 0) {
        (void)usleep(400000);
        _exit(5);
    }
    int status = 0;
    TIMED(WAIT, must(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5, "child"));
}

static void run(void *(*const mains[])(void *), unsigned count, void (*here)(void))
{
    pthread_t thread[4];

    for (unsigned i = 0; i < count; i++)
        must(pthread_create(&thread[i], NULL, mains[i], NULL) == 0, "thread");
    if (here)
        here();
    for (unsigned i = 0; i < count; i++)
        TIMED(WAIT, (void)pthread_join(thread[i], NULL));
}

int main(int argc, char **argv)
{
    static const char *const names[CLASSES] = {"lock", "sleep", "network", "disk", "wait"};
    static void *(*const crew[])(void *) = {locks_main, locks_main, file_main, file_main};
    static void *(*const echo[])(void *) = {echo_main};

    must(argc == 2, "usage: waits FOLDER");
    (void)snprintf(file, sizeof file, "%s/waits.file", argv[1]);
    interrupted();
    files();
    locks_say_no();
    cancelled();
    run(crew, 4, NULL);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "sockets");
    run(echo, 1, round_trips);
    others();
    free_locks();
    for (unsigned i = 0; i < CLASSES; i++)
        printf("truth %s %llu\n", names[i], (unsigned long long)atomic_load(&truth[i]));
    return 0;
}
