/* Rejected requests: counts them by reason, and writes at most one line per minute and reason to stderr. */
#ifndef ET_REJECTIONS_H
#define ET_REJECTIONS_H

#include "tools/lib/util.h"

enum et_rejection {
    ET_REJECTED_MALFORMED,   /* 400, 415, 422: malformed */
    ET_REJECTED_SIZE,        /* 413: the body is too large, as received or inflated */
    ET_REJECTED_RATE,        /* 429: too many profiles per second */
    ET_REJECTED_BOUNDS,      /* 429, 400: services, tags, labels, time (bounds.h) */
    ET_REJECTED_CONNECTIONS, /* closed: too many connections */
    ET_REJECTED_ACCESS,      /* 401, 403: missing or wrong token, foreign web page, foreign host name */
    ET_REJECTED_CERTIFICATE, /* handshake failed: missing or untrusted client certificate */
    ET_REJECTIONS
};

/* Counts the rejection; writes "refused: TEXT" with the number since the last message. Context: any thread. */
void et_reject(enum et_rejection reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes "audit: TEXT": what an administrator did. At most ET_AUDIT_LINES lines a minute; the next line after a silence
 * says how many are missing. Context: any thread. */
enum { ET_AUDIT_LINES = 60 };
void et_audit(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Total since the start. Context: any thread. */
uint64_t et_rejection_count(enum et_rejection reason);
/* "malformed", "size" ... */
const char *et_rejection_name(enum et_rejection reason);

#endif
