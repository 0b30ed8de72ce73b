/*
 * See far.h.
 *
 *   run -> attend -> connection -> serve -> hear, keep, answer
 *
 * A part begins when the thread has seen it (far_play waits for that): a connection in the middle of a message is
 * closed, one that is idle stays, unless nobody listened to it or nobody is there any more.
 */
#include "../program.h"
#include "far.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <termios.h>

#define SLOW_BYTES 8 /* a millisecond */

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    exit(1);
}

static void pause_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static bool readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, 5) == 1;
}

void far_pause(void)
{
    pause_ms(2);
}

/* ---- parts ---- */

static enum ep_far part_now(struct far *far, unsigned *turn, bool *stop)
{
    pthread_mutex_lock(&far->lock);
    enum ep_far part = far->part;
    *turn = far->turn;
    *stop = far->stop;
    pthread_mutex_unlock(&far->lock);
    return part;
}

enum ep_far far_part(struct far *far)
{
    unsigned turn;
    bool stop;
    return part_now(far, &turn, &stop);
}

static bool is_over(struct far *far)
{
    unsigned turn;
    bool stop;

    (void)part_now(far, &turn, &stop);
    return stop || turn != far->seen;
}

static void far_play(void *context, enum ep_far part)
{
    struct far *far = context;

    pthread_mutex_lock(&far->lock);
    far->part = part;
    far->turn++;
    while (far->seen != far->turn)
        pthread_cond_wait(&far->changed, &far->lock);
    pthread_mutex_unlock(&far->lock);
}

/* The part that is played from here on. */
static enum ep_far begin_part(struct far *far)
{
    pthread_mutex_lock(&far->lock);
    enum ep_far part = far->part;
    far->seen = far->turn;
    pthread_cond_broadcast(&far->changed);
    pthread_mutex_unlock(&far->lock);
    return part;
}

/* ---- what was kept ---- */

void far_keep(struct far *far, const uint8_t *bytes, long size)
{
    struct far_kept *kept = malloc(sizeof *kept + (size_t)size);

    must(kept != NULL, "malloc");
    kept->next = NULL;
    kept->size = size;
    memcpy(kept->bytes, bytes, (size_t)size);
    pthread_mutex_lock(&far->lock);
    *far->last = kept;
    far->last = &kept->next;
    pthread_mutex_unlock(&far->lock);
}

/* What was answered has been kept before. */
static long far_take(void *context, uint8_t *bytes, size_t size)
{
    struct far *far = context;
    long result = -1;

    pthread_mutex_lock(&far->lock);
    struct far_kept *kept = far->first;
    if (kept) {
        far->first = kept->next;
        if (!far->first)
            far->last = &far->first;
        result = kept->size;
        memcpy(bytes, kept->bytes, (size_t)result < size ? (size_t)result : size);
    }
    pthread_mutex_unlock(&far->lock);
    free(kept);
    return result;
}

/* ---- bytes ---- */

bool far_read(struct far *far, int fd, void *bytes, size_t size)
{
    bool slow = far->part == EP_FAR_SLOW;

    for (size_t done = 0; done < size;) {
        if (is_over(far))
            return false;
        if (!readable(fd))
            continue;
        ssize_t n = read(fd, (char *)bytes + done, slow && size - done > SLOW_BYTES ? SLOW_BYTES : size - done);
        if (n <= 0)
            return false;
        done += (size_t)n;
        if (slow)
            pause_ms(1);
    }
    return true;
}

void far_write(struct far *far, int fd, const void *bytes, size_t size)
{
    bool slow = far->part == EP_FAR_SLOW;

    for (size_t done = 0; done < size && !is_over(far);) {
        size_t portion = slow && size - done > SLOW_BYTES ? SLOW_BYTES : size - done;
        ssize_t n = far->protocol->terminal ? write(fd, (const char *)bytes + done, portion)
                                            : send(fd, (const char *)bytes + done, portion, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return;
        done += n > 0 ? (size_t)n : 0;
        if (slow || n < 0)
            pause_ms(1);
    }
}

/* ---- one connection ---- */

static void end_connection(struct far *far, int fd, bool reset)
{
    struct linger now = {.l_onoff = 1};
    char bytes[256];

    if (far->protocol->terminal) {
        while (read(fd, bytes, sizeof bytes) > 0)
            ;
        return;
    }
    if (reset)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

/* Something has come. False: the connection is over. */
static bool serve(struct far *far, int fd, enum ep_far part)
{
    static uint8_t bytes[FAR_LARGEST];

    if (part == EP_FAR_HANGS_UP || part == EP_FAR_RESETS) {
        (void)!read(fd, bytes, 1000);
        return false;
    }
    long n = far->protocol->hear(far, fd, bytes);
    if (n < 0)
        return false;
    if (n > 0 && (part == EP_FAR_TAKES || part == EP_FAR_SLOW))
        far_keep(far, bytes, n);
    if (part != EP_FAR_SILENT)
        far->protocol->answer(far, fd, part);
    return true;
}

static void connection(struct far *far, int fd)
{
    enum ep_far part = far->part;
    bool open = true;

    while (open) {
        unsigned turn;
        bool stop;
        enum ep_far next = part_now(far, &turn, &stop);
        if (stop || (turn != far->seen && (part == EP_FAR_DEAF || next == EP_FAR_ABSENT)))
            break;
        if (turn != far->seen)
            part = begin_part(far);
        if (part == EP_FAR_DEAF)
            pause_ms(2);
        else if (readable(fd))
            open = serve(far, fd, part);
    }
    end_connection(far, fd, part == EP_FAR_RESETS);
}

/* ---- the thread ---- */

static void listen_again(struct far *far)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int on = 1, window = 4096;

    a.sin_port = htons((in_port_t)strtoul(far->port, NULL, 10));
    far->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    must(far->listening >= 0, "socket");
    setsockopt(far->listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(far->listening, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
    must(bind(far->listening, (struct sockaddr *)&a, sizeof a) == 0, "bind");
    must(listen(far->listening, 16) == 0, "listen");
    must(getsockname(far->listening, (struct sockaddr *)&a, &size) == 0, "getsockname");
    snprintf(far->port, sizeof far->port, "%u", ntohs(a.sin_port));
}

static void open_terminal(struct far *far)
{
    far->listening = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    must(far->listening >= 0 && grantpt(far->listening) == 0 && unlockpt(far->listening) == 0, "posix_openpt");
    must(ptsname_r(far->listening, far->device, sizeof far->device) == 0, "ptsname_r");
    far->slave = open(far->device, O_RDWR | O_NOCTTY | O_CLOEXEC);
    must(far->slave >= 0, far->device);
    struct termios raw;
    must(tcgetattr(far->slave, &raw) == 0, "tcgetattr");
    cfmakeraw(&raw);
    must(tcsetattr(far->slave, TCSANOW, &raw) == 0, "tcsetattr");
}

/* Those who have come while nobody listened. */
static void turn_away(struct far *far)
{
    int fd;

    while (!far->protocol->terminal && (fd = accept(far->listening, NULL, NULL)) >= 0)
        close(fd);
}

static void change_part(struct far *far)
{
    enum ep_far part = far_part(far);

    if (far->listening >= 0)
        turn_away(far);
    if (part == EP_FAR_ABSENT && far->listening >= 0) {
        close(far->listening);
        far->listening = -1;
    } else if (part != EP_FAR_ABSENT && far->listening < 0 && !far->protocol->memory) {
        listen_again(far);
    }
    (void)begin_part(far);
}

static void *run(void *context)
{
    struct far *far = context;
    unsigned turn;
    bool stop = false;

    for (; !stop; (void)part_now(far, &turn, &stop)) {
        if (is_over(far)) {
            change_part(far);
        } else if (far->protocol->terminal) {
            connection(far, far->listening);
        } else if (far->listening < 0 || !readable(far->listening)) {
            pause_ms(1);
        } else {
            int fd = accept4(far->listening, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0)
                connection(far, fd);
        }
    }
    return NULL;
}

void far_start(struct far *far, const struct far_protocol *protocol)
{
    *far = (struct far){.protocol = protocol, .listening = -1, .slave = -1, .part = EP_FAR_TAKES};
    pthread_mutex_init(&far->lock, NULL);
    pthread_cond_init(&far->changed, NULL);
    far->last = &far->first;
    if (protocol->terminal)
        open_terminal(far);
    else if (!protocol->memory)
        listen_again(far);
    must(pthread_create(&far->thread, NULL, run, far) == 0, "pthread_create");
}

void far_stop(struct far *far)
{
    uint8_t none[1];

    pthread_mutex_lock(&far->lock);
    far->stop = true;
    pthread_mutex_unlock(&far->lock);
    pthread_join(far->thread, NULL);
    close(far->listening);
    if (far->slave >= 0)
        close(far->slave);
    while (far_take(far, none, 0) >= 0)
        ;
}

struct ep_contract_far far_contract(struct far *far)
{
    return (struct ep_contract_far){.context = far, .can = far->protocol->can, .play = far_play, .kept = far_take};
}
