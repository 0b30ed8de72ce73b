/*
 * See server.h. libmicrohttpd runs a thread per connection; writing and reading each have a store of their own behind
 * a lock, so that a device's push never waits for somebody's flame graph.
 *
 *   on_request   first call: is there such an address, is the body small enough
 *                then:       collects the body
 *                last call:  take() or answer()
 */
#include "server.h"
#include "api.h"
#include "assets.h"
#include "gzip.h"
#include "ingest.h"
#include "json.h"
#include "when.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct et_server {
    struct MHD_Daemon *daemon;
    struct et_store *writer, *reader;
    struct et_symbols *symbols;
    pthread_mutex_t write_lock, read_lock;
    unsigned long accepted;
    bool refusing; /* the store failed last time */
    char address[128];
    char *db;
};

struct request {
    struct et_buf body;
    size_t received;
    bool too_large;
};

/* Bytes: of a pprof profile; that are read of a body that is too large, so that its sender gets to the answer. */
enum { INFLATED_LIMIT = 32 << 20, PATIENCE = 64 << 20 };

static const char POLICY[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* ---- answers ---- */

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *type,
                             struct MHD_Response *response)
{
    if (!response) {
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Content-Security-Policy", POLICY);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    if (status == 405) {
        MHD_add_response_header(response, "Allow", "GET, HEAD, POST");
    }
    if (status == 503) {
        MHD_add_response_header(response, "Retry-After", "5");
    }
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result reply_buf(struct MHD_Connection *connection, unsigned status, const char *type,
                                 struct et_buf *body)
{
    et_buf_text(body, "");
    struct MHD_Response *response = MHD_create_response_from_buffer(body->size, body->data, MHD_RESPMEM_MUST_COPY);
    et_buf_free(body);
    return reply(connection, status, type, response);
}

static enum MHD_Result reply_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
    struct et_buf body = {0};
    et_buf_printf(&body, "%s\n", text);
    return reply_buf(connection, status, "text/plain; charset=utf-8", &body);
}

/* ---- taking profiles ---- */

static unsigned status_of(enum et_verdict verdict)
{
    switch (verdict) {
    case ET_ACCEPTED:
    case ET_REPEATED:
        return 200;
    case ET_MALFORMED:
        return 400;
    case ET_STALE:
        return 409;
    default:
        return 503;
    }
}

/* Says once that the store fails, and once that it works again. */
static void watch_store(struct et_server *server, enum et_verdict verdict, const char *why)
{
    bool refusing = verdict == ET_UNAVAILABLE;
    if (refusing && !server->refusing) {
        et_error("database %s: %s; profiles are refused with 503 and senders try again", server->db, why);
    } else if (verdict == ET_ACCEPTED && server->refusing) {
        et_error("database %s: works again", server->db);
    }
    if (refusing || verdict == ET_ACCEPTED) {
        server->refusing = refusing;
    }
    server->accepted += verdict == ET_ACCEPTED;
}

typedef enum et_verdict take_message(struct et_store *store, const void *bytes, size_t size, int64_t now_ns,
                                     const char **why);

/* take: NULL for a pprof, which then says what of. */
static enum et_verdict ingest_locked(struct et_server *server, take_message *take, const struct et_pprof_push *pprof,
                                     const struct et_buf *body, int64_t age_ns, struct et_buf *why)
{
    const char *text = "ok";
    pthread_mutex_lock(&server->write_lock);
    enum et_verdict verdict = take ? take(server->writer, body->data, body->size, et_now() - age_ns, &text)
                                   : et_ingest_pprof(server->writer, pprof, et_now() - age_ns, &text);
    watch_store(server, verdict, text);
    et_buf_text(why, text);
    pthread_mutex_unlock(&server->write_lock);
    return verdict;
}

/* How long ago a message that waited on the device ended (core/FORMAT.md, section 9); 0 when it did not wait. False:
 * the device does not know. */
static bool age_of(struct MHD_Connection *connection, int64_t *age_ns)
{
    const char *text = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Edgeprof-Age");
    char *end = NULL;
    *age_ns = 0;
    if (!text) {
        return true;
    }
    errno = 0;
    long long ms = strtoll(text, &end, 10);
    if (errno || end == text || *end || ms < 0 || ms > INT64_MAX / 4000000) {
        return false;
    }
    *age_ns = ms * 1000000;
    return *age_ns < et_now();
}

static enum MHD_Result push_compact(struct et_server *server, struct MHD_Connection *connection,
                                    const struct et_buf *body)
{
    struct et_buf why = {0};
    int64_t age_ns;
    bool known = age_of(connection, &age_ns);
    enum et_verdict verdict =
        ingest_locked(server, known ? et_ingest_compact : et_ingest_compact_undated, NULL, body, age_ns, &why);
    enum MHD_Result result = reply_text(connection, status_of(verdict), why.data);
    et_buf_free(&why);
    return result;
}

static const char *argument(struct MHD_Connection *connection, const char *name)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
    return value ? value : "";
}

static enum MHD_Result ingest_pprof(struct et_server *server, struct MHD_Connection *connection,
                                    const struct et_buf *body)
{
    const char *name = argument(connection, "name"), *format = argument(connection, "format");
    const char *from = argument(connection, "from"), *until = argument(connection, "until");
    int64_t from_ns = 0, until_ns = 0;
    if (*format && strcmp(format, "pprof") != 0) {
        return reply_text(connection, 400, "the only format is pprof");
    }
    if ((*from && !et_parse_time(from, &from_ns)) || (*until && !et_parse_time(until, &until_ns))) {
        return reply_text(connection, 400, "from and until are Unix times");
    }
    struct et_buf inflated = {0}, why = {0};
    int err = et_gunzip(body->data, body->size, INFLATED_LIMIT, &inflated);
    enum MHD_Result result;
    if (err) {
        result = reply_text(connection, err == -EFBIG ? 413 : 400,
                            err == -EFBIG ? "larger than 32 MiB when inflated" : "broken gzip data");
    } else {
        struct et_pprof_push push = {
            .name = name, .from_ns = from_ns, .until_ns = until_ns, .bytes = inflated.data, .size = inflated.size};
        enum et_verdict verdict = ingest_locked(server, NULL, &push, &inflated, 0, &why);
        result = reply_text(connection, status_of(verdict), why.data);
    }
    et_buf_free(&inflated);
    et_buf_free(&why);
    return result;
}

/* Connect's answers: an empty message, or an error with its code. */
static enum MHD_Result reply_connect(struct MHD_Connection *connection, unsigned status, const char *why)
{
    struct et_buf body = {0};
    if (status == 200) {
        return reply_buf(connection, status, "application/proto", &body);
    }
    et_buf_text(&body, "{\"code\":");
    et_json_string(&body, status == 503 ? "unavailable" : status == 413 ? "resource_exhausted" : "invalid_argument");
    et_buf_text(&body, ",\"message\":");
    et_json_string(&body, why);
    et_buf_char(&body, '}');
    return reply_buf(connection, status, "application/json", &body);
}

static enum MHD_Result push_pyroscope(struct et_server *server, struct MHD_Connection *connection,
                                      const struct et_buf *body)
{
    const char *type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Type");
    struct et_buf inflated = {0}, why = {0};
    enum MHD_Result result;
    if (!type || strcmp(type, "application/proto") != 0) {
        return reply_text(connection, 415, "the only content type is application/proto");
    }
    int err = et_gunzip(body->data, body->size, INFLATED_LIMIT, &inflated);
    if (err) {
        result = reply_connect(connection, err == -EFBIG ? 413 : 400,
                               err == -EFBIG ? "larger than 32 MiB when inflated" : "broken gzip data");
    } else {
        int64_t age_ns;
        (void)age_of(connection, &age_ns);
        enum et_verdict verdict = ingest_locked(server, et_ingest_push, NULL, &inflated, age_ns, &why);
        result = reply_connect(connection, status_of(verdict), why.data);
    }
    et_buf_free(&inflated);
    et_buf_free(&why);
    return result;
}

/* ---- queries ---- */

struct arguments {
    struct et_wanted wanted;
    const char *wrong;
};

static enum MHD_Result on_argument(void *context, enum MHD_ValueKind kind, const char *key, const char *value)
{
    struct arguments *arguments = context;
    struct et_wanted *wanted = &arguments->wanted;
    (void)kind;
    value = value ? value : "";
    if (strcmp(key, "service") == 0) {
        arguments->wrong = et_wanted_name(wanted, value) ? arguments->wrong : wanted->why;
    } else if (strcmp(key, "tag") == 0) {
        arguments->wrong = et_wanted_tag(wanted, value) ? arguments->wrong : wanted->why;
    } else if (strcmp(key, "kind") == 0) {
        et_wanted_kind(wanted, value);
    } else if (strcmp(key, "label") == 0) {
        arguments->wrong = et_wanted_label(wanted, value) ? arguments->wrong : wanted->why;
    } else if (strcmp(key, "group") == 0) {
        et_wanted_group(wanted, value);
    } else if (strcmp(key, "value") == 0) {
        arguments->wrong = et_wanted_measure(wanted, value) ? arguments->wrong : "value is value or count";
    } else if (strcmp(key, "labels") == 0) {
        wanted->query.keep_labels = strcmp(value, "no") != 0;
    } else if (strcmp(key, "from") == 0 && *value && !et_parse_time(value, &wanted->query.from_ns)) {
        arguments->wrong = "from is now-10m, Unix seconds or 2026-01-31T12:00:00Z";
    } else if (strcmp(key, "to") == 0 && *value && !et_parse_time(value, &wanted->query.to_ns)) {
        arguments->wrong = "to is now, Unix seconds or 2026-01-31T12:00:00Z";
    }
    return MHD_YES;
}

static unsigned query(struct et_server *server, const char *url, const struct et_query *query, struct et_buf *body)
{
    pthread_mutex_lock(&server->read_lock);
    unsigned status = strcmp(url, "/api/services") == 0 ? et_api_services(server->reader, body)
                      : strcmp(url, "/api/stats") == 0  ? et_api_stats(server->reader, query, body)
                      : strcmp(url, "/api/pprof") == 0  ? et_api_pprof(server->reader, server->symbols, query, body)
                                                        : et_api_profile(server->reader, server->symbols, query, body);
    pthread_mutex_unlock(&server->read_lock);
    return status;
}

static enum MHD_Result answer_api(struct et_server *server, struct MHD_Connection *connection, const char *url)
{
    struct arguments arguments = {.wanted.query = {.to_ns = INT64_MAX, .keep_labels = true}};
    struct et_buf body = {0};
    unsigned status = 400;
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, on_argument, &arguments);
    if (arguments.wrong) {
        et_api_error(&body, arguments.wrong);
    } else {
        status = query(server, url, &arguments.wanted.query, &body);
    }
    et_wanted_free(&arguments.wanted);
    bool pprof = status == 200 && strcmp(url, "/api/pprof") == 0;
    return reply_buf(connection, status, pprof ? "application/octet-stream" : "application/json; charset=utf-8", &body);
}

static enum MHD_Result answer(struct et_server *server, struct MHD_Connection *connection, const char *url)
{
    static const char *const queries[] = {"/api/services", "/api/stats", "/api/profile", "/api/pprof"};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        if (strcmp(url, queries[i]) == 0) {
            return answer_api(server, connection, url);
        }
    }
    if (strcmp(url, "/healthz") == 0) {
        return reply_text(connection, 200, "ok");
    }
    const struct et_asset *asset = et_asset(url);
    if (!asset) {
        return reply_text(connection, 404, "there is nothing at this address");
    }
    return reply(connection, 200, asset->type,
                 MHD_create_response_from_buffer((size_t)(asset->end - asset->start), (void *)(uintptr_t)asset->start,
                                                 MHD_RESPMEM_PERSISTENT));
}

/* ---- requests ---- */

static const struct push {
    const char *url;
    enum MHD_Result (*take)(struct et_server *server, struct MHD_Connection *connection, const struct et_buf *body);
} pushes[] = {
    {"/edgeprof/v1/push", push_compact},
    {"/push.v1.PusherService/Push", push_pyroscope},
    {"/ingest", ingest_pprof},
};

/* NULL: nothing is pushed there. */
static const struct push *push_at(const char *url)
{
    for (size_t i = 0; i < sizeof pushes / sizeof *pushes; i++) {
        if (strcmp(url, pushes[i].url) == 0) {
            return &pushes[i];
        }
    }
    return NULL;
}

/* MHD_YES without an answer: go on and read the body. */
static enum MHD_Result begin(struct MHD_Connection *connection, const char *url, const char *method, void **state)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    bool post = strcmp(method, "POST") == 0, get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    struct request *request = et_alloc(1, sizeof *request);
    *state = request;
    if ((!post && !get) || (get && push_at(url))) {
        return reply_text(connection, 405, "wrong method");
    }
    if (post && MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin")) {
        return reply_text(connection, 403, "web pages may not send profiles");
    }
    if (post && !push_at(url)) {
        return reply_text(connection, 404, "there is nothing at this address");
    }
    request->too_large = length && (strlen(length) > 9 || strtoul(length, NULL, 10) > ET_MESSAGE_LIMIT);
    return MHD_YES;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **state)
{
    struct et_server *server = context;
    struct request *request = *state;
    (void)version;
    if (!request) {
        return begin(connection, url, method, state);
    }
    if (*size) {
        request->received += *size;
        request->too_large |= request->received > ET_MESSAGE_LIMIT;
        if (request->received > PATIENCE) {
            return MHD_NO; /* an answer would not be read anyway */
        }
        if (!request->too_large) {
            et_buf_add(&request->body, data, *size);
        }
        *size = 0;
        return MHD_YES;
    }
    if (strcmp(method, "POST") != 0) {
        return answer(server, connection, url);
    }
    if (request->too_large) {
        return reply_text(connection, 413, "larger than 4 MiB");
    }
    return push_at(url)->take(server, connection, &request->body);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct request *request = *state;
    (void)context;
    (void)connection;
    (void)code;
    if (request) {
        et_buf_free(&request->body);
        free(request);
        *state = NULL;
    }
}

/* ---- starting ---- */

/* A listening socket, or -1 with a line on stderr: libmicrohttpd would not say why it failed. */
static int listen_on(const char *text, struct et_server *server)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof host || digits == 0 || digits > 5 ||
        colon[1 + digits] || strtoul(colon + 1, NULL, 10) > 65535) {
        et_error("--listen %s: not of the form host:port", text);
        return -1;
    }
    bool bracket = text[0] == '[' && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(colon - text) - 2 * bracket, text + bracket);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
    int err = getaddrinfo(host, colon + 1, &hints, &found);
    if (err) {
        et_error("--listen %s: %s", text, gai_strerror(err));
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char port[8] = "?";
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &size) != 0) {
        et_error("cannot listen on %s: %s%s", text, strerror(errno),
                 errno == EADDRINUSE ? "; choose another port with --listen" : "");
        if (fd >= 0) {
            close(fd);
        }
        fd = -1;
    } else {
        getnameinfo((struct sockaddr *)&bound, size, NULL, 0, port, sizeof port, NI_NUMERICSERV);
        snprintf(server->address, sizeof server->address, bracket ? "[%s]:%s" : "%s:%s", host, port);
    }
    freeaddrinfo(found);
    return fd;
}

static bool open_stores(struct et_server *server)
{
    const char *why = "";
    server->writer = et_store_open(server->db, true, &why);
    server->reader = server->writer ? et_store_open(server->db, false, &why) : NULL;
    if (!server->reader) {
        et_error("database %s: %s", server->db, why);
    }
    return server->reader != NULL;
}

static void on_log(void *context, const char *format, va_list args)
{
    (void)context;
    (void)format;
    (void)args; /* libmicrohttpd reports every client that goes away early */
}

struct et_server *et_server_start(const char *listen, const char *db, struct et_symbols *symbols)
{
    struct et_server *server = et_alloc(1, sizeof *server);
    server->symbols = symbols;
    server->db = et_strdup(db);
    pthread_mutex_init(&server->write_lock, NULL);
    pthread_mutex_init(&server->read_lock, NULL);
    int fd = listen_on(listen, server);
    if (fd >= 0 && open_stores(server)) {
        server->daemon = MHD_start_daemon(
            MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ERROR_LOG, 0, NULL,
            NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
            MHD_OPTION_CONNECTION_LIMIT, 128u, MHD_OPTION_CONNECTION_TIMEOUT, 30u, MHD_OPTION_NOTIFY_COMPLETED,
            on_completed, NULL, MHD_OPTION_END);
        if (server->daemon) {
            return server;
        }
        et_error("cannot start the HTTP server on %s", server->address);
    }
    if (fd >= 0) {
        close(fd);
    }
    et_server_stop(server);
    return NULL;
}

const char *et_server_address(const struct et_server *server)
{
    return server->address;
}

unsigned long et_server_accepted(struct et_server *server)
{
    pthread_mutex_lock(&server->write_lock);
    unsigned long accepted = server->accepted;
    pthread_mutex_unlock(&server->write_lock);
    return accepted;
}

void et_server_stop(struct et_server *server)
{
    if (server->daemon) {
        MHD_stop_daemon(server->daemon);
    }
    et_store_close(server->reader);
    et_store_close(server->writer);
    et_symbols_free(server->symbols);
    pthread_mutex_destroy(&server->write_lock);
    pthread_mutex_destroy(&server->read_lock);
    free(server->db);
    free(server);
}
