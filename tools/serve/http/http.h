/*
 * Requests and answers as the routes see them. Only server.c uses libmicrohttpd.
 *
 * Each group of routes is a file routes_*.c with a table; routes.c lists the tables. Handlers run on their connection's
 * thread, many at a time: they lock shared data and borrow handles of the database (et_server_read, et_server_write).
 */
#ifndef ET_HTTP_H
#define ET_HTTP_H

#include "tools/serve/http/memory_budget.h"
#include "tools/serve/http/tokens.h"
#include "tools/store/outcome.h"
#include "tools/store/store.h"
#include "tools/symbols/symbols.h"

struct et_server;
struct MHD_Connection;

struct et_request {
    const char *method, *path; /* the path is decoded, without arguments */
    struct et_buf body;        /* as received; "" for a GET, and for a route with a sink */
    void *sink;                /* what the route's sink began */
    struct MHD_Connection *connection;
    struct et_memory_share *work; /* memory reserved by et_body(), until the handler returns; with a sink: bytes of
                                     files, until the answer is sent */
    const struct et_grant *grant; /* of its token */
    struct et_budget *budget;     /* of all that the request reads from the database: query-time and query-memory */
};

/* A decoded argument of the URL; "" when absent, the first of several. Valid as long as the request. */
const char *et_argument(const struct et_request *request, const char *name);
void et_arguments_each(const struct et_request *request,
                       void (*call)(void *context, const char *name, const char *value), void *context);
/* NULL: absent. */
const char *et_header(const struct et_request *request, const char *name);

/* Appends the body to *out, without its Content-Encoding and without any further gzip compression. limit: bytes.
 * Returns 0; otherwise the answer has the error, as text. */
struct et_answer;
int et_body(const struct et_request *request, size_t limit, struct et_buf *out, struct et_answer *answer);
/* The errors that et_body() answers, for a sink. Whether the Content-Encoding is a known one; */
bool et_body_encoding(const struct et_request *request, struct et_answer *answer);
/* -EFBIG or -EBADMSG of inflating. */
void et_body_broken(const struct et_request *request, size_t limit, int err, struct et_answer *answer);
/* No room for the body beside those of others. */
void et_body_no_room(struct et_answer *answer);

enum { ET_ANSWER_HEADERS = 8 };

struct et_answer {
    unsigned status;  /* default: 200 */
    const char *type; /* static; default: text/plain */
    struct et_buf body;
    const void *fixed; /* sent instead of the body: static bytes */
    size_t fixed_size;
    bool has_file; /* sent instead of the body: an open file, from its begin; closed when it is sent */
    int file;
    uint64_t file_size;
    struct {
        const char *name; /* static */
        char *value;
    } headers[ET_ANSWER_HEADERS];
    size_t header_count;
};

void et_answer_header(struct et_answer *answer, const char *name, const char *value);
/* Answers one line of text. */
void et_answer_text(struct et_answer *answer, unsigned status, const char *text);

/* A line about an action of an administrator: "audit: SENDER, token LINE: TEXT", as et_audit(). */
void et_request_audit(const struct et_request *request, const char *text);

/* The right that a request needs. Default: a token that may read, or for POST one that may write. */
enum et_need {
    ET_NEED_USUAL,
    ET_NEED_READ,    /* a POST that only reads */
    ET_NEED_SYMBOLS, /* a POST of symbols */
    ET_NEED_NOTHING, /* public */
};

/* Takes a body as it comes, for a route whose bodies are too large to be held. libmicrohttpd takes no answer before the
 * body's end, so a sink that has failed ignores the remainder, and the handler answers. */
struct et_sink {
    /* Called once: for the first part, or before the handler. */
    void *(*begin)(struct et_server *server, const struct et_request *request);
    void (*add)(void *sink, const void *bytes, size_t size);
    /* After the answer, or when the body is too large or its sender is gone. */
    void (*end)(void *sink);
};

struct et_route {
    const char *method; /* "GET" includes HEAD */
    const char *path;   /* a final '*' matches any remainder */
    void (*handle)(struct et_server *server, const struct et_request *request, struct et_answer *answer);
    size_t limit; /* largest body in bytes; 0: the server's limit */
    enum et_need need;
    const struct et_sink *sink; /* NULL: the handler gets the whole body */
};

/* Finds the route of a request. NULL: none; *status is 404 or 405. */
const struct et_route *et_route_find(const char *method, const char *path, unsigned *status);

/* A handle of the database for reading, exclusive until et_server_read_done(). Waits while all are in use. Reading
 * fails when the request exceeds its budget. request: NULL for no limit. */
struct et_store *et_server_read(struct et_server *server, const struct et_request *request);
void et_server_read_done(struct et_server *server, struct et_store *store);
/* The status for a read that failed: 413 when it needs too much memory, else 503. */
unsigned et_read_status(const struct et_store *store);

/* Runs call() on the writing thread's handle, in one transaction with other calls, and returns after the commit. If the
 * commit fails, nothing is kept and the outcome is ET_UNAVAILABLE. *why receives the message. */
typedef enum et_outcome et_write(struct et_store *store, void *context, const char **why);
enum et_outcome et_server_write(struct et_server *server, et_write *call, void *context, struct et_buf *why);

struct et_symbols *et_server_symbols(struct et_server *server);

/* Folders with source files. */
struct et_list;
const struct et_list *et_server_sources(const struct et_server *server);

struct et_limits;
const struct et_limits *et_server_limits(const struct et_server *server);

/* Path of the database. */
const char *et_server_db(const struct et_server *server);

/* NULL: no relay is configured. */
struct et_relay *et_server_relay(struct et_server *server);

/* NULL: no scrape target is configured. */
struct et_scraper *et_server_scraper(struct et_server *server);

/* The time by which what the database has grows old (age.h). */
struct et_age;
struct et_age *et_server_age(struct et_server *server);

/* Returns the webhook; NULL: incidents go to no URL. */
struct et_webhook *et_server_webhook(struct et_server *server);

/* NULL: versions are not compared. */
struct et_judge *et_server_judge(struct et_server *server);

/* Charges the sender's rate for profiles beyond the first of its request. */
void et_server_charge(struct et_server *server, const struct et_request *request, uint64_t profiles);

#endif
