/*
 * A request and its answer, as routes see them; server.c alone knows libmicrohttpd.
 *
 * A group of addresses is a file routes_*.c with a table of routes, listed in routes.c. Handlers run on a thread of
 * their connection, many at a time: what they share they lock, and stores they borrow (et_server_read,
 * et_server_write).
 */
#ifndef ET_HTTP_H
#define ET_HTTP_H

#include "tools/serve/http/memory_budget.h"
#include "tools/store/outcome.h"
#include "tools/store/store.h"
#include "tools/symbols/symbols.h"

struct et_server;
struct MHD_Connection;

struct et_request {
    const char *method, *path; /* the path is decoded and has no arguments */
    struct et_buf body;        /* as it came; "" of a GET */
    struct MHD_Connection *connection;
    struct et_memory_share *work; /* memory that et_body may take, until the handler returns */
};

/* Of the address, decoded; "" when it is not there, the first when there are several. Valid as long as the request. */
const char *et_argument(const struct et_request *request, const char *name);
void et_arguments_each(const struct et_request *request,
                       void (*call)(void *context, const char *name, const char *value), void *context);
/* NULL: it has none. */
const char *et_header(const struct et_request *request, const char *name);

/* The body without its Content-Encoding, and without gzip where it has that anyway. Appends to *out. 0, or the answer
 * is the error, as text. limit: bytes. */
struct et_answer;
int et_body(const struct et_request *request, size_t limit, struct et_buf *out, struct et_answer *answer);

enum { ET_ANSWER_HEADERS = 8 };

struct et_answer {
    unsigned status;  /* 200 */
    const char *type; /* static; text/plain when not set */
    struct et_buf body;
    const void *fixed; /* instead of the body: bytes that stay where they are */
    size_t fixed_size;
    struct {
        const char *name; /* static */
        char *value;
    } headers[ET_ANSWER_HEADERS];
    size_t header_count;
};

void et_answer_header(struct et_answer *answer, const char *name, const char *value);
/* A line of text. */
void et_answer_text(struct et_answer *answer, unsigned status, const char *text);

/* What a request needs to be let in: a token that may read, or to POST one that may write. */
enum et_need {
    ET_NEED_USUAL,
    ET_NEED_READ,    /* a POST that only asks */
    ET_NEED_NOTHING, /* everybody may know the answer */
};

struct et_route {
    const char *method; /* "GET" takes HEAD, too */
    const char *path;   /* one that ends in '*' stands for all that begin so */
    void (*handle)(struct et_server *server, const struct et_request *request, struct et_answer *answer);
    size_t limit; /* largest body; 0: what the server's limits say */
    enum et_need need;
};

/* The route of a request. NULL: there is none, *status is 404 or 405. */
const struct et_route *et_route_find(const char *method, const char *path, unsigned *status);

/* A store to read from, of one's own until it is given back; waits for one when all are in use. */
struct et_store *et_server_read(struct et_server *server);
void et_server_read_done(struct et_server *server, struct et_store *store);

/* Runs call on the store that is written to, together with what others write, and returns when that is committed; when
 * it cannot be, nothing of it is kept and the outcome is ET_UNAVAILABLE. *why gets its words. On another thread. */
typedef enum et_outcome et_write(struct et_store *store, void *context, const char **why);
enum et_outcome et_server_write(struct et_server *server, et_write *call, void *context, struct et_buf *why);

struct et_symbols *et_server_symbols(struct et_server *server);

struct et_limits;
const struct et_limits *et_server_limits(const struct et_server *server);

/* Path of the database. */
const char *et_server_db(const struct et_server *server);

/* NULL: nothing is passed on. */
struct et_relay *et_server_relay(struct et_server *server);

/* NULL: no target is asked. */
struct et_scraper *et_server_scraper(struct et_server *server);

/* Takes off what the sender may send a second: profiles beside the request's first. */
void et_server_charge(struct et_server *server, const struct et_request *request, uint64_t profiles);

#endif
