/*
 * A relay backend: a table of names, and functions that make the body of an HTTP request from stored profiles. Backends
 * do not read the store, wait, or send.
 *
 *   request = backend->begin(form);  backend->add(request, row) ...;  backend->finish(request, body, type);
 *
 * A row is a stored profile (et_store_next) with labelled stacks, symbolized if the destination requires it.
 */
#ifndef ET_RELAY_BACKEND_H
#define ET_RELAY_BACKEND_H

#include "tools/store/store.h"
#include "tools/formats/pprof_read.h"

/* Options of one destination. */
struct et_relay_form {
    bool bare;          /* send frames without a name as addresses, with their module's build id */
    const char *family; /* Datadog: the profiler's family, "dotnet" */
};

/* A backend's names for a kind. */
struct et_relay_name {
    const char *kind;          /* name in kinds.h */
    const char *family;        /* metric name of the series */
    const char *count, *value; /* sample types; "": none */
    const char *period, *period_unit;
    bool level; /* an amount at a point in time */
};

struct et_relay_backend {
    const char *name;                  /* "pyroscope" */
    const char *path;                  /* appended to the destination's URL */
    const char *keyed_path;            /* path when an API key is used; NULL: `path` */
    const struct et_relay_name *names; /* ends with an entry without a kind */
    size_t series_labels, labels;      /* maximum labels of a series: without and with stack labels */
    size_t depth;                      /* maximum frames per stack; 0: unlimited */
    int64_t oldest_s;                  /* maximum age of profiles in seconds; 0: unlimited */
    size_t limit;                      /* maximum bytes of a profile, inflated */
    size_t samples;                    /* maximum samples in a profile; 0: unlimited */
    size_t rows;                       /* maximum stored profiles per request */
    size_t enough;                     /* a request of this many bytes gets no further rows */
    unsigned timeout_s;                /* time that its server takes to read a request */
    bool gzip;                         /* send the body with Content-Encoding: gzip */
    void *(*begin)(const struct et_relay_form *form);
    /* Returns the number of profiles or messages added; 0: the backend has no name for the kind. */
    size_t (*add)(void *request, const struct et_arrival *row); /* the row lives until finish() */
    size_t (*size)(const void *request);                        /* approximate bytes so far */
    /* Writes the body and its Content-Type, and frees the request. */
    void (*finish)(void *request, struct et_buf *body, char type[96]);
};

extern const struct et_relay_backend et_relay_pyroscope, et_relay_parca, et_relay_otlp, et_relay_datadog;

/* NULL: unknown name. */
const struct et_relay_backend *et_relay_backend(const char *name);

/* ---- common parts ---- */

/* The backend's names for the kind; NULL: none. */
const struct et_relay_name *et_relay_name(const struct et_relay_backend *backend, const char *kind);

/* Converts text to a metric-like name, [a-zA-Z_][a-zA-Z0-9_]*. "" stays "". */
void et_relay_legal(const char *text, char out[128]);

/* Labels of a series; each name once, with its first value. */
struct et_relay_labels {
    struct et_relay_label {
        char *name, *value;
    } * labels;
    size_t count, capacity;
};

/* Makes the name valid and shortens the value to the servers' limit. Omits empty values. */
void et_relay_labels_add(struct et_relay_labels *series, const char *name, const char *value);
const char *et_relay_labels_value(const struct et_relay_labels *series, const char *name);
void et_relay_labels_free(struct et_relay_labels *series);

/* Encodes a profile in pieces within the backend's limits, and calls piece() for each; number counts from 0. A single
 * stack larger than the limit is one piece. Returns the number of pieces. */
typedef void et_relay_piece(void *context, unsigned number, const struct et_buf *pprof);
size_t et_relay_pieces(const struct et_relay_backend *backend, const struct et_profile *profile,
                       const struct et_pprof_form *form, et_relay_piece *piece, void *context);

/* Encodes the profile as pieces of a series, and adds the row's labels after those of the backend. A kind without a
 * name keeps its own. Returns the number of pieces. */
size_t et_relay_series(const struct et_relay_backend *backend, const struct et_arrival *row, bool bare,
                       struct et_relay_labels *series, et_relay_piece *piece, void *context);

/* A UUID that is the same when a piece is sent again. */
void et_relay_id(const struct et_arrival *row, unsigned piece, uint8_t id[16]);
void et_relay_id_text(const uint8_t id[16], char text[37]);

#endif
