/*
 * A program with contexts of its own, driven by lines on standard input, which it answers with one line each. The first
 * number of a command is a thread: 0 is main(), 1 to 3 are others.
 *
 *   publish ATTRIBUTES | threads | withdraw       the calls of the library ("-": no attributes)
 *   span T SPAN HIGH LOW | push T KEY VALUE | pop T
 *   dump T      the thread's record, as it reads it itself
 *   loop N      publishes N times: each attribute of one time has the same number
 *   spin N      sets N spans whose three numbers are one
 *   cost N      instructions of a span with thread contexts, in ns
 *   storm       three threads make labels of 15 keys each, five of which they have in common
 *   fork        the child goes on with the commands; its end is the answer of the parent
 *   squat       publishes a context as another library does
 *   deny        memfd_create() fails from here on
 *   limit       a file may have no byte from here on
 *   inner       as fork, but the child is in a PID namespace of its own; "refused" if the system permits none
 *   many N      labels of N keys, and each again
 */
#include "../../program.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <edgeprof/edgeprof.h>

#define THREADS 4

extern _Thread_local void *otel_thread_ctx_v1;

static uint8_t memory[EP_MEMORY_DEFAULT];
static struct ep_config config = {
    .memory = memory, .memory_size = sizeof memory, .service = "publisher", .tags = "version=1.2,zone=a b"};
static int to[THREADS][2], from[THREADS][2];

static void dump(char *answer, size_t size)
{
    const uint8_t *record = otel_thread_ctx_v1;

    snprintf(answer, size, "none");
    if (!record)
        return;
    uint16_t attributes;
    memcpy(&attributes, record + 26, sizeof attributes);
    for (unsigned i = 0; i < 28u + attributes && 2 * i + 3 < size; i++)
        snprintf(answer + 2 * (size_t)i, 3, "%02x", record[i]);
}

/* On the thread itself. */
static void thread_do(const char *line, char *answer, size_t size)
{
    uint64_t span = 0, high = 0, low = 0;
    char key[64], value[256];
    long count = 0;

    snprintf(answer, size, "ok");
    if (sscanf(line, "span %*d %" SCNx64 " %" SCNx64 " %" SCNx64, &span, &high, &low) == 3)
        ep_span_set(span, high, low);
    else if (sscanf(line, "push %*d %63s %255s", key, value) == 2)
        snprintf(answer, size, "%d", ep_tag_push(key, value));
    else if (strncmp(line, "pop", 3) == 0)
        ep_tag_pop();
    else if (strncmp(line, "dump", 4) == 0)
        dump(answer, size);
    else if (sscanf(line, "spin %*d %ld", &count) == 1)
        for (uint64_t i = 1; i <= (uint64_t)count; i++)
            ep_span_set(i * UINT64_C(0x0101010101010101), i * UINT64_C(0x0101010101010101),
                        i * UINT64_C(0x0101010101010101));
    else
        snprintf(answer, size, "what?");
}

static void *thread_run(void *argument)
{
    const size_t at = (size_t)argument;
    char line[512], answer[1024];

    while (read(to[at][0], line, sizeof line) == (ssize_t)sizeof line) {
        thread_do(line, answer, sizeof answer);
        if (write(from[at][1], answer, sizeof answer) != (ssize_t)sizeof answer)
            break;
    }
    return NULL;
}

static void loop(long count)
{
    char attributes[512];

    for (long i = 1; i <= count; i++) {
        int size = 0;
        for (unsigned key = 0; key < 16; key++)
            size += snprintf(attributes + size, sizeof attributes - (size_t)size, "k%u=%ld,", key, i);
        if (ep_otel_publish(&config, attributes) != 0)
            abort();
    }
}

static atomic_int ready;

static void *storm_run(void *argument)
{
    char key[32];

    (void)atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < 3) {
    }
    for (unsigned i = 0; i < 15; i++) {
        snprintf(key, sizeof key, i < 5 ? "common%u" : "own%u_%zu", i, (size_t)argument);
        (void)ep_tag_push(key, "x");
        ep_tag_pop();
    }
    return NULL;
}

static void storm(void)
{
    pthread_t thread[3];

    for (size_t i = 0; i < 3; i++)
        if (pthread_create(&thread[i], NULL, storm_run, (void *)i) != 0)
            abort();
    for (size_t i = 0; i < 3; i++)
        (void)pthread_join(thread[i], NULL);
}

/* Of a span that begins and ends. */
static double cost(long count)
{
    struct timespec a, b;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (long i = 0; i < count; i++) {
        ep_span_set((uint64_t)i | 1, 2, 3);
        ep_span_set(0, 0, 0);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (double)count;
}

static void squat(void)
{
    int fd = (int)syscall(SYS_memfd_create, "OTEL_CTX", 0u);

    if (fd < 0 || ftruncate(fd, 4096) != 0 || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
        abort();
    close(fd);
}

static void deny(void)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        abort();
}

static void limit(void)
{
    const struct rlimit none = {0};

    if (setrlimit(RLIMIT_FSIZE, &none) != 0)
        abort();
}

static void many(long count)
{
    char key[32];

    for (long i = 0; i < 2 * count; i++) {
        snprintf(key, sizeof key, "many%ld", i % count);
        (void)ep_tag_push(key, "x");
        ep_tag_pop();
    }
}

static void process_do(const char *line, char *answer, size_t size)
{
    char text[400];
    long count;

    snprintf(answer, size, "ok");
    if (sscanf(line, "publish %399s", text) == 1)
        snprintf(answer, size, "%d %s", ep_otel_publish(&config, strcmp(text, "-") ? text : NULL), ep_start_error());
    else if (strcmp(line, "threads") == 0)
        snprintf(answer, size, "%d %s", ep_otel_threads(), ep_start_error());
    else if (strcmp(line, "withdraw") == 0)
        ep_otel_withdraw();
    else if (sscanf(line, "loop %ld", &count) == 1)
        loop(count);
    else if (sscanf(line, "cost %ld", &count) == 1)
        snprintf(answer, size, "%.1f", cost(count));
    else if (strcmp(line, "storm") == 0)
        storm();
    else if (strcmp(line, "squat") == 0)
        squat();
    else if (strcmp(line, "deny") == 0)
        deny();
    else if (strcmp(line, "limit") == 0)
        limit();
    else if (sscanf(line, "many %ld", &count) == 1)
        many(count);
    else
        thread_do(line, answer, size);
}

/* True: this is the child. */
static int forked(char *answer, size_t size)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        snprintf(answer, size, "child %d", (int)getpid());
        return 1;
    }
    if (waitpid(child, &status, 0) != child)
        abort();
    snprintf(answer, size, "ended %d", status);
    return 0;
}

int main(void)
{
    char line[512], answer[1024];
    int started = ep_start(&config);

    if (started != 0)
        fprintf(stderr, "%s\n", ep_start_error());
    for (size_t i = 1; i < THREADS; i++) {
        pthread_t thread;
        if (pipe(to[i]) != 0 || pipe(from[i]) != 0 || pthread_create(&thread, NULL, thread_run, (void *)i) != 0)
            return 1;
    }
    setvbuf(stdin, NULL, _IONBF, 0);
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    memset(line, 0, sizeof line);
    while (fgets(line, sizeof line, stdin)) {
        int thread = 0;
        line[strcspn(line, "\n")] = 0;
        (void)sscanf(line, "%*s %d", &thread);
        if (strcmp(line, "inner") == 0 && unshare(CLONE_NEWPID) != 0)
            snprintf(answer, sizeof answer, "refused");
        else if (strcmp(line, "fork") == 0 || strcmp(line, "inner") == 0)
            (void)forked(answer, sizeof answer);
        else if (thread > 0 && thread < THREADS && strncmp(line, "loop", 4) != 0 && strncmp(line, "cost", 4) != 0) {
            if (write(to[thread][1], line, sizeof line) != (ssize_t)sizeof line ||
                read(from[thread][0], answer, sizeof answer) != (ssize_t)sizeof answer)
                return 1;
        } else
            process_do(line, answer, sizeof answer);
        printf("%s\n", answer);
        fflush(stdout);
    }
    return 0;
}
