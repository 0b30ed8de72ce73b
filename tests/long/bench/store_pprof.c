/*
 * CPU time to take pprof profiles of foreign clients: services of 3,000 stacks, each profile with 10 s of samples of
 * them, about 66 KB, with every name and line. The stacks and their frequencies are as in store_day.c.
 *
 *   store_pprof take DB [COUNT]     decodes and stores them in this process, in groups as a server does
 *   store_pprof send PORT [COUNT]   sends them to a server by /ingest on 16 connections; -z: compressed
 */
#include "../../program.h"
#include "tests/long/bench/draws.h"
#include "tools/formats/pprof_read.h"
#include "tools/serve/ingest/ingest.h"
#include "tools/lib/gzip.h"

#include <arpa/inet.h>

enum { SERVICES = 5, DEVICES = 100, NODES = 5000, FUNCTIONS = 1500, GROUP = 50, SENDERS = 16 };
static const int64_t SECOND = 1000000000, PERIOD = 52631579, NOW = 1700000000000000000;

typedef Perftools__Profiles__Profile pprof_message;

/* ---- programs ---- */

struct program {
    int parent[NODES], function[NODES], stack[STACKS];
};

static struct program programs[SERVICES];
/* Stacks of 15 to 40 frames. */
static void make_program(struct program *program)
{
    for (int i = 0; i < NODES; i++) {
        program->parent[i] = i < 15 ? i - 1 : 14 + (int)(dice() % (uint32_t)(i - 14)) * 3 / 4;
        program->function[i] = (int)(dice() % FUNCTIONS);
    }
    for (int i = 0; i < STACKS; i++) {
        program->stack[i] = NODES - STACKS + i;
    }
    for (int i = STACKS - 1; i > 0; i--) {
        int other = (int)(dice() % (uint32_t)(i + 1)), node = program->stack[i];
        program->stack[i] = program->stack[other];
        program->stack[other] = node;
    }
}

/* ---- profiles ---- */

/* The parts of a message. The same function has another number in each profile, as in those of real clients. */
struct parts {
    char *strings[8 + 2 * FUNCTIONS];
    Perftools__Profiles__ValueType types[2], period, *type_list[2];
    Perftools__Profiles__Mapping mapping, *mappings[1];
    Perftools__Profiles__Function functions[FUNCTIONS], *function_list[FUNCTIONS];
    Perftools__Profiles__Line lines[FUNCTIONS], *line_list[FUNCTIONS];
    Perftools__Profiles__Location locations[FUNCTIONS], *location_list[FUNCTIONS];
    Perftools__Profiles__Sample samples[STACKS], *sample_list[STACKS];
    uint64_t ids[STACKS][64];
    int64_t values[STACKS][2];
    char names[2 * FUNCTIONS][80];
    int number[FUNCTIONS]; /* of a function in this profile + 1 */
    int paths[FUNCTIONS];  /* strings of the file names */
};

static struct parts parts;

static uint64_t location_of(pprof_message *p, int function)
{
    if (!parts.number[function]) {
        size_t n = p->n_location;
        parts.number[function] = (int)n + 1;
        char *name = parts.names[2 * n], *file = parts.names[2 * n + 1];
        snprintf(name, sizeof parts.names[0], "company.example/service/internal.(*Type%d).Method%d", function / 12,
                 function);
        snprintf(file, sizeof parts.names[0], "/src/service/internal/type%d.go", function / 12);
        int *path = &parts.paths[function / 12];
        p->string_table[p->n_string_table++] = name;
        parts.functions[n] = (Perftools__Profiles__Function)PERFTOOLS__PROFILES__FUNCTION__INIT;
        parts.functions[n].name = (int64_t)p->n_string_table - 1;
        if (!*path) {
            *path = (int)p->n_string_table;
            p->string_table[p->n_string_table++] = file;
        }
        parts.functions[n].id = n + 1;
        parts.functions[n].filename = *path;
        perftools__profiles__line__init(&parts.lines[n]);
        parts.lines[n].function_id = n + 1;
        parts.lines[n].line = 10 + function % 400;
        parts.line_list[n] = &parts.lines[n];
        perftools__profiles__location__init(&parts.locations[n]);
        parts.locations[n].id = n + 1;
        parts.locations[n].mapping_id = 1;
        parts.locations[n].address = 0x400000 + 64 * (uint64_t)function;
        parts.locations[n].line = &parts.line_list[n];
        parts.locations[n].n_line = 1;
        parts.function_list[n] = &parts.functions[n];
        parts.location_list[n] = &parts.locations[n];
        p->n_function = p->n_location = n + 1;
    }
    return (uint64_t)parts.number[function];
}

static void add_sample(pprof_message *p, const struct program *program, int stack, uint32_t count)
{
    size_t n = p->n_sample++, depth = 0;
    for (int node = program->stack[stack]; node >= 0 && depth < 64; node = program->parent[node]) {
        parts.ids[n][depth++] = location_of(p, program->function[node]);
    }
    perftools__profiles__sample__init(&parts.samples[n]);
    parts.samples[n].location_id = parts.ids[n];
    parts.samples[n].n_location_id = depth;
    parts.values[n][0] = count;
    parts.values[n][1] = count * PERIOD;
    parts.samples[n].value = parts.values[n];
    parts.samples[n].n_value = 2;
    parts.sample_list[n] = &parts.samples[n];
}

static void set_type(Perftools__Profiles__ValueType *type, int64_t name, int64_t unit)
{
    perftools__profiles__value_type__init(type);
    type->type = name;
    type->unit = unit;
}

static void begin_message(pprof_message *p, int64_t start_ns)
{
    static char *const fixed[] = {"", "samples", "count", "cpu", "nanoseconds", "/opt/service/bin/service"};
    perftools__profiles__profile__init(p);
    memcpy(parts.strings, fixed, sizeof fixed);
    memset(parts.number, 0, sizeof parts.number);
    memset(parts.paths, 0, sizeof parts.paths);
    p->string_table = parts.strings;
    p->n_string_table = sizeof fixed / sizeof *fixed;
    set_type(&parts.types[0], 1, 2);
    set_type(&parts.types[1], 3, 4);
    set_type(&parts.period, 3, 4);
    parts.type_list[0] = &parts.types[0];
    parts.type_list[1] = &parts.types[1];
    p->sample_type = parts.type_list;
    p->n_sample_type = 2;
    perftools__profiles__mapping__init(&parts.mapping);
    parts.mapping.id = 1;
    parts.mapping.memory_start = 0x400000;
    parts.mapping.memory_limit = 0x800000;
    parts.mapping.filename = 5;
    parts.mappings[0] = &parts.mapping;
    p->mapping = parts.mappings;
    p->n_mapping = 1;
    p->function = parts.function_list;
    p->location = parts.location_list;
    p->sample = parts.sample_list;
    p->period_type = &parts.period;
    p->period = PERIOD;
    p->time_nanos = start_ns;
    p->duration_nanos = 10 * SECOND;
}

static struct et_buf make_message(int service, int64_t start_ns)
{
    static uint32_t seen[STACKS];
    pprof_message p;
    struct et_buf out = {0};
    begin_message(&p, start_ns);
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 250 + dice() % 500; i > 0; i--) {
        seen[draws[dice() % DRAWS]]++;
    }
    for (int i = 0; i < STACKS; i++) {
        if (seen[i]) {
            add_sample(&p, &programs[service], i, seen[i]);
        }
    }
    out.size = perftools__profiles__profile__get_packed_size(&p);
    out.data = et_alloc(out.size, 1);
    perftools__profiles__profile__pack(&p, (uint8_t *)out.data);
    return out;
}

/* ---- taking them ---- */

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void name_of(char *name, size_t size, int number)
{
    snprintf(name, size, "service%d{device=pi-%02d}", number % SERVICES, number % DEVICES);
}

static double take_group(struct et_store *store, int first, int count, size_t *bytes)
{
    struct et_buf messages[GROUP];
    for (int i = 0; i < count; i++) {
        messages[i] = make_message((first + i) % SERVICES, NOW + (first + i) / DEVICES * 10 * SECOND);
        *bytes += messages[i].size;
    }
    double before = cpu_seconds();
    if (et_store_group_begin(store)) {
        exit(1);
    }
    for (int i = 0; i < count; i++) {
        char name[64];
        const char *why = "";
        name_of(name, sizeof name, first + i);
        struct et_pprof_push push = {.name = name, .bytes = messages[i].data, .size = messages[i].size};
        if (et_ingest_pprof(store, &push, NOW, &why) != ET_ACCEPTED) {
            fprintf(stderr, "store_pprof: %s\n", why);
            exit(1);
        }
    }
    if (et_store_group_end(store)) {
        exit(1);
    }
    double took = cpu_seconds() - before;
    for (int i = 0; i < count; i++) {
        et_buf_free(&messages[i]);
    }
    return took;
}

/* The first tenth, in which most stacks are new, does not count. */
static int take(const char *db, int count)
{
    const char *why = "";
    struct et_store *store = et_store_open(db, true, &why);
    double took = 0;
    size_t bytes = 0;
    if (!store) {
        fprintf(stderr, "store_pprof: %s\n", why);
        return 1;
    }
    for (int i = 0; i < count + count / 10; i += GROUP) {
        double group = take_group(store, i, GROUP, &bytes);
        took += i >= count / 10 ? group : 0;
    }
    et_store_close(store);
    printf("figure ingest_pprof_bytes %.0f bytes\n", (double)bytes / (count + count / 10));
    printf("figure ingest_pprof_process_cpu_ms %.3f ms\n", took * 1e3 / count);
    return 0;
}

/* ---- sending them ---- */

static int dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) {
        perror("store_pprof: connect");
        exit(1);
    }
    return fd;
}

static void post(int fd, const char *name, const struct et_buf *body)
{
    struct et_buf request = {0};
    char answer[4096];
    et_buf_printf(&request,
                  "POST /ingest?name=%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                  "Content-Length: %zu\r\n\r\n",
                  name, body->size);
    et_buf_add(&request, body->data, body->size);
    for (size_t sent = 0; sent < request.size;) {
        ssize_t put = write(fd, request.data + sent, request.size - sent);
        if (put <= 0) {
            perror("store_pprof: write");
            exit(1);
        }
        sent += (size_t)put;
    }
    et_buf_free(&request);
    ssize_t got = read(fd, answer, sizeof answer - 1);
    answer[got > 0 ? got : 0] = '\0';
    if (!strstr(answer, " 200 ")) {
        fprintf(stderr, "store_pprof: %s\n", answer);
        exit(1);
    }
}

/* One of the senders: each has some of the devices. */
static int send_some(int port, int count, int sender, bool compressed)
{
    int fd = dial(port);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t start = (int64_t)now.tv_sec * SECOND - (int64_t)(count / DEVICES + 1) * 10 * SECOND;
    for (int i = 0; i < count; i++) {
        if (i % SENDERS != sender) {
            continue;
        }
        struct et_buf message = make_message(i % SERVICES, start + i / DEVICES * 10 * SECOND), small = {0};
        char name[64];
        snprintf(name, sizeof name, "service%d%%7Bdevice=pi-%02d%%7D", i % SERVICES, i % DEVICES);
        if (compressed) {
            et_gzip(message.data, message.size, &small);
        }
        post(fd, name, compressed ? &small : &message);
        et_buf_free(&message);
        et_buf_free(&small);
    }
    close(fd);
    return 0;
}

static int send_all(int port, int count, bool compressed)
{
    int failed = 0, status;
    for (int i = 0; i < SENDERS; i++) {
        if (fork() == 0) {
            dice_state = 1 + (uint64_t)i;
            exit(send_some(port, count, i, compressed));
        }
    }
    while (wait(&status) > 0) {
        failed |= status;
    }
    return failed != 0;
}

int main(int argc, char **argv)
{
    int count = argc > 3 ? atoi(argv[3]) : 2000;
    make_draws();
    for (int i = 0; i < SERVICES; i++) {
        make_program(&programs[i]);
    }
    if (argc > 2 && strcmp(argv[1], "take") == 0) {
        return take(argv[2], count);
    }
    if (argc > 2 && strcmp(argv[1], "send") == 0) {
        return send_all(atoi(argv[2]), count, argc > 4 && strcmp(argv[4], "-z") == 0);
    }
    fprintf(stderr, "usage: store_pprof take DB [COUNT] | send PORT [COUNT [-z]]\n");
    return 2;
}
