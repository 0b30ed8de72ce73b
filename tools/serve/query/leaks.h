/*
 * The places of allocation at which a service's live heap grows: the value of each process at the end of each hour, and
 * a robust line through them (trend.h). A process is a line of its own, so a restart does not hide a leak.
 */
#ifndef ET_LEAKS_H
#define ET_LEAKS_H

#include "tools/profile/trend.h"
#include "tools/store/store.h"
#include "tools/symbols/symbols.h"

/* The kind that is read: the live heap. */
#define ET_LEAK_KIND "live"

/* Sites are places of allocation: the leaf of a stack, which is the type, and the function that allocates. */
struct et_leak {
    uint32_t name;                  /* "System.Byte[] at Shop.Cache.Add": string number in the leaks */
    struct et_trend bytes, objects; /* of a process, per hour; p of bytes is after Holm's correction */
    double last;                    /* bytes of all processes that were seen in the last two hours */
    size_t processes;
    bool grows; /* significant at 95 %, and by 1 % of a process's live bytes or more in the time that was seen */
};

struct et_leaks {
    struct et_strings strings;
    char *service;
    struct et_leak *leaks; /* steepest first */
    size_t count, capacity;
    size_t processes, hours; /* processes with data; hours between first and last value */
    int64_t from_ns, to_ns;  /* whole hours */
};

/* query: service, times (at most ET_LEAK_HOURS hours; without a begin, the last seven days of the data) and matchers.
 * Returns 0 or an error of the database. et_leaks_free() the result in each case. */
enum { ET_LEAK_HOURS = 24 * 31 };
int et_leaks_find(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                  struct et_leaks *out);
void et_leaks_free(struct et_leaks *leaks);

#endif
