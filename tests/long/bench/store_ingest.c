/*
 * What it takes to keep what devices send, without HTTP: 100 devices with dictionaries of 5,000 nodes, each message a
 * profile of 150 to 400 stacks, by 16 threads into group commits that are synced. Usage: store_ingest DB
 */
#include "../../program.h"
#include "tools/store/group_commit.h"
#include "tools/serve/ingest/ingest.h"

enum { DEVICES = 100, MESSAGES = 60, THREADS = 16, NODES = 5000 };
static const uint64_t SECOND = 1000000000, NOW = 1700000000000000000;

struct device {
    uint64_t state, number;
};

struct push {
    uint8_t *bytes;
    size_t size;
    enum et_outcome outcome;
};

static struct device devices[DEVICES];
static struct et_group_commit *commit;

static uint32_t dice(struct device *device, uint32_t sides)
{
    device->state = device->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(device->state >> 33) % sides;
}

/* ---- messages ---- */

static void dictionary(struct device *device, Edgeprof__V1__Message *message, Edgeprof__V1__Origin *origin,
                       Edgeprof__V1__Module *module, Edgeprof__V1__Nodes *nodes)
{
    static _Thread_local Edgeprof__V1__Module *modules[1];
    static _Thread_local uint32_t back[NODES];
    static _Thread_local int64_t frame[NODES];
    static _Thread_local char host[16];
    snprintf(host, sizeof host, "pi-%02d", (int)device->number);
    edgeprof__v1__origin__init(origin);
    edgeprof__v1__module__init(module);
    edgeprof__v1__nodes__init(nodes);
    origin->format = 1;
    origin->service = "service";
    origin->host = host;
    module->start = 4096;
    module->size = 1 << 20;
    module->path = "/opt/app";
    modules[0] = module;
    for (uint32_t i = 0; i < NODES; i++) {
        back[i] = i == 0 ? 0 : 1 + i % (i < 20 ? 1 : 17);
        frame[i] = i == 0 ? 4096 : i % 2 ? 64 : -32;
    }
    nodes->back = back;
    nodes->frame = frame;
    nodes->n_back = nodes->n_frame = NODES;
    message->origin = origin;
    message->modules = modules;
    message->n_modules = 1;
    message->nodes = nodes;
}

static struct push make(struct device *device, uint32_t sequence)
{
    Edgeprof__V1__Message message;
    Edgeprof__V1__Profile profile, *profiles[] = {&profile};
    Edgeprof__V1__Origin origin;
    Edgeprof__V1__Module module;
    Edgeprof__V1__Nodes nodes;
    uint32_t stacks = 150 + dice(device, 250), step[400];
    uint64_t value[400];
    edgeprof__v1__message__init(&message);
    edgeprof__v1__profile__init(&profile);
    for (uint32_t i = 0; i < stacks; i++) {
        step[i] = 1 + dice(device, NODES / 250);
        value[i] = 1 + dice(device, 6);
    }
    profile.kind = EDGEPROF__V1__KIND__KIND_CPU;
    profile.start_ns = (1 + sequence) * 10 * SECOND;
    profile.duration_ns = 10 * SECOND;
    profile.quantum = profile.period_ns = 52631579;
    profile.samples = stacks;
    profile.node = step;
    profile.value = value;
    profile.n_node = profile.n_value = stacks;
    message.segment = 1 + device->number;
    message.sequence = sequence;
    message.unix_minus_uptime_ns = NOW;
    message.profiles = profiles;
    message.n_profiles = 1;
    if (sequence == 0) {
        dictionary(device, &message, &origin, &module, &nodes);
    }
    struct push push = {.size = edgeprof__v1__message__get_packed_size(&message)};
    push.bytes = et_alloc(push.size, 1);
    edgeprof__v1__message__pack(&message, push.bytes);
    return push;
}

/* ---- taking them ---- */

static void take(struct et_store *store, void *context)
{
    struct push *push = context;
    const char *why = "";
    push->outcome = et_ingest_compact(store, push->bytes, push->size, (int64_t)(NOW + 3600 * SECOND), &why);
    if (push->outcome != ET_ACCEPTED) {
        fprintf(stderr, "store_ingest: %s\n", why);
    }
}

static void send_one(struct device *device, uint32_t sequence)
{
    struct push push = make(device, sequence);
    if (et_group_commit_run(commit, take, &push).err || push.outcome != ET_ACCEPTED) {
        exit(1);
    }
    free(push.bytes);
}

static void *send_some(void *context)
{
    size_t thread = (size_t)context;
    for (uint32_t i = 1; i < MESSAGES; i++) {
        for (size_t k = thread; k < DEVICES; k += THREADS) {
            send_one(&devices[k], i);
        }
    }
    return NULL;
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    const char *why = "usage: store_ingest DB";
    struct et_store *store = argc > 1 ? et_store_open(argv[1], true, &why) : NULL;
    commit = store ? et_group_commit_start(store, 100) : NULL;
    if (!commit) {
        fprintf(stderr, "store_ingest: %s\n", why);
        return 1;
    }
    for (size_t i = 0; i < DEVICES; i++) {
        devices[i] = (struct device){.state = i, .number = i};
        send_one(&devices[i], 0); /* dictionaries come once and do not count */
    }
    double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, send_some, (void *)i)) {
            return 1;
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    int profiles = DEVICES * (MESSAGES - 1);
    printf("figure ingest_profiles_per_s %.0f 1/s\n", profiles / (seconds(CLOCK_MONOTONIC) - start));
    printf("figure ingest_cpu_us_per_profile %.0f us\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / profiles);
    et_group_commit_stop(commit);
    et_store_close(store);
    return 0;
}
