/*
 * Memory that outlives the process, without `edgeprof run`: the next process of the program puts what an earlier one
 * left into its spool, which delivers it. Nothing waits for the network.
 *
 *   ep_outlive_start -> ep_port_outlive_open           the folder; where the profiler's memory will be
 *                    -> rest_store, each file          ep_port_outlived_next -> ep_outlive_check -> store: a profiler
 *                                                      with the spool as its only feature and no way out
 *                    -> ep_port_outlive_begin
 */
#include "core/features/outlive/outlive.h"
#include "core/sample/feature.h"

#include <edgeprof/transport.h>

#include <edgeprof/port_calls.h>

#include <errno.h>
#include <string.h>

#define STOP_MS 2000u
#define MOST    64u /* files at one start; the next one reads the others */

static unsigned refused; /* files, not counted yet */

/* ---- into the spool ---- */

static int no_open(void *state, const struct ep_target *target)
{
    (void)state;
    (void)target;
    return 0;
}

static int no_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                   uint64_t *retry_ns)
{
    (void)state;
    (void)message;
    (void)deadline;
    (void)retry_ns;
    return -ENETUNREACH;
}

static void no_close(void *state)
{
    (void)state;
}

static const struct ep_transport no_way = {.name = "none", .open = no_open, .send = no_send, .close = no_close};

/* The first round opens the spool. Another process may have it, such as this one's parent. */
static int spool_error(void)
{
    struct ep_stats stats;

    (void)ep_deliver(0);
    return ep_stats_get(&stats) == 0 ? -(int)stats.spool_error : -ESRCH;
}

/* Returns 0: the spool has it. */
static int store(const struct ep_outlived *outlived, const void *head, const void *left, void *memory)
{
    const struct ep_config config = {.memory = memory,
                                     .memory_size = outlived->memory_size,
                                     .service = outlived->service,
                                     .tags = outlived->tags,
                                     .level = outlived->level,
                                     .rate_hz = outlived->rate_hz,
                                     .kinds = EP_KIND_BIT(EP_KIND_THREAD), /* this process itself is not sampled */
                                     .flags = EP_MANUAL,
                                     .transport = &no_way};
    const struct ep_feature *aside[EP_FEATURES];

    ep_features_aside(aside);
    int error = ep_start(&config);
    if (!error) {
        error = spool_error();
        error = error ? error : ep_outlive_adopt(head, left);
        const int stopped = ep_stop(error ? 0 : STOP_MS);
        error = error ? error : stopped;
    }
    ep_features_back(aside);
    return error;
}

/* Returns 0; -ESRCH: the process has sent all; -EBADMSG: the file is refused; or the error, and it has to stay. */
static int file_store(const struct ep_outlived_file *file)
{
    struct ep_outlived outlived;
    uint8_t *head = file->left + file->size - EP_OUTLIVE_HEAD;
    const int error = ep_outlive_check(head, &outlived);

    if (error)
        return error;
    if (!ep_outlive_fits(&outlived, file->size))
        return -EBADMSG;
    if (outlived.memory_size > file->memory_size)
        return -ENOMEM;
    return store(&outlived, head, file->left, file->memory);
}

/* ---- the start ---- */

static void refused_count(struct ep *ep)
{
    ep_lose(ep, EP_LOSS_DAMAGED, refused, 0);
    refused = 0;
}

static const struct ep_feature refusing = {.name = "refused", .start = refused_count};

extern void ep_notice_line(const char *line) __attribute__((weak)); /* if the program has ep_notice_to() */

static void say(const char *const *piece)
{
    char line[320];
    size_t at = 0;

    for (; *piece; piece++) {
        size_t size = strlen(*piece);
        if (size > sizeof line - 1 - at)
            size = sizeof line - 1 - at;
        memcpy(line + at, *piece, size);
        at += size;
    }
    line[at] = 0;
    if (ep_notice_line)
        ep_notice_line(line);
}

static void file_say(const struct ep_outlived_file *file, int error)
{
    const char *const bad[] = {"what an earlier process left in ", file->name,
                               " is refused: it is damaged, of another version or of another user", NULL};
    const char *const good[] = {"an earlier process (file ",
                                file->name,
                                ") ended without its last profile: ",
                                file->reason,
                                error ? "; the spool does not take the rest, the next start tries again"
                                      : "; the rest is in the spool",
                                NULL};

    say(error == -EBADMSG ? bad : good);
}

static void rest_store(void)
{
    struct ep_outlived_file file;

    for (unsigned i = 0; i < MOST && ep_port_outlived_next(&file); i++) {
        const int error = file.left ? file_store(&file) : -EBADMSG;
        refused += error == -EBADMSG;
        if (error != -ESRCH)
            file_say(&file, error);
        ep_port_outlived_done(&file, error == 0 || error == -ESRCH || error == -EBADMSG);
    }
    if (refused)
        (void)ep_feature_add(&refusing); /* there are fewer features than places */
}

static const char *why_not(const struct ep_config *config)
{
    if (config->flags & EP_CLOCK_PERF)
        return "outlive: not with profiles by perf events";
    if (EP_HAS_FEATURE(limit))
        return "outlive: profiles must be in the compact format";
    if (!EP_HAS_FEATURE(deliver))
        return "outlive: a spool is needed (EDGEPROF_SPOOL), which takes what an earlier process left";
    return NULL;
}

int ep_outlive_setup(struct ep_config *config, const char *folder, const struct ep_own_text *own_text, bool at_once)
{
    const char *why = why_not(config);

    if (why)
        return ep_refuse(-EINVAL, why);
    const int error = ep_port_outlive_open(folder);
    if (error == -EMEDIUMTYPE)
        return ep_complain(-EINVAL, "outlive: ", folder, ": must be on tmpfs, as /run and /dev/shm are");
    if (error)
        return ep_complain(error, "outlive: this user cannot use the folder ", folder, "");
    rest_store();
    ep_own_text_is(own_text); /* the reader had that of the other process */
    return ep_port_outlive_begin(config, own_text, at_once);
}

int ep_outlive_start(struct ep_config *config, const char *folder)
{
    static const struct ep_own_text none;
    const char *given = folder ? folder : ep_port_env("EDGEPROF_OUTLIVE");

    if (!given || !*given || (!folder && ep_port_env("EDGEPROF_RUN"))) /* run itself reads what is there */
        return 0;
    if (ep_running())
        return ep_refuse(-EALREADY, "outlive: the profiler is running; call ep_outlive_start() before ep_start()");
    config->memory = NULL;
    const int error = ep_outlive_setup(config, given, &none, true);
    return error ? error : 1;
}
