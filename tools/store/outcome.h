/* The result of storing a message, as reported to its sender. */
#ifndef ET_OUTCOME_H
#define ET_OUTCOME_H

enum et_outcome {
    ET_ACCEPTED,    /* 200 */
    ET_REPEATED,    /* 200: received before, not counted again */
    ET_MALFORMED,   /* 400 */
    ET_LIMITED,     /* 429: too many services or labels (bounds.h) */
    ET_STALE,       /* 409: unknown segment or a missing message; start a new segment */
    ET_FORBIDDEN,   /* 403: the sender's token may not send it */
    ET_UNAVAILABLE, /* 503: the database could not keep it; retry later */
};

#endif
