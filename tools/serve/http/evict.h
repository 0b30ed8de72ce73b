/*
 * Which connection the server closes when places run out: the one that has kept its place for the longest time without
 * a whole request. Clients that send a byte now and then therefore keep nobody else out, and a slow client that is
 * alone has all the time that it needs.
 *
 * The evictor refuses nothing and knows nothing about requests. server.c reports when a handler works.
 */
#ifndef ET_EVICT_H
#define ET_EVICT_H

#include <stdbool.h>

struct et_evictor;
struct et_place;

/* limit: places; from that many on each newcomer costs somebody his. */
struct et_evictor *et_evictor_new(unsigned limit);
void et_evictor_free(struct et_evictor *evictor);

/* A connection begins; its socket is shut down, not closed, when it has to go. */
struct et_place *et_evictor_enter(struct et_evictor *evictor, int fd);
/* Its socket is about to be closed. */
void et_evictor_leave(struct et_evictor *evictor, struct et_place *place);
/* A handler begins or ends with its request: as long as it works the place is safe, then its time begins anew. */
void et_evictor_busy(struct et_evictor *evictor, struct et_place *place, bool busy);

#endif
