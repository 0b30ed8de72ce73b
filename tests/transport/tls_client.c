/*
 * Sends messages over https as the library does, and says what came of it: for tls_test.py and tls_faults.py.
 *
 *     tls_client ENDPOINT [MESSAGES [BYTES [DEADLINE_MS]]]
 *
 * EDGEPROF_TLS_*      as for any program
 * TEST_FROM_MEMORY=1  files are read here and handed over as memory
 * TEST_MEMORY=BYTES   of EP_TLS_MEMORY; TEST_UNIX=SECONDS: what the clock says
 *
 * A line for each message: "ok", or "EKEYREJECTED the line for people"; then one with figures: step_us is the CPU time
 * of the longest step of a handshake, during which nobody looks at the deadline.
 */
#include "../program.h"

#include <stdalign.h>

#include <edgeprof/port.h>
#include <edgeprof/tls.h>
#include <edgeprof/transport.h>

static alignas(16) uint8_t memory[2 * EP_TLS_MEMORY];
static char files[3][65536];

uint64_t __real_ep_port_unix_ns(void);
uint64_t __wrap_ep_port_unix_ns(void);

uint64_t __wrap_ep_port_unix_ns(void)
{
    const char *seconds = getenv("TEST_UNIX");

    return seconds ? strtoull(seconds, NULL, 10) * 1000000000u : __real_ep_port_unix_ns();
}

static unsigned long step_us;
int __real_ep_mbedtls_ssl_handshake_step(void *ssl);
int __wrap_ep_mbedtls_ssl_handshake_step(void *ssl);

static unsigned long cpu_us(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (unsigned long)now.tv_sec * 1000000 + (unsigned long)now.tv_nsec / 1000;
}

int __wrap_ep_mbedtls_ssl_handshake_step(void *ssl)
{
    unsigned long begin = cpu_us();
    int result = __real_ep_mbedtls_ssl_handshake_step(ssl);
    unsigned long took = cpu_us() - begin;

    if (took > step_us)
        step_us = took;
    return result;
}

static size_t from_memory(const char **file, const void **bytes, char *buffer)
{
    int fd = *file ? open(*file, O_RDONLY) : -1;
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, buffer, sizeof files[0]);
    close(fd);
    *file = NULL;
    *bytes = buffer;
    return got > 0 ? (size_t)got : 0;
}

static int setup(void)
{
    const char *size = getenv("TEST_MEMORY");
    struct ep_tls_config tls = {.memory = memory, .memory_size = size ? strtoul(size, NULL, 10) : EP_TLS_MEMORY};
    int err = ep_tls_config_from_env(&tls);

    if (!err && getenv("TEST_FROM_MEMORY")) {
        tls.ca_size = from_memory(&tls.ca_file, &tls.ca, files[0]);
        tls.cert_size = from_memory(&tls.cert_file, &tls.cert, files[1]);
        tls.key_size = from_memory(&tls.key_file, &tls.key, files[2]);
    }
    if (!err)
        err = ep_tls_setup(&tls);
    if (err)
        printf("setup %s %s\n", strerrorname_np(-err), ep_tls_error());
    return err;
}

static void send_one(const struct ep_transport *transport, void *state, struct ep_message *message, unsigned ms)
{
    struct ep_deadline deadline = {ep_port_uptime_ns() + ms * UINT64_C(1000000)};
    uint64_t retry_ns = 0;
    int err = transport->send(state, message, &deadline, &retry_ns);

    message->sequence++;
    if (err)
        printf("%s %s\n", strerrorname_np(-err), ep_tls_error());
    else
        printf("ok\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static uint64_t state[EP_TRANSPORT_BYTES / sizeof(uint64_t)];
    static uint8_t data[1 << 20];
    unsigned long values[] = {1, 100, 10000};

    for (int i = 2; i < argc && i < 5; i++)
        values[i - 2] = strtoul(argv[i], NULL, 10);
    if (argc < 2 || values[1] > sizeof data)
        return 2;
    if (setup() != 0)
        return 1;
    const struct ep_target target = {.endpoint = argv[1], .service = "test", .tags = ""};
    const struct ep_transport *transport = ep_transport_find(argv[1]);
    if (!transport || transport->open(state, &target) != 0) {
        printf("open EINVAL\n");
        return 1;
    }
    struct ep_message message = {.data = data, .size = values[1], .format = EP_FORMAT_COMPACT, .segment = 1};
    for (unsigned long i = 0; i < values[0]; i++)
        send_one(transport, state, &message, (unsigned)values[2]);
    transport->close(state);

    struct ep_tls_info info;
    ep_tls_info_get(&info);
    printf("peak=%zu handshakes=%llu resumed=%llu failed=%llu version=%u step_us=%lu\n", info.memory_peak,
           (unsigned long long)info.handshakes, (unsigned long long)info.resumed, (unsigned long long)info.failed,
           info.version, step_us);
    ep_tls_end();
    for (size_t i = EP_TLS_MEMORY; i < sizeof memory; i++)
        if (memory[i] != 0) {
            printf("memory beyond what was given was written\n");
            return 1;
        }
    return 0;
}
