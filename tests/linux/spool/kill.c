/*
 * The spool on a real file system, in a process that is killed at any moment, again and again.
 *
 * usage: kill DIRECTORY RUNS SEED
 *
 * Each run is a child that profiles itself and spools or delivers, until it is killed (SIGKILL) after some
 * milliseconds. The receiver is this process: it answers as edgeprof serve does, and knows what it has. Each child says
 * in shared memory how many messages it was told are safe. At the end, with a link that is up and nobody killed, each
 * message that was delivered or acknowledged to the spool must have arrived, once, and whole.
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>
#include "tests/unit/wire.h"
#include <edgeprof/transport.h>

#define SEGMENTS 65536u
#define MESSAGE  65536u

/* What the child that runs has been told; the parent reads it when the child is dead. */
struct told {
    _Atomic uint64_t encoded, live, spooled, lost, left;
};

static struct told *told;
static int link_fd = -1;
static bool link_up;
static uint64_t dice;

static struct {
    uint64_t segment;
    uint32_t next;
} known[SEGMENTS];
static unsigned segments;
static uint64_t arrived, repeated;

static uint32_t roll(uint32_t sides)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice >> 33) % sides;
}

static void fail(const char *what)
{
    fprintf(stderr, "kill: %s\n", what);
    exit(1);
}

/* ---- the child ---- */

static int child_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                      uint64_t *retry_ns)
{
    int answer;

    (void)state;
    (void)deadline;
    (void)retry_ns;
    if (!link_up)
        return -ECONNREFUSED;
    if (send(link_fd, message->data, message->size, MSG_NOSIGNAL) < 0)
        return -errno;
    return recv(link_fd, &answer, sizeof answer, 0) == sizeof answer ? answer : -ECONNRESET;
}

static const struct ep_transport transport = {.name = "parent", .send = child_send};

static void burn(uint64_t ns)
{
    uint64_t until = now_ns() + ns;

    while (now_ns() < until)
        ;
}

static void tell(void)
{
    struct ep_stats stats;
    uint64_t lost = 0;

    (void)ep_stats_get(&stats);
    for (unsigned i = EP_LOSS_REFUSED; i < EP_LOSS_REASONS; i++)
        lost += stats.lost_count[i];
    told->encoded = stats.messages;
    told->live = stats.delivered - stats.replayed;
    told->spooled = stats.spooled;
    told->lost = lost;
    told->left = stats.spool_messages + stats.messages - stats.spooled - (stats.delivered - stats.replayed);
}

static void child(const char *dir, bool last)
{
    static uint64_t memory[EP_MEMORY_DEFAULT / 8], spool_memory[EP_SPOOL_MEMORY / 8];
    const struct ep_spool_config spool = {
        .dir = dir, .memory = spool_memory, .memory_size = sizeof spool_memory, .sync_ms = 1, .link_share_pct = 100};
    const struct ep_config config = {.memory = memory,
                                     .memory_size = sizeof memory,
                                     .rate_hz = 1000,
                                     .interval_ms = 100,
                                     .transport = &transport,
                                     .flags = EP_MANUAL};

    if (ep_spool_start(&spool) != 0 || ep_start(&config) != 0)
        fail(ep_start_error());
    for (unsigned i = 0; !last || i < 200; i++) {
        if (!last)
            burn(5000000);
        (void)ep_flush();
        (void)ep_collect();
        (void)ep_deliver(1000);
        tell();
    }
    exit(0);
}

/* ---- the receiver ---- */

static int answer_to(const uint8_t *bytes, size_t size)
{
    struct wire message = wire_open(bytes, size);
    struct wire_field field;
    uint64_t segment = 0, sequence = 0;
    unsigned i = 0;

    while (wire_next(&message, &field)) {
        segment = field.tag == 1 ? field.number : segment;
        sequence = field.tag == 2 ? field.number : sequence;
    }
    if (message.bad || segment == 0)
        fail("something that is no message was sent");
    while (i < segments && known[i].segment != segment)
        i++;
    if (i == segments) {
        if (sequence != 0)
            return -ESTALE;
        if (segments == SEGMENTS)
            fail("too many segments");
        known[segments].segment = segment;
        known[segments++].next = 0;
    }
    if (sequence < known[i].next) {
        repeated++;
        return 0;
    }
    if (sequence != known[i].next)
        return -ESTALE;
    known[i].next++;
    arrived++;
    return 0;
}

/* Answers until the child is dead; kills it at kill_at_ns, 0: never. */
static void receive(int fd, pid_t pid, uint64_t kill_at_ns)
{
    static uint8_t bytes[MESSAGE];
    bool killed = false;

    for (;;) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        uint64_t now = now_ns();
        if (kill_at_ns && !killed && now >= kill_at_ns) {
            (void)kill(pid, SIGKILL);
            killed = true;
        }
        if (poll(&waiting, 1, 1) <= 0)
            continue;
        ssize_t size = recv(fd, bytes, sizeof bytes, 0);
        if (size <= 0)
            return; /* the other end is gone, and all that it has sent is read */
        int answer = answer_to(bytes, (size_t)size);
        (void)send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
    }
}

static void run(const char *dir, bool last, uint64_t *safe, uint64_t *measured, uint64_t *lost)
{
    int fd[2], status;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) != 0)
        fail("no socket");
    memset(told, 0, sizeof *told);
    link_up = last || roll(2);
    uint64_t life = 1000000u * (1 + roll(150));
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fd[0]);
        link_fd = fd[1];
        child(dir, last);
    }
    (void)close(fd[1]);
    receive(fd[0], pid, last ? 0 : now_ns() + life);
    (void)close(fd[0]);
    (void)waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        fail("a run ended with an error");
    *safe += told->live + told->spooled;
    *measured += told->encoded + 1; /* one may have been made after it was last told */
    *lost += told->lost;
}

int main(int argc, char **argv)
{
    uint64_t safe = 0, measured = 0, lost = 0;

    if (argc != 4)
        fail("usage: kill DIRECTORY RUNS SEED");
    unsigned runs = (unsigned)atoi(argv[2]);
    dice = (uint64_t)atoll(argv[3]);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        fail("no memory");
    for (unsigned i = 0; i < runs; i++)
        run(argv[1], false, &safe, &measured, &lost);
    run(argv[1], true, &safe, &measured, &lost);
    printf("kill: %u runs: %llu messages, %llu of them delivered or acknowledged, %llu arrived, %llu came again, "
           "%llu samples counted as lost\n",
           runs, (unsigned long long)measured, (unsigned long long)safe, (unsigned long long)arrived,
           (unsigned long long)repeated, (unsigned long long)lost);
    if (told->left != 0)
        fail("something is left in the spool at the end");
    if (lost != 0)
        fail("something was lost");
    if (arrived < safe || arrived > measured)
        fail("not what was safe has arrived");
    if (safe < runs / 4)
        fail("too little happened for a test");
    return 0;
}
