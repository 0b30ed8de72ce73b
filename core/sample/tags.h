/*
 * The table of tag sets, shared by all threads.
 */
#ifndef EP_DATA_TAGS_H
#define EP_DATA_TAGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/options.h>

struct ep_tags {
    atomic_uint used;                     /* bytes used in text */
    atomic_ushort string[EP_TAG_STRINGS]; /* hash table: place in text + 1 */
    _Atomic uint64_t set[EP_TAG_SETS];    /* hash table: parent set, key, value; id: place + 1 */
    atomic_uchar values[EP_TAG_STRINGS];  /* number of distinct values of each key */
    char text[EP_TAG_BYTES];
};

#endif
