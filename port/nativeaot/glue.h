/*
 * What the C# package calls: a few flat functions over core/edgeprof.h, so that no C structure has to be mirrored in
 * C# but the two below. Linked into the package's archive, called by direct P/Invoke. The profiler's memory is
 * static here (EP_MEMORY_DEFAULT bytes of bss); more is mapped only when asked for.
 *
 * Errors are negative errno values; ep_start_error() says more.
 */
#ifndef EP_DOTNET_GLUE_H
#define EP_DOTNET_GLUE_H

#include <stdint.h>

#define EP_DOTNET_WHERE 108 /* room of a socket's path */
#define EP_DOTNET_TOKEN 257

/* Options as C# hands them over: UTF-8 strings or NULL, valid during the call; 0 is a default. Fields that are zero
 * are looked for in the environment. Mirrored by NativeOptions in EdgeProf/Native.cs. */
struct ep_dotnet_options {
    const char *service;
    const char *tags;
    const char *endpoint;
    const char *control, *control_token;
    const char *headers; /* struct ep_config; copied */
    const char *pull, *pull_token;
    const char *spool;
    uint64_t memory_bytes, spool_bytes;
    uint32_t level, rate_hz, interval_ms, format, kinds, budget_ppm, flags;
    uint32_t names;   /* 0: as the environment says, 1: yes, 2: no */
    uint32_t managed; /* 1: ep_dotnet_transport takes the profiles, whatever endpoint says */
};

/* What https endpoints need, likewise; ca stays valid until the next start. Mirrored by NativeTls in
 * EdgeProf/Native.cs. */
struct ep_dotnet_tls {
    const char *ca_file, *pin, *cert_file, *key_file, *server_name;
    const void *ca, *cert, *key;
    uint64_t ca_size, cert_size, key_size;
    uint32_t flags; /* enum ep_tls_flags */
};

/* What ep_dotnet_stats() fills in, by index. Mirrored by the enum Figure in EdgeProf/Native.cs. */
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
    EP_DOTNET_OWN_CPU_NS, /* of both of the profiler's threads */
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
    EP_DOTNET_FIGURES
};

/* 1 when the environment says where profiles go, 0 when not, -EINVAL when a variable makes no sense: as
 * ep_config_from_env(). Context: init. */
int ep_dotnet_configured(void);

/* ep_start(), for an https endpoint behind ep_tls_setup(). -ENOMEM also when the memory that was asked for cannot be
 * mapped. Context: init. */
int ep_dotnet_start(const struct ep_dotnet_options *options, const struct ep_dotnet_tls *tls);

/* Whether the profiler that was started last sends names. Context: init. */
int ep_dotnet_sends_names(void);

/* ep_stop(). Context: init. */
int ep_dotnet_stop(uint32_t deadline_ms);

/* ep_flush(). Context: any thread. */
int ep_dotnet_flush(void);

/* The live heap's weak handles (GCHandle.ToIntPtr), once, before the first start. 0, -EINVAL: another number, -ENOSYS:
 * this runtime cannot. Context: init. */
#define EP_DOTNET_LIVE_PLACES 1024
int ep_dotnet_live_attach(void *const *handles, uint32_t count);

/* Whoever knows how managed code calls a thread by the handle of its Thread object: at most `room` bytes of UTF-8,
 * returns how many. Once, before the first start. Context: init. */
typedef int32_t ep_dotnet_name_reader(void *thread, char *name, int32_t room);
void ep_dotnet_names_attach(ep_dotnet_name_reader *read);

/* The heap's sizes are told from now on, if this runtime knows them. ep_dotnet_start() does it. Context: init. */
void ep_dotnet_heap_attach(void);

/* ---- managed_transport.c ---- */

struct ep_transport;
extern const struct ep_transport ep_dotnet_transport;

/* Mirrored by NativeMessage in EdgeProf/Native.cs. */
struct ep_dotnet_message {
    uint64_t size, segment, start_unix_ns, end_unix_ns;
    uint32_t sequence, format;
};

/* The run that goes on: what take and done are told. Context: init, after ep_dotnet_start(). */
uint32_t ep_dotnet_message_run(void);

/* Waits for a message and copies it. Returns its size; 0: the run has ended; -EMSGSIZE: about->size bytes are wanted,
 * take it again. Context: a thread of .NET's, one a run. */
int64_t ep_dotnet_message_take(uint32_t run, struct ep_dotnet_message *about, uint8_t *buffer, uint64_t capacity);

/* What became of it: as a transport's send. Context: the same. */
void ep_dotnet_message_done(uint32_t run, int32_t result, uint64_t retry_ns);

/* How many there are: EP_KINDS, EP_LOSS_REASONS. Context: any thread. */
uint32_t ep_dotnet_kinds(void);
uint32_t ep_dotnet_loss_reasons(void);

/* Fills `figures` of enum ep_dotnet_figure; for each of `kinds` kinds its count and its value; for each of `reasons`
 * loss reasons its count and its CPU time in ns. 0, -ESRCH: never started, -EINVAL: not the numbers that this library
 * has. Context: any thread. */
int ep_dotnet_stats(uint64_t *figure, uint32_t figures, uint64_t *by_kind, uint32_t kinds, uint64_t *lost,
                    uint32_t reasons);

/* Texts for people; never NULL. Context: init. */
const char *ep_dotnet_error(void);
const char *ep_dotnet_loss_name(uint32_t reason);

#endif
