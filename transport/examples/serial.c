/*
 * A serial line to a gateway with a network connection. The endpoint is the device: "/dev/ttyS1". Both ends must use
 * the same speed, set beforehand (stty) or here.
 *
 * A message and its check sum form one SLIP frame (RFC 1055). The far end answers with five bytes: k accepted, s
 * segment unknown, n refused, w wait; and the check sum of the message, so that late answers are recognised.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <edgeprof/transport.h>

#define END     0xc0u
#define ESCAPE  0xdbu
#define LARGEST (1u << 20)

struct line {
    const char *device;
    const struct ep_deadline *deadline;
    int fd;
    uint32_t check;
};

static int line_open(void *state, const struct ep_target *target)
{
    struct line *line = state;

    line->device = target->endpoint;
    return line->device && line->device[0] == '/' ? 0 : -EINVAL;
}

/* Waits for the line, at most 100 ms at a time, because the deadline may be made earlier. */
static int wait_for(const struct line *line, short events)
{
    struct pollfd fd = {.fd = line->fd, .events = events};
    int n;

    do {
        if (ep_deadline_passed(line->deadline))
            return -ETIMEDOUT;
        n = poll(&fd, 1, 100);
    } while (n == 0 || (n < 0 && errno == EINTR));
    return n < 0 ? -errno : 0;
}

static int put(const struct line *line, const uint8_t *bytes, size_t size)
{
    int err = 0;

    while (size > 0 && !err) {
        ssize_t n = write(line->fd, bytes, size);
        if (n < 0)
            err = errno == EINTR ? 0 : errno == EAGAIN ? wait_for(line, POLLOUT) : -errno;
        else
            bytes += n, size -= (size_t)n;
    }
    return err;
}

static int put_escaped(struct line *line, const uint8_t *bytes, size_t size)
{
    uint8_t out[256];
    size_t fill = 0;
    int err = 0;

    for (size_t i = 0; i < size && !err; i++) {
        bool special = bytes[i] == END || bytes[i] == ESCAPE;
        if (special)
            out[fill++] = ESCAPE;
        out[fill++] = special ? (uint8_t)(bytes[i] == END ? 0xdc : 0xdd) : bytes[i];
        line->check = (line->check ^ bytes[i]) * 16777619u; /* FNV-1a */
        if (fill > sizeof out - 2 || i == size - 1) {
            err = put(line, out, fill);
            fill = 0;
        }
    }
    return err;
}

static int read_answer(const struct line *line)
{
    uint8_t answer[5] = {0}, byte;
    int err;

    while ((err = wait_for(line, POLLIN)) == 0) {
        ssize_t n = read(line->fd, &byte, 1);
        if (n <= 0)
            return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : -EIO;
        memmove(answer, answer + 1, 4);
        answer[4] = byte;
        if (memcmp(answer + 1, &line->check, 4) != 0)
            continue;
        return answer[0] == 'k' ? 0 : answer[0] == 's' ? -ESTALE : answer[0] == 'n' ? -EBADMSG : -EAGAIN;
    }
    return err;
}

static int line_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                     uint64_t *retry_ns)
{
    static const uint8_t end = END;
    struct line *line = state;
    struct termios raw;

    if (message->size > LARGEST)
        return -EMSGSIZE;
    line->deadline = deadline;
    line->check = 2166136261u;
    line->fd = open(line->device, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (line->fd < 0)
        return -errno;
    int err = tcgetattr(line->fd, &raw) == 0 ? 0 : -errno;
    cfmakeraw(&raw);
    if (!err && (tcsetattr(line->fd, TCSANOW, &raw) != 0 || tcflush(line->fd, TCIOFLUSH) != 0))
        err = -errno;
    err = err ? err : put(line, &end, 1);
    err = err ? err : put_escaped(line, message->data, message->size);
    uint32_t check = line->check; /* the check sum does not include itself */
    err = err ? err : put_escaped(line, (const uint8_t *)&check, sizeof check);
    line->check = check;
    err = err ? err : put(line, &end, 1);
    err = err ? err : read_answer(line);
    tcflush(line->fd, TCIOFLUSH); /* else close() would wait until everything is sent */
    close(line->fd);
    if (err == -EAGAIN)
        *retry_ns = 30 * UINT64_C(1000000000);
    return err;
}

const struct ep_transport serial_transport = {
    .name = "serial",
    .state_size = sizeof(struct line),
    .open = line_open,
    .send = line_send,
};
