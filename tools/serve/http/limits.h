/* The server's limits: defaults, and the section [limits] of a config file. */
#ifndef ET_LIMITS_H
#define ET_LIMITS_H

#include "tools/store/bounds.h"
#include "tools/lib/config.h"

struct et_limits {
    size_t body, inflated;       /* bytes of a request's body, as received and without gzip */
    uint64_t rate;               /* profiles per second and sender, bursts of ten seconds' worth; 0: unlimited */
    bool rate_on_loopback;       /* apply the rate to senders on this machine, for proxies and tests */
    uint64_t connections;        /* at the same time */
    uint64_t sender_connections; /* per sender; 0: unlimited */
    int64_t query_ns;            /* of one request's reads; 0: unlimited */
    size_t query_memory;         /* bytes of one request's reads; 0: unlimited */
    int64_t symbols_ns;          /* that a request waits for names; 0: as long as it takes */
    size_t symbols_store;        /* bytes of all files in the folder that uploads go to; 0: unlimited */
    struct et_bounds_config bounds;
};

struct et_limits et_limits_default(void);

/* Applies the section's settings. False: invalid, which was reported. */
bool et_limits_read(const struct et_config *config, const struct et_section *section, struct et_limits *limits);

#endif
