/* All routes of the server, by group; see http.h. */
#include "tools/serve/http/routes.h"

#include <string.h>

static const struct et_route *const groups[] = {et_routes_push,   et_routes_ingest,  et_routes_otlp,  et_routes_targets,
                                                et_routes_api,    et_routes_symbols, et_routes_relay, et_routes_metrics,
                                                et_routes_render, et_routes_querier, et_routes_page};

static bool path_is(const char *pattern, const char *path)
{
    size_t size = strlen(pattern);
    return pattern[size - 1] == '*' && strncmp(pattern, path, size - 1) == 0;
}

/* An exact path takes precedence over a pattern, for every method. */
const struct et_route *et_route_find(const char *method, const char *path, unsigned *status)
{
    const struct et_route *pattern = NULL;
    bool known = false;
    method = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        for (const struct et_route *route = groups[i]; route->path; route++) {
            bool same = strcmp(route->method, method) == 0, exact = strcmp(route->path, path) == 0;
            if (exact && same) {
                return route;
            }
            known |= exact;
            pattern = !pattern && same && path_is(route->path, path) ? route : pattern;
        }
    }
    bool method_known = strcmp(method, "GET") == 0 || strcmp(method, "POST") == 0;
    *status = known || !method_known ? 405 : 404;
    return known ? NULL : pattern;
}
