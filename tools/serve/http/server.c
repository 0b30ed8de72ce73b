/*
 * See server.h and http.h. libmicrohttpd runs a thread per connection.
 *
 *   on_request   first call: is there such an address, is the body small enough
 *                then:       collects the body
 *                last call:  the route's handler, its answer is sent
 */
#include "tools/serve/http/database.h"
#include "tools/serve/http/encoding.h"
#include "tools/serve/http/listen.h"
#include "tools/serve/http/rejections.h"
#include "tools/serve/http/requests.h"

#include <errno.h>
#include <libgen.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Bytes of all bodies that are being received; of those being inflated and decoded; of files that sinks write. */
static const size_t RECEIVING = (size_t)128 << 20, WORKING = (size_t)192 << 20, FILES = (size_t)1 << 30;

/* A request on its way in. */
struct incoming {
    const struct et_route *route;
    struct et_buf body;
    void *sink; /* of the route's sink */
    size_t received, limit;
    bool too_large, no_room;
    struct et_memory_share share, work; /* of a budget: the body's, what comes of it */
    struct et_grant grant;
};

/* Bytes that are read of a body that is too large, so that its sender gets to the answer. */
enum { PATIENCE = 64 << 20 };

/* ---- parts ---- */

struct et_symbols *et_server_symbols(struct et_server *server)
{
    return server->symbols;
}

const struct et_list *et_server_sources(const struct et_server *server)
{
    return &server->sources;
}

const struct et_limits *et_server_limits(const struct et_server *server)
{
    return &server->limits;
}

const char *et_server_db(const struct et_server *server)
{
    return server->db;
}

void et_server_set_relay(struct et_server *server, struct et_relay *relay)
{
    server->relay = relay;
}

struct et_relay *et_server_relay(struct et_server *server)
{
    return server->relay;
}

void et_server_set_scraper(struct et_server *server, struct et_scraper *scraper)
{
    server->scraper = scraper;
}

void et_server_set_webhook(struct et_server *server, struct et_webhook *webhook)
{
    server->webhook = webhook;
}

struct et_age *et_server_age(struct et_server *server)
{
    return &server->age;
}

struct et_webhook *et_server_webhook(struct et_server *server)
{
    return server->webhook;
}

void et_server_set_judge(struct et_server *server, struct et_judge *judge)
{
    server->judge = judge;
}

struct et_judge *et_server_judge(struct et_server *server)
{
    return server->judge;
}

struct et_scraper *et_server_scraper(struct et_server *server)
{
    return server->scraper;
}

/* ---- connections ---- */

static const struct sockaddr *sender_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
}

static struct et_visit visit_of(struct MHD_Connection *connection, const char *url, const char *method)
{
    const union MHD_ConnectionInfo *session = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return (struct et_visit){
        .path = url,
        .host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
        .origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin"),
        .site = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Site"),
        .mode = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Mode"),
        .tenant = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Scope-OrgID"),
        .authorization = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"),
        .sender = sender_of(connection),
        .session = session ? session->tls_session : NULL,
        .post = strcmp(method, "POST") == 0,
    };
}

void et_server_charge(struct et_server *server, const struct et_request *request, uint64_t profiles)
{
    et_access_charge(server->access, sender_of(request->connection), profiles);
}

void et_request_audit(const struct et_request *request, const char *text)
{
    char sender[64], token[32] = "";
    et_sender_text(sender_of(request->connection), sender);
    if (request->grant->line) {
        snprintf(token, sizeof token, ", token in line %u", request->grant->line);
    }
    et_audit("%s%s: %s", sender, token, text);
}

/* Before libmicrohttpd makes a connection of it. */
static enum MHD_Result on_accept(void *context, const struct sockaddr *address, socklen_t size)
{
    const struct et_server *server = context;
    (void)size;
    return et_access_connects(server->access, address) ? MHD_YES : MHD_NO;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **place,
                          enum MHD_ConnectionNotificationCode code)
{
    struct et_server *server = context;
    bool begins = code == MHD_CONNECTION_NOTIFY_STARTED;
    et_access_connected(server->access, sender_of(connection), begins ? 1 : -1);
    if (begins) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *place = info ? et_evictor_enter(server->evictor, info->connect_fd) : NULL;
    } else if (*place) {
        et_evictor_leave(server->evictor, *place);
        *place = NULL;
    }
}

static enum MHD_Result count_framing(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    unsigned *count = context;
    (void)kind, (void)value;
    count[0] += strcasecmp(name, "Content-Length") == 0;
    count[1] += strcasecmp(name, "Transfer-Encoding") == 0;
    count[2] += strcasecmp(name, "Host") == 0;
    return MHD_YES;
}

/* Whether a proxy in front may see another end of the request, or another host: it would pass on a request that it has
 * not checked (RFC 9112, 6.3 and 3.2). */
static bool is_ambiguous(struct MHD_Connection *connection)
{
    unsigned count[3] = {0};
    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, count_framing, count);
    return count[0] > 1 || count[1] > 1 || count[2] > 1 || (count[0] && count[1]);
}

/* MHD_YES without an answer: go on and read the body. */
static enum MHD_Result begin_request(const struct et_server *server, struct MHD_Connection *connection, const char *url,
                                     const char *method, void **state)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    struct incoming *incoming = et_alloc(1, sizeof *incoming);
    unsigned status;
    *state = incoming;
    incoming->route = et_route_find(method, url, &status);
    if (is_ambiguous(connection)) { /* libmicrohttpd closes the connection, for the body is unread */
        return et_reply_text(connection, 400, "Content-Length, Transfer-Encoding and Host must be there once at most");
    }
    struct et_answer answer = {0};
    struct et_visit visit = visit_of(connection, url, method);
    if (!et_access_allows(server->access, &visit, incoming->route, &incoming->grant, &answer)) {
        return et_reply(connection, &answer);
    }
    if (!incoming->route) {
        return et_reply_text(connection, status, status == 405 ? "wrong method" : "not found");
    }
    incoming->limit = incoming->route->limit ? incoming->route->limit : server->limits.body;
    incoming->too_large = length && (strlen(length) > 15 || strtoull(length, NULL, 10) > incoming->limit);
    return MHD_YES;
}

static struct et_request request_of(struct et_server *server, struct MHD_Connection *connection, const char *url,
                                    const char *method, struct incoming *incoming)
{
    incoming->work.budget = incoming->route->sink ? &server->files : &server->working;
    return (struct et_request){.method = method,
                               .path = url,
                               .body = incoming->body,
                               .sink = incoming->sink,
                               .connection = connection,
                               .work = &incoming->work,
                               .grant = &incoming->grant};
}

static void begin_sink(struct et_server *server, const struct et_request *request, struct incoming *incoming)
{
    if (incoming->route->sink && !incoming->sink) {
        incoming->sink = incoming->route->sink->begin(server, request);
    }
}

static void drop_body(struct incoming *incoming)
{
    if (incoming->sink) {
        incoming->route->sink->end(incoming->sink);
        incoming->sink = NULL;
        et_memory_shrink(&incoming->work, 0);
    }
    et_buf_free(&incoming->body);
    et_memory_shrink(&incoming->share, 0);
}

static enum MHD_Result receive_body(struct et_server *server, const struct et_request *request,
                                    struct incoming *incoming, const char *data, size_t *size)
{
    incoming->received += *size;
    incoming->too_large |= incoming->received > incoming->limit;
    if (incoming->too_large && incoming->received > PATIENCE) {
        return MHD_NO; /* an answer would not be read anyway */
    }
    if (!incoming->too_large && incoming->route->sink) {
        begin_sink(server, request, incoming);
        incoming->route->sink->add(incoming->sink, data, *size);
        *size = 0;
        return MHD_YES;
    }
    incoming->no_room |= !et_memory_try_reserve(&server->receiving, &incoming->share, *size);
    if (incoming->too_large || incoming->no_room) {
        drop_body(incoming);
    } else {
        et_buf_add(&incoming->body, data, *size);
    }
    *size = 0;
    return MHD_YES;
}

static void set_busy(struct et_server *server, struct MHD_Connection *connection, bool busy)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info && info->socket_context) {
        et_evictor_busy(server->evictor, info->socket_context, busy);
    }
}

static enum MHD_Result answer_request(struct et_server *server, struct MHD_Connection *connection, const char *url,
                                      const char *method, struct incoming *incoming)
{
    struct et_answer answer = {.status = 200};
    if (incoming->too_large) {
        struct et_buf why = {0};
        et_buf_printf(&why, "larger than %zu bytes", incoming->limit);
        et_reject(ET_REJECTED_SIZE, "%s: %s, see body in [limits]", url, why.data);
        et_answer_text(&answer, 413, why.data);
        et_buf_free(&why);
    } else if (incoming->no_room) {
        et_body_no_room(&answer);
    } else {
        struct et_budget budget;
        struct et_request request = request_of(server, connection, url, method, incoming);
        begin_sink(server, &request, incoming);
        request.sink = incoming->sink;
        request.budget = &budget;
        et_budget_begin(&budget, server->limits.query_ns, server->limits.query_memory);
        const struct et_encoding_request encoding = {.accept = et_header(&request, "Accept-Encoding"),
                                                     .none_match = et_header(&request, "If-None-Match"),
                                                     .get = strcmp(method, "POST") != 0};
        set_busy(server, connection, true);
        incoming->route->handle(server, &request, &answer);
        et_answer_encode(&answer, &encoding);
        et_memory_shrink(&incoming->work, 0);
        set_busy(server, connection, false);
    }
    return et_reply(connection, &answer);
}

/* RFC 9112, 3.2.2: "GET http://host/path" means the path, as clients behind a proxy may ask. A proxy may pass on the
 * prefix under which it has this server. */
static const char *path_of(const struct et_server *server, const char *target)
{
    size_t prefix = strlen(server->prefix);
    size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
    const char *path = scheme ? strchr(target + scheme, '/') : target;
    path = path ? path : "/";
    return strncmp(path, server->prefix, prefix) == 0 && path[prefix] == '/' ? path + prefix : path;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *target,
                                  const char *method, const char *version, const char *data, size_t *size, void **state)
{
    const char *url = path_of(context, target);
    (void)version;
    if (!*state) {
        return begin_request(context, connection, url, method, state);
    }
    if (!*size) {
        return answer_request(context, connection, url, method, *state);
    }
    const struct et_request request = request_of(context, connection, url, method, *state);
    return receive_body(context, &request, *state, data, size);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct incoming *incoming = *state;
    (void)context;
    (void)connection;
    (void)code;
    if (incoming) {
        drop_body(incoming);
        free(incoming->grant.scope);
        free(incoming);
        *state = NULL;
    }
}

/* ---- starting ---- */

/* SQLite's temporary files as well: no other folder is written to, and /var/tmp may be small. */
static void write_beside(const char *db)
{
    char *folder = et_strdup(db);
    setenv("SQLITE_TMPDIR", dirname(folder), 0);
    free(folder);
}

static void on_log(void *context, const char *format, va_list args)
{
    (void)context;
    (void)format;
    (void)args; /* libmicrohttpd reports every client that goes away early */
}

bool et_server_serve(struct et_server *server)
{
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(intptr_t)et_tls_retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t) "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    bool has_tls = et_access_tls(server->access) != NULL;
    /* Ours is the limit that is said; theirs only has to be beyond it. */
    unsigned connections = (unsigned)server->limits.connections + 16;
    server->daemon = MHD_start_daemon(
        flags | (has_tls ? MHD_USE_TLS : 0), 0, on_accept, server, on_request, server, MHD_OPTION_EXTERNAL_LOGGER,
        on_log, NULL, MHD_OPTION_LISTEN_SOCKET, server->listener, MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_CONNECTION_TIMEOUT, 30u, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_ARRAY, has_tls ? tls : tls + 2, MHD_OPTION_END);
    if (!server->daemon) {
        et_error("cannot start the HTTP server on %s", server->url);
    }
    return server->daemon != NULL;
}

struct et_server *et_server_open(const struct et_server_config *config)
{
    struct et_server *server = et_alloc(1, sizeof *server);
    server->symbols = config->symbols;
    for (size_t i = 0; config->sources && i < config->sources->count; i++) {
        et_list_add(&server->sources, et_strdup(config->sources->items[i]));
    }
    server->db = et_strdup(config->db);
    server->limits = config->limits ? *config->limits : et_limits_default();
    if (server->symbols) {
        et_symbols_set_wait(server->symbols, server->limits.symbols_ns);
    }
    server->evictor = et_evictor_new((unsigned)(server->limits.connections - server->limits.connections / 4));
    server->bounds = et_bounds_new(&server->limits.bounds);
    pthread_mutex_init(&server->write_lock, NULL);
    pthread_mutex_init(&server->read_lock, NULL);
    et_memory_budget_init(&server->receiving, RECEIVING);
    et_memory_budget_init(&server->working, WORKING);
    et_memory_budget_init(&server->files, FILES);
    write_beside(server->db);
    char address[128] = "";
    server->listener = et_listen(config->listen, address, sizeof address);
    server->access =
        server->listener >= 0 ? et_access_open(&config->access, &server->limits, server->listener, address) : NULL;
    snprintf(server->url, sizeof server->url, "%s://%s", config->access.tls.certificate ? "https" : "http", address);
    if (!server->access || !et_server_open_database(server)) {
        et_server_close(server);
        return NULL;
    }
    et_store_set_metric_labels(server->writer, config->metric_labels);
    snprintf(server->prefix, sizeof server->prefix, "%s", config->prefix ? config->prefix : "");
    return server;
}

const char *et_server_url(const struct et_server *server)
{
    return server->url;
}

void et_server_reload(struct et_server *server)
{
    et_access_reload(server->access);
}

unsigned long et_server_accepted(struct et_server *server)
{
    pthread_mutex_lock(&server->write_lock);
    unsigned long accepted = server->accepted;
    pthread_mutex_unlock(&server->write_lock);
    return accepted;
}

void et_server_quiet(struct et_server *server)
{
    if (server->daemon) {
        MHD_stop_daemon(server->daemon); /* closes the listener */
    } else if (server->listener >= 0) {
        close(server->listener);
    }
    server->daemon = NULL;
    server->listener = -1;
}

void et_server_close(struct et_server *server)
{
    et_server_quiet(server);
    et_server_close_database(server);
    et_symbols_free(server->symbols);
    for (size_t i = 0; i < server->sources.count; i++) {
        free((void *)server->sources.items[i]);
    }
    free((void *)server->sources.items);
    et_bounds_free(server->bounds);
    et_access_close(server->access);
    et_evictor_free(server->evictor);
    pthread_mutex_destroy(&server->write_lock);
    pthread_mutex_destroy(&server->read_lock);
    et_memory_budget_destroy(&server->receiving);
    et_memory_budget_destroy(&server->working);
    et_memory_budget_destroy(&server->files);
    free(server->db);
    free(server);
}
