/*
 * A C program that uses CPU time and waits in many ways, to compare its profile with what it did. It is built for each
 * architecture and C library: with edgeprof linked in (-DLINKED), and without for the preload library.
 *
 *   program [file:///PROFILE]      the argument is for -DLINKED only
 *
 * Four threads use CPU time in parts of 40, 30, 20 and 10, half of it in the C library. Each function wait_...() blocks
 * in one function of the C library only. At its end the program prints its own stopwatches as one line of JSON;
 * table.py compares them with the profile.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef LINKED
#include <edgeprof/edgeprof.h>
#else
enum ep_wait { EP_WAIT_OTHER, EP_WAIT_LOCK, EP_WAIT_SLEEP, EP_WAIT_NETWORK, EP_WAIT_DISK, EP_WAIT_IDLE };
#define ep_wait_begin(wait) ((void)(wait))
#define ep_wait_end()       ((void)0)
#endif

#define NOINLINE __attribute__((noinline, noipa))
#define MS       1000000
#define PARTS    4
#define CPU_MS   3000
#define WAIT_NS  (400ll * MS) /* each wait_...() until its calls took that long */
#define TICK_NS  (5 * MS)     /* the other side acts that often */
#define ITEMS    1500

static double part_used[PARTS];
static atomic_uint sink;
static char file[64];

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "program: %s (%s)\n", what, strerror(errno));
    _exit(1);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static struct timespec span(long ns)
{
    return (struct timespec){.tv_sec = ns / (1000 * MS), .tv_nsec = ns % (1000 * MS)};
}

static struct timespec after(clockid_t clock, long ns)
{
    int64_t at = clock_ns(clock) + ns;

    return (struct timespec){.tv_sec = (time_t)(at / (1000 * MS)), .tv_nsec = (long)(at % (1000 * MS))};
}

/* ---- CPU time ---- */

static NOINLINE unsigned own_code(unsigned seed)
{
    for (int i = 0; i < 200000; i++)
        seed = seed * 1664525u + 1013904223u;
    return seed;
}

static NOINLINE int compare(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

/* Code of the C library: with a callback, in loops of its own, with many small calls. */
static NOINLINE unsigned library_code(unsigned seed)
{
    int items[ITEMS];
    char text[64], copy[4096];

    for (int i = 0; i < ITEMS; i++)
        items[i] = (int)(seed = seed * 1664525u + 1013904223u);
    qsort(items, ITEMS, sizeof items[0], compare);
    for (int i = 0; i < 60; i++) {
        (void)snprintf(text, sizeof text, "%d %.9g %s", items[i], items[i] / 7.0, "text");
        seed += (unsigned)(strtod(strchr(text, ' '), NULL) > 0) + (unsigned)strlen(text);
        memset(copy, (int)seed, sizeof copy);
        memmove(copy + 1, copy, sizeof copy - 1);
        void *block = malloc(seed % 500 + 1);
        memcpy(copy, block ? text : "", 10);
        free(block);
        seed += (unsigned char)copy[seed % sizeof copy];
    }
    return seed;
}

static NOINLINE void use(int part, int64_t ns)
{
    unsigned seed = (unsigned)part;

    for (int64_t pause_at = 20 * MS, now; (now = clock_ns(CLOCK_THREAD_CPUTIME_ID)) < ns;) {
        seed = own_code(seed);
        seed = library_code(seed);
        if (now > pause_at) {
            struct timespec pause = span(MS + (long)(seed % 3000000));
            (void)nanosleep(&pause, NULL);
            pause_at = now + 10 * MS + seed % 20 * MS;
        }
    }
    (void)atomic_fetch_add(&sink, seed);
    part_used[part] = (double)clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1e9;
}

#define PART(index, percent)                                                                                           \
    static NOINLINE void *part_##percent(void *unused)                                                                 \
    {                                                                                                                  \
        use(index, (int64_t)CPU_MS *MS / 100 * percent);                                                               \
        return unused;                                                                                                 \
    }
PART(0, 40)
PART(1, 30)
PART(2, 20)
PART(3, 10)

static void use_cpu(void)
{
    static void *(*const part[PARTS])(void *) = {part_40, part_30, part_20, part_10};
    pthread_t thread[PARTS];

    for (int i = 0; i < PARTS; i++)
        must(pthread_create(&thread[i], NULL, part[i], NULL) == 0, "thread");
    for (int i = 0; i < PARTS; i++)
        must(pthread_join(thread[i], NULL) == 0, "join");
}

/* ---- the other side of the waits: acts once a tick ---- */

enum act { NOTHING, WRITE, DRAIN, SEND, POST, NOTIFY, HOLD, HOLD_SHARED, HOLD_FILE, CONNECT, END };

static _Atomic enum act act;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, with = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int pipe_ends[2], full_pipe[2], sockets[2], listener, never, other_file, own_file, queue;
static struct sockaddr_un address = {.sun_family = AF_UNIX}, full_address = {.sun_family = AF_UNIX};

static void connect_once(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    must(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    (void)close(fd);
}

static void hold(enum act now, bool on)
{
    if (now == HOLD)
        (void)(on ? pthread_mutex_lock(&mutex) : pthread_mutex_unlock(&mutex));
    else if (now == HOLD_SHARED)
        (void)(on ? pthread_rwlock_wrlock(&shared) : pthread_rwlock_unlock(&shared));
    else if (now == HOLD_FILE)
        (void)flock(other_file, on ? LOCK_EX : LOCK_UN);
}

static void act_once(enum act now)
{
    char page[4096] = "";

    if (now == WRITE)
        must(write(pipe_ends[1], page, 1) == 1, "write");
    else if (now == DRAIN)
        must(read(full_pipe[0], page, sizeof page) > 0, "drain");
    else if (now == SEND)
        must(send(sockets[1], page, 1, 0) == 1, "send");
    else if (now == POST)
        must(sem_post(&semaphore) == 0, "post");
    else if (now == CONNECT)
        connect_once();
    else if (now == NOTIFY) {
        (void)pthread_mutex_lock(&with);
        (void)pthread_cond_signal(&condition);
        (void)pthread_mutex_unlock(&with);
    }
}

static NOINLINE void *other_side(void *unused)
{
    enum act now;

    while ((now = atomic_load(&act)) != END) {
        struct timespec tick = span(TICK_NS), pause = span(MS / 2);
        hold(now, true);
        (void)nanosleep(&tick, NULL);
        act_once(now);
        hold(now, false);
        if (now == HOLD || now == HOLD_SHARED || now == HOLD_FILE)
            (void)nanosleep(&pause, NULL); /* else it takes the lock again at once */
    }
    return unused;
}

/* Long, because the end of a thread costs CPU time that no profile can show. */
static void *sleeper(void *unused)
{
    struct timespec tick = span(20 * TICK_NS);

    (void)nanosleep(&tick, NULL);
    return unused;
}

/* ---- waits: each call is timed, and marked as a wait where edgeprof is linked in ---- */

/* While the other side takes the lock again. */
static void nap(void)
{
    struct timespec brief = span(MS);

    (void)nanosleep(&brief, NULL);
}

/* musl's macro converts the sign. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
static void watch(int fd, fd_set *set)
{
    FD_SET(fd, set);
}
#pragma GCC diagnostic pop

#define WAITS(name, wait, side, prepare, call)                                                                         \
    static NOINLINE int64_t wait_##name(void)                                                                          \
    {                                                                                                                  \
        int64_t spent = 0;                                                                                             \
        atomic_store(&act, side);                                                                                      \
        while (spent < WAIT_NS) {                                                                                      \
            struct timespec tick = span(TICK_NS), until = after(CLOCK_REALTIME, TICK_NS);                              \
            struct timeval brief = {.tv_usec = TICK_NS / 1000};                                                        \
            struct pollfd event = {.fd = never, .events = POLLIN};                                                     \
            struct epoll_event ready;                                                                                  \
            fd_set set;                                                                                                \
            sigset_t mask;                                                                                             \
            char bytes[4096] = "";                                                                                     \
            FD_ZERO(&set);                                                                                             \
            watch(never, &set);                                                                                        \
            (void)sigemptyset(&mask);                                                                                  \
            (void)sigaddset(&mask, SIGUSR1);                                                                           \
            (void)tick, (void)until, (void)brief, (void)event, (void)ready, (void)bytes;                               \
            prepare;                                                                                                   \
            errno = 0;                                                                                                 \
            int64_t start = clock_ns(CLOCK_MONOTONIC);                                                                 \
            ep_wait_begin(wait);                                                                                       \
            bool done = call;                                                                                          \
            ep_wait_end();                                                                                             \
            spent += clock_ns(CLOCK_MONOTONIC) - start;                                                                \
            must(done || errno == EINTR, #name); /* a tick on the way into the call ends it */                         \
        }                                                                                                              \
        atomic_store(&act, NOTHING);                                                                                   \
        return spent;                                                                                                  \
    }

#define TIMED_OUT(value) ((value) == -1 && (errno == ETIMEDOUT || errno == EAGAIN || errno == EINPROGRESS))

static bool unlocked(bool locked)
{
    return locked && pthread_mutex_unlock(&mutex) == 0;
}

static bool received(bool mmsg)
{
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    struct timespec most = span(1000 * MS);

    return mmsg ? recvmmsg(sockets[0], &message, 1, 0, &most) == 1 : recvmsg(sockets[0], &message.msg_hdr, 0) == 1;
}

static pid_t child_for_a_tick(void)
{
    pid_t child = fork();

    if (child == 0) {
        struct timespec tick = span(TICK_NS);
        (void)nanosleep(&tick, NULL);
        _exit(0);
    }
    return child;
}

static pthread_t thread_for_a_tick(void)
{
    pthread_t thread;

    must(pthread_create(&thread, NULL, sleeper, NULL) == 0, "thread");
    return thread;
}

static bool accepted(bool by_accept4)
{
    int fd = by_accept4 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : accept(listener, NULL, NULL);

    return fd >= 0 && close(fd) == 0;
}

static bool refused(int fd)
{
    return TIMED_OUT(connect(fd, (struct sockaddr *)&full_address, sizeof full_address)) && close(fd) == 0;
}

/* A socket whose connect() waits for a tick, since nobody accepts. */
static int caller(void)
{
    struct timeval brief = {.tv_usec = TICK_NS / 1000};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    must(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &brief, sizeof brief) == 0, "socket");
    return fd;
}

/* clang-format off */
WAITS(nanosleep, EP_WAIT_SLEEP, NOTHING, , nanosleep(&tick, NULL) == 0)
WAITS(clock_nanosleep, EP_WAIT_SLEEP, NOTHING, , (errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &tick, NULL)) == 0)
WAITS(usleep, EP_WAIT_SLEEP, NOTHING, , usleep(TICK_NS / 1000) == 0)
WAITS(poll, EP_WAIT_NETWORK, NOTHING, , poll(&event, 1, TICK_NS / MS) == 0)
WAITS(ppoll, EP_WAIT_NETWORK, NOTHING, , ppoll(&event, 1, &tick, &mask) == 0)
WAITS(select, EP_WAIT_NETWORK, NOTHING, , select(never + 1, &set, NULL, NULL, &brief) == 0)
WAITS(pselect, EP_WAIT_NETWORK, NOTHING, , pselect(never + 1, &set, NULL, NULL, &tick, &mask) == 0)
WAITS(read, EP_WAIT_OTHER, WRITE, , read(pipe_ends[0], bytes, 1) == 1)
WAITS(write, EP_WAIT_OTHER, DRAIN, , write(full_pipe[1], bytes, sizeof bytes) == sizeof bytes)
WAITS(recv, EP_WAIT_NETWORK, SEND, , recv(sockets[0], bytes, 1, 0) == 1)
WAITS(recvfrom, EP_WAIT_NETWORK, SEND, , recvfrom(sockets[0], bytes, 1, 0, NULL, NULL) == 1)
WAITS(recvmsg, EP_WAIT_NETWORK, SEND, , received(false))
WAITS(recvmmsg, EP_WAIT_NETWORK, SEND, , received(true))
WAITS(accept, EP_WAIT_NETWORK, CONNECT, , accepted(false))
WAITS(accept4, EP_WAIT_NETWORK, CONNECT, , accepted(true))
WAITS(connect, EP_WAIT_NETWORK, NOTHING, int fd = caller(), refused(fd))
WAITS(cond_timedwait, EP_WAIT_OTHER, NOTHING, , pthread_cond_timedwait(&condition, &with, &until) == ETIMEDOUT)
WAITS(cond_wait, EP_WAIT_OTHER, NOTIFY, , pthread_cond_wait(&condition, &with) == 0)
WAITS(sem_timedwait, EP_WAIT_OTHER, NOTHING, , TIMED_OUT(sem_timedwait(&semaphore, &until)))
WAITS(sem_wait, EP_WAIT_OTHER, POST, , sem_wait(&semaphore) == 0)
WAITS(mutex_lock, EP_WAIT_LOCK, HOLD, nap(), unlocked(pthread_mutex_lock(&mutex) == 0))
WAITS(mutex_timedlock, EP_WAIT_LOCK, HOLD, nap(); until.tv_sec += 9, unlocked(pthread_mutex_timedlock(&mutex, &until) == 0))
WAITS(rwlock_rdlock, EP_WAIT_LOCK, HOLD_SHARED, nap(), pthread_rwlock_rdlock(&shared) == 0 && pthread_rwlock_unlock(&shared) == 0)
WAITS(rwlock_timedwrlock, EP_WAIT_LOCK, HOLD_SHARED, nap(); until.tv_sec += 9, pthread_rwlock_timedwrlock(&shared, &until) == 0 && pthread_rwlock_unlock(&shared) == 0)
WAITS(flock, EP_WAIT_DISK, HOLD_FILE, nap(), flock(own_file, LOCK_EX) == 0 && flock(own_file, LOCK_UN) == 0)
WAITS(waitpid, EP_WAIT_OTHER, NOTHING, pid_t child = child_for_a_tick(), waitpid(child, NULL, 0) == child)
WAITS(wait4, EP_WAIT_OTHER, NOTHING, pid_t child = child_for_a_tick(); struct rusage usage, wait4(child, NULL, 0, &usage) == child)
WAITS(join, EP_WAIT_OTHER, NOTHING, pthread_t thread = thread_for_a_tick(), pthread_join(thread, NULL) == 0)
WAITS(sigtimedwait, EP_WAIT_OTHER, NOTHING, , TIMED_OUT(sigtimedwait(&mask, NULL, &tick)))
/* These are no kind of wait unless a program asks for idle waits: they only have to work. */
WAITS(epoll_wait, EP_WAIT_IDLE, NOTHING, , epoll_wait(queue, &ready, 1, TICK_NS / MS) == 0)
WAITS(epoll_pwait, EP_WAIT_IDLE, NOTHING, , epoll_pwait(queue, &ready, 1, TICK_NS / MS, &mask) == 0)
/* clang-format on */

/* ---- the profiler ---- */

#ifdef LINKED
static uint8_t memory[EP_MEMORY_DEFAULT];

static void begin(const char *endpoint)
{
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .service = "libc",
                               .interval_ms = 1000,
                               .level = EP_LEVEL_HIGH,
                               .endpoint = endpoint};

    /* A second start after a stop is like the first. */
    if (ep_start(&config) != 0 || ep_stop(1000) != 0 || ep_start(&config) != 0) {
        fprintf(stderr, "program: %s\n", ep_start_error());
        exit(1);
    }
}

static void dump(void)
{
    must(ep_threads_dump() == 0, "stacks of threads");
}

static void end(void)
{
    must(ep_stop(5000) == 0, "stop");
}
#else
static void begin(const char *endpoint)
{
    (void)endpoint;
}

static void dump(void) {}

static void end(void) {}
#endif

/* ---- main ---- */

#define WAIT(name, leaf)                                                                                               \
    {                                                                                                                  \
#name, leaf, wait_##name                                                                                       \
    }

static const struct {
    const char *name, *leaf; /* leaf: how the wait shows in a profile; empty: not at all */
    int64_t (*run)(void);
} waits[] = {
    WAIT(nanosleep, "sleep"),     WAIT(clock_nanosleep, "sleep"),
    WAIT(usleep, "sleep"),        WAIT(poll, "network"),
    WAIT(ppoll, "network"),       WAIT(select, "network"),
    WAIT(pselect, "network"),     WAIT(read, "wait"),
    WAIT(write, "wait"),          WAIT(recv, "network"),
    WAIT(recvfrom, "network"),    WAIT(recvmsg, "network"),
    WAIT(recvmmsg, "network"),    WAIT(accept, "network"),
    WAIT(accept4, "network"),     WAIT(connect, "network"),
    WAIT(cond_timedwait, "wait"), WAIT(cond_wait, "wait"),
    WAIT(sem_timedwait, "wait"),  WAIT(sem_wait, "wait"),
    WAIT(mutex_lock, "lock"),     WAIT(mutex_timedlock, "lock"),
    WAIT(rwlock_rdlock, "lock"),  WAIT(rwlock_timedwrlock, "lock"),
    WAIT(flock, "disk"),          WAIT(waitpid, "wait"),
    WAIT(wait4, "wait"),          WAIT(join, "wait"),
    WAIT(epoll_wait, ""),         WAIT(epoll_pwait, ""),
    WAIT(sigtimedwait, "wait"),
};
#define COUNT (sizeof waits / sizeof waits[0])

/* Abstract sockets, so that nothing is left behind. */
static int listen_at(struct sockaddr_un *at, const char *name, int backlog)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "edgeprof-%s-%d", name, (int)getpid());
    must(fd >= 0 && bind(fd, (struct sockaddr *)at, sizeof *at) == 0 && listen(fd, backlog) == 0, "listener");
    return fd;
}

static void open_all(void)
{
    char page[4096] = "";
    int quiet[2];

    must(pipe(quiet) == 0 && pipe(pipe_ends) == 0 && pipe(full_pipe) == 0, "pipes");
    never = quiet[0];
    must(fcntl(full_pipe[1], F_SETFL, O_NONBLOCK) == 0, "pipe");
    while (write(full_pipe[1], page, sizeof page) > 0)
        ;
    must(fcntl(full_pipe[1], F_SETFL, 0) == 0, "pipe");
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && sem_init(&semaphore, 0, 0) == 0, "sockets");
    listener = listen_at(&address, "accept", 16);
    (void)listen_at(&full_address, "connect", 0);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    must(connect(fd, (struct sockaddr *)&full_address, sizeof full_address) == 0, "first connection");
    (void)snprintf(file, sizeof file, "/tmp/edgeprof-libc-%d", (int)getpid());
    must((own_file = open(file, O_CREAT | O_RDWR, 0600)) >= 0 && (other_file = open(file, O_RDWR)) >= 0, "file");
    (void)unlink(file);
    struct epoll_event event = {.events = EPOLLIN};
    queue = epoll_create1(0);
    must(queue >= 0 && epoll_ctl(queue, EPOLL_CTL_ADD, never, &event) == 0, "epoll");
}

static void run_waits(int64_t spent[COUNT])
{
    pthread_t thread;

    open_all();
    must(pthread_create(&thread, NULL, other_side, NULL) == 0 && pthread_mutex_lock(&with) == 0, "thread");
    for (unsigned i = 0; i < COUNT; i++) {
        if (strcmp(waits[i].name, "sem_timedwait") == 0)
            (void)pthread_mutex_unlock(&with);
        if (i == 1)
            dump();
        spent[i] = waits[i].run();
    }
    atomic_store(&act, END);
    (void)pthread_join(thread, NULL);
}

/* Seconds of CPU time of edgeprof's own threads, which profiles do not contain. */
static double own_s(void)
{
    DIR *tasks = opendir("/proc/self/task");
    double sum = 0;

    for (const struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) {
        char path[300], name[16] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *comm = fopen(path, "r");
        if (comm && fgets(name, sizeof name, comm) && strncmp(name, "edgeprof-", 9) == 0)
            sum += (double)clock_ns((clockid_t)(~(unsigned)atoi(task->d_name) << 3 | 6)) / 1e9;
        if (comm)
            (void)fclose(comm);
    }
    if (tasks)
        (void)closedir(tasks);
    return sum;
}

static double process_s(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6 - own_s();
}

int main(int argc, char **argv)
{
    static const char *const names[PARTS] = {"part_40", "part_30", "part_20", "part_10"};
    int64_t spent[COUNT] = {0};

    begin(argc > 1 ? argv[1] : NULL);
    double before = process_s();
    use_cpu();
    run_waits(spent);
    double used = process_s() - before;
    end();
    printf("{\"time_bits\":%u,\"parts\":{", (unsigned)sizeof(time_t) * 8);
    for (unsigned i = 0; i < PARTS; i++)
        printf("%s\"%s\":%.6f", i ? "," : "", names[i], part_used[i]);
    printf("},\"waits\":{");
    for (unsigned i = 0; i < COUNT; i++)
        printf("%s\"%s\":[\"%s\",%.6f]", i ? "," : "", waits[i].name, waits[i].leaf, (double)spent[i] / 1e9);
    printf("},\"used\":%.6f}\n", used);
    return 0;
}
