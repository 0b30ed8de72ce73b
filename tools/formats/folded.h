/*
 * Folded text, as Pyroscope's clients and flame graph scripts write it: "main;work;leaf 42" per line, root first.
 * Converts it to struct et_profile.
 */
#ifndef ET_FOLDED_H
#define ET_FOLDED_H

#include "tools/profile/profile.h"

/* The meaning of the numbers of a folded text. */
struct et_folded {
    const char *kind, *unit; /* of kinds.h; static */
    bool count;              /* the numbers are counts, not values */
    uint64_t period;         /* value per count; 0: unknown */
};

/*
 * Finds the kind from the name's last part, as Pyroscope does: "app.cpu", "app.alloc_space". *service_size: size of the
 * name without that part. Without such a part, `units` selects the kind (samples, objects, bytes, lock_nanoseconds,
 * lock_samples, goroutines, exceptions; "" is samples), and `average` distinguishes levels from sums. rate: samples per
 * second. False: unknown units.
 */
bool et_folded_kind(const char *name, size_t *service_size, const char *units, bool average, uint64_t rate,
                    struct et_folded *out);

/* lines: no numbers, each line counts 1. Numbers may have decimals. Malformed lines are left out, and *why says how
 * many and where the first is. NULL: half of the lines are malformed, or the sums are beyond limits. */
struct et_profile *et_folded_parse(const char *text, size_t size, bool lines, const struct et_folded *what,
                                   struct et_buf *why);

#endif
