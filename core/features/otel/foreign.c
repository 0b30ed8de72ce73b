/*
 * Spans of other tracers in this process (C++, Rust ...) for edgeprof's samples and events: their thread context, which
 * is the pointer `otel_thread_ctx_v1` of another module. The port reads it.
 */
#include "core/features/otel/context.h"
#include "core/sample/feature.h"

#include <errno.h>

/* Not linked into programs that do not publish contexts of their own. */
extern __typeof__(ep_otel_threads) ep_otel_threads __attribute__((weak));

static int find(void)
{
    return ep_port_thread_context_find("otel_thread_ctx_v1", ep_otel_threads != NULL);
}

/* The other tracer's module may come later. */
static void foreign_modules(bool pinned)
{
    if (pinned)
        (void)find();
}

int ep_otel_read(void)
{
    static const struct ep_feature feature = {.name = "otel", .modules = foreign_modules};

    (void)ep_refuse(0, "");
    int found = find();
    if (found >= 0 && ep_feature_add(&feature) != 0)
        found = -ENOSPC;
    return found < 0 ? ep_refuse(found, "this system does not show the thread contexts of other modules") : found;
}
