/*
 * What the server takes at most of anybody: defaults, and the section [limits] of a config file.
 */
#ifndef ET_LIMITS_H
#define ET_LIMITS_H

#include "tools/store/bounds.h"
#include "tools/lib/config.h"

struct et_limits {
    size_t body, inflated;       /* bytes of a request's body, as it comes and without gzip */
    uint64_t rate;               /* profiles a second of one sender (address), ten seconds' worth at once; 0: any */
    bool rate_on_loopback;       /* senders on this machine are held to it, too: proxies and tests are */
    uint64_t connections;        /* at once */
    uint64_t sender_connections; /* of one sender; 0: any */
    struct et_bounds_config bounds;
};

struct et_limits et_limits_default(void);

/* Sets what the section says. False: wrong, and said. */
bool et_limits_read(const struct et_config *config, const struct et_section *section, struct et_limits *limits);

#endif
