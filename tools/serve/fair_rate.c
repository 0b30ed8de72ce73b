/* See fair_rate.h. */
#include "tools/serve/fair_rate.h"

#include <stddef.h>

static const int64_t HOUR_NS = INT64_C(3600) * 1000000000;

static int64_t after_one(int64_t full_ns, uint64_t per_hour, int64_t now_ns)
{
    return (full_ns > now_ns ? full_ns : now_ns) + HOUR_NS / (int64_t)per_hour;
}

/* The device's entry, or the one to use for it. */
static size_t find_entry(const struct et_fair_rate *rate, uint64_t device)
{
    size_t best = 0;
    for (size_t i = 0; i < ET_FAIR_DEVICES; i++) {
        if (rate->devices[i].name == device && rate->devices[i].full_ns) {
            return i;
        }
        best = rate->devices[i].full_ns < rate->devices[best].full_ns ? i : best;
    }
    return best;
}

enum et_fair et_fair_take(struct et_fair_rate *rate, uint64_t device, int64_t now_ns)
{
    size_t at = find_entry(rate, device);
    int64_t before = rate->devices[at].name == device ? rate->devices[at].full_ns : 0;
    int64_t own = after_one(before, rate->device_per_hour, now_ns);
    int64_t all = after_one(rate->full_ns, rate->per_hour, now_ns);
    if (own > now_ns + HOUR_NS) {
        return ET_FAIR_DEVICE;
    }
    if (all > now_ns + (before > now_ns ? HOUR_NS / 2 : HOUR_NS)) {
        return ET_FAIR_TOTAL;
    }
    rate->devices[at].name = device;
    rate->devices[at].full_ns = own;
    rate->full_ns = all;
    return ET_FAIR_ALLOWED;
}
