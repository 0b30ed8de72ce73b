/*
 * MQTT 3.1.1 with QoS 1, over TCP or any other struct ep_stream. The endpoint is "host:port". Each message is published
 * as edgeprof/SERVICE on a connection of its own, and counts as delivered when the broker has acknowledged it.
 *
 * A broker cannot pass on the server's answer. The subscriber must keep the order of messages and post them to
 * /edgeprof/v1/push. If that answers 409, the segment is lost until the program restarts. After
 * ep_pprof_start() each message is independent.
 */
#include <errno.h>
#include <string.h>

#include <edgeprof/transport.h>

#define STREAM  (&ep_stream_tcp)
#define LARGEST (1u << 20)

struct mqtt {
    const struct ep_target *target;
    const struct ep_deadline *deadline;
    int err; /* of this message; after an error the rest is skipped */
    char host[128];
    const char *port; /* points into host */
    uint64_t stream[32];
};

static int mqtt_open(void *state, const struct ep_target *target)
{
    struct mqtt *mqtt = state;
    const char *colon = target->endpoint ? strrchr(target->endpoint, ':') : NULL;

    if (!colon || colon == target->endpoint || !colon[1] || strlen(target->endpoint) >= sizeof mqtt->host)
        return -EINVAL;
    mqtt->target = target;
    strcpy(mqtt->host, target->endpoint);
    mqtt->port = mqtt->host + (colon - target->endpoint) + 1;
    mqtt->host[colon - target->endpoint] = '\0';
    return STREAM->state_size <= sizeof mqtt->stream ? 0 : -EINVAL;
}

static void put(struct mqtt *mqtt, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size && !mqtt->err;) {
        long n = STREAM->write(mqtt->stream, (const char *)bytes + done, size - done, mqtt->deadline);
        if (n < 0)
            mqtt->err = (int)n;
        else
            done += (size_t)n;
    }
}

static void put_text(struct mqtt *mqtt, const char *text)
{
    size_t size = strlen(text);
    put(mqtt, (uint8_t[]){(uint8_t)(size >> 8), (uint8_t)size}, 2);
    put(mqtt, text, size);
}

/* Writes a packet's first byte and its length, seven bits a byte. */
static void put_head(struct mqtt *mqtt, uint8_t type, size_t size)
{
    uint8_t head[5] = {type};
    size_t at = 1;

    for (; size >= 128; size >>= 7)
        head[at++] = (uint8_t)(size | 128);
    head[at++] = (uint8_t)size;
    put(mqtt, head, at);
}

/* Reads the broker's answer; the ones needed here have four bytes. */
static void expect(struct mqtt *mqtt, const uint8_t answer[4])
{
    uint8_t heard[4];

    for (size_t done = 0; done < 4 && !mqtt->err;) {
        long n = STREAM->read(mqtt->stream, heard + done, 4 - done, mqtt->deadline);
        if (n <= 0)
            mqtt->err = n < 0 ? (int)n : -ECONNRESET;
        else
            done += (size_t)n;
    }
    if (!mqtt->err && memcmp(heard, answer, 4) != 0)
        mqtt->err = -EPROTO;
}

static int mqtt_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                     uint64_t *retry_ns)
{
    struct mqtt *mqtt = state;
    const char *service = mqtt->target->service;
    size_t topic = strlen("edgeprof/") + strlen(service);
    (void)retry_ns;

    if (message->size > LARGEST)
        return -EMSGSIZE;
    mqtt->deadline = deadline;
    mqtt->err = STREAM->connect(mqtt->stream, mqtt->host, mqtt->port, deadline);
    put_head(mqtt, 0x10, 12 + strlen(service)); /* CONNECT, clean session, 60 s of keep-alive */
    put(mqtt, "\0\4MQTT\4\2\0\74", 10);
    put_text(mqtt, service);
    expect(mqtt, (uint8_t[]){0x20, 2, 0, 0});            /* CONNACK */
    put_head(mqtt, 0x32, 2 + topic + 2 + message->size); /* PUBLISH, QoS 1 */
    put(mqtt, (uint8_t[]){(uint8_t)(topic >> 8), (uint8_t)topic}, 2);
    put(mqtt, "edgeprof/", strlen("edgeprof/"));
    put(mqtt, service, strlen(service));
    put(mqtt, "\0\1", 2); /* the packet's number */
    put(mqtt, message->data, message->size);
    expect(mqtt, (uint8_t[]){0x40, 2, 0, 1}); /* PUBACK */
    int err = mqtt->err;
    put(mqtt, "\xe0\0", 2); /* DISCONNECT; whether it arrives does not matter */
    STREAM->close(mqtt->stream);
    return err;
}

const struct ep_transport mqtt_transport = {
    .name = "mqtt",
    .state_size = sizeof(struct mqtt),
    .open = mqtt_open,
    .send = mqtt_send,
};
