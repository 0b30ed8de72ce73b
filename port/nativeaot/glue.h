/*
 * The interface for the C# package: flat functions over core/edgeprof/edgeprof.h, so that C# mirrors only the
 * structures below. Linked into the package's archive and called by direct P/Invoke. The memory of the profiler, TLS,
 * the spool and the pull endpoint is mapped when it is first needed; up to its default size it stays until the process
 * ends.
 *
 * Errors are negative errno values; ep_dotnet_error() explains them.
 */
#ifndef EP_DOTNET_GLUE_H
#define EP_DOTNET_GLUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EP_DOTNET_WHERE 108 /* size of a socket's path */
#define EP_DOTNET_TOKEN 257

/* struct ep_incident_config, without its memory. Mirrored by NativeIncidents in EdgeProf/Native.cs. */
struct ep_dotnet_incidents {
    uint64_t history_bytes, memory_bytes; /* of the history; the limit of memory */
    uint32_t enable;                      /* 0: the environment decides, 1: on, 2: off */
    uint32_t tail_ms, span_ms, gc_ms, heartbeat_ms, cpu_pct, for_ms, exceptions, gap_ms, per_day, day_bytes;
    uint32_t unused;
};

/* Options from C#: UTF-8 strings or NULL, valid during the call; 0: default. Zero fields are read from the
 * environment. Mirrored by NativeOptions in EdgeProf/Native.cs. */
struct ep_dotnet_options {
    const char *service;
    const char *tags;
    const char *version; /* a tag, unless the tags have one */
    const char *endpoint;
    const char *control, *control_token;
    const char *headers; /* struct ep_config; copied */
    const char *pull, *pull_token;
    const char *spool;
    const char *token_file; /* ep_token_file() */
    uint64_t memory_bytes, spool_bytes;
    uint32_t level, rate_hz, interval_ms, format, kinds, budget_ppm, flags;
    uint32_t names;   /* 0: from the environment, 1: yes, 2: no */
    uint32_t managed; /* 1: ep_dotnet_transport gets the profiles, whatever endpoint is */
    uint32_t pull_insecure;
    struct ep_dotnet_incidents incidents;
};

/* Options for https endpoints; `ca` must stay valid until the next start. Mirrored by NativeTls in
 * EdgeProf/Native.cs. */
struct ep_dotnet_tls {
    const char *ca_file, *pin, *cert_file, *key_file, *server_name;
    const void *ca, *cert, *key;
    uint64_t ca_size, cert_size, key_size;
    uint32_t flags; /* enum ep_tls_flags */
};

/* Indices of the figures of ep_dotnet_stats(). Mirrored by the enum Figure in EdgeProf/Native.cs. */
enum ep_dotnet_figure {
    EP_DOTNET_SAMPLES,
    EP_DOTNET_WEIGHT_NS,
    EP_DOTNET_EXACT,
    EP_DOTNET_GAP,
    EP_DOTNET_CUT,
    EP_DOTNET_THREAD_EXIT_NS,
    EP_DOTNET_RULE_HITS,
    EP_DOTNET_RULE_MISSES,
    EP_DOTNET_MESSAGES,
    EP_DOTNET_MESSAGE_BYTES,
    EP_DOTNET_DELIVERED,
    EP_DOTNET_DELIVERED_BYTES,
    EP_DOTNET_DELIVERY_FAILURES,
    EP_DOTNET_INTERVALS_MERGED,
    EP_DOTNET_LAST_ERROR, /* errno value, positive */
    EP_DOTNET_OWN_CPU_NS, /* of the collect and the deliver thread */
    EP_DOTNET_WAKEUPS,
    EP_DOTNET_THREADS,
    EP_DOTNET_MODULES,
    EP_DOTNET_MEMORY_USED,
    EP_DOTNET_HANDLER_NS,
    EP_DOTNET_COST_PPM,
    EP_DOTNET_STRETCH_PCT,
    EP_DOTNET_STRETCHES,
    EP_DOTNET_SPOOL_ERROR, /* errno value, positive */
    EP_DOTNET_SPOOLED,
    EP_DOTNET_REPLAYED,
    EP_DOTNET_SPOOL_MESSAGES,
    EP_DOTNET_SPOOL_BYTES,
    EP_DOTNET_SPOOL_WRITTEN,
    EP_DOTNET_LAST_STATUS,
    EP_DOTNET_BUSY_STOPS,
    EP_DOTNET_INCIDENTS,
    EP_DOTNET_INCIDENTS_SUPPRESSED,
    EP_DOTNET_INCIDENTS_LOST,
    EP_DOTNET_FIGURES
};

/* The assembly and this archive may come from different packages. Both must have this number, which changes with the
 * meaning of a function or a member, and the same sizes. Mirrored by Native.Interface in EdgeProf/Native.cs. */
#define EP_DOTNET_INTERFACE 1u
struct ep_dotnet_shape {
    uint32_t interface, options, tls, message, figures; /* sizes; number of figures */
};

/* Compares them. Returns 0; -EPROTO: they differ, or `size` does, and ep_dotnet_start() will return that.
 * Context: init. */
int ep_dotnet_agree(const struct ep_dotnet_shape *theirs, uint32_t size);

/* As ep_config_from_env(): 1 if a variable names an upload target or requests the pull endpoint, 0 if not, -EINVAL:
 * a variable is invalid. Context: init. */
int ep_dotnet_configured(void);

/* Calls ep_tls_setup() for an https endpoint, then ep_start(). Also returns -ENOMEM if the requested memory cannot
 * be mapped; -EPROTO without a successful ep_dotnet_agree(), and reads nothing then. Context: init. */
int ep_dotnet_start(const struct ep_dotnet_options *options, const struct ep_dotnet_tls *tls);

/* ep_stop(). Context: init. */
int ep_dotnet_stop(uint32_t deadline_ms);

/* ep_flush(). Context: any thread. */
int ep_dotnet_flush(void);

/* ---- parts.c: called by glue.c. Context: init ---- */

struct ep_config;

/* Returns `size` zeroed bytes, page aligned, or NULL when the system has no more. */
void *ep_dotnet_memory_map(size_t size);

/* Returns memory of a fixed size for a feature, from its first use to the end of the process: a late reader may still
 * have it after the feature has stopped. Not static, so a program that does not use the feature reserves nothing. */
void *ep_dotnet_memory_keep(void **kept, size_t size);

/* A start begins; and the line of what has refused it, NULL: not a part. */
void ep_dotnet_parts_begin(void);
const char *ep_dotnet_parts_error(void);

/* Each sets up a part if options or variables ask for it. Returns 0 or the error; -EINVAL also if the program is built
 * without the part. */
int ep_dotnet_tls_setup(const char *endpoint, const struct ep_dotnet_tls *options);
int ep_dotnet_pprof_setup(struct ep_config *config, bool chosen);
int ep_dotnet_spool_setup(const struct ep_dotnet_options *options, uint64_t profiler_memory);
void ep_dotnet_spool_release(void);
int ep_dotnet_old_setup(struct ep_config *config);
int ep_dotnet_outlive_setup(struct ep_config *config); /* with the spool */
int ep_dotnet_incidents_begin(const struct ep_dotnet_incidents *options);
int ep_dotnet_endpoints_start(const struct ep_dotnet_options *options);
void ep_dotnet_endpoints_stop(void);

/* OpenTelemetry's contexts. A program may start again. The profiler runs without, if that fails. */
void ep_dotnet_contexts_begin(const struct ep_config *config);

/* The source of names: 0 as it is, 1 the process, 2 none. */
void ep_dotnet_names_setup(struct ep_config *config, uint32_t names);

/* The figures of incidents; they stay as they are without that part. */
void ep_dotnet_incident_figures(uint64_t *figure);

/* 1 if the profiler started last sends names. */
int ep_dotnet_sends_names(void);

/* 1: an endpoint is open that takes requests for pending tasks. */
int ep_dotnet_has_endpoint(void);

/* ---- glue.c ---- */

/* Registers the live heap's weak handles (GCHandle.ToIntPtr), once, before the first start. Returns 0; -EINVAL:
 * wrong count; -ENOSYS: this runtime does not support it. Context: init. */
#define EP_DOTNET_LIVE_PLACES 1024
int ep_dotnet_live_attach(void *const *handles, uint32_t count);

/* Registers the function that reads a managed thread's name, given the handle of its Thread object: it writes at
 * most `room` bytes of UTF-8 and returns their number. `type`: the first word of each Thread object, its MethodTable.
 * Once, before the first start. Not used with a runtime that names threads itself. Context: init. */
typedef int32_t ep_dotnet_name_reader(void *thread, char *name, int32_t room);
void ep_dotnet_names_attach(ep_dotnet_name_reader *read, uintptr_t type);

/* ---- exception_hooks.c ---- */

/* Registers where an exception object has the array of its stack trace, and the number of used elements, in bytes from
 * the object. Once, before the first start; without it, `await` and ExceptionDispatchInfo count again. Context: init.
 */
void ep_dotnet_exceptions_attach(uint32_t trace_at, uint32_t count_at);

/* ---- self_check.c ---- */

/* Registers managed code for the check of the runtime: it makes one array of each size in bytes, the second
 * uninitialised. Called by the first ep_dotnet_start(). Context: init. */
#define EP_DOTNET_PROBE_ARRAY 20011
#define EP_DOTNET_PROBE_RAW   20023
void ep_dotnet_probe_attach(void (*probe)(void));

/* Why this runtime's programs have no such kind of profile; empty: they have it. Context: any thread. */
const char *ep_dotnet_missing(uint32_t kind);

/* Checks the runtime at its first call, with a line for each kind that is off. Returns those kinds. Context: init. */
uint32_t ep_dotnet_self_check(void (*say)(const char *line));

/* ---- async_parents.c, async_measure.c ---- */

/* Objects of managed code by which the runtime's structures are measured. Mirrored by the enum AsyncObject in
 * EdgeProf/AsyncProbe.cs. */
enum ep_async_object {
    EP_ASYNC_TASK, /* a Task<int> that EP_ASYNC_BOX awaits */
    EP_ASYNC_BOX,  /* a method's Task<int>, EP_ASYNC_BOX_TEXT: Task<string>, EP_ASYNC_BOX_VOID: Task */
    EP_ASYNC_BOX_TEXT,
    EP_ASYNC_BOX_VOID,
    EP_ASYNC_ACTION_TASK, /* a task with EP_ASYNC_ACTION as its continuation, whose target is EP_ASYNC_TARGET */
    EP_ASYNC_ACTION,
    EP_ASYNC_TARGET,
    EP_ASYNC_FLOW_TASK, /* a task whose continuation is EP_ASYNC_FLOW_ACTION in the current execution context */
    EP_ASYNC_FLOW_ACTION,
    EP_ASYNC_THEN_TASK, /* a task that EP_ASYNC_THEN continues with */
    EP_ASYNC_THEN,
    EP_ASYNC_LIST_TASK, /* a task that several boxes await, EP_ASYNC_LIST_FIRST first */
    EP_ASYNC_LIST_FIRST,
    EP_ASYNC_OBJECTS
};

/* The next three are called from managed code in cooperative mode (SuppressGCTransition), while a profiler runs, with
 * the address of references on the stack. */

/* Measures where fields are. Returns 0; -1: not as expected, see ep_dotnet_async_reason(). Context: any thread. */
int ep_dotnet_async_measure(void *const *objects, uint32_t count);

/* Called by the continuation of objects[0], an async method that only objects[1] awaits. turn 0: also measures how to
 * recognise the frame that runs a continuation. Returns 0; -1: not as expected. Context: any thread. */
int ep_dotnet_async_check(void *const *objects, uint32_t turn);

/* Called by the delegate of the task objects[0], before ep_dotnet_async_check(): finds the frame that runs tasks, which
 * is the one that is there both when the thread itself runs it, turn 0, and when the pool does, turn 1.
 * Context: any thread. */
void ep_dotnet_async_task(void *const *objects, uint32_t turn);

/* The same for a method of the library that is runtime-async: objects[0] is its task, which only objects[1] awaits.
 * Called while it is suspended, objects[1] being the task that it awaits, and then by what it calls. Resumed returns 0;
 * -1: not as expected, or no such method, and methods that are runtime-async have no parents. Context: any thread. */
void ep_dotnet_async_suspended(void *const *objects);
int ep_dotnet_async_resumed(void *const *objects, uint32_t turn);

/* Measures how to read a thread's mode, which waits and CPU samples need; called from managed code in preemptive mode.
 * Returns 0; -1: the mode cannot be read, and waits and samples have no parents. Context: any thread. */
int ep_dotnet_mode_measure(void);

/* Whether events get async parents from now on; never after an error of the two above. Context: any thread. */
void ep_dotnet_async_enable(int32_t enable);

/* Why this program has none; empty: it has, or they were not asked for. Context: any thread. */
const char *ep_dotnet_async_reason(void);

/* 1: EDGEPROF_AWAITED is 1. Context: init. */
int ep_dotnet_async_configured(void);

/* ---- pending.c ---- */

/* Waits for a request of an endpoint. Returns 0, or -ESRCH after ep_dotnet_tasks_end(1). Context: one .NET thread. */
int ep_dotnet_tasks_next(void);

/* Ends that thread's waiting, or (0) allows it again. Context: init. */
void ep_dotnet_tasks_end(int32_t end);

/* Called in cooperative mode with the address of four references on the stack, Task<int> that are pending, completed,
 * faulted and cancelled. Returns 0, or -ENOSYS: the runtime is not known. */
int ep_dotnet_tasks_measure(void *const *objects, uint32_t count);

/* Before a full, blocking collection. Returns 0 or -ENOMEM. */
int ep_dotnet_tasks_begin(void);

/* A chain: its first type is a method's, or the task's that the first method waits for. */
#define EP_DOTNET_TASK_DEPTH 32
struct ep_dotnet_task_group {
    uint32_t count, depth;
    uintptr_t type[EP_DOTNET_TASK_DEPTH];
};

/* Mirrored by NativeTaskList in EdgeProf/Native.cs. */
struct ep_dotnet_task_list {
    uint64_t walked_ns; /* in which threads stood after the collection */
    uint32_t methods, groups;
    uint32_t left_out; /* tasks that had no room */
};

/* After it. Returns 0; -EAGAIN: the collection did not look; -ENOSYS: it cannot. */
int ep_dotnet_tasks_list(struct ep_dotnet_task_list *about);
const struct ep_dotnet_task_group *ep_dotnet_tasks_group(uint32_t number);

/* Answers the request. size 0: there is no list. */
void ep_dotnet_tasks_answer(const char *lines, uint32_t size);

/* ---- signal_end.c ---- */

/* Registers the function to call before a signal that no handler of the program has cancelled ends the process. Returns
 * 0; -ENOSYS: this runtime has no such place. Context: init; `end` runs on a .NET thread. */
int ep_dotnet_signal_end_attach(void (*end)(void));

/* Enables heap sizes if this runtime provides them. Called by ep_dotnet_start(). Context: init. */
void ep_dotnet_heap_attach(void);

/* ---- incidents.c ---- */

/* Enables incidents, if options or environment ask for them, from the next ep_start() on, and disables them if not.
 * Called by ep_dotnet_start(). Returns 0; an error of ep_incident_from_env() and ep_incident_start(). Context: init. */
int ep_dotnet_incidents_setup(const struct ep_dotnet_incidents *options);

/* 1: spans may be triggers, so somebody should report them. Context: any thread. */
int ep_dotnet_incidents_on(void);

/* ---- notices.c ---- */

/* Size of a line about delivery, and its terminating 0. */
#define EP_DOTNET_NOTICE 512

/* The function for ep_notice_to(): writes the line on standard error, or keeps it. If there is no room, it is written
 * in any case. Context: deliver, init. */
void ep_dotnet_notice(const char *line);

/* Whether lines are kept from now on. Lines that are kept stay until they are taken. Context: any thread. */
void ep_dotnet_notices_keep(int32_t keep);

/* Copies the oldest kept line, without a terminating 0, and removes it. Returns its size, at most EP_DOTNET_NOTICE - 1;
 * 0: there is none; -EINVAL: room is less than EP_DOTNET_NOTICE. Context: any thread. */
int32_t ep_dotnet_notice_take(char *line, uint32_t room);

/* ---- managed_transport.c ---- */

struct ep_transport;
extern const struct ep_transport ep_dotnet_transport;

/* Mirrored by NativeMessage in EdgeProf/Native.cs. */
struct ep_dotnet_message {
    uint64_t size, segment, start_unix_ns, end_unix_ns;
    uint32_t sequence, format;
};

/* The current run, the argument of the two functions below. Context: init, after ep_dotnet_start(). */
uint32_t ep_dotnet_message_run(void);

/* Waits for a message and copies it. Returns its size; 0: the run has ended; -EMSGSIZE: a buffer of about->size
 * bytes is needed, call again. Context: one .NET thread a run. */
int64_t ep_dotnet_message_take(uint32_t run, struct ep_dotnet_message *about, uint8_t *buffer, uint64_t capacity);

/* Reports the result of sending it, as a transport's send does. Context: the same. */
void ep_dotnet_message_done(uint32_t run, int32_t result, uint64_t retry_ns);

/* EP_KINDS and EP_LOSS_REASONS. Context: any thread. */
uint32_t ep_dotnet_kinds(void);
uint32_t ep_dotnet_loss_reasons(void);

/* Fills in `figures` of enum ep_dotnet_figure; count and value of each of `kinds` kinds; count and CPU time in ns of
 * each of `reasons` loss reasons. Returns 0; -ESRCH: never started; -EINVAL: numbers that differ from this
 * library's. Context: any thread. */
int ep_dotnet_stats(uint64_t *figure, uint32_t figures, uint64_t *by_kind, uint32_t kinds, uint64_t *lost,
                    uint32_t reasons);

/* Texts for people, never NULL. Context: init. */
const char *ep_dotnet_error(void);
const char *ep_dotnet_loss_name(uint32_t reason);

/* Why crash_early.c could not begin; 0: it did, or nothing was asked. */
extern int ep_dotnet_crash_error;
void ep_dotnet_crash_begin(void);

#endif
