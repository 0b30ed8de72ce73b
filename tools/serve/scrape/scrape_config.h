/* Scrape targets: the sections [scrape NAME] of the config file. docs/configuration.md lists the settings. */
#ifndef ET_SCRAPE_CONFIG_H
#define ET_SCRAPE_CONFIG_H

#include "tools/lib/config.h"

/* Profiles below /debug/pprof/, in the order of requests. */
enum et_scraped {
    ET_SCRAPED_ALLOCS,
    ET_SCRAPED_HEAP,
    ET_SCRAPED_MUTEX,
    ET_SCRAPED_BLOCK,
    ET_SCRAPED_GOROUTINE,
    ET_SCRAPED_CPU,
    ET_SCRAPED_COUNT
};

extern const char *const et_scraped_names[ET_SCRAPED_COUNT]; /* values of `profiles`: "cpu" */

struct et_scrape_target {
    char *url, *service, *tags; /* url: without '/' at the end; tags: lines (labels.h) */
    char *token, *ca;           /* NULL: none */
    int64_t interval_ns, timeout_ns;
    unsigned seconds; /* duration of a CPU profile */
    bool wanted[ET_SCRAPED_COUNT];
};

struct et_scrape_config {
    struct et_scrape_target *targets;
    size_t count, capacity;
};

/* False: invalid, which was reported; *out is empty. */
bool et_scrape_config_read(const struct et_config *config, struct et_scrape_config *out);
void et_scrape_config_free(struct et_scrape_config *config);

#endif
