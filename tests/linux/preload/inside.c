/*
 * Waits that are no call of a function that waits by its name: inside of the C library's functions, by syscall(), and
 * one that a handler leaves by a jump. Each is in a function of its own. Prints "wait NAME NS" by its own stopwatch.
 */
#include "../../program.h"

#include <linux/futex.h>
#include <mqueue.h>
#include <setjmp.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <threads.h>

#define WAIT_MS 300

static sigjmp_buf out;
static volatile int jumps;

static void must(int good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(9);
}

/* A pipe from a child that writes a line after a while. */
static FILE *later(void)
{
    int ends[2];

    must(pipe(ends) == 0, "pipe");
    if (fork() == 0) {
        (void)usleep(WAIT_MS * 1000);
        _exit(write(ends[1], "x\n", 2) != 2);
    }
    (void)close(ends[1]);
    return fdopen(ends[0], "r");
}

static void on_alarm(int signal)
{
    (void)signal;
    if (jumps)
        siglongjmp(out, 1);
}

static void alarm_later(void)
{
    const struct itimerval after = {.it_value = {.tv_usec = WAIT_MS * 1000}};

    (void)setitimer(ITIMER_REAL, &after, NULL);
}

/* clang-format off */
#define WAY(name, setup, ...) \
    __attribute__((noipa)) static void in_##name(void) \
    { \
        char bytes[64]; \
        FILE *file = NULL; \
        int fd = -1; \
        setup; \
        uint64_t start = now_ns(); \
        __VA_ARGS__; \
        printf("wait in_%s %llu\n", #name, (unsigned long long)(now_ns() - start)); \
        (void)bytes; (void)file; (void)fd; \
    }

WAY(fgets, file = later(), must(fgets(bytes, 9, file) != NULL, "fgets"))
WAY(fgetc, file = later(), must(fgetc(file) == 'x', "fgetc"))
WAY(fread, file = later(), must(fread(bytes, 1, 2, file) == 2, "fread"))
WAY(getline, file = later(), char *line = NULL; size_t size = 0; must(getline(&line, &size, file) == 2, "getline"))
WAY(fscanf, file = later(), int number; must(fscanf(file, "%d", &number) >= 0, "fscanf"))
WAY(system, , must(system("exec sleep 0.3") == 0, "system"))
WAY(pclose, file = popen("exec sleep 0.3", "r"), must(pclose(file) == 0, "pclose"))
WAY(pause, alarm_later(), (void)pause())
WAY(sigwait, sigset_t set; int signal; (void)sigemptyset(&set); (void)sigaddset(&set, SIGALRM); (void)sigprocmask(SIG_BLOCK, &set, NULL); alarm_later(), must(sigwait(&set, &signal) == 0, "sigwait"); (void)sigprocmask(SIG_UNBLOCK, &set, NULL))
WAY(thrd_sleep, , const struct timespec t = {.tv_nsec = WAIT_MS * 1000000}; (void)thrd_sleep(&t, NULL))
WAY(futex, static int word; const struct timespec t = {.tv_nsec = WAIT_MS * 1000000}, (void)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0))
/* clang-format on */

WAY(
    fcntl, struct flock lock = {.l_type = F_WRLCK}; int ready[2]; char name[] = "/tmp/inside-XXXXXX";
    fd = mkstemp(name); must(fd >= 0 && unlink(name) == 0 && pipe(ready) == 0, "lock");
    if (fork() == 0) {
        must(fcntl(fd, F_SETLK, &lock) == 0 && write(ready[1], "x", 1) == 1, "lock");
        (void)usleep(WAIT_MS * 1000);
        _exit(0);
    } must(read(ready[0], bytes, 1) == 1, "lock"),
    must(fcntl(fd, F_SETLKW, &lock) == 0, "fcntl"))

WAY(
    lockf, int ready[2]; char name[] = "/tmp/inside-XXXXXX"; fd = mkstemp(name);
    must(fd >= 0 && unlink(name) == 0 && pipe(ready) == 0, "lock"); if (fork() == 0) {
        must(lockf(fd, F_TLOCK, 0) == 0 && write(ready[1], "x", 1) == 1, "lock");
        (void)usleep(WAIT_MS * 1000);
        _exit(0);
    } must(read(ready[0], bytes, 1) == 1, "lock"),
                                                                    must(lockf(fd, F_LOCK, 0) == 0, "lockf"))

/* Into a full pipe, which a child empties after a while. */
WAY(
    fputs, int ends[2]; must(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096, "pipe");
    char page[4096] = {0}; must(write(ends[1], page, sizeof page) == sizeof page, "write"); if (fork() == 0) {
        (void)usleep(WAIT_MS * 1000);
        _exit(read(ends[0], page, sizeof page) != sizeof page);
    } file = fdopen(ends[1], "w");
    must(setvbuf(file, NULL, _IONBF, 0) == 0, "setvbuf"), must(fputs("x", file) >= 0, "fputs"))

WAY(
    mq_receive, struct mq_attr attributes = {.mq_maxmsg = 2}; attributes.mq_msgsize = sizeof bytes; char name[32];
    (void)snprintf(name, sizeof name, "/inside-%d", (int)getpid());
    fd = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes); must(fd >= 0 && mq_unlink(name) == 0, "queue");
    if (fork() == 0) {
        (void)usleep(WAIT_MS * 1000);
        _exit(mq_send(fd, "x", 1, 0));
    },
    must(mq_receive(fd, bytes, sizeof bytes, NULL) == 1, "mq_receive"))

WAY(
    semop, struct sembuf take = {.sem_op = -1}; fd = semget(IPC_PRIVATE, 1, 0600); must(fd >= 0, "semget");
    if (fork() == 0) {
        struct sembuf give = {.sem_op = 1};
        (void)usleep(WAIT_MS * 1000);
        _exit(semop(fd, &give, 1));
    },
    must(semop(fd, &take, 1) == 0, "semop");
    (void)semctl(fd, 0, IPC_RMID))

static mtx_t mutex;
static atomic_int held;

static int hold(void *unused)
{
    (void)unused;
    must(mtx_lock(&mutex) == thrd_success, "mtx_lock");
    atomic_store(&held, 1);
    (void)usleep(WAIT_MS * 1000);
    return mtx_unlock(&mutex);
}

WAY(mtx_lock, thrd_t other; must(mtx_init(&mutex, mtx_plain) == 0 && thrd_create(&other, hold, NULL) == 0, "mutex");
    while (!atomic_load(&held)){}, must(mtx_lock(&mutex) == thrd_success, "mtx_lock"); (void)thrd_join(other, NULL))

WAY(jump, int ends[2]; must(pipe(ends) == 0, "pipe"); alarm_later();
    jumps = 1, if (sigsetjmp(out, 1) == 0)(void) !read(ends[0], bytes, 1); jumps = 0)

int main(void)
{
    (void)signal(SIGALRM, on_alarm);
    in_fgets();
    in_fgetc();
    in_fread();
    in_getline();
    in_fscanf();
    in_system();
    in_pclose();
    in_pause();
    in_sigwait();
    in_thrd_sleep();
    in_futex();
    in_fcntl();
    in_lockf();
    in_fputs();
    in_mq_receive();
    in_semop();
    in_mtx_lock();
    in_jump();
    while (wait(NULL) > 0) {
    }
    return 0;
}
