/*
 * OpenTelemetry's contexts tell other profilers on this machine, such as the eBPF profiler, the service, the span and
 * the labels of this program. They also tell edgeprof the spans of other tracers in the program
 * (core/features/otel/README.md). The specification is still in development, so contexts are off by default. They exist
 * on Linux only. A program that calls none of these functions links none of them. edgeprof.h includes this header.
 */
#ifndef EDGEPROF_OTEL_H
#define EDGEPROF_OTEL_H

#ifdef __cplusplus
extern "C" {
#endif

struct ep_config; /* edgeprof.h */

/* Publishes the process context, or replaces it: service.name, service.version, service.instance.id and more. The first
 * of these sources that has a key decides its value: `attributes` ("key=value,key=value", %-encoded; NULL: none),
 * config->service (config may be NULL), OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, config->tags, and edgeprof's own
 * values. edgeprof keeps no reference to the arguments. A forked child has no process context until it calls this.
 *
 * Returns
 *   0         readers find it
 *   -EEXIST   another library has published one
 *   -EINVAL   attributes are malformed or too long
 *   -ENOTSUP  readers would not find it on this system
 *   others    the system's error (ep_start_error())
 * Context: init. */
int ep_otel_publish(const struct ep_config *config, const char *attributes);

/* Publishes the span and the labels of each thread: the span of ep_span_set(), if it has both ids, and the labels of
 * ep_tag_push(). Readers see the first 64 keys of a process, and 228 bytes of a thread. A thread takes 272 bytes more
 * in programs that link this. Call ep_otel_publish() before, and link the program with
 * -Wl,--export-dynamic-symbol=otel_thread_ctx_v1. It does not work with libedgeprof.so.
 *
 * Returns
 *   0          threads are published
 *   -EALREADY  they are already
 *   -EEXIST    another library publishes thread contexts
 *   -ENOENT    the symbol is not exported
 *   -EINVAL    there is no process context (ep_start_error())
 * Context: init. */
int ep_otel_threads(void);

/* Makes samples and events of a thread carry the span that another tracer in this process has published for it, in a
 * module that is loaded now or later. That span counts instead of the thread's own ep_span_set(). Waits that are still
 * open, and dumps of all threads, do not have it. Returns 1: there is such a tracer; 0: not yet; -ENOSYS. Context:
 * init. */
int ep_otel_read(void);

/* Removes the process context, and with it what readers see of threads. Context: init. */
void ep_otel_withdraw(void);

/* Reads EDGEPROF_OTEL_CONTEXT: publish, read, or both (1); 0 or nothing: none. Returns these bits, or -EINVAL
 * (ep_start_error()). Context: init. */
enum { EP_OTEL_PUBLISH = 1, EP_OTEL_READ = 2 };
int ep_otel_from_env(void);

#ifdef __cplusplus
}
#endif

#endif
