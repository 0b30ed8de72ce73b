/*
 * A relay backend: a table of names, its server's limits, and functions that make the body of an HTTP request from
 * stored profiles. Backends do not read the database, wait, or send.
 *
 *   backend->cut(form, row, take, context);              a row becomes parts, each within the server's limits
 *   backend->join(form, parts, count, body, type);       any of them become a request
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
    size_t limit;       /* maximum bytes of a part, inflated; 0: the backend's */
};

/* What a server takes or refuses as one: a profile, or a piece of it. The names of the server's series are in it. */
struct et_relay_part {
    unsigned number;              /* among the row's parts, from 0 */
    size_t inflated, samples;     /* bytes as the server counts them */
    struct et_buf bytes;          /* encoded, for join() */
    const struct et_arrival *row; /* for a backend that keeps rows */
    size_t first, entries;        /* the row's entries in it */
    int64_t start_ns;             /* Unix time in it; for a backend that judges answers */
};

/* Gets a part and owns its bytes. */
typedef void et_relay_take(void *context, const struct et_relay_part *part);

/* A backend's names for a kind. */
struct et_relay_name {
    const char *kind;          /* name in kinds.h */
    const char *family;        /* metric name of the series */
    const char *count, *value; /* sample types; "": none */
    const char *period, *period_unit;
    bool level; /* an amount at a point in time */
};

/* What the answer to a refused request says about a part: nothing, or that it is not stored as others may be; that the
 * server has stored it; that it refuses it whenever it comes. */
enum et_relay_verdict { ET_VERDICT_OPEN, ET_VERDICT_STORED, ET_VERDICT_REFUSED };
/* Which failures of the request the answer is about. */
enum et_relay_told { ET_TOLD_NOTHING, ET_TOLD_ONE, ET_TOLD_ALL };

struct et_relay_backend {
    const char *name;                  /* "pyroscope" */
    const char *path;                  /* appended to the destination's URL */
    const char *keyed_path;            /* path when an API key is used; NULL: `path` */
    const struct et_relay_name *names; /* ends with an entry without a kind */
    size_t series_labels, labels;      /* maximum labels of a series: without and with stack labels */
    size_t depth;                      /* maximum frames per stack; 0: unlimited */
    int64_t oldest_s;                  /* maximum age of profiles in seconds; 0: unlimited */
    int64_t newest_s;                  /* maximum seconds that a profile may be ahead of the clock; 0: unlimited */
    size_t limit;                      /* maximum bytes of a profile, inflated */
    size_t samples;                    /* maximum samples in a profile; 0: unlimited */
    size_t rows;                       /* maximum stored profiles per request */
    size_t burst;                      /* maximum bytes of a request, inflated */
    size_t pace;                       /* inflated bytes a second that the server takes; 0: unlimited */
    unsigned timeout_s;                /* time for an answer */
    bool gzip;                         /* send the body with Content-Encoding: gzip */
    bool grpc;                         /* the body is a gRPC message, over HTTP/2 */
    bool keeps_rows;                   /* join() reads the parts' rows */
    bool drops_nameless;               /* the server forgets stacks in which no frame has a name */
    /* Cuts a row. Without a name for the kind, nothing is taken. A single stack above the limit is a part by itself. */
    void (*cut)(const struct et_relay_form *form, const struct et_arrival *row, et_relay_take *take, void *context);
    /* Writes the body of at least one part, and its Content-Type. */
    void (*join)(const struct et_relay_form *form, const struct et_relay_part *const *parts, size_t count,
                 struct et_buf *body, char type[96]);
    /* Reads the text of an answer that refused a request, whose good parts the server stores. Sets a verdict for each
     * part, unless the answer says nothing. NULL: the server takes a request whole or not at all. */
    enum et_relay_told (*judge)(const struct et_relay_part *const *parts, size_t count, const char *words,
                                enum et_relay_verdict *verdicts);
};

/* Names at Parca, by both ways. */
extern const struct et_relay_name et_relay_parca_names[];
extern const struct et_relay_backend et_relay_pyroscope, et_relay_parca, et_relay_parca_raw, et_relay_otlp,
    et_relay_datadog;

/* NULL: unknown name. */
const struct et_relay_backend *et_relay_backend(const char *name);

/* ---- common parts ---- */

/* The backend's names for the kind; NULL: none. */
const struct et_relay_name *et_relay_name(const struct et_relay_backend *backend, const char *kind);

/* Converts text to a metric-like name, [a-zA-Z_][a-zA-Z0-9_]*. "" stays "". */
void et_relay_legal(const char *text, char out[128]);

/* Legal names for a kind that a backend has none for: those of the type id that its sender chose
 * (family:type:unit:period:unit), or the kind's own name everywhere. */
struct et_relay_own {
    char family[128], type[128], unit[128], period[128], period_unit[128];
};
void et_relay_own(const struct et_profile *profile, struct et_relay_own *own);

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

/* Encodes entries of a profile, from `first`. Returns the number of samples. */
typedef size_t et_relay_encode(void *context, unsigned number, size_t first, size_t entries, struct et_buf *out);
typedef void et_relay_piece(void *context, const struct et_relay_part *part);

/* Encodes all entries in pieces within the limits, and calls piece() with the bytes of each, which it may take out. A
 * single stack larger than the limit is one piece. */
void et_relay_pieces(const struct et_relay_backend *backend, size_t limit, size_t entries, et_relay_encode *encode,
                     et_relay_piece *piece, void *context);

/* A profile as pprof pieces. */
struct et_relay_pprof {
    const struct et_relay_backend *backend;
    const struct et_relay_form *form;
    const struct et_arrival *row;
    struct et_relay_labels series; /* those of the backend, then the row's */
    const struct et_pprof_form *pprof;
    et_relay_piece *piece; /* gets the pprof as bytes; context: this object */
    et_relay_take *take;   /* for piece() */
    void *context;         /* of take() */
};
void et_relay_pprof_pieces(struct et_relay_pprof *in);

/* The same with the form of a series and the row's labels. A kind without a name keeps its own. */
void et_relay_series(struct et_relay_pprof *in);

/* A UUID that is the same when a piece is sent again. */
void et_relay_id(const struct et_arrival *row, unsigned piece, uint8_t id[16]);
void et_relay_id_text(const uint8_t id[16], char text[37]);

#endif
