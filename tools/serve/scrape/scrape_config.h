/*
 * Targets that serve asks for profiles: the sections [scrape NAME] of its config file. tools/README.md lists the
 * settings.
 */
#ifndef ET_SCRAPE_CONFIG_H
#define ET_SCRAPE_CONFIG_H

#include "tools/lib/config.h"

/* Profiles below /debug/pprof/, in the order in which they are asked for. */
enum et_scraped {
    ET_SCRAPED_ALLOCS,
    ET_SCRAPED_HEAP,
    ET_SCRAPED_MUTEX,
    ET_SCRAPED_BLOCK,
    ET_SCRAPED_GOROUTINE,
    ET_SCRAPED_CPU,
    ET_SCRAPED_COUNT
};

extern const char *const et_scraped_names[ET_SCRAPED_COUNT]; /* as in `profiles`: "cpu" */

struct et_scrape_target {
    char *url, *service, *tags; /* without a '/' at its end; tags are lines (labels.h) */
    char *token, *ca;           /* NULL: none */
    int64_t interval_ns, timeout_ns;
    unsigned seconds; /* of a CPU profile */
    bool wanted[ET_SCRAPED_COUNT];
};

struct et_scrape_config {
    struct et_scrape_target *targets;
    size_t count, capacity;
};

/* False: wrong, and said; *out is empty. */
bool et_scrape_config_read(const struct et_config *config, struct et_scrape_config *out);
void et_scrape_config_free(struct et_scrape_config *config);

#endif
