/* The protocols of far.h: as much of each as a transport needs to be answered. */

#include "../program.h"
#include "far.h"

#define SOCKETS                                                                                                        \
    (EP_FAR_BIT(EP_FAR_TAKES) | EP_FAR_BIT(EP_FAR_SLOW) | EP_FAR_BIT(EP_FAR_SILENT) | EP_FAR_BIT(EP_FAR_DEAF) |        \
     EP_FAR_BIT(EP_FAR_HANGS_UP) | EP_FAR_BIT(EP_FAR_RESETS) | EP_FAR_BIT(EP_FAR_ABSENT))
#define VERDICTS (EP_FAR_BIT(EP_FAR_STALE) | EP_FAR_BIT(EP_FAR_REFUSES) | EP_FAR_BIT(EP_FAR_BUSY))

static void say(struct far *far, int fd, const char *text)
{
    far_write(far, fd, text, strlen(text));
}

/* ---- HTTP ---- */

static long http_hear(struct far *far, int fd, uint8_t *bytes)
{
    char head[2048];
    size_t size = 0;

    do {
        if (size == sizeof head - 1 || !far_read(far, fd, head + size, 1))
            return -1;
        head[++size] = '\0';
    } while (size < 4 || memcmp(head + size - 4, "\r\n\r\n", 4) != 0);
    const char *length = strstr(head, "Content-Length: ");
    size_t body = length ? strtoul(length + 16, NULL, 10) : 0;
    if (!length || body > FAR_LARGEST || !far_read(far, fd, bytes, body))
        return -1;
    return (long)body;
}

static void http_answer(struct far *far, int fd, enum ep_far part)
{
    static const char *const answers[EP_FARS] = {
        [EP_FAR_TAKES] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        [EP_FAR_SLOW] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        [EP_FAR_GARBAGE] = "SSH-2.0-OpenSSH_9.2p1\r\n",
        [EP_FAR_STALE] = "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n",
        [EP_FAR_REFUSES] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        [EP_FAR_TOO_LARGE] = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n",
        [EP_FAR_BUSY] = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n",
    };
    say(far, fd, answers[part]);
}

const struct far_protocol far_http = {
    .can = SOCKETS | VERDICTS | EP_FAR_BIT(EP_FAR_GARBAGE) | EP_FAR_BIT(EP_FAR_TOO_LARGE),
    .hear = http_hear,
    .answer = http_answer,
};

/* ---- MQTT 3.1.1, the broker's side ---- */

#define CONNECT 0x10u
#define PUBLISH 0x32u

static long mqtt_hear(struct far *far, int fd, uint8_t *bytes)
{
    uint8_t byte, topic[2];
    size_t size = 0;

    if (!far_read(far, fd, &far->packet, 1))
        return -1;
    for (unsigned shift = 0; shift < 28; shift += 7) {
        if (!far_read(far, fd, &byte, 1))
            return -1;
        size |= (size_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    if (size > FAR_LARGEST || (far->packet == PUBLISH && size < 4))
        return -1;
    if (far->packet != PUBLISH)
        return far_read(far, fd, bytes, size) && far->packet == CONNECT && memcmp(bytes, "\0\4MQTT\4\2", 8) == 0 ? 0
                                                                                                                 : -1;
    if (!far_read(far, fd, topic, 2))
        return -1;
    size_t skip = (size_t)(topic[0] << 8 | topic[1]) + 2;
    if (skip > size - 2 || !far_read(far, fd, bytes, skip) || memcmp(bytes, "edgeprof/", 9) != 0)
        return -1;
    return far_read(far, fd, bytes, size - 2 - skip) ? (long)(size - 2 - skip) : -1;
}

static void mqtt_answer(struct far *far, int fd, enum ep_far part)
{
    static const char connack[4] = {0x20, 2, 0, 0}, puback[4] = {0x40, 2, 0, 1};

    if (part == EP_FAR_GARBAGE)
        say(far, fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
    else
        far_write(far, fd, far->packet == CONNECT ? connack : puback, 4);
}

const struct far_protocol far_mqtt = {
    .can = SOCKETS | EP_FAR_BIT(EP_FAR_GARBAGE),
    .hear = mqtt_hear,
    .answer = mqtt_answer,
};

/* ---- SLIP with a check sum, on a serial line ---- */

/* A frame whose check sum is wrong, or that is empty, is passed over. */
static long serial_hear(struct far *far, int fd, uint8_t *bytes)
{
    size_t size = 0;
    uint8_t byte;

    far->check = 2166136261u;
    for (;;) {
        if (size == FAR_LARGEST || !far_read(far, fd, &byte, 1))
            return -1;
        if (byte == 0xc0 && size > 4 && memcmp(&far->check, bytes + size - 4, 4) == 0)
            return (long)size - 4;
        if (byte == 0xc0) {
            size = 0;
            far->check = 2166136261u;
            continue;
        }
        if (byte == 0xdb) {
            if (!far_read(far, fd, &byte, 1))
                return -1;
            byte = byte == 0xdc ? 0xc0 : 0xdb;
        }
        if (size >= 4) /* the last four are not part of it */
            far->check = (far->check ^ bytes[size - 4]) * 16777619u;
        bytes[size++] = byte;
    }
}

static void serial_answer(struct far *far, int fd, enum ep_far part)
{
    uint8_t answer[5] = {'k'};

    if (part == EP_FAR_GARBAGE) {
        say(far, fd, "login: ");
        return;
    }
    answer[0] = (uint8_t)(part == EP_FAR_STALE ? 's' : part == EP_FAR_REFUSES ? 'n' : part == EP_FAR_BUSY ? 'w' : 'k');
    memcpy(answer + 1, &far->check, 4);
    far_write(far, fd, answer, sizeof answer);
}

const struct far_protocol far_serial = {
    .can = EP_FAR_BIT(EP_FAR_TAKES) | EP_FAR_BIT(EP_FAR_SLOW) | EP_FAR_BIT(EP_FAR_SILENT) | EP_FAR_BIT(EP_FAR_DEAF) |
           EP_FAR_BIT(EP_FAR_GARBAGE) | VERDICTS,
    .hear = serial_hear,
    .answer = serial_answer,
    .terminal = true,
};

/* ---- whatever is said comes back ---- */

static long echo_hear(struct far *far, int fd, uint8_t *bytes)
{
    ssize_t n = read(fd, bytes, 4096);

    if (n > 0 && far->part != EP_FAR_SILENT)
        far_write(far, fd, bytes, (size_t)n);
    return n > 0 ? 0 : -1;
}

static void echo_answer(struct far *far, int fd, enum ep_far part)
{
    (void)far;
    (void)fd;
    (void)part;
}

const struct far_protocol far_echo = {.can = SOCKETS, .hear = echo_hear, .answer = echo_answer};
