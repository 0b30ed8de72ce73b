/* See api.h: incidents. */
#include "tools/formats/incident.h"
#include "tools/serve/query/api.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY = 30 }; /* what a byte of a message becomes, about */

/* ---- the list ---- */

struct incident_list {
    struct et_store *store;
    struct et_buf *out;
    size_t count;
};

static bool list_incident(void *context, const struct et_incident_row *row)
{
    struct incident_list *list = context;
    const char *why;
    if (row->part != 0) {
        return true;
    }
    if (et_store_counts(list->store, row->size) < 0) {
        return false;
    }
    et_message *message = et_message_decode(row->message, row->size, &why);
    if (message && message->timeline) {
        et_buf_text(list->out, list->count++ ? ",\n" : "\n");
        et_incident_summary(message, row->received_ns, list->out);
    }
    if (message) {
        et_message_free(message);
    }
    size_t held = row->size;
    (void)et_budget_hold(et_store_budget(list->store), &held, 0);
    return true;
}

unsigned et_api_incidents(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                          struct et_buf *out)
{
    struct incident_list list = {.store = store, .out = out};
    (void)symbols;
    et_buf_text(out, "{\"incidents\":[");
    if (et_store_incidents(store, query, 0, list_incident, &list) < 0) {
        return et_api_failed(store, out);
    }
    et_buf_text(out, "]}\n");
    return 200;
}

/* ---- one ---- */

struct incident_parts {
    struct et_store *store;
    struct et_incident incident;
};

static bool add_part(void *context, const struct et_incident_row *row)
{
    struct incident_parts *parts = context;
    const char *why;
    if (et_store_counts(parts->store, row->size * MEMORY) < 0) {
        return false;
    }
    et_message *message = et_message_decode(row->message, row->size, &why);
    if (message && message->timeline) {
        (void)et_incident_add(&parts->incident, message, row->received_ns, &why); /* was checked when it came */
    } else if (message) {
        et_message_free(message);
    }
    return true;
}

/* About what the file for Firefox Profiler takes: each thread in it has tables of all calls. */
static bool fits(struct et_store *store, const struct et_incident *incident)
{
    const struct et_profile *profile = incident->profile;
    size_t calls = 0;
    for (size_t i = 1; i < profile->node_count; i++) {
        calls += profile->frames[profile->nodes[i].frame].line_count;
    }
    size_t each = calls * 128 + incident->count * 64;
    return et_store_counts(store, each * (incident->thread_count + 1)) == 0;
}

unsigned et_api_incident(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                         const struct et_incident_request *request, struct et_buf *out)
{
    struct incident_parts parts = {.store = store};
    char *end;
    uint64_t id = strtoull(request->id, &end, 16);
    unsigned status = 200;
    if (!id || *end) {
        et_api_error(out, "id must be an incident's, as /api/incidents has it");
        return 400;
    }
    if (et_store_incidents(store, query, id, add_part, &parts) < 0) {
        status = et_api_failed(store, out);
    } else if (!parts.incident.head) {
        et_api_error(out, "no such incident; `edgeprof incidents` lists them");
        status = 404;
    } else {
        et_symbolize(symbols, parts.incident.profile);
        if (request->firefox && !fits(store, &parts.incident)) {
            status = et_api_failed(store, out);
        } else if (request->firefox) {
            et_incident_firefox(&parts.incident, out);
        } else {
            et_incident_json(&parts.incident, out);
        }
    }
    et_incident_free(&parts.incident);
    return status;
}
