/*
 * Pending work of a language runtime, on demand: POST /tasks asks for a list, GET /tasks?NEXT reads on in it. The list
 * is text, and larger than an answer. Knows no specific runtime: its hooks make the list, which may take long.
 * Meanwhile the endpoint serves its other clients and looks again every LOOK_NS.
 *
 *   ep_tasks_attach, then ep_control_act -> ep_tasks_ask -> the runtime's ask
 *                         ep_control_look, ep_pull_look -> ep_tasks_look -> the runtime's read
 */
#include <errno.h>
#include <stdatomic.h>

#include <edgeprof/hooks.h>
#include <edgeprof/port_calls.h>
#include "core/features/control/control.h"

#define PART       2048u /* bytes of the list in an answer; a line break takes two there */
#define CUT        3u    /* bytes of a character that is left to the next part, at most */
#define WAITERS    2u    /* clients that wait for a list; fewer than an endpoint has places */
#define LOOK_NS    20000000u
#define GIVE_UP_NS UINT64_C(30000000000)

static _Atomic(const struct ep_tasks_source *) source;
/* When its client gives up (uptime). A place is free after that, so none is lost with a client of a forked process. */
static _Atomic uint64_t waiter[WAITERS];

void ep_tasks_attach(const struct ep_tasks_source *of)
{
    atomic_store(&source, of);
}

/* The text has neither quotes nor backslashes, nor control characters but line breaks. */
static void put_lines(struct ep_text *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n')
            ep_text_put(out, "\\n");
        else
            ep_text_bytes(out, &text[i], 1);
    }
}

static uint64_t number_of(struct ep_part digits)
{
    uint64_t number = 0;

    for (size_t i = 0; i < digits.size && i < 16 && digits.at[i] >= '0' && digits.at[i] <= '9'; i++)
        number = number * 10 + (uint64_t)(digits.at[i] - '0');
    return number;
}

/* Adds the part of the list that begins at `from`. "next" contains the list's number, for a later list may replace it
 * between two parts. */
static int put_part(struct ep_text *out, const struct ep_tasks_source *of, unsigned list, size_t from)
{
    char part[PART];
    const int size = of->read(&list, from, part, sizeof part);

    if (size < 0)
        return size;
    ep_text_put(out, "{\"text\":\"");
    put_lines(out, part, (size_t)size);
    ep_text_put(out, "\",\"next\":");
    ep_text_number(out, (size_t)size + CUT >= sizeof part ? (uint64_t)list * EP_TASKS_BYTES + from + (size_t)size : 0);
    ep_text_put(out, "}\n");
    return 0;
}

int ep_tasks_put(struct ep_text *out, struct ep_part next)
{
    const struct ep_tasks_source *of = atomic_load(&source);
    const uint64_t at = number_of(next);

    if (!of)
        return -ENOSYS;
    const int error = put_part(out, of, (unsigned)(at / EP_TASKS_BYTES), at % EP_TASKS_BYTES);
    return error == -EAGAIN ? -ESTALE : error;
}

int ep_tasks_ask(struct ep_answer *answer)
{
    const struct ep_tasks_source *of = atomic_load(&source);
    const uint64_t now = ep_port_uptime_ns();
    unsigned place = 0;

    for (; place < WAITERS; place++) {
        uint64_t until = atomic_load(&waiter[place]);
        if (until < now && atomic_compare_exchange_strong(&waiter[place], &until, now + GIVE_UP_NS))
            break;
    }
    if (place == WAITERS)
        return -EUSERS;
    const int list = of ? of->ask() : -ENOSYS;
    if (list < 0) {
        atomic_store(&waiter[place], 0);
        return list;
    }
    answer->list = (unsigned)list;
    answer->place = place;
    answer->give_up_ns = now + GIVE_UP_NS;
    answer->look_ns = now;
    return 0;
}

int ep_tasks_look(struct ep_text *out, struct ep_answer *answer)
{
    const struct ep_tasks_source *of = atomic_load(&source);
    const uint64_t now = ep_port_uptime_ns();
    const int error = of ? put_part(out, of, answer->list, 0) : -ENOSYS;

    if (error == -EAGAIN && now < answer->give_up_ns) {
        answer->look_ns = now + LOOK_NS;
        return error;
    }
    ep_tasks_done(answer);
    return error == -EAGAIN ? -ETIMEDOUT : error;
}

void ep_tasks_done(struct ep_answer *answer)
{
    uint64_t until = answer->give_up_ns;

    if (answer->list)
        (void)atomic_compare_exchange_strong(&waiter[answer->place], &until, 0);
    answer->list = 0;
}
