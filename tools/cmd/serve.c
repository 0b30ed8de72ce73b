/* edgeprof serve: runs the server until a signal. */
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"
#include "tools/serve/relay/relay.h"
#include "tools/serve/sandbox.h"
#include "tools/serve/settings.h"
#include "tools/serve/start.h"
#include "tools/lib/confine.h"
#include "tools/symbols/reader.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

const struct et_help et_help_serve = {
    .usage = "[options]",
    .about = "Receives profiles from devices, stores them in an SQLite database and serves a web page, until stopped.",
    .end = "Devices and Pyroscope clients send to http://HOST:PORT. docs/http-api.md describes the API.\n"
           "\n"
           "exit codes: 0 stopped by a signal, 1 failed (port in use, database not writable), 2 wrong usage",
    .words = "",
};

static int read_settings(struct et_options *options, struct et_serve_settings *settings)
{
    struct et_serve_options given = {
        .config = options->config,
        .listen = options->listen,
        .db = options->db,
        .symbols_store = options->symbols_store,
        .token_file = options->token_file,
        .tls_cert = options->tls_cert,
        .tls_key = options->tls_key,
        .tls_client_ca = options->tls_client_ca,
        .keep = options->keep,
        .max_size = options->max_size,
        .insecure = options->insecure,
        .no_sandbox = options->no_sandbox,
        .hosts = options->hosts,
        .tenant = options->tenant,
        .prefix = options->prefix,
        .symbols = options->symbols,
        .sources = options->sources,
        .debuginfod = options->debuginfod,
    };
    int code = et_serve_settings_read(&given, settings);
    options->symbols_store = given.symbols_store;
    options->symbols = given.symbols;
    options->sources = given.sources;
    options->debuginfod = given.debuginfod;
    return code;
}

/* Says in *line what holds. */
static void enter_sandbox(const struct et_options *options, const struct et_serve_settings *settings,
                          const struct et_relay_config *relay, struct et_buf *line)
{
    struct et_buf urls = {0}, cache = {0};
    bool asks = et_options_debuginfod(options, &urls, &cache);
    et_sandbox_enter(&(struct et_sandbox_config){.settings = settings,
                                                 .relay = relay,
                                                 .symbols = &options->symbols,
                                                 .sources = &options->sources,
                                                 .symbols_store = options->symbols_store,
                                                 .debuginfod = asks ? urls.data : NULL,
                                                 .cache = cache.data},
                     line);
    et_buf_free(&urls);
    et_buf_free(&cache);
}

static struct et_server *start_server(const struct et_options *options, struct et_serve_settings *settings,
                                      struct et_relay_config *relay, struct et_buf *sandbox)
{
    int err = et_reader_start(et_confine_possible());
    if (err) {
        et_error("cannot start the process that reads symbol files: %s", strerror(-err));
        return NULL;
    }
    if (settings->sandbox) {
        enter_sandbox(options, settings, relay, sandbox); /* before the server starts threads, which inherit it */
    } else {
        et_buf_text(sandbox, "sandbox: off");
    }
    return et_server_start(
        &(struct et_server_config){
            .listen = settings->listen,
            .db = settings->db,
            .symbols = et_options_symbols(options),
            .sources = &options->sources,
            .limits = &settings->limits,
            .access = settings->access,
            .metric_labels = settings->metric_labels,
            .prefix = settings->prefix,
        },
        relay, &settings->scrape, &settings->webhook, settings->verdict_ns);
}

int et_cmd_serve(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    if (options.first < argc) {
        et_error("serve: unexpected argument %s", argv[options.first]);
        return ET_USAGE;
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before the server starts threads, which inherit the mask */
    struct et_serve_settings settings;
    code = read_settings(&options, &settings);
    if (code != ET_OK) {
        et_options_free(&options);
        return code;
    }
    struct et_relay_config relay;
    if (!et_relay_config_read(&settings.config, &relay)) {
        et_serve_settings_free(&settings);
        et_options_free(&options);
        return ET_FAILED;
    }
    struct et_buf sandbox = {0};
    struct et_server *server = start_server(&options, &settings, &relay, &sandbox);
    et_relay_config_free(&relay); /* what the server has not taken */
    struct et_keeper *keeper = server ? et_keeper_start(server, &settings.keep) : NULL;
    et_serve_settings_free(&settings);
    et_options_free(&options);
    if (!keeper) {
        if (server) {
            et_server_stop(server);
        }
        et_buf_free(&sandbox);
        return ET_FAILED;
    }
    printf("edgeprof: %s\nedgeprof: %s\n", et_server_url(server), sandbox.data);
    fflush(stdout);
    et_buf_free(&sandbox);
    int signal;
    while (sigwait(&signals, &signal) == 0 && signal == SIGHUP) {
        et_server_reload(server);
    }
    et_keeper_stop(keeper);
    et_server_stop(server);
    return ET_OK;
}
