/*
 * Spans of other tracers in this process (C++, Rust ...) for edgeprof's samples and events: their thread context, which
 * is the pointer `otel_thread_ctx_v1` of another module. The port reads it.
 */
#include "core/features/otel/context.h"

#include <errno.h>

/* Not linked into programs that do not publish contexts of their own. */
extern __typeof__(ep_otel_threads) ep_otel_threads __attribute__((weak));

int ep_otel_read(void)
{
    (void)ep_refuse(0, "");
    int found = ep_port_thread_context_find("otel_thread_ctx_v1", ep_otel_threads != NULL);
    return found < 0 ? ep_refuse(found, "this system does not show the thread contexts of other modules") : found;
}
