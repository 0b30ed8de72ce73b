/* The route for the status of relay destinations. */
#include "tools/lib/json_write.h"
#include "tools/serve/relay/relay.h"
#include "tools/serve/http/routes.h"

static void write_state(void *context, const struct et_relay_state *state)
{
    struct et_buf *out = context;
    const struct {
        const char *key, *text;
    } texts[] = {{"{\"name\":", state->name},
                 {",\"to\":", state->backend},
                 {",\"url\":", state->url},
                 {",\"why\":", state->why}};
    et_buf_text(out, out->data[out->size - 1] == '[' ? "" : ",");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        et_buf_text(out, texts[i].key);
        et_json_string(out, texts[i].text);
    }
    et_buf_printf(out,
                  ",\"failing\":%s,\"sent\":%llu,\"refused\":%llu,\"lost\":%llu,\"set_aside\":%llu,\"bytes\":%llu,"
                  "\"waiting\":%lld,\"last_sent\":",
                  state->failing ? "true" : "false", (unsigned long long)state->sent,
                  (unsigned long long)state->refused, (unsigned long long)state->lost, (unsigned long long)state->aside,
                  (unsigned long long)state->bytes, (long long)state->waiting);
    et_json_seconds(out, state->last_sent_ns);
    et_buf_text(out, ",\"next_try\":");
    et_json_seconds(out, state->next_try_ns);
    et_buf_char(out, '}');
}

static void answer_relays(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    (void)request;
    answer->type = "application/json; charset=utf-8";
    et_buf_text(&answer->body, "{\"relays\":[");
    et_relay_each(et_server_relay(server), write_state, &answer->body);
    et_buf_text(&answer->body, "]}");
}

const struct et_route et_routes_relay[] = {
    {.method = "GET", .path = "/api/relays", .handle = answer_relays},
    {0},
};
