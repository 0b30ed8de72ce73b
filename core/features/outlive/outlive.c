/*
 * Keeps beside the shared memory what a reader needs after the process's end, and what is in struct ep, which is not
 * shared: who the process was, its modules, counters.
 *
 *   the first sample, or edgeprof's threads start -> ep_outlive_due -> ep_port_outlive, head_fill
 *   modules are found                             -> outlive_modules   each once, with its path and build id
 *   a round                                       -> outlive_round     counters
 *
 * A short process pays nothing: its memory stays as it is until its first sample. The thread with that sample shares
 * it, in the handler. Meanwhile no profiler is published, so that other threads' hooks do nothing; and if one of them
 * is in edgeprof already, the next sample tries again.
 */
#include "core/features/outlive/outlive.h"

#include "core/collect/state.h"
#include "core/deliver/state.h"
#include "core/lifecycle/start.h"
#include "core/sample/feature.h"

#include <string.h>

extern void ep_notice_line(const char *line) __attribute__((weak)); /* if the program has ep_notice_to() */

static struct ep_outlive_head *kept; /* NULL: nothing is shared */
static atomic_bool due;              /* the memory shall be shared */
static atomic_bool failed;           /* it could not, and no line says so yet */
static struct ep_own_text own_text;

size_t ep_outlive_private(size_t memory_size)
{
    return ep_layout_private(memory_size);
}

uint64_t ep_outlive_layout(void)
{
    static const char version[] = EP_VERSION;
    const uint64_t sizes[] = {
        sizeof(struct ep),        sizeof(struct ep_collect),      sizeof(struct ep_deliver),
        sizeof(struct ep_module), sizeof(struct ep_outlive_head), ep_layout_private(EP_MEMORY_DEFAULT),
        sizeof(struct ep_ring)};
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (size_t i = 0; i < sizeof version; i++)
        hash = (hash ^ (uint8_t)version[i]) * 1099511628211u;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        hash = (hash ^ sizes[i]) * 1099511628211u;
    return hash;
}

/* strncpy() and the like are not for handlers. */
static void text_keep(char *to, const char *from, size_t size)
{
    size_t length = 0;

    while (from && from[length] && length < size - 1)
        length++;
    memcpy(to, from, length);
    to[length] = 0;
}

static void modules_keep(const struct ep *ep)
{
    const unsigned count = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_acquire);

    for (unsigned i = atomic_load(&kept->modules); i < count; i++) {
        const struct ep_module *module = &ep->unwinder.modules.slot[i];
        struct ep_outlive_module *to = &kept->module[i];
        *to = (struct ep_outlive_module){.start = module->start,
                                         .end = module->end,
                                         .bias = module->bias,
                                         .base = module->base,
                                         .build_id_size = module->build_id_size,
                                         .data = module->data};
        if (module->build_id_size)
            memcpy(to->build_id, module->build_id, module->build_id_size); /* at most 64 bytes */
        text_keep(to->path, module->path, sizeof to->path);
        atomic_store(&kept->modules, i + 1);
    }
}

/* Fills the head. Service and tags are next to each other in ep->strings. */
static void head_fill(const struct ep *ep)
{
    const struct ep_config *config = &ep->config;

    kept->layout = ep_outlive_layout();
    kept->memory_size = (uint32_t)config->memory_size;
    kept->identity = ep->identity;
    const size_t service = (size_t)(config->tags - config->service); /* with its 0 */
    text_keep(kept->strings, config->service, sizeof kept->strings);
    text_keep(kept->strings + service, config->tags, sizeof kept->strings - service);
    kept->level = (uint32_t)config->level;
    kept->rate_hz = config->rate_hz;
    kept->started_ns = ep->started_ns;
    kept->own_text = own_text;
    modules_keep(ep);
    atomic_store(&kept->state, EP_OUTLIVE_RUNS);
}

void ep_outlive_due(struct ep *ep)
{
    if (!atomic_load_explicit(&due, memory_order_relaxed) || !atomic_exchange(&due, false))
        return;
    ep_publish(NULL);
    if (!ep_held_once())
        atomic_store(&due, true); /* another thread uses the memory; later, then */
    else if ((kept = ep_port_outlive ? ep_port_outlive() : NULL) != NULL)
        head_fill(ep);
    else
        atomic_store(&failed, true); /* said later: this may be a signal handler */
    ep_publish(ep);
}

/* Another run in the same process has other modules and times. A feature that limits the memory's parts is not there in
 * the reader, which would look for them elsewhere. */
static void outlive_start(struct ep *ep)
{
    (void)ep;
    if (EP_HAS_FEATURE(limit)) {
        atomic_store(&due, false);
        kept = NULL;
    }
    if (!kept)
        return;
    atomic_store(&kept->state, EP_OUTLIVE_NEW);
    atomic_store(&kept->modules, 0);
    kept->period_ns = 0;
}

static void outlive_modules(bool pinned)
{
    (void)pinned;
    if (!kept)
        return;
    if (atomic_load(&kept->state) == EP_OUTLIVE_NEW)
        head_fill(ep_running());
    else
        modules_keep(ep_running());
}

static void outlive_round(struct ep *ep, uint64_t now_ns)
{
    (void)now_ns;
    if (atomic_exchange(&failed, false) && ep_notice_line)
        ep_notice_line("if this process is killed, its last profile is lost: its memory cannot be in the folder of "
                       "EDGEPROF_OUTLIVE: a full file system, or a limit");
    if (!kept)
        return;
    kept->period_ns = atomic_load(&ep->period_ns);
    for (unsigned i = 0; i < EP_COUNTERS; i++)
        kept->counter[i] = atomic_load_explicit(&ep->counter[i], memory_order_relaxed);
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        kept->lost_count[i] = atomic_load_explicit(&ep->lost_count[i], memory_order_relaxed);
        kept->lost_ns[i] = atomic_load_explicit(&ep->lost_ns[i], memory_order_relaxed);
    }
}

static void outlive_end(struct ep *ep)
{
    (void)ep;
    ep_outlive_end();
    if (ep_port_outlive_end)
        ep_port_outlive_end();
}

static void outlive_forked(void)
{
    atomic_store(&due, false);
    atomic_store(&failed, false);
    kept = NULL;
}

int ep_outlive_begin(const struct ep_own_text *text, void *head)
{
    static const struct ep_feature feature = {.name = "outlive",
                                              .start = outlive_start,
                                              .end = outlive_end,
                                              .forked = outlive_forked,
                                              .modules = outlive_modules,
                                              .round = outlive_round};

    own_text = *text;
    kept = head;
    atomic_store(&due, head == NULL);
    return ep_feature_add(&feature);
}

void ep_outlive_end(void)
{
    atomic_store(&due, false);
    if (kept)
        atomic_store(&kept->state, EP_OUTLIVE_ENDED);
}
