/*
 * Chooses the connection that the server closes when places run out: the one that has waited longest without a complete
 * request. So clients that send single bytes cannot exclude others, and a slow client alone has all the time it needs.
 *
 * The evictor does not refuse connections and knows nothing about requests. server.c reports when a handler works.
 */
#ifndef ET_EVICT_H
#define ET_EVICT_H

#include <stdbool.h>

struct et_evictor;
struct et_place;

/* limit: number of places; each further connection evicts one. */
struct et_evictor *et_evictor_new(unsigned limit);
void et_evictor_free(struct et_evictor *evictor);

/* A connection begins. To evict it, its socket is shut down, not closed. */
struct et_place *et_evictor_enter(struct et_evictor *evictor, int fd);
/* Call it before the socket is closed. */
void et_evictor_leave(struct et_evictor *evictor, struct et_place *place);
/* A handler starts or ends. While it works, the connection cannot be evicted; then its waiting time starts again. */
void et_evictor_busy(struct et_evictor *evictor, struct et_place *place, bool busy);

#endif
