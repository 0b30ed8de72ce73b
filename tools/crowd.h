/*
 * Who is connected, and who has to go when places run out: whoever has kept a place for the longest without a whole
 * request. So some hundred clients that send a byte now and then keep nobody else out, while a slow link that is alone
 * has all the time there is.
 *
 * Nothing is refused here, and nothing is known of requests; server.c tells when a handler is at work.
 */
#ifndef ET_CROWD_H
#define ET_CROWD_H

#include <stdbool.h>

struct et_crowd;
struct et_place;

/* limit: places; from that many on each newcomer costs somebody his. */
struct et_crowd *et_crowd_new(unsigned limit);
void et_crowd_free(struct et_crowd *crowd);

/* A connection begins; its socket is shut down, not closed, when it has to go. */
struct et_place *et_crowd_enter(struct et_crowd *crowd, int fd);
/* Its socket is about to be closed. */
void et_crowd_leave(struct et_crowd *crowd, struct et_place *place);
/* A handler begins or ends with its request: as long as it works the place is safe, then its time begins anew. */
void et_crowd_busy(struct et_crowd *crowd, struct et_place *place, bool busy);

#endif
