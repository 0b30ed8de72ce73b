/*
 * transport/contract/ on everything that is shipped: the transports, the stream and the examples. And on some that are
 * wrong, each in one way: a contract that everybody keeps would say nothing. All at once, each in a process of its own.
 */

#include "../program.h"
#include "far.h"
#include <edgeprof/port.h>
#include "port/nativeaot/glue.h"

extern const struct ep_transport serial_transport, mqtt_transport;

uint64_t ep_port_uptime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- over sockets and lines ---- */

#define ALL (EP_FAR_BIT(EP_FARS) - 1)
#define FEW (EP_FAR_BIT(EP_FAR_TAKES) | EP_FAR_BIT(EP_FAR_SILENT) | EP_FAR_BIT(EP_FAR_ABSENT))

static unsigned over(const struct ep_transport *transport, const struct far_protocol *protocol, const char *format,
                     const char *const *bad, unsigned parts, size_t largest)
{
    struct far far;
    char endpoint[96];
    struct ep_contract_transport test = {.transport = transport,
                                         .target = {.endpoint = endpoint, .service = "contract", .tags = ""},
                                         .bad_endpoints = bad,
                                         .largest = largest};

    far_start(&far, protocol);
    snprintf(endpoint, sizeof endpoint, format, protocol->terminal ? far.device : far.port);
    test.far = far_contract(&far);
    test.far.can &= parts;
    unsigned broken = ep_contract_transport(&test);
    far_stop(&far);
    return broken;
}

static unsigned http(void)
{
    static const char *const bad[] = {"", "h", "http://", "http://h:0", "http://h/a b", NULL};
    return over(&ep_transport_http, &far_http, "http://127.0.0.1:%s/prefix", bad, ALL, 0);
}

/* Messages of one radio frame. */
static int sends_little(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                        uint64_t *retry_ns)
{
    return message->size > 255 ? -EMSGSIZE : ep_transport_http.send(state, message, deadline, retry_ns);
}

static unsigned small(void)
{
    struct ep_transport transport = ep_transport_http;

    transport.send = sends_little;
    return over(&transport, &far_http, "http://127.0.0.1:%s", NULL, ALL, 255);
}

static unsigned mqtt(void)
{
    static const char *const bad[] = {"", ":1883", "broker", "broker:", NULL};
    return over(&mqtt_transport, &far_mqtt, "127.0.0.1:%s", bad, ALL, 0);
}

static unsigned serial(void)
{
    static const char *const bad[] = {"", "ttyS0", NULL};
    return over(&serial_transport, &far_serial, "%s", bad, ALL, 0);
}

static unsigned over_stream(const struct ep_stream *stream)
{
    struct far far;
    struct ep_contract_stream test = {.name = "tcp", .stream = stream, .host = "127.0.0.1"};

    far_start(&far, &far_echo);
    test.port = far.port;
    test.far = far_contract(&far);
    unsigned broken = ep_contract_stream(&test);
    far_stop(&far);
    return broken;
}

static unsigned tcp(void)
{
    return over_stream(&ep_stream_tcp);
}

/* ---- managed code, played by a thread ---- */

static struct managed {
    struct far far; /* its parts and what it keeps; no connection */
    atomic_bool stop;
} managed_far;

static const struct far_protocol far_managed = {
    .can = EP_FAR_BIT(EP_FAR_TAKES) | EP_FAR_BIT(EP_FAR_SLOW) | EP_FAR_BIT(EP_FAR_SILENT) | EP_FAR_BIT(EP_FAR_STALE) |
           EP_FAR_BIT(EP_FAR_REFUSES) | EP_FAR_BIT(EP_FAR_BUSY),
    .memory = true,
};

/* Silence is a stream that takes its time: in the end it has it. */
static int managed_result(struct far *far, uint32_t run, const uint8_t *bytes, long size)
{
    static const int results[EP_FARS] = {
        [EP_FAR_STALE] = -ESTALE, [EP_FAR_REFUSES] = -EBADMSG, [EP_FAR_BUSY] = -EAGAIN};
    enum ep_far part = far_part(far);

    while (far_part(far) == EP_FAR_SILENT && ep_dotnet_message_run() == run)
        far_pause();
    if (part == EP_FAR_SLOW)
        far_pause();
    if (results[part] == 0 && ep_dotnet_message_run() == run)
        far_keep(far, bytes, size);
    return results[part];
}

static void *managed_pump(void *unused)
{
    static uint8_t small[64], large[FAR_LARGEST];
    struct ep_dotnet_message about;

    while (!atomic_load(&managed_far.stop)) {
        uint32_t run = ep_dotnet_message_run();
        int64_t size = run % 2 ? ep_dotnet_message_take(run, &about, small, sizeof small) : 0;
        const uint8_t *bytes = size == -EMSGSIZE ? large : small;
        if (size == -EMSGSIZE)
            size = ep_dotnet_message_take(run, &about, large, sizeof large);
        if (size > 0)
            ep_dotnet_message_done(run, managed_result(&managed_far.far, run, bytes, (long)size), 0);
        else
            far_pause();
    }
    return unused;
}

static unsigned managed(void)
{
    struct ep_contract_transport test = {.transport = &ep_dotnet_transport, .target = {.service = "", .tags = ""}};
    pthread_t pump;

    far_start(&managed_far.far, &far_managed);
    if (pthread_create(&pump, NULL, managed_pump, NULL) != 0)
        return 1;
    test.far = far_contract(&managed_far.far);
    unsigned broken = ep_contract_transport(&test);
    atomic_store(&managed_far.stop, true);
    pthread_join(pump, NULL);
    far_stop(&managed_far.far);
    return broken;
}

/* ---- files, and nothing ---- */

static char folder[] = "/tmp/edgeprof-contract-XXXXXX";
static long file_at;

static long kept_in_file(void *path, uint8_t *bytes, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t length[4];
    long n = -1;

    if (f && fseek(f, file_at, SEEK_SET) == 0 && fread(length, 1, 4, f) == 4) {
        n = (long)(length[0] | (unsigned)length[1] << 8 | (unsigned)length[2] << 16 | (unsigned)length[3] << 24);
        n = (size_t)n <= size && fread(bytes, 1, (size_t)n, f) == (size_t)n ? n : -2;
        file_at += 4 + n;
    }
    if (f)
        fclose(f);
    return n;
}

static unsigned file(void)
{
    static const char *const bad[] = {"", "file://", "file://relative", "http://h", NULL};
    char endpoint[96];
    struct ep_contract_transport test = {.transport = &ep_transport_file,
                                         .target = {.endpoint = endpoint, .service = "", .tags = ""},
                                         .bad_endpoints = bad};

    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    snprintf(endpoint, sizeof endpoint, "file://%s/profiles", folder);
    char *path = endpoint + strlen("file://");
    test.far = (struct ep_contract_far){.context = path, .can = EP_FAR_BIT(EP_FAR_TAKES), .kept = kept_in_file};
    unsigned broken = ep_contract_transport(&test);
    unlink(path);
    rmdir(folder);
    return broken;
}

static unsigned null(void)
{
    static const struct ep_contract_transport test = {.transport = &ep_transport_null,
                                                      .target = {.endpoint = "null:", .service = "", .tags = ""},
                                                      .far.can = EP_FAR_BIT(EP_FAR_TAKES)};
    return ep_contract_transport(&test);
}

/* ---- those that are wrong ---- */

static unsigned sends;

static int lies(void *state, const struct ep_message *message, const struct ep_deadline *deadline, uint64_t *retry_ns)
{
    int result = ep_transport_http.send(state, message, deadline, retry_ns);
    return result == -ETIMEDOUT || result == -ETIME ? 0 : result;
}

static int drops_the_last_byte(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                               uint64_t *retry_ns)
{
    struct ep_message less = *message;
    less.size -= message->size > 4096;
    return ep_transport_http.send(state, &less, deadline, retry_ns);
}

static int sends_twice(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                       uint64_t *retry_ns)
{
    if (++sends % 40 == 0)
        (void)ep_transport_http.send(state, message, deadline, retry_ns);
    return ep_transport_http.send(state, message, deadline, retry_ns);
}

/* Looks at it once. */
static int copies_the_deadline(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                               uint64_t *retry_ns)
{
    struct ep_deadline fixed = {.at_ns = ep_deadline_ns(deadline)};
    uint64_t most = ep_port_uptime_ns() + 3500 * UINT64_C(1000000);

    if (fixed.at_ns > most)
        fixed.at_ns = most;
    return ep_transport_http.send(state, message, &fixed, retry_ns);
}

static int gives_up(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                    uint64_t *retry_ns)
{
    int result = ep_transport_http.send(state, message, deadline, retry_ns);
    return result == -ECONNREFUSED ? -EBADMSG : result;
}

static int writes_behind(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                         uint64_t *retry_ns)
{
    ((uint8_t *)state)[ep_transport_http.state_size] = 0;
    return ep_transport_http.send(state, message, deadline, retry_ns);
}

static int raises(void *state, const struct ep_message *message, const struct ep_deadline *deadline, uint64_t *retry_ns)
{
    int ends[2], result = ep_transport_http.send(state, message, deadline, retry_ns);

    if (result == -ECONNREFUSED && pipe(ends) == 0) {
        close(ends[0]);
        (void)!write(ends[1], "x", 1);
        close(ends[1]);
    }
    return result;
}

static void leaves_open(void *state)
{
    ep_transport_http.close(state);
    (void)!dup(0);
}

static unsigned with_send(int (*send)(void *, const struct ep_message *, const struct ep_deadline *, uint64_t *))
{
    struct ep_transport transport = ep_transport_http;

    transport.send = send;
    return over(&transport, &far_http, "http://127.0.0.1:%s", NULL, FEW, 0);
}

static unsigned with_close(void (*close)(void *))
{
    struct ep_transport transport = ep_transport_http;

    transport.close = close;
    return over(&transport, &far_http, "http://127.0.0.1:%s", NULL, FEW, 0);
}

/* What has arrived is not had when the deadline has passed. */
static long looks_at_the_clock_first(void *state, void *bytes, size_t size, const struct ep_deadline *deadline)
{
    if (ep_deadline_passed(deadline))
        return -ETIMEDOUT;
    return ep_stream_tcp.read(state, bytes, size, deadline);
}

/* The end of the connection is taken for silence. */
static long takes_the_end_for_silence(void *state, void *bytes, size_t size, const struct ep_deadline *deadline)
{
    long n = ep_stream_tcp.read(state, bytes, size, deadline);
    return n == 0 ? -ETIMEDOUT : n;
}

/* Nothing was written, and that is no error. */
static long writes_nothing(void *state, const void *bytes, size_t size, const struct ep_deadline *deadline)
{
    long n = ep_stream_tcp.write(state, bytes, size, deadline);
    return n == -ETIMEDOUT ? 0 : n;
}

static unsigned with_stream(long (*read)(void *, void *, size_t, const struct ep_deadline *),
                            long (*write)(void *, const void *, size_t, const struct ep_deadline *))
{
    struct ep_stream stream = ep_stream_tcp;

    stream.read = read ? read : stream.read;
    stream.write = write ? write : stream.write;
    return over_stream(&stream);
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    unsigned (*run)(void);                                                                  /* right, or */
    int (*send)(void *, const struct ep_message *, const struct ep_deadline *, uint64_t *); /* wrong */
    void (*close)(void *);
    long (*read)(void *, void *, size_t, const struct ep_deadline *);
    long (*write)(void *, const void *, size_t, const struct ep_deadline *);
} cases[] = {
    {.name = "http", .run = http},
    {.name = "small messages", .run = small},
    {.name = "file", .run = file},
    {.name = "null", .run = null},
    {.name = "tcp", .run = tcp},
    {.name = "managed", .run = managed},
    {.name = "examples/mqtt", .run = mqtt},
    {.name = "examples/serial", .run = serial},
    {.name = "believes in silence", .send = lies},
    {.name = "drops the last byte", .send = drops_the_last_byte},
    {.name = "sends twice", .send = sends_twice},
    {.name = "copies the deadline", .send = copies_the_deadline},
    {.name = "gives up", .send = gives_up},
    {.name = "writes behind its state", .send = writes_behind},
    {.name = "raises SIGPIPE", .send = raises},
    {.name = "leaves open", .close = leaves_open},
    {.name = "looks at the clock first", .read = looks_at_the_clock_first},
    {.name = "takes ends for silence", .read = takes_the_end_for_silence},
    {.name = "writes nothing", .write = writes_nothing},
};
#define CASES (sizeof cases / sizeof cases[0])

static unsigned run_case(size_t i)
{
    if (cases[i].run)
        return cases[i].run();
    (void)!freopen("/dev/null", "w", stderr); /* its many complaints are as they should be */
    if (cases[i].read || cases[i].write)
        return with_stream(cases[i].read, cases[i].write);
    return cases[i].send ? with_send(cases[i].send) : with_close(cases[i].close);
}

/* test_contract: all cases; test_contract NAME: that one, here. */
int main(int argc, char **argv)
{
    pid_t children[CASES];
    unsigned failed = 0;

    for (size_t i = 0; i < CASES && argc > 1; i++)
        if (strcmp(cases[i].name, argv[1]) == 0)
            return run_case(i) > 0;
    for (size_t i = 0; i < CASES; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(run_case(i) > 0);
    }
    for (size_t i = 0; i < CASES; i++) {
        int status = -1;
        bool ended = children[i] > 0 && waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status);
        bool kept = ended && WEXITSTATUS(status) == 0, good = ended && kept == (cases[i].run != NULL);
        printf("contract: %-24s %s\n", cases[i].name, !ended ? "CRASHED" : kept ? "kept" : "broken");
        failed += !good;
    }
    printf("contract: %u of %zu are not as they should be\n", failed, CASES);
    return failed > 0;
}
