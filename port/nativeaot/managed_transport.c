/*
 * A transport whose other half is managed code (EdgeProf/ProfileTransport.cs): the deliver thread offers a message
 * here, a thread of .NET's takes a copy, sends it whatever way it likes, and says what became of it.
 *
 * The deliver thread never runs managed code. It would have to be attached to the runtime, on a stack that is small for
 * that, and the collector and the process' end would have to wait for it; and a Stream's Write knows no deadline, while
 * a transport's send has to keep one: ep_stop() waits for it. Here send leaves at its deadline, whatever Write does.
 *
 * What becomes known after that counts when the same message is sent again: a slow stream gets on. Messages are the
 * same when their check sums are. A run lasts from open to close; what is said for an earlier one is not heard.
 *
 *   send -> settle, offer                    deliver thread
 *   ep_dotnet_message_take, _done            .NET's thread
 */
#include "glue.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "port/port.h"
#include "transport/transport.h"

#define LOOK_AGAIN_NS 100000000L

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t run;                     /* odd: open */
    const struct ep_message *offered; /* nobody has taken it yet */
    bool taken, answered;
    uint64_t check; /* of what was taken */
    int result;
    uint64_t retry_ns;
} box = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static uint64_t check_sum(const struct ep_message *message)
{
    uint64_t sum = 14695981039346656037u ^ message->segment ^ (uint64_t)message->sequence << 32;

    for (size_t i = 0; i < message->size; i++)
        sum = (sum ^ message->data[i]) * 1099511628211u;
    return sum;
}

/* Begins or ends a run: who waits for anything of the last one wakes. */
static void change_run(void)
{
    pthread_mutex_lock(&box.lock);
    box.run++;
    box.offered = NULL;
    box.taken = box.answered = false;
    pthread_cond_broadcast(&box.changed);
    pthread_mutex_unlock(&box.lock);
}

static int managed_open(void *state, const struct ep_target *target)
{
    (void)state;
    (void)target;
    change_run();
    return 0;
}

static void managed_close(void *state)
{
    (void)state;
    change_run();
}

/* At most a tenth of a second: the deadline may come nearer. */
static void wait_changed(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_AGAIN_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&box.changed, &box.lock, &until);
}

/* Whether *result is known for the message with this check sum. An answer for another one is of no use any more. */
static bool settled(uint64_t check, int *result, uint64_t *retry_ns)
{
    if (!box.answered)
        return false;
    bool mine = box.check == check;
    box.taken = box.answered = false;
    *result = box.result;
    if (mine && box.result == -EAGAIN)
        *retry_ns = box.retry_ns;
    return mine;
}

static int managed_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                        uint64_t *retry_ns)
{
    uint64_t check = check_sum(message);
    int result = -ETIMEDOUT;
    (void)state;

    pthread_mutex_lock(&box.lock);
    while (!settled(check, &result, retry_ns)) {
        if (ep_port_uptime_ns() >= ep_deadline_ns(deadline)) {
            result = -ETIMEDOUT;
            break;
        }
        if (!box.taken && !box.offered) {
            box.offered = message;
            pthread_cond_broadcast(&box.changed);
        }
        wait_changed();
    }
    box.offered = NULL;
    pthread_mutex_unlock(&box.lock);
    return result;
}

const struct ep_transport ep_dotnet_transport = {
    .name = "managed",
    .state_size = 0,
    .open = managed_open,
    .send = managed_send,
    .close = managed_close,
};

/* ---- .NET's side ---- */

uint32_t ep_dotnet_message_run(void)
{
    pthread_mutex_lock(&box.lock);
    uint32_t run = box.run;
    pthread_mutex_unlock(&box.lock);
    return run;
}

static int64_t copy_offered(struct ep_dotnet_message *about, uint8_t *buffer, uint64_t capacity)
{
    const struct ep_message *message = box.offered;

    *about = (struct ep_dotnet_message){.size = message->size,
                                        .segment = message->segment,
                                        .start_unix_ns = message->start_unix_ns,
                                        .end_unix_ns = message->end_unix_ns,
                                        .sequence = message->sequence,
                                        .format = (uint32_t)message->format};
    if (message->size > capacity)
        return -EMSGSIZE;
    memcpy(buffer, message->data, message->size);
    box.check = check_sum(message);
    box.taken = true;
    box.offered = NULL;
    return (int64_t)message->size;
}

int64_t ep_dotnet_message_take(uint32_t run, struct ep_dotnet_message *about, uint8_t *buffer, uint64_t capacity)
{
    int64_t size = 0;

    pthread_mutex_lock(&box.lock);
    while (box.run == run && !box.offered)
        pthread_cond_wait(&box.changed, &box.lock);
    if (box.run == run)
        size = copy_offered(about, buffer, capacity);
    pthread_mutex_unlock(&box.lock);
    return size;
}

void ep_dotnet_message_done(uint32_t run, int32_t result, uint64_t retry_ns)
{
    pthread_mutex_lock(&box.lock);
    if (box.run == run && box.taken) {
        box.answered = true;
        box.result = result;
        box.retry_ns = retry_ns;
        pthread_cond_broadcast(&box.changed);
    }
    pthread_mutex_unlock(&box.lock);
}
