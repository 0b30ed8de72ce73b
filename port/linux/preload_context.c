/*
 * OpenTelemetry's contexts in a program that was built without edgeprof (EDGEPROF_OTEL_CONTEXT): its process context,
 * and the spans of its own tracer for edgeprof's samples. Thread contexts are the tracer's affair.
 */
#include "preload.h"
#include "preload_lines.h"

#include <errno.h>

#include <edgeprof/edgeprof.h>

static int wanted;

static void publish(const struct ep_config *config)
{
    int error = wanted & EP_OTEL_PUBLISH ? ep_otel_publish(config, NULL) : 0;

    if (error < 0 && error != -EEXIST) /* the program's own SDK knows more */
        ep_preload_say_error("no process context", ep_start_error(), error);
}

void ep_preload_context(const struct ep_config *config)
{
    wanted = ep_otel_from_env();
    if (wanted < 0) {
        ep_preload_say_error("no contexts", ep_start_error(), wanted);
        wanted = 0;
    }
    publish(config);
    if (wanted & EP_OTEL_READ)
        (void)ep_otel_read();
}

void ep_preload_context_again(const struct ep_config *config)
{
    publish(config);
}
