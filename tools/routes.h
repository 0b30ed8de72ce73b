/* The groups of addresses; each table ends with an empty route. A pattern of the last group takes what is left. */
#ifndef ET_ROUTES_H
#define ET_ROUTES_H

#include "http.h"

extern const struct et_route et_routes_push[];
extern const struct et_route et_routes_api[];
extern const struct et_route et_routes_symbols[];
extern const struct et_route et_routes_page[];

#endif
