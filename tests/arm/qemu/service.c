/*
 * A program like a small service, for the boards in QEMU: four threads that use CPU time in parts of 40, 30, 20 and 10,
 * with pauses, profiled through the public interface only.
 *
 *   service CPU_MS RATE_HZ file:///PATH      profiles go to that file
 *   service CPU_MS RATE_HZ receive:///PATH   ... by HTTP to a receiver in a child process, which writes that file
 *
 * What each part really used (its thread's CPU clock), what the process used (getrusage, less the profiler's own two
 * threads, which a slow emulator makes dear) and what the profiler says of itself is printed as one line of JSON;
 * check_profile.py compares. Exit code: 0 when it ran and stopped cleanly.
 *
 * main -> receiver_start -> receive          before there are threads
 *      -> part_40 .. part_10 on a thread each -> use -> mix
 */
#include "../../program.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <edgeprof/edgeprof.h>

#define PARTS    4
#define NOINLINE __attribute__((noinline, noipa))

static uint8_t memory[EP_MEMORY_DEFAULT];
static double part_used[PARTS];
static double total_seconds;
static unsigned sink;

/* ---- the receiver ---- */

static size_t content_length(const char *head)
{
    const char *at = strstr(head, "Content-Length: ");
    return at ? strtoul(at + 16, NULL, 10) : 0;
}

static int write_frame(int file, const char *body, size_t size)
{
    uint8_t length[4] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16), (uint8_t)(size >> 24)};
    return write(file, length, 4) == 4 && write(file, body, size) == (ssize_t)size ? 0 : -1;
}

/* Takes the whole requests out of buffer; returns how many bytes are left over, -1 when one was bad. */
static ssize_t take_requests(int peer, int file, char *buffer, size_t have)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    for (;;) {
        buffer[have] = '\0';
        char *end = strstr(buffer, "\r\n\r\n");
        if (!end)
            return (ssize_t)have;
        size_t head = (size_t)(end + 4 - buffer), body = content_length(buffer);
        if (strncmp(buffer, "POST /edgeprof/v1/push ", 23) != 0 || body == 0)
            return -1;
        if (have < head + body)
            return (ssize_t)have;
        if (write_frame(file, buffer + head, body) != 0 || write(peer, answer, sizeof answer - 1) < 0)
            return -1;
        memmove(buffer, buffer + head + body, have - head - body);
        have -= head + body;
    }
}

static void serve(int peer, int file)
{
    static char buffer[1 << 17];
    ssize_t left = 0, n;

    while (left >= 0 && (n = read(peer, buffer + left, sizeof buffer - 1 - (size_t)left)) > 0)
        left = take_requests(peer, file, buffer, (size_t)(left + n));
    if (left < 0)
        fprintf(stderr, "service: the receiver got something else than a profile\n");
    (void)close(peer);
}

/* Serves one connection after another until it is killed. */
static void receive(int listener, const char *path)
{
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (file < 0) {
        perror(path);
        exit(1);
    }
    for (;;) {
        int peer = accept(listener, NULL, NULL);
        if (peer >= 0)
            serve(peer, file);
    }
}

/* The receiver's process id; its address is written to endpoint. */
static pid_t receiver_start(const char *path, char *endpoint, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        perror("service: receiver");
        exit(1);
    }
    (void)snprintf(endpoint, size, "http://127.0.0.1:%u", ntohs(address.sin_port));
    pid_t child = fork();
    if (child == 0)
        receive(listener, path);
    (void)close(listener);
    return child;
}

/* ---- the service ---- */

static double clock_s(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static NOINLINE unsigned mix(unsigned seed)
{
    for (int i = 0; i < 400000; i++)
        seed = seed * 1664525u + 1013904223u;
    return seed;
}

static NOINLINE void use(int part, double seconds)
{
    unsigned seed = (unsigned)part;
    double pause_at = 0.02;

    for (double now = 0; now < seconds; now = clock_s(CLOCK_THREAD_CPUTIME_ID)) {
        seed = mix(seed);
        if (now > pause_at) {
            struct timespec pause = {.tv_nsec = 1000000 + (long)(seed % 3000000)};
            (void)nanosleep(&pause, NULL);
            pause_at = now + 0.01 + seed % 1000 * 2e-5;
        }
    }
    __atomic_fetch_add(&sink, seed, __ATOMIC_RELAXED);
    part_used[part] = clock_s(CLOCK_THREAD_CPUTIME_ID);
}

#define PART(index, percent)                                                                                           \
    static NOINLINE void *part_##percent(void *unused)                                                                 \
    {                                                                                                                  \
        use(index, total_seconds *percent / 100);                                                                      \
        return unused;                                                                                                 \
    }
PART(0, 40)
PART(1, 30)
PART(2, 20)
PART(3, 10)

static double process_s(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int run_threads(void)
{
    static void *(*const part[PARTS])(void *) = {part_40, part_30, part_20, part_10};
    pthread_t thread[PARTS];

    for (int i = 0; i < PARTS; i++)
        if (pthread_create(&thread[i], NULL, part[i], NULL) != 0)
            return -1;
    for (int i = 0; i < PARTS; i++)
        (void)pthread_join(thread[i], NULL);
    return 0;
}

static void print_truth(double used, int stopped, const struct ep_stats *stats)
{
    unsigned long long lost = 0;

    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        lost += stats->lost_count[i];
    printf("{\"parts\":{\"part_40\":%.6f,\"part_30\":%.6f,\"part_20\":%.6f,\"part_10\":%.6f},", part_used[0],
           part_used[1], part_used[2], part_used[3]);
    printf("\"used\":%.6f,\"stop\":%d,\"samples\":%llu,\"weight\":%.6f,\"ends\":%.6f,\"lost\":%llu,", used, stopped,
           (unsigned long long)stats->samples, (double)stats->weight_ns / 1e9, (double)stats->thread_exit_ns / 1e9,
           lost);
    printf("\"exact\":%llu,\"gap\":%llu,\"cut\":%llu,\"messages\":%llu,\"delivered\":%llu,\"failures\":%llu}\n",
           (unsigned long long)stats->exact, (unsigned long long)stats->gap, (unsigned long long)stats->cut,
           (unsigned long long)stats->messages, (unsigned long long)stats->delivered,
           (unsigned long long)stats->delivery_failures);
}

int main(int argc, char **argv)
{
    static const char receive_scheme[] = "receive://";
    char endpoint[64];
    pid_t receiver = 0;
    struct ep_stats stats;

    if (argc != 4) {
        fprintf(stderr, "usage: service CPU_MS RATE_HZ file:///PATH|receive:///PATH\n");
        return 2;
    }
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .service = "qemu-service",
                               .rate_hz = (uint32_t)atoi(argv[2]),
                               .interval_ms = 1000,
                               .endpoint = argv[3]};
    if (strncmp(argv[3], receive_scheme, sizeof receive_scheme - 1) == 0) {
        receiver = receiver_start(argv[3] + sizeof receive_scheme - 1, endpoint, sizeof endpoint);
        config.endpoint = endpoint;
    }
    total_seconds = atoi(argv[1]) / 1e3;
    double before = process_s();
    if (ep_start(&config) != 0) {
        fprintf(stderr, "service: %s\n", ep_start_error());
        return 1;
    }
    int failed = run_threads();
    int stopped = ep_stop(5000);
    double used = process_s() - before;
    (void)ep_stats_get(&stats);
    if (receiver > 0) {
        (void)kill(receiver, SIGTERM);
        (void)waitpid(receiver, NULL, 0);
    }
    print_truth(used - (double)(stats.collect_cpu_ns + stats.deliver_cpu_ns) / 1e9, stopped, &stats);
    return failed || stopped != 0;
}
