/*
 * What the server has refused, by reason: counted, and said on stderr, once a minute a reason at most.
 */
#ifndef ET_REFUSED_H
#define ET_REFUSED_H

#include "util.h"

enum et_refusal {
    ET_REFUSED_MALFORMED,   /* 400, 415, 422: not what it should be */
    ET_REFUSED_SIZE,        /* 413: a body, as it came or inflated */
    ET_REFUSED_RATE,        /* 429: too many profiles a second */
    ET_REFUSED_BOUNDS,      /* 429, 400: services, tags, labels, time (bounds.h) */
    ET_REFUSED_CONNECTIONS, /* closed: too many at once */
    ET_REFUSED_ACCESS,      /* 401, 403: no token, a wrong one, a foreign web page, a foreign host name */
    ET_REFUSED_CERTIFICATE, /* the handshake ended: no client certificate, or none that is trusted */
    ET_REFUSALS
};

/* Counts; says "refused: TEXT", with how many there were since it was last said. Context: any thread. */
void et_refused(enum et_refusal reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Since the start. Context: any thread. */
uint64_t et_refused_count(enum et_refusal reason);
/* "malformed", "size" ... */
const char *et_refused_name(enum et_refusal reason);

#endif
