/*
 * The interface between the pull endpoint's two halves: pull.c knows requests and runs on the endpoint's thread;
 * views.c has the profiles and runs on the collect thread. pull.c asks, and views.c answers in the collect thread's
 * next round. So only the collect thread uses the trees, and no lock is needed.
 */
#ifndef EP_PULL_VIEWS_H
#define EP_PULL_VIEWS_H

#include "core/sample/profiler.h"
#include "core/collect/collect.h"
#include "core/encode/encode.h"

enum ep_view_ask {
    EP_VIEW_OPEN,  /* opens a view; answer: its number, never 0 */
    EP_VIEW_END,   /* ends a view; answer: its size as pprof; -EAGAIN: not complete yet */
    EP_VIEW_PIECE, /* encodes bytes from `from` on; answer: how many */
    EP_VIEW_DETACH /* detaches the endpoint; answer: 0 */
};

struct ep_view_question {
    enum ep_view_ask what;
    unsigned view;    /* the answer to EP_VIEW_OPEN */
    uint32_t kinds;   /* OPEN: EP_KIND_BIT()s of one pprof family */
    bool since_start; /* OPEN: everything since the start; else only what follows */
    bool no_duration; /* OPEN: encoded as Go does what is no period: at the time of its end */
    uint64_t from;
    uint8_t *data; /* PIECE: buffer of `size` bytes */
    uint32_t size;
};

/* Asks the collect thread and waits for the answer. Also returns -EBUSY: all views are open, their tree is too full
 * for another one, or the collect thread does not answer; -ESRCH: no profiler runs, or not the one of the view.
 * Context: pull. */
int64_t ep_view_ask(const struct ep_view_question *question);
/* Closes the view without waiting. Context: pull. */
void ep_view_close(unsigned view);

/* Samples pulled with less detail, since the start: with a stack that ends in [truncated], and without their tags.
 * Context: any thread. */
struct ep_view_losses {
    _Atomic uint64_t truncated, unlabelled;
};
const struct ep_view_losses *ep_view_losses(void);

#endif
