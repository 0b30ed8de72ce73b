/* edgeprof serve: the server until a signal ends it. */
#include "commands.h"
#include "options.h"
#include "relay.h"
#include "report.h"
#include "serve_settings.h"
#include "server.h"

#include <signal.h>
#include <stdio.h>

static const char help[] =
    "usage: edgeprof serve [options]\n"
    "\n"
    "Takes profiles from devices, keeps them in an SQLite database and shows them on a page, until it is stopped.\n"
    "\n"
    "  --listen HOST:PORT  where to listen (127.0.0.1:4040); port 0 takes a free one; 0.0.0.0 is for all the world\n"
    "  --db FILE           the database, made when it is not there (./edgeprof.db)\n" ET_SYMBOLS_HELP
    "  --symbols-store DIR\n"
    "                      take symbol files sent with `edgeprof symbols add --url`, keep them in DIR, give them out "
    "as\n"
    "                      a debuginfod server does\n"
    "  --config FILE       settings: the above as listen, db, symbols in [serve]; [limits], targets to [scrape],\n"
    "                      destinations of all that arrives as [relay NAME]\n"
    "  --help\n"
    "\n"
    "Devices send to http://HOST:PORT; Pyroscope clients may do so, too. tools/README.md describes the API.\n"
    "exit codes: 0 stopped by a signal, 1 failed (port in use, database not writable), 2 wrong usage\n";

int et_cmd_serve(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, ET_TAKES_SYMBOLS "ldBx", help, &options);
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
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before the server's threads start */
    struct et_serve_settings settings;
    code = et_serve_settings_read(&options, &settings);
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
    struct et_server *server = et_server_start(&(struct et_server_config){
        .listen = settings.listen,
        .db = settings.db,
        .symbols = et_options_symbols(&options),
        .limits = &settings.limits,
        .relay = &relay,
    });
    et_relay_config_free(&relay); /* what the server has not taken */
    et_serve_settings_free(&settings);
    et_options_free(&options);
    if (!server) {
        return ET_FAILED;
    }
    printf("edgeprof: http://%s\n", et_server_address(server));
    fflush(stdout);
    int signal;
    sigwait(&signals, &signal);
    et_server_stop(server);
    return ET_OK;
}
