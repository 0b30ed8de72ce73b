/*
 * Compares two versions of a service on the devices that ran them: chooses the versions, reads what each device spent
 * in each function, and asks verdict.h. The tag `version` is a process's version; a device is the tag `device`, or the
 * host. Devices of one cohort have the same arch and, where processes have them, tags `board` and `level`.
 */
#ifndef ET_VERSIONS_H
#define ET_VERSIONS_H

#include "tools/profile/verdict.h"
#include "tools/store/store.h"
#include "tools/symbols/symbols.h"

/* The increase that must be found, when the caller asks for none: 3 % of the service's usage. */
#define ET_VERSIONS_THRESHOLD 0.03

struct et_versions_request {
    const char *version, *baseline; /* NULL or "": the newest one, and the one that was new before `version` */
    double threshold;               /* as in verdict.h; 0: ET_VERSIONS_THRESHOLD */
};

enum et_versions_state {
    ET_VERSIONS_COMPARED,
    ET_VERSIONS_UNKNOWN,     /* no process has the version, or no process has any */
    ET_VERSIONS_NO_BASELINE, /* no other version is older, or no process has the baseline */
};

struct et_versions {
    enum et_versions_state state;
    char *service, *kind, *unit;
    char *names[ET_SIDES];                         /* versions; "" when there is none */
    int64_t first_ns[ET_SIDES], last_ns[ET_SIDES]; /* first and last seen, Unix time */
    double samples[ET_SIDES];
    double threshold;
    struct et_fleet fleet; /* ET_VERSIONS_COMPARED: both are filled */
    struct et_verdict verdict;
};

/* query: its service, kind, times and matchers of processes; everything else is ignored. Returns 0, an error of the
 * store, or -EINVAL for a kind that is a level. et_versions_free() the result in each case. */
int et_versions_compare(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        const struct et_versions_request *request, struct et_versions *out);
/* "ok", "regression", "not yet", "no data" or "no baseline". */
const char *et_versions_word(const struct et_versions *versions);
void et_versions_free(struct et_versions *versions);

#endif
