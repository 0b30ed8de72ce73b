/*
 * For tests of the spool: a receiver that can be down, a profiler with a spool on the simulated disk, and the samples
 * that the profiler was given. Inline, because not every test uses everything.
 */
#ifndef SPOOL_MODEL_H
#define SPOOL_MODEL_H

#include "account.h"
#include "core/features/spool/spool_log.h"
#include "unit.h"
#include "wire.h"

#define MS       1000000ull
#define SECOND   (1000 * MS)
#define MINUTE   (60 * SECOND)
#define HOUR     (60 * MINUTE)
#define SEGMENTS 4096u

/* The receiver answers like `edgeprof serve`: known messages are repeated, messages of unknown segments are stale. */
static struct {
    bool down;
    bool late;  /* sends end without an answer */
    int answer; /* to messages; 0: as above */
    unsigned sent, repeated, stale, segments;
    uint64_t send_ns;                 /* duration of each send */
    uint64_t busy_ns, replay_busy_ns; /* duration of sends; of old messages */
    uint64_t last_end_ns;
    uint64_t old_ns; /* older messages count as old */
    uint64_t age_ns; /* of the last message */
    char headers[64], service[64];
    const struct ep_target *target;
    uint64_t start_unix_ns, end_unix_ns;
    struct {
        uint64_t segment;
        uint32_t next;
    } known[SEGMENTS];
} model;

static struct account given;
static uint64_t spool_memory[EP_SPOOL_MEMORY / 8];

static inline uint32_t *next_of(uint64_t segment, bool make)
{
    for (unsigned i = 0; i < model.segments; i++)
        if (model.known[i].segment == segment)
            return &model.known[i].next;
    if (!make)
        return NULL;
    assert_true(model.segments < SEGMENTS);
    model.known[model.segments].segment = segment;
    model.known[model.segments].next = 0;
    return &model.known[model.segments++].next;
}

static inline const char *headers(void)
{
    return model.target->headers ? model.target->headers : "";
}

static inline int model_open(void *state, const struct ep_target *target)
{
    (void)state;
    model.target = target;
    return 0;
}

static inline void note(const struct ep_message *message)
{
    (void)snprintf(model.headers, sizeof model.headers, "%s", headers());
    model.age_ns = message->age_ns;
    (void)snprintf(model.service, sizeof model.service, "%s{%s}", model.target->service, model.target->tags);
    if (message->end_unix_ns > message->start_unix_ns) {
        model.start_unix_ns = message->start_unix_ns;
        model.end_unix_ns = message->end_unix_ns;
    }
}

static inline int model_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                             uint64_t *retry_ns)
{
    model.sent++;
    ep_sim.uptime_ns += model.send_ns;
    model.busy_ns += model.send_ns;
    model.replay_busy_ns += message->age_ns > model.old_ns ? model.send_ns : 0;
    if (ep_deadline_ns(deadline) < ep_sim.uptime_ns && model.send_ns)
        return -ETIMEDOUT;
    if (model.down)
        return -ECONNREFUSED;
    if (model.late)
        return -ETIMEDOUT;
    note(message);
    if (model.answer)
        return model.answer;
    if (message->format == EP_FORMAT_PPROF)
        return receiver_transport.send(state, message, deadline, retry_ns);
    uint32_t *next = next_of(message->segment, message->sequence == 0);
    if (next && message->sequence < *next) {
        model.repeated++;
        receiver.accepted++;
        receiver.bytes += message->size;
        return 0;
    }
    if (!next || message->sequence != *next) {
        model.stale++;
        return -ESTALE;
    }
    int error = receiver_transport.send(state, message, deadline, retry_ns);
    assert_int_equal(error, 0);
    ++*next;
    return 0;
}

static const struct ep_transport model_transport = {
    .name = "model", .state_size = 16, .open = model_open, .send = model_send};

static inline struct ep_spool_config spool_config(void)
{
    return (struct ep_spool_config){.dir = "/spool", .memory = spool_memory, .memory_size = sizeof spool_memory};
}

static inline struct ep_config config(void)
{
    return (struct ep_config){.memory = account_memory(EP_MEMORY_DEFAULT),
                              .memory_size = EP_MEMORY_DEFAULT,
                              .rate_hz = 100,
                              .interval_ms = 10000,
                              .service = "unit",
                              .tags = "version=1",
                              .transport = &model_transport};
}

static inline void start_with(const struct ep_spool_config *spool, const struct ep_config *c)
{
    assert_int_equal(ep_spool_start(spool), 0);
    assert_int_equal(ep_start(c), 0);
}

static inline void start(void)
{
    const struct ep_spool_config spool = spool_config();
    const struct ep_config c = config();

    start_with(&spool, &c);
}

static inline void afresh(void)
{
    account_afresh();
    ep_sim_disk_reset();
    memset(&model, 0, sizeof model);
    given = (struct account){0};
}

static inline void begin(void)
{
    afresh();
    start();
}

static inline void sample(unsigned variety, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const uint16_t stack[] = {(uint16_t)(i % variety), (uint16_t)(100 + i % 3), 200};
        assert_true(ep_sim_tick(1, 1, stack, 3));
        given.samples++;
        given.ticks++;
    }
}

static inline void intervals(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        sample(7, 20);
        ep_sim_run(10 * SECOND);
    }
}

/* Every sample of every run has arrived, once. */
static inline void check_all_arrived(void)
{
    if (receiver.broken)
        print_error("the format was broken: %s\n", receiver.broken);
    assert_null(receiver.broken);
    assert_false(ep_sim_disk.misused);
    assert_int_equal(receiver.samples, given.samples);
    assert_int_equal(receiver.ns, given.ticks * ep_sim.period_ns);
}

#endif
