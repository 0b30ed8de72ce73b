/*
 * Requests that the server rejects: it counts them by reason, and writes one line a minute and reason to stderr.
 */
#ifndef ET_REJECTIONS_H
#define ET_REJECTIONS_H

#include "tools/lib/util.h"

enum et_rejection {
    ET_REJECTED_MALFORMED,   /* 400, 415, 422: not what it should be */
    ET_REJECTED_SIZE,        /* 413: a body, as it came or inflated */
    ET_REJECTED_RATE,        /* 429: too many profiles a second */
    ET_REJECTED_BOUNDS,      /* 429, 400: services, tags, labels, time (bounds.h) */
    ET_REJECTED_CONNECTIONS, /* closed: too many at once */
    ET_REJECTED_ACCESS,      /* 401, 403: no token, a wrong one, a foreign web page, a foreign host name */
    ET_REJECTED_CERTIFICATE, /* the handshake ended: no client certificate, or none that is trusted */
    ET_REJECTIONS
};

/* Counts; says "refused: TEXT", with how many there were since it was last said. Context: any thread. */
void et_reject(enum et_rejection reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Since the start. Context: any thread. */
uint64_t et_rejection_count(enum et_rejection reason);
/* "malformed", "size" ... */
const char *et_rejection_name(enum et_rejection reason);

#endif
