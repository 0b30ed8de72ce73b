/*
 * Folded text as Pyroscope's clients and flame graph scripts write it: "main;work;leaf 42" a line, root first, to
 * struct et_profile.
 */
#ifndef ET_FOLDED_H
#define ET_FOLDED_H

#include "tools/profile/profile.h"

/* What the numbers of a folded text are. */
struct et_folded {
    const char *kind, *unit; /* of kinds.h; static */
    bool count;              /* they are the kind's count, else its value */
    uint64_t period;         /* what one of the count stands for in the value, 0: nothing is known */
};

/*
 * As Pyroscope does, the last part of the name says what is measured: "app.cpu", "app.alloc_space"; it is taken off:
 * *service_size is what stays. Without such a part `units` says it (samples, objects, bytes, lock_nanoseconds,
 * lock_samples, goroutines, exceptions; "" is samples), and `average` tells what is there from what comes.
 * rate: samples a second. False: there are no such units.
 */
bool et_folded_kind(const char *name, size_t *service_size, const char *units, bool average, uint64_t rate,
                    struct et_folded *out);

/* lines: no numbers, each line stands for 1. NULL: malformed, *why says where. */
struct et_profile *et_folded_parse(const char *text, size_t size, bool lines, const struct et_folded *what,
                                   struct et_buf *why);

#endif
