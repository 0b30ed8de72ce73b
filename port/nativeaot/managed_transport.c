/*
 * A transport whose other half is managed code (EdgeProf/ProfileTransport.cs). The deliver thread offers a message; a
 * .NET thread copies it, sends it in any way, and reports the result.
 *
 * The deliver thread never runs managed code: it would have to be attached to the runtime, and the collector and the
 * end of the process would wait for it. A Stream's Write has no deadline, so send returns at its own deadline. A later
 * result counts when the same message (same check sum) is sent again. A run lasts from open to close; results for an
 * earlier run are ignored.
 *
 *   send -> result_take, offers the message            deliver thread
 *   ep_dotnet_message_take, _done                      .NET's thread
 */
#include "glue.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include <edgeprof/port.h>
#include <edgeprof/transport.h>

#define LOOK_AGAIN_NS 100000000L

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t run;                     /* odd: open */
    const struct ep_message *offered; /* not yet taken */
    bool taken, answered;
    uint64_t check; /* check sum of the taken message */
    int result;
    uint64_t retry_ns;
} box = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* By a clock that nobody sets. */
static void changed_init(void)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&box.changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static uint64_t check_sum(const struct ep_message *message)
{
    uint64_t sum = 14695981039346656037u ^ message->segment ^ (uint64_t)message->sequence << 32;

    for (size_t i = 0; i < message->size; i++)
        sum = (sum ^ message->data[i]) * 1099511628211u;
    return sum;
}

/* Begins or ends a run, and wakes threads that wait for the last one. */
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
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)state;
    (void)target;
    pthread_once(&once, changed_init);
    change_run();
    return 0;
}

static void managed_close(void *state)
{
    (void)state;
    change_run();
}

/* Waits at most a tenth of a second, because the deadline may be made earlier. */
static void wait_changed(void)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_AGAIN_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&box.changed, &box.lock, &until);
}

/* True if the result for the message with this check sum is known. Discards a result for another message. */
static bool result_take(uint64_t check, int *result, uint64_t *retry_ns)
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
    while (!result_take(check, &result, retry_ns)) {
        if (ep_deadline_passed(deadline)) {
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
