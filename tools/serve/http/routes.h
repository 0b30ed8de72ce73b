/* The groups of routes; each table ends with an empty route. The last group has the pattern for all other paths. */
#ifndef ET_ROUTES_H
#define ET_ROUTES_H

#include "tools/serve/http/http.h"

extern const struct et_route et_routes_push[];
extern const struct et_route et_routes_ingest[];
extern const struct et_route et_routes_otlp[];
extern const struct et_route et_routes_targets[];
extern const struct et_route et_routes_api[];
extern const struct et_route et_routes_symbols[];
extern const struct et_route et_routes_relay[];
extern const struct et_route et_routes_render[];
extern const struct et_route et_routes_querier[];
extern const struct et_route et_routes_metrics[];
extern const struct et_route et_routes_page[];

#endif
