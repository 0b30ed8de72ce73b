/* What each device of a fleet spent in each function, on two sides (versions). verdict.h compares the sides. It does
 * not load or symbolize profiles. */
#ifndef ET_FLEET_H
#define ET_FLEET_H

#include "tools/profile/diff.h"

/* A function on a device; recursion counts once in total. */
struct et_fleet_cell {
    uint32_t function; /* string number in the fleet */
    double self, total;
};

/* A device on one side. A cohort is a group of like devices, such as "x86_64"; only devices of one cohort are compared.
 */
struct et_fleet_entry {
    uint32_t cohort, device; /* string numbers */
    enum et_side side;
    double seconds; /* time that the device ran the service */
    double total;   /* of all functions */
    double samples;
    struct et_fleet_cell *cells;
    size_t count, capacity;
};

struct et_fleet {
    struct et_strings strings;
    struct et_fleet_entry *entries;
    size_t count, capacity;
    struct et_map index; /* cohort, device, side -> entry + 1 */
    struct et_map cells; /* entry << 32 | function -> cell + 1 */
};

/* The entry's index; a new one is zeroed. Zeroed fleet: empty. et_fleet_free() it. */
size_t et_fleet_entry(struct et_fleet *fleet, const char *cohort, const char *device, enum et_side side);

/* Adds a symbolized profile whose outermost frames are processes (et_query.processes): to their cells, totals and
 * samples (its samples, spread over the processes by their counts). entry_of: the entry of a process, by the name of
 * its frame; SIZE_MAX: none. */
void et_fleet_add_profile(struct et_fleet *fleet, const struct et_profile *profile,
                          size_t (*entry_of)(void *context, const char *process), void *context);
/* Bytes of memory that it takes, about. */
size_t et_fleet_memory(const struct et_fleet *fleet);
void et_fleet_free(struct et_fleet *fleet);

#endif
