/* edgeprof serve: runs the server until a signal. */
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"
#include "tools/serve/relay/relay.h"
#include "tools/serve/settings.h"
#include "tools/serve/start.h"
#include "tools/cmd/help.h"

#include <signal.h>
#include <stdio.h>

static const char help[] =
    "usage: edgeprof serve [options]\n"
    "\n"
    "Takes profiles from devices, keeps them in an SQLite database and shows them on a page, until it is stopped.\n"
    "\n"
    "  --listen HOST:PORT  where to listen (127.0.0.1:4040); port 0: a free port; 0.0.0.0: all networks\n"
    "  --db FILE           the database, made when it is not there (./edgeprof.db)\n" ET_SYMBOLS_HELP
    "  --symbols-store DIR\n"
    "                      take symbol files sent with `edgeprof symbols add --url`, keep them in DIR, give them out "
    "as\n"
    "                      a debuginfod server does\n"
    "  --keep TIME         profiles go after TIME (14d), or never: forever\n"
    "  --max-size SIZE     the oldest go when the database has become larger than SIZE, such as 4G (any)\n"
    "  --token-file FILE   who may read and write: lines TOKEN, read TOKEN, write TOKEN (bearer, or Basic's password)\n"
    "  --tls-cert FILE     speak TLS with this certificate and its chain (PEM), and\n"
    "  --tls-key FILE      its key; SIGHUP reads tokens and certificates again\n"
    "  --tls-client-ca FILE\n"
    "                      admit clients with a certificate signed by one of these\n"
    "  --insecure          admit everybody, on addresses beyond this machine as well\n"
    "  --config FILE       settings: the above in [serve]; [keep], [limits], targets to [scrape], destinations of all\n"
    "                      that arrives as [relay NAME]\n"
    "  --help\n"
    "\n"
    "Devices and Pyroscope clients send to http://HOST:PORT. docs/http-api.md describes the API.\n"
    "exit codes: 0 stopped by a signal, 1 failed (port in use, database not writable), 2 wrong usage\n";

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
        .symbols = options->symbols,
        .debuginfod = options->debuginfod,
    };
    int code = et_serve_settings_read(&given, settings);
    options->symbols_store = given.symbols_store;
    options->symbols = given.symbols;
    options->debuginfod = given.debuginfod;
    return code;
}

int et_cmd_serve(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, ET_TAKES_SYMBOLS "ldBxK123456", help, &options);
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
    struct et_server *server = et_server_start(
        &(struct et_server_config){
            .listen = settings.listen,
            .db = settings.db,
            .symbols = et_options_symbols(&options),
            .limits = &settings.limits,
            .access = settings.access,
        },
        &relay, &settings.scrape);
    et_relay_config_free(&relay); /* what the server has not taken */
    struct et_keeper *keeper = server ? et_keeper_start(server, &settings.keep) : NULL;
    et_serve_settings_free(&settings);
    et_options_free(&options);
    if (!keeper) {
        if (server) {
            et_server_stop(server);
        }
        return ET_FAILED;
    }
    printf("edgeprof: %s\n", et_server_url(server));
    fflush(stdout);
    int signal;
    while (sigwait(&signals, &signal) == 0 && signal == SIGHUP) {
        et_server_reload(server);
    }
    et_keeper_stop(keeper);
    et_server_stop(server);
    return ET_OK;
}
