/*
 * What a backend of the relay is: a table of names, and bytes for an HTTP request made of stored profiles. Pure
 * functions of what they are given: nothing here reads the store, waits or sends.
 *
 *   request = backend->begin(form);  backend->add(request, row) ...;  backend->finish(request, body, type);
 *
 * A row is a stored profile (et_store_next), its stacks with their labels, symbolized if that was asked for.
 */
#ifndef ET_RELAY_BACKEND_H
#define ET_RELAY_BACKEND_H

#include "tools/store/store.h"
#include "tools/formats/pprof_read.h"

/* What one destination wants of its requests. */
struct et_relay_form {
    bool bare;          /* frames without a name go out as addresses with their module's build id */
    const char *family; /* Datadog: what kind of program, "dotnet" */
};

/* What a backend calls a kind of profile. */
struct et_relay_name {
    const char *kind;          /* kinds.h */
    const char *family;        /* metric name of the series */
    const char *count, *value; /* sample types; "": none */
    const char *period, *period_unit;
    bool level; /* of a moment */
};

struct et_relay_backend {
    const char *name;                  /* "pyroscope" */
    const char *path;                  /* behind the destination's URL */
    const char *keyed_path;            /* the same with an API key; NULL: it makes no difference */
    const struct et_relay_name *names; /* up to one without a kind */
    size_t series_labels, labels;      /* most labels of a series: its own; with those of its stacks */
    size_t depth;                      /* most frames of a stack; 0: any number */
    int64_t oldest_s;                  /* what ended longer ago is refused there; 0: nothing is */
    size_t limit;                      /* bytes of a profile, inflated */
    size_t samples;                    /* in a profile; 0: any number */
    size_t rows;                       /* most stored profiles in a request */
    size_t enough;                     /* bytes of a request that gets no more of them */
    unsigned timeout_s;                /* how long its server reads a request */
    bool gzip;                         /* the body goes out with Content-Encoding: gzip */
    void *(*begin)(const struct et_relay_form *form);
    /* Returns the pprof profiles or messages that came of it: 0 when the backend has no name for the kind. */
    size_t (*add)(void *request, const struct et_arrival *row); /* the row lives until finish() */
    size_t (*size)(const void *request);                        /* bytes so far, about */
    /* Frees the request. type: of the body, may point into it no longer than the body lives. */
    void (*finish)(void *request, struct et_buf *body, char type[96]);
};

extern const struct et_relay_backend et_relay_pyroscope, et_relay_parca, et_relay_otlp, et_relay_datadog;

/* NULL: there is none of that name. */
const struct et_relay_backend *et_relay_backend(const char *name);

/* ---- what they share ---- */

/* The kind's names; NULL: it has none. */
const struct et_relay_name *et_relay_name(const struct et_relay_backend *backend, const char *kind);

/* Metric-like name: [a-zA-Z_][a-zA-Z0-9_]*, whatever it was. "" for "". */
void et_relay_legal(const char *text, char out[128]);

/* Labels of a series, each name once; the first value stays. */
struct et_relay_labels {
    struct et_relay_label {
        char *name, *value;
    } * labels;
    size_t count, capacity;
};

/* name is made legal, value shortened to what servers take. Empty values are left out. */
void et_relay_labels_add(struct et_relay_labels *series, const char *name, const char *value);
const char *et_relay_labels_value(const struct et_relay_labels *series, const char *name);
void et_relay_labels_free(struct et_relay_labels *series);

/* Encodes a profile in pieces that keep the backend's limits. piece() gets each; number counts from 0.
 * A single stack that is larger than the limit goes out as it is. Returns the pieces. */
typedef void et_relay_piece(void *context, unsigned number, const struct et_buf *pprof);
size_t et_relay_pieces(const struct et_relay_backend *backend, const struct et_profile *profile,
                       const struct et_pprof_form *form, et_relay_piece *piece, void *context);

/* The profile as pieces of a series: puts the series' labels behind those that the backend has put there itself. A kind
 * that the backend has no name for keeps its own. Returns the pieces. */
size_t et_relay_series(const struct et_relay_backend *backend, const struct et_arrival *row, bool bare,
                       struct et_relay_labels *series, et_relay_piece *piece, void *context);

/* A name for what is sent that is the same when it is sent again: a UUID. */
void et_relay_id(const struct et_arrival *row, unsigned piece, uint8_t id[16]);
void et_relay_id_text(const uint8_t id[16], char text[37]);

#endif
