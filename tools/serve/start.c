/* See start.h. */
#include "tools/serve/start.h"
#include "tools/serve/judge.h"
#include "tools/serve/relay/relay.h"
#include "tools/serve/scrape/scrape.h"
#include "tools/serve/webhook.h"

#include <malloc.h>

/* A buffer of at least this size goes back to the system when it is freed. By default glibc raises this to 32 MiB as
 * soon as one of that size was freed, and each thread's arena keeps up to twice as much. */
enum { GIVEN_BACK = 1 << 20 };

/* Destinations of an earlier configuration hold back nothing any more. */
static enum et_outcome forget_relays(struct et_store *store, void *context, const char **why)
{
    (void)context;
    *why = et_store_why(store);
    int err = et_store_begin(store);
    err = err ? err : et_store_relay_none(store);
    int ended = et_store_end(store, !err);
    return err || ended ? ET_UNAVAILABLE : ET_REPEATED;
}

static bool start_relay(struct et_server *server, struct et_relay_config *config)
{
    struct et_buf why = {0};
    bool wanted = config && config->count;
    (void)et_server_write(server, forget_relays, NULL, &why);
    et_buf_free(&why);
    et_server_set_relay(server, wanted ? et_relay_start(server, config) : NULL);
    return et_server_relay(server) || !wanted;
}

struct et_server *et_server_start(const struct et_server_config *config, struct et_relay_config *relay,
                                  struct et_scrape_config *scrape, const struct et_webhook_config *webhook,
                                  int64_t verdict_ns)
{
    mallopt(M_MMAP_THRESHOLD, GIVEN_BACK);
    mallopt(M_TRIM_THRESHOLD, GIVEN_BACK);
    struct et_server *server = et_server_open(config);
    if (!server) {
        return NULL;
    }
    bool started = start_relay(server, relay);
    if (started && scrape && scrape->count) {
        et_server_set_scraper(server, et_scraper_start(server, scrape));
    }
    if (started) {
        bool failed;
        et_server_set_webhook(server, et_webhook_start(server, webhook, &failed));
        started = !failed;
    }
    et_server_set_judge(server, started ? et_judge_start(server, verdict_ns) : NULL);
    if (!started || !et_server_serve(server)) {
        et_server_stop(server);
        return NULL;
    }
    return server;
}

void et_server_stop(struct et_server *server)
{
    et_server_quiet(server);
    et_judge_stop(et_server_judge(server));
    et_webhook_stop(et_server_webhook(server));
    et_scraper_stop(et_server_scraper(server));
    et_relay_stop(et_server_relay(server));
    et_server_close(server);
}
