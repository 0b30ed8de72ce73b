/*
 * Any bytes as a request, to both endpoints, over a profiler on the simulated port. The first byte chooses who asks
 * whom and how far it goes, the rest is what the client says.
 *
 * Checked: the parsers stay inside their bounds (the sanitizers'); a request that is complete stays so whatever
 * follows; every answer is well-formed HTTP of the length that it tells; without the token nothing changes and nothing
 * is told; a profile that was begun comes to an end, and its pieces to its length. Entry point of libFuzzer; linked
 * with replay.c it runs the committed corpus instead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/features/control/control.h"
#include "core/features/pull/pull.h"
#include "tests/unit/core_rooms.h"
#include "port/sim/sim.h"

enum { TO_CONTROL = 1, WITH_TOKEN = 2, TO_THE_END = 4 };

#define TOKEN "no client ever says this \x01\x02\x03"
#define KINDS (EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_LOCK))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t memory[EP_MEMORY_DEFAULT / sizeof(uint64_t)], pull_memory[EP_PULL_MEMORY_DEFAULT / sizeof(uint64_t)];

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void begin(void)
{
    const struct ep_config c = {
        .memory = memory, .memory_size = sizeof memory, .interval_ms = 1000, .kinds = KINDS, .rate_hz = 100};

    ep_sim_reset();
    require(ep_start(&c) == 0);
    require(ep_pull_open(pull_memory, sizeof pull_memory) == 0);
}

/* Its status. */
static unsigned check(const char *text, const struct ep_answer *answer)
{
    static const char length[] = "\r\nContent-Length: ";
    unsigned status = 0;
    const char *at = strstr(text, length), *body = strstr(text, "\r\n\r\n");

    require(strlen(text) == answer->size && sscanf(text, "HTTP/1.1 %u ", &status) == 1);
    require(status >= 200 && status < 600 && at && body && at < body);
    require(strtoull(at + sizeof length - 1, NULL, 10) == (answer->body ? answer->body : strlen(body + 4)));
    return status;
}

/* As the port would; half a minute at most. */
static void follow(char *buffer, struct ep_answer *answer)
{
    const uint64_t give_up = ep_sim.uptime_ns + 30000000000u;
    const uint16_t stack[] = {1, 2, 3};

    while (answer->size == 0 && answer->look_ns < give_up) {
        require(ep_sim_tick(1, 1, stack, 3));
        if (answer->look_ns > ep_sim.uptime_ns)
            ep_sim_run(answer->look_ns - ep_sim.uptime_ns);
        ep_pull_look(buffer, answer);
    }
    require(answer->look_ns >= give_up || answer->size > 0);
    while (answer->size && answer->sent < answer->body) {
        size_t size = ep_pull_piece(buffer, answer);
        require(size > 0 && size <= EP_PULL_ANSWER);
        answer->sent += size;
    }
    require(answer->sent == answer->body);
}

static void ask(unsigned how, const char *request, size_t size)
{
    const char *token = how & WITH_TOKEN ? TOKEN : NULL;
    const size_t room = how & TO_CONTROL ? EP_CONTROL_ANSWER : EP_PULL_ANSWER;
    char *buffer = malloc(room + 1);
    struct ep_answer answer = {0};
    unsigned status = 0;

    require(buffer != NULL);
    if (how & TO_CONTROL)
        ep_control_answer(request, size, token, buffer, &answer);
    else
        ep_pull_answer(request, size, token, buffer, &answer);
    require(answer.size <= room && (answer.size > 0 || answer.view || answer.list));
    buffer[answer.size] = 0;
    if (answer.size)
        status = check(buffer, &answer);
    require(!token || status == 400 || status == 401 || status == 431);
    if (!answer.size && how & TO_THE_END)
        follow(buffer, &answer);
    ep_pull_done(&answer);
    free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *request = (const char *)data + 1;
    bool complete = false;

    if (size == 0)
        return 0;
    if (!ep_running())
        begin();
    const unsigned level = ep_level_get(), kinds = ep_kinds_get(), how = data[0];
    const size_t room = how & TO_CONTROL ? EP_CONTROL_REQUEST : EP_PULL_REQUEST;
    for (size_t i = 0; i < size; i += 1 + size / 8) {
        require(!complete || ep_request_complete(request, i, room));
        complete = ep_request_complete(request, i, room) != 0;
    }
    ask(how, request, size - 1);
    require(how & WITH_TOKEN ? ep_level_get() == level && ep_kinds_get() == kinds
                             : (ep_kinds_get() & ~EP_KINDS_ALL) == 0);
    if (ep_level_get() != level ||
        ep_kinds_get() != kinds) { /* what was asked for; the next input finds all as before */
        require(how & TO_CONTROL);
        require(ep_level_set((enum ep_level)level) == 0 && ep_kinds_set(kinds) == 0);
    }
    return 0;
}
