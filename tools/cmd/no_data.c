/* See et_no_data() of options.h. */
#include "tools/cmd/options.h"
#include "tools/lib/closest.h"
#include "tools/lib/json_read.h"
#include "tools/lib/kinds.h"
#include "tools/serve/query/api.h"

#include <string.h>

#define LISTS "`edgeprof query services` lists services and kinds"

static unsigned ask_services(struct et_store *store, const struct et_query *query, const void *context,
                             struct et_buf *out)
{
    (void)query, (void)context;
    return et_api_services(store, "", out);
}

/* Whether there is a service of that name; else *like gets the one that may be meant. */
static bool find_service(const json_t *document, const char *service, struct et_closest *like)
{
    const json_t *row;
    size_t i;
    bool found = false;
    json_array_foreach(json_object_get(document, "services"), i, row)
    {
        found |= strcmp(et_json_words(row, "service"), service) == 0;
        et_closest_offer(like, service, et_json_words(row, "service"));
    }
    return found;
}

/* False: there is a service of that name, or nobody knows. */
static bool report_service(const struct et_options *options, const char *service)
{
    const struct et_query everything = {.to_ns = INT64_MAX};
    struct et_buf text = {0}, why = {0};
    struct et_closest like = {0};
    int code = *service ? et_options_ask(options, "/api/services", &everything, ask_services, NULL, &text) : ET_FAILED;
    json_t *document = code ? NULL : et_json_read(text.data ? text.data : "", text.size, &why);
    bool unknown = document && !find_service(document, service, &like);
    if (unknown && like.word) {
        et_error("no data: there is no service %s; did you mean %s?", service, like.word);
    } else if (unknown) {
        et_error("no data: there is no service %s; " LISTS, service);
    }
    json_decref(document);
    et_buf_free(&text);
    et_buf_free(&why);
    return unknown;
}

void et_no_data(const struct et_options *options, const struct et_query *query)
{
    const char *kind = query && query->kind ? query->kind : "";
    const char *service = options->wanted.query.service ? options->wanted.query.service : "";
    if (report_service(options, service)) {
        return;
    }
    if (*kind && !et_kind_named(kind)) {
        et_error("no data: there is no kind %s%s%s; " LISTS, kind, *service ? " of service " : "", service);
    } else {
        et_error("no data: no %s%s%s matches%s%s; " LISTS, kind, *kind ? " " : "", query ? "profile" : "entry",
                 options->service ? " service " : "", options->service ? options->service : "");
    }
}
