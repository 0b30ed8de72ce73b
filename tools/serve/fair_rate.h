/*
 * How many notifications in an hour: of one device, and in all. Each rate allows an hour's worth at once. Half of the
 * total is left to devices that have their whole rate, so devices that notify all the time do not silence others.
 *
 * Memory is fixed: only devices that have notified within an hour need an entry. When there are more than entries,
 * the one that has most of its rate back is forgotten. Context: one thread.
 */
#ifndef ET_FAIR_RATE_H
#define ET_FAIR_RATE_H

#include <stdint.h>

enum { ET_FAIR_DEVICES = 1024 };

/* full_ns: when all of the rate is there again. Zeroed but for the first two, which are 1 or more. */
struct et_fair_rate {
    uint64_t per_hour, device_per_hour;
    int64_t full_ns;
    struct {
        uint64_t name;
        int64_t full_ns;
    } devices[ET_FAIR_DEVICES];
};

enum et_fair { ET_FAIR_ALLOWED, ET_FAIR_DEVICE, ET_FAIR_TOTAL };

/* Takes one notification from both rates, or says which of them has none. device: a hash of its name. now_ns: of a
 * clock that is never set. */
enum et_fair et_fair_take(struct et_fair_rate *rate, uint64_t device, int64_t now_ns);

#endif
