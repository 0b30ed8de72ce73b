#include "script.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct script script;

/* What was heard stays: clearing that too would take most of a fuzzer's time. */
void script_reset(void)
{
    for (size_t i = 0; i < SCRIPT_CONNECTIONS; i++)
        memset(&script.connections[i], 0, offsetof(struct script_connection, heard));
    memset((char *)&script + sizeof script.connections, 0, sizeof script - sizeof script.connections);
}

void script_say_bytes(const char *bytes, size_t size)
{
    assert(script.given < SCRIPT_CONNECTIONS);
    script.connections[script.given].says = bytes;
    script.connections[script.given++].size = size;
}

void script_say(const char *text)
{
    script_say_bytes(text, strlen(text));
}

void script_fail(unsigned n, long with)
{
    script.calls = 0;
    script.fail_at = n;
    script.fail_with = with;
    script.failed = 0;
}

static bool fails(const struct ep_deadline *deadline)
{
    script.deadline_ns = ep_deadline_ns(deadline);
    if (++script.calls != script.fail_at)
        return false;
    script.failed = 1;
    return true;
}

static struct script_connection *current(void)
{
    assert(script.open);
    return &script.connections[script.opened - 1];
}

static int script_connect(void *state, const char *host, const char *port, const struct ep_deadline *deadline)
{
    (void)state;
    assert(!script.open);
    script.host = host;
    script.port = port;
    if (fails(deadline))
        return script.fail_with ? (int)script.fail_with : -ECONNREFUSED;
    if (script.opened == script.given)
        return -ECONNREFUSED;
    script.opened++;
    script.open = 1;
    return 0;
}

static size_t least(size_t a, size_t b, size_t limit)
{
    size_t n = a < b ? a : b;
    return limit > 0 && n > limit ? limit : n;
}

static long script_read(void *state, void *bytes, size_t size, const struct ep_deadline *deadline)
{
    struct script_connection *c = current();
    (void)state;

    if (fails(deadline))
        return script.fail_with;
    bool waits = c->pause > 0 && !c->resumed;
    size_t end = waits ? c->pause : c->size;
    if (waits && c->said == end)
        return -ETIMEDOUT;
    size_t n = least(size, end - c->said, script.read_at_most);
    memcpy(bytes, c->says + c->said, n);
    c->said += n;
    return (long)n;
}

static long script_write(void *state, const void *bytes, size_t size, const struct ep_deadline *deadline)
{
    struct script_connection *c = current();
    (void)state;

    if (fails(deadline))
        return script.fail_with ? script.fail_with : -EPIPE;
    size_t n = least(size, SCRIPT_HEARD - c->heard_size, script.write_at_most);
    assert(n > 0);
    c->resumed |= c->said == c->pause;
    memcpy(c->heard + c->heard_size, bytes, n);
    c->heard_size += n;
    return (long)n;
}

static void script_close(void *state)
{
    (void)state;
    script.closed += (unsigned)script.open;
    script.open = 0;
}

const struct ep_stream script_stream = {
    .state_size = 8,
    .connect = script_connect,
    .read = script_read,
    .write = script_write,
    .close = script_close,
};
