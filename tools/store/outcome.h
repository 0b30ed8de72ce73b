/*
 * What became of a message on its way into the store, as its sender learns it.
 */
#ifndef ET_OUTCOME_H
#define ET_OUTCOME_H

enum et_outcome {
    ET_ACCEPTED,    /* 200 */
    ET_REPEATED,    /* 200: it was here before and is not counted again */
    ET_MALFORMED,   /* 400 */
    ET_LIMITED,     /* 429: there are too many services or labels already (bounds.h) */
    ET_STALE,       /* 409: the segment is not known here or a message is missing; start a new one */
    ET_UNAVAILABLE, /* 503: the store could not keep it; try again later */
};

#endif
