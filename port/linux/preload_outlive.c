/*
 * Memory that outlives the process, in the preload library: under `edgeprof run`, whose folder EDGEPROF_OUTLIVE names
 * and which has the rest read by a new process with this library; and where a user has named a folder (outlived.c).
 */
#include "preload_outlive.h"

#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <edgeprof/port.h>

#define STOP_MS 2000u

int ep_preload_outlive(struct ep_config *config, bool at_once)
{
    const char *folder = ep_port_env("EDGEPROF_OUTLIVE");
    const struct ep_own_text own_text = ep_preload_own_text();

    if (!folder || !*folder)
        return 0;
    if (!ep_port_env("EDGEPROF_RUN"))
        return ep_outlive_setup(config, folder, &own_text, at_once);
    if (!(config->flags & EP_CLOCK_PERF)) /* `edgeprof run` counts the kernel's kills itself */
        (void)ep_linux_outlive_begin(config, &own_text, folder, 0,
                                     at_once); /* or the last profile is lost, as without */
    return 0;
}

void ep_preload_outlive_forked(struct ep_config *config)
{
    const char *folder = ep_port_env("EDGEPROF_OUTLIVE");
    const struct ep_own_text own_text = ep_preload_own_text();

    if (folder && *folder && !(config->flags & EP_CLOCK_PERF))
        (void)ep_linux_outlive_begin(config, &own_text, folder, ep_port_env("EDGEPROF_RUN") ? 0 : ep_linux_oom_kills(),
                                     true);
}

/* ---- the process that reads for `edgeprof run` ---- */

static uint8_t *file_read(const char *name, size_t *size)
{
    const int fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    uint8_t *copy = fd >= 0 ? ep_linux_outlived_read(fd, size) : NULL;

    if (fd >= 0)
        (void)close(fd);
    return copy;
}

static int send_rest(const struct ep_outlived *outlived, const void *head, const void *left)
{
    struct ep_config config = {.memory_size = outlived->memory_size};
    const int wanted = ep_config_from_env(&config);

    config.memory = mmap(NULL, config.memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (wanted <= 0 || config.memory == MAP_FAILED)
        return -EINVAL;
    config.service = outlived->service;
    config.tags = outlived->tags;
    config.level = outlived->level;
    config.rate_hz = outlived->rate_hz;
    config.kinds = EP_KIND_BIT(EP_KIND_THREAD); /* this process itself is not sampled */
    config.flags |= EP_MANUAL;
    int error = ep_start(&config);
    error = error ? error : ep_outlive_adopt(head, left);
    return error ? error : ep_stop(STOP_MS);
}

void ep_preload_outlived(void)
{
    const char *name = ep_port_env("EDGEPROF_OUTLIVED");
    struct ep_outlived outlived;
    size_t size = 0;

    if (!name || !*name)
        return;
    uint8_t *left = file_read(name, &size);
    void *head = left ? left + size - EP_OUTLIVE_HEAD : NULL;
    int error = left ? ep_outlive_check(head, &outlived) : -EBADMSG;
    if (error == 0 && !ep_outlive_fits(&outlived, size))
        error = -EBADMSG;
    error = error ? error : send_rest(&outlived, head, left);
    _exit(error == 0 || error == -ESRCH ? EXIT_SUCCESS : EXIT_FAILURE);
}
