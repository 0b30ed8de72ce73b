/*
 * The parts of the library that a program may leave out: https, pprof, the spool, endpoints, incidents, OpenTelemetry's
 * contexts. All are weak here; EdgeProf/build/EdgeProf.targets tells the linker which the program has. A part that is
 * asked for and not there refuses the start with a line.
 *
 *   glue.c -> ep_dotnet_tls_setup, ep_dotnet_pprof_setup, ep_dotnet_spool_setup, ... -> part_missing
 */
#include "glue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/tls.h>

#define PART(name) extern __typeof__(name) name __attribute__((weak))
PART(ep_tls_config_from_env);
PART(ep_tls_error);
PART(ep_tls_is_needed);
PART(ep_tls_setup);
PART(ep_pprof_start);
PART(ep_pprof_stop);
PART(ep_pprof_from_env);
PART(ep_names_process);
PART(ep_spool_from_env);
PART(ep_spool_start);
PART(ep_endpoint_old);
PART(ep_outlive_start);
PART(ep_control_start);
PART(ep_control_stop);
PART(ep_pull_start);
PART(ep_pull_stop);
PART(ep_dotnet_incidents_setup);
PART(ep_incident_stats_get);
PART(ep_otel_publish);
PART(ep_otel_threads);
PART(ep_otel_read);

static void *tls_memory, *pull_memory, *least_spool_memory; /* by ep_dotnet_memory_keep() */
static void *spool_memory;
static size_t spool_memory_size;
static bool tls_failed, sends_pprof, sends_names, has_endpoint;
static const char *failed; /* what could not be started, NULL: nothing failed */

void ep_dotnet_parts_begin(void)
{
    failed = NULL;
    tls_failed = false;
}

const char *ep_dotnet_parts_error(void)
{
    return failed == NULL && tls_failed ? ep_tls_error() : failed;
}

/* Returns 0 if nobody asks for the part, by an option or by a variable. */
static int part_missing(const char *option, const char *variable, const char *line)
{
    const char *text = option != NULL ? option : secure_getenv(variable);

    if (text == NULL || !*text)
        return 0;
    failed = line;
    return -EINVAL;
}

/* ---- memory ---- */

void *ep_dotnet_memory_map(size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return bytes != MAP_FAILED ? bytes : NULL;
}

void *ep_dotnet_memory_keep(void **kept, size_t size)
{
    if (*kept == NULL)
        *kept = ep_dotnet_memory_map(size);
    return *kept;
}

/* ---- https ---- */

static bool is_https(const char *endpoint)
{
    return endpoint != NULL && strncmp(endpoint, "https:", 6) == 0;
}

static int tls_missing(const char *endpoint)
{
    const bool wanted = is_https(endpoint) || is_https(secure_getenv("EDGEPROF_ENDPOINT_OLD"));

    return part_missing(wanted ? "https" : "", "", "https: this program is built with EdgeProfTls=false");
}

int ep_dotnet_tls_setup(const char *endpoint, const struct ep_dotnet_tls *options)
{
    struct ep_tls_config tls = {.memory_size = EP_TLS_MEMORY,
                                .ca_file = options->ca_file,
                                .ca = options->ca,
                                .ca_size = (size_t)options->ca_size,
                                .pin = options->pin,
                                .cert_file = options->cert_file,
                                .key_file = options->key_file,
                                .cert = options->cert,
                                .key = options->key,
                                .cert_size = (size_t)options->cert_size,
                                .key_size = (size_t)options->key_size,
                                .server_name = options->server_name,
                                .flags = options->flags};

    if (!ep_tls_setup)
        return tls_missing(endpoint);
    if (!ep_tls_is_needed(endpoint))
        return 0;
    tls.memory = ep_dotnet_memory_keep(&tls_memory, tls.memory_size);
    int err = tls.memory != NULL ? ep_tls_config_from_env(&tls) : -ENOMEM;
    if (err == 0)
        err = ep_tls_setup(&tls);
    tls_failed = err != 0;
    return err;
}

/* ---- pprof ---- */

/* Only pprof goes to a Pyroscope server. */
static int pprof_missing(const struct ep_config *config, bool chosen)
{
    const char *format = secure_getenv("EDGEPROF_FORMAT");
    const bool wanted = chosen || (format != NULL && strcmp(format, "pprof") == 0) ||
                        (config->endpoint && config->endpoint == secure_getenv("PYROSCOPE_SERVER_ADDRESS"));

    return part_missing(wanted ? "pprof" : "", "", "pprof: this program is built with EdgeProfPprof=false");
}

/* Sends pprof if the options or a variable ask for it, and compact profiles otherwise. Returns 0 or the error. */
int ep_dotnet_pprof_setup(struct ep_config *config, bool chosen)
{
    if (!ep_pprof_start)
        return pprof_missing(config, chosen);
    int err = chosen ? ep_pprof_start() : ep_pprof_stop(); /* an earlier start may have left it */

    if (err == 0)
        err = ep_pprof_from_env(config);
    sends_pprof = err > 0;
    return err > 0 ? ep_pprof_start() : err;
}

void ep_dotnet_names_setup(struct ep_config *config, uint32_t names)
{
    if (names)
        config->names = names == 1 && &ep_names_process ? &ep_names_process : NULL;
    sends_names = config->names && sends_pprof;
}

int ep_dotnet_sends_names(void)
{
    return sends_names;
}

/* ---- spool ---- */

/* A second endpoint for old profiles, if a variable names one. */
int ep_dotnet_old_setup(struct ep_config *config)
{
    const int set = ep_endpoint_old && config->endpoint != NULL ? ep_endpoint_old(config, NULL) : 0;

    return set < 0 ? set : 0;
}

/* Starts a spool if the options or the environment request one. A message may be a quarter of the profiler's memory. */
int ep_dotnet_spool_setup(const struct ep_dotnet_options *options, uint64_t profiler_memory)
{
    struct ep_spool_config spool = {
        .dir = options->spool, .cap_bytes = options->spool_bytes, .memory_size = EP_SPOOL_MEMORY};

    if (!ep_spool_start)
        return part_missing(options->spool, "EDGEPROF_SPOOL", "spool: this program is built with EdgeProfSpool=false");
    const int asked = ep_spool_from_env(&spool);
    if (asked <= 0)
        return asked < 0 ? asked : ep_spool_start(NULL);
    if (profiler_memory > EP_MEMORY_DEFAULT) {
        spool_memory_size = spool.memory_size = EP_SPOOL_MEMORY + (size_t)profiler_memory / 4;
        spool.memory = spool_memory = ep_dotnet_memory_map(spool.memory_size);
    } else {
        spool.memory = ep_dotnet_memory_keep(&least_spool_memory, EP_SPOOL_MEMORY);
    }
    return spool.memory != NULL ? ep_spool_start(&spool) : -ENOMEM;
}

int ep_dotnet_outlive_setup(struct ep_config *config)
{
    const int set = ep_outlive_start ? ep_outlive_start(config, NULL) : 0;

    return set < 0 ? set : 0;
}

void ep_dotnet_spool_release(void)
{
    if (spool_memory != NULL)
        munmap(spool_memory, spool_memory_size);
    spool_memory = NULL;
}

/* ---- endpoints ---- */

/* Strings that must stay valid while an endpoint is open; C# keeps them only during the call. */
struct kept {
    char where[EP_DOTNET_WHERE], token[EP_DOTNET_TOKEN];
};
static struct kept control, pull;

/* Takes a text from code, else from the environment, else NULL. Returns -EINVAL if it is too long. */
static int text_keep(const char *text, const char *variable, char *copy, size_t room, const char **kept)
{
    text = text != NULL ? text : secure_getenv(variable);
    *kept = NULL;
    if (text == NULL || !*text)
        return 0;
    if (strlen(text) >= room)
        return -EINVAL;
    *kept = strcpy(copy, text);
    return 0;
}

static int control_start(const struct ep_dotnet_options *options)
{
    const char *where, *token;
    int err = text_keep(options->control, "EDGEPROF_CONTROL", control.where, sizeof control.where, &where);

    if (err == 0)
        err = text_keep(options->control_token, "EDGEPROF_CONTROL_TOKEN", control.token, sizeof control.token, &token);
    return err == 0 && where != NULL ? ep_control_start(where, token) : err;
}

static int pull_start(const struct ep_dotnet_options *options)
{
    struct ep_pull_config config = {.memory_size = EP_PULL_MEMORY_DEFAULT, .insecure = options->pull_insecure != 0};
    int err = text_keep(options->pull, "EDGEPROF_PULL", pull.where, sizeof pull.where, &config.where);

    if (err == 0)
        err = text_keep(options->pull_token, "EDGEPROF_PULL_TOKEN", pull.token, sizeof pull.token, &config.token);
    if (err != 0 || config.where == NULL)
        return err;
    config.memory = ep_dotnet_memory_keep(&pull_memory, config.memory_size);
    return config.memory != NULL ? ep_pull_start(&config) : -ENOMEM;
}

static int endpoints_missing(const struct ep_dotnet_options *options)
{
    const char *line = "endpoints: this program is built with EdgeProfEndpoints=false";
    const int err = part_missing(options->control, "EDGEPROF_CONTROL", line);

    return err == 0 ? part_missing(options->pull, "EDGEPROF_PULL", line) : err;
}

int ep_dotnet_endpoints_start(const struct ep_dotnet_options *options)
{
    has_endpoint = false;
    if (!ep_control_start)
        return endpoints_missing(options);
    int err = control_start(options);

    has_endpoint = err > 0;
    if (err < 0)
        failed =
            "control endpoint (Control or EDGEPROF_CONTROL): must be a socket's path that can be created, or a free "
            "port and a token of at least 16 characters";
    else if ((err = pull_start(options)) == -EACCES)
        failed = "pull endpoint (Pull or EDGEPROF_PULL): its token would cross the network unencrypted; put TLS in "
                 "front, or set PullInsecure or EDGEPROF_PULL_INSECURE=1";
    else if (err < 0)
        failed = "pull endpoint (Pull or EDGEPROF_PULL): must be a free port, or address:port, and beyond loopback "
                 "a token of at least 16 characters";
    has_endpoint |= err > 0;
    return err < 0 ? err : 0;
}

void ep_dotnet_endpoints_stop(void)
{
    if (ep_pull_stop)
        (void)ep_pull_stop();
    if (ep_control_stop)
        (void)ep_control_stop();
}

int ep_dotnet_has_endpoint(void)
{
    return has_endpoint;
}

/* ---- incidents, contexts ---- */

int ep_dotnet_incidents_begin(const struct ep_dotnet_incidents *options)
{
    const char *text = secure_getenv("EDGEPROF_INCIDENT");

    if (ep_dotnet_incidents_setup)
        return ep_dotnet_incidents_setup(options);
    const bool wanted = options->enable == 1 || (options->enable == 0 && text != NULL && strcmp(text, "0") != 0);
    return part_missing(wanted ? "incidents" : "", "", "incidents: this program is built with EdgeProfIncidents=false");
}

void ep_dotnet_incident_figures(uint64_t *figure)
{
    struct ep_incident_stats stats;

    if (!ep_incident_stats_get)
        return;
    ep_incident_stats_get(&stats);
    figure[EP_DOTNET_INCIDENTS] = stats.captured;
    figure[EP_DOTNET_INCIDENTS_SUPPRESSED] = stats.suppressed;
    figure[EP_DOTNET_INCIDENTS_LOST] = stats.lost;
}

void ep_dotnet_contexts_begin(const struct ep_config *config)
{
    const int wanted = ep_otel_from_env();

    if (wanted > 0 && (!ep_otel_publish || !ep_otel_threads || !ep_otel_read)) {
        ep_dotnet_notice("EDGEPROF_OTEL_CONTEXT has no effect: build the program with EdgeProfOtelContext=true");
        return;
    }
    int err = wanted < 0 ? wanted : 0;
    if (err == 0 && wanted & EP_OTEL_PUBLISH)
        err = ep_otel_publish(config, "telemetry.sdk.language=dotnet");
    if (err == 0 && wanted & EP_OTEL_PUBLISH)
        err = ep_otel_threads();
    if (err != 0 && err != -EALREADY)
        ep_dotnet_notice(ep_start_error());
    if (wanted > 0 && wanted & EP_OTEL_READ)
        (void)ep_otel_read();
}
