/*
 * The pull endpoint's two halves: pull.c, on the endpoint's thread, knows requests; views.c, on the collect thread, has
 * the profiles. The one asks, the other answers in its next round, so that nobody but the collect thread ever touches a
 * tree, and nothing needs a lock.
 */
#ifndef EP_ENDPOINT_VIEWS_H
#define EP_ENDPOINT_VIEWS_H

#include "core/state/profiler.h"
#include "core/collect/collect.h"
#include "core/encode/encode.h"

enum ep_view_ask {
    EP_VIEW_OPEN,  /* begins: a view's number, never 0 */
    EP_VIEW_END,   /* what it shows stands still from here on: its size as pprof; -EAGAIN: not all is there yet */
    EP_VIEW_PIECE, /* bytes of that, from `from` on: how many */
    EP_VIEW_DETACH /* nobody pulls any more: 0 */
};

struct ep_view_question {
    enum ep_view_ask what;
    unsigned view;    /* of OPEN's answer */
    uint32_t kinds;   /* OPEN: EP_KIND_BIT()s of one pprof family */
    bool since_start; /* OPEN: all there ever was, not what comes from now on */
    uint64_t from;
    uint8_t *data; /* PIECE: of `size` bytes */
    uint32_t size;
};

/* Asks and waits. Also -EBUSY: all views are open, their tree is too full for one more, or the collect thread does not
 * answer; -ESRCH: no profiler runs, or not the one any more that the view is of. Context: pull. */
int64_t ep_view_ask(const struct ep_view_question *question);
/* Gives it back, without waiting. Context: pull. */
void ep_view_close(unsigned view);

/* What was pulled with less than was measured of it: samples whose stack ends in [truncated], and without their tags.
 * Ever; context: any thread. */
struct ep_view_losses {
    _Atomic uint64_t truncated, unlabelled;
};
const struct ep_view_losses *ep_view_losses(void);

#endif
