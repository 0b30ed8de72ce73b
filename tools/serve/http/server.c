/*
 * See server.h and http.h. libmicrohttpd runs a thread per connection; writing has a store of its own and reading some,
 * so that a device's push never waits for somebody's flame graph, nor one flame graph for another.
 *
 *   on_request   first call: is there such an address, is the body small enough
 *                then:       collects the body
 *                last call:  the route's handler, its answer is sent
 */
#include "tools/serve/http/server.h"
#include "tools/store/age.h"
#include "tools/store/group_commit.h"
#include "tools/serve/http/encoding.h"
#include "tools/serve/http/evict.h"
#include "tools/lib/gzip.h"
#include "tools/lib/time_text.h"
#include "tools/serve/http/http.h"
#include "tools/serve/http/listen.h"
#include "tools/serve/http/rejections.h"

#include <errno.h>
#include <libgen.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* DECODED: what an inflated body becomes, times its size. */
enum { READERS = 4, GROUP_MS = 100, DECODED = 6, DEFLATE_AT_MOST = 1032 };
/* Bytes of all bodies that are being received; of those being inflated and decoded; of files that sinks write. */
static const size_t RECEIVING = (size_t)128 << 20, WORKING = (size_t)192 << 20, FILES = (size_t)1 << 30;

struct et_server {
    struct MHD_Daemon *daemon;
    struct et_store *writer;
    struct et_group_commit *commit;    /* has the writer */
    struct et_store *readers[READERS]; /* free ones; NULL: in use, or not yet opened */
    unsigned reading;
    struct et_residents *residents; /* of the readers */
    struct et_symbols *symbols;
    struct et_relay *relay;
    pthread_mutex_t write_lock, read_lock;
    pthread_cond_t read_done;
    struct et_limits limits;
    struct et_bounds *bounds;
    struct et_age age;
    struct et_evictor *evictor;
    struct et_memory_budget receiving, working, files;
    unsigned long accepted;
    bool refusing; /* the store failed last time */
    struct et_access *access;
    struct et_scraper *scraper;
    struct et_webhook *webhook;
    struct et_judge *judge;
    int listener;
    char url[160];
    char *db;
};

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

static const char POLICY[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* ---- requests ---- */

const char *et_argument(const struct et_request *request, const char *name)
{
    const char *value = MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
    return value ? value : "";
}

const char *et_header(const struct et_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct each {
    void (*call)(void *context, const char *name, const char *value);
    void *context;
};

static enum MHD_Result on_argument(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    const struct each *each = context;
    (void)kind;
    each->call(each->context, name, value ? value : "");
    return MHD_YES;
}

void et_arguments_each(const struct et_request *request,
                       void (*call)(void *context, const char *name, const char *value), void *context)
{
    struct each each = {call, context};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, on_argument, &each);
}

bool et_body_encoding(const struct et_request *request, struct et_answer *answer)
{
    const char *encoding = et_header(request, "Content-Encoding");
    bool known = !encoding || strcmp(encoding, "gzip") == 0 || strcmp(encoding, "identity") == 0;
    if (!known) {
        et_answer_text(answer, 415, "the content encoding must be gzip");
    }
    return known;
}

void et_body_broken(const struct et_request *request, size_t limit, int err, struct et_answer *answer)
{
    struct et_buf why = {0};
    if (err == -EFBIG) {
        et_buf_printf(&why, "larger than %zu bytes when inflated", limit);
    } else {
        et_buf_text(&why, "broken gzip data");
    }
    et_reject(err == -EFBIG ? ET_REJECTED_SIZE : ET_REJECTED_MALFORMED, "%s: %s", request->path, why.data);
    et_answer_text(answer, err == -EFBIG ? 413 : 400, why.data);
    et_buf_free(&why);
}

void et_body_no_room(struct et_answer *answer)
{
    et_answer_text(answer, 503, "busy: too many requests from other senders");
}

/* The most that the body can have when it is inflated. */
static size_t inflated_most(const struct et_buf *body, size_t limit)
{
    if (!et_is_gzip(body->data, body->size)) {
        return body->size;
    }
    return body->size < limit / DEFLATE_AT_MOST ? body->size * DEFLATE_AT_MOST : limit;
}

/* Inflates within memory for the inflated body alone, since a bomb is never decoded. If there is no room for decoding
 * then, it gives back what it has before it waits, so that two requests do not wait for each other. */
static int inflate_body(const struct et_request *request, size_t limit, struct et_buf *out)
{
    const struct et_buf *body = &request->body;
    struct et_memory_budget *budget = request->work->budget;
    et_memory_reserve(budget, request->work, inflated_most(body, limit));
    int err = et_gunzip(body->data, body->size, limit, out);
    size_t size = err ? 0 : out->size;
    et_memory_shrink(request->work, size);
    if (!err && !et_memory_try_reserve(budget, request->work, size * (DECODED - 1))) {
        et_buf_free(out);
        et_memory_shrink(request->work, 0);
        et_memory_reserve(budget, request->work, size * DECODED);
        err = et_gunzip(body->data, body->size, limit, out);
    }
    return err;
}

int et_body(const struct et_request *request, size_t limit, struct et_buf *out, struct et_answer *answer)
{
    if (!et_body_encoding(request, answer)) {
        return -EINVAL;
    }
    int err = inflate_body(request, limit, out);
    if (err) {
        et_buf_free(out);
        et_body_broken(request, limit, err, answer);
    }
    return err;
}

/* ---- answers ---- */

void et_answer_header(struct et_answer *answer, const char *name, const char *value)
{
    if (answer->header_count < ET_ANSWER_HEADERS) {
        answer->headers[answer->header_count].name = name;
        answer->headers[answer->header_count++].value = et_strdup(value);
    }
}

void et_answer_text(struct et_answer *answer, unsigned status, const char *text)
{
    answer->status = status;
    answer->type = NULL;
    answer->body.size = 0;
    et_buf_printf(&answer->body, "%s\n", text);
}

static void add_headers(struct MHD_Response *response, const struct et_answer *answer)
{
    const char *type = answer->type ? answer->type : "text/plain; charset=utf-8";
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Content-Security-Policy", POLICY);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    if (answer->status == 405) {
        MHD_add_response_header(response, "Allow", "GET, HEAD, POST");
    }
    if (answer->status == 503 || answer->status == 429) {
        MHD_add_response_header(response, "Retry-After", "5");
    }
    for (size_t i = 0; i < answer->header_count; i++) {
        MHD_add_response_header(response, answer->headers[i].name, answer->headers[i].value);
    }
}

/* Owns what the answer sends; NULL: nothing does. */
static struct MHD_Response *make_response(const struct et_answer *answer)
{
    if (answer->has_file) {
        return MHD_create_response_from_fd64(answer->file_size, answer->file);
    }
    if (answer->fixed) {
        return MHD_create_response_from_buffer(answer->fixed_size, (void *)(uintptr_t)answer->fixed,
                                               MHD_RESPMEM_PERSISTENT);
    }
    return MHD_create_response_from_buffer(answer->body.size, answer->body.data, MHD_RESPMEM_MUST_FREE);
}

/* Sends it and frees what it has. */
static enum MHD_Result reply(struct MHD_Connection *connection, struct et_answer *answer)
{
    enum MHD_Result result = MHD_NO;
    et_buf_text(&answer->body, "");
    struct MHD_Response *response = make_response(answer);
    if (response) {
        add_headers(response, answer);
        result = MHD_queue_response(connection, answer->status, response);
        MHD_destroy_response(response);
    }
    if (answer->fixed || answer->has_file || !response) {
        et_buf_free(&answer->body);
    }
    if (answer->has_file && !response) {
        close(answer->file);
    }
    for (size_t i = 0; i < answer->header_count; i++) {
        free(answer->headers[i].value);
    }
    return result;
}

static enum MHD_Result reply_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
    struct et_answer answer = {0};
    et_answer_text(&answer, status, text);
    return reply(connection, &answer);
}

/* ---- stores ---- */

struct et_symbols *et_server_symbols(struct et_server *server)
{
    return server->symbols;
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

/* Says once that the store fails, and once that it works again. */
static void watch_store(struct et_server *server, enum et_outcome outcome, const char *why)
{
    bool refusing = outcome == ET_UNAVAILABLE;
    if (refusing && !server->refusing) {
        et_error("database %s: %s; refusing profiles with 503, senders retry", server->db, why);
    } else if (outcome == ET_ACCEPTED && server->refusing) {
        et_error("database %s: works again", server->db);
    }
    if (refusing || outcome == ET_ACCEPTED) {
        server->refusing = refusing;
    }
    server->accepted += outcome == ET_ACCEPTED;
}

struct written {
    et_write *call;
    void *context;
    enum et_outcome outcome;
    struct et_buf *why;
};

static void write_one(struct et_store *store, void *context)
{
    struct written *written = context;
    const char *text = "ok";
    written->outcome = written->call(store, written->context, &text);
    et_buf_text(written->why, text); /* the store's words are soon about something else */
}

enum et_outcome et_server_write(struct et_server *server, et_write *call, void *context, struct et_buf *why)
{
    struct written written = {.call = call, .context = context, .why = why};
    struct et_group_commit_result result = et_group_commit_run(server->commit, write_one, &written);
    if (result.err) {
        written.outcome = ET_UNAVAILABLE;
        why->size = 0;
        et_buf_text(why, result.why);
    }
    pthread_mutex_lock(&server->write_lock);
    watch_store(server, written.outcome, why->data);
    pthread_mutex_unlock(&server->write_lock);
    return written.outcome;
}

static struct et_store *open_reader(struct et_server *server, const char **why)
{
    struct et_store *store = et_store_open(server->db, false, why);
    if (store) {
        et_store_set_residents(store, server->residents);
    }
    return store;
}

/* A free one, or NULL. */
static struct et_store *take_reader(struct et_server *server)
{
    const char *why;
    for (size_t i = 0; i < READERS; i++) {
        if (server->readers[i]) {
            struct et_store *store = server->readers[i];
            server->readers[i] = NULL;
            return store;
        }
    }
    return server->reading < READERS ? open_reader(server, &why) : NULL;
}

unsigned et_read_status(const struct et_store *store)
{
    const struct et_budget *budget = et_store_budget(store);
    return budget && budget->failed == -ENOMEM ? 413 : 503;
}

struct et_store *et_server_read(struct et_server *server, const struct et_request *request)
{
    struct et_store *store;
    pthread_mutex_lock(&server->read_lock);
    while (!(store = take_reader(server))) {
        pthread_cond_wait(&server->read_done, &server->read_lock);
    }
    server->reading++;
    pthread_mutex_unlock(&server->read_lock);
    et_store_set_budget(store, request ? request->budget : NULL);
    return store;
}

void et_server_read_done(struct et_server *server, struct et_store *store)
{
    et_store_set_budget(store, NULL);
    pthread_mutex_lock(&server->read_lock);
    for (size_t i = 0; i < READERS && store; i++) {
        if (!server->readers[i]) {
            server->readers[i] = store;
            store = NULL;
        }
    }
    server->reading--;
    pthread_cond_signal(&server->read_done);
    pthread_mutex_unlock(&server->read_lock);
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

/* MHD_YES without an answer: go on and read the body. */
static enum MHD_Result begin_request(const struct et_server *server, struct MHD_Connection *connection, const char *url,
                                     const char *method, void **state)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    struct incoming *incoming = et_alloc(1, sizeof *incoming);
    unsigned status;
    *state = incoming;
    incoming->route = et_route_find(method, url, &status);
    struct et_answer answer = {0};
    struct et_visit visit = visit_of(connection, url, method);
    if (!et_access_allows(server->access, &visit, incoming->route, &incoming->grant, &answer)) {
        return reply(connection, &answer);
    }
    if (!incoming->route) {
        return reply_text(connection, status, status == 405 ? "wrong method" : "not found");
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
    return reply(connection, &answer);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **state)
{
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

static bool open_stores(struct et_server *server)
{
    const char *why = "";
    server->writer = et_store_open(server->db, true, &why);
    server->residents = et_residents_new();
    server->readers[0] = server->writer ? open_reader(server, &why) : NULL;
    if (!server->readers[0]) {
        et_error("database %s: %s", server->db, why);
        return false;
    }
    et_store_set_bounds(server->writer, server->bounds);
    et_bounds_set_age(server->bounds, &server->age);
    et_store_set_age(server->writer, &server->age);
    if (et_bounds_load(server->bounds, server->writer) != 0 ||
        et_age_begin(&server->age, server->writer, et_now(), et_since_boot()) != 0) {
        et_error("database %s: %s", server->db, et_store_why(server->writer));
        return false;
    }
    server->commit = et_group_commit_start(server->writer, GROUP_MS);
    if (!server->commit) {
        et_error("cannot start the database thread");
    }
    return server->commit != NULL;
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
    server->db = et_strdup(config->db);
    server->limits = config->limits ? *config->limits : et_limits_default();
    if (server->symbols) {
        et_symbols_set_wait(server->symbols, server->limits.symbols_ns);
    }
    server->evictor = et_evictor_new((unsigned)(server->limits.connections - server->limits.connections / 4));
    server->bounds = et_bounds_new(&server->limits.bounds);
    pthread_mutex_init(&server->write_lock, NULL);
    pthread_mutex_init(&server->read_lock, NULL);
    pthread_cond_init(&server->read_done, NULL);
    et_memory_budget_init(&server->receiving, RECEIVING);
    et_memory_budget_init(&server->working, WORKING);
    et_memory_budget_init(&server->files, FILES);
    write_beside(server->db);
    char address[128] = "";
    server->listener = et_listen(config->listen, address, sizeof address);
    server->access =
        server->listener >= 0 ? et_access_open(&config->access, &server->limits, server->listener, address) : NULL;
    snprintf(server->url, sizeof server->url, "%s://%s", config->access.tls.certificate ? "https" : "http", address);
    if (!server->access || !open_stores(server)) {
        et_server_close(server);
        return NULL;
    }
    et_store_set_metric_labels(server->writer, config->metric_labels);
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
    if (server->commit) {
        et_group_commit_stop(server->commit);
    }
    for (size_t i = 0; i < READERS; i++) {
        et_store_close(server->readers[i]);
    }
    et_residents_free(server->residents);
    et_store_close(server->writer);
    et_symbols_free(server->symbols);
    et_bounds_free(server->bounds);
    et_access_close(server->access);
    et_evictor_free(server->evictor);
    pthread_mutex_destroy(&server->write_lock);
    pthread_mutex_destroy(&server->read_lock);
    pthread_cond_destroy(&server->read_done);
    et_memory_budget_destroy(&server->receiving);
    et_memory_budget_destroy(&server->working);
    et_memory_budget_destroy(&server->files);
    free(server->db);
    free(server);
}
