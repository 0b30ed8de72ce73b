/* Parts of the export for the Firefox Profiler (firefox.c): categories, and the samples of a thread. */
#ifndef ET_FIREFOX_H
#define ET_FIREFOX_H

#include "tools/formats/incident.h"

/* Places in the profile's list of categories. */
enum et_firefox_category {
    ET_FIREFOX_OTHER,
    ET_FIREFOX_CPU,
    ET_FIREFOX_WAIT,
    ET_FIREFOX_LOCK,
    ET_FIREFOX_SLEEP,
    ET_FIREFOX_NETWORK,
    ET_FIREFOX_DISK,
    ET_FIREFOX_IDLE,
    ET_FIREFOX_GC,
    ET_FIREFOX_EXCEPTION,
    ET_FIREFOX_CATEGORIES
};

/* Appends the list of categories. */
void et_firefox_put_categories(struct et_buf *out);

/* The category of each call: by its special frame, else CPU; the leaf of an exception is its type. The caller frees it.
 */
uint8_t *et_firefox_categories(const struct et_incident *incident, const struct et_calls *calls);

/* Appends the samples of a thread, as ,"samples":{...}. zero_ns: the uptime at the begin of the profile. */
void et_firefox_put_samples(const struct et_incident *incident, const struct et_calls *calls, uint32_t thread,
                            int64_t zero_ns, struct et_buf *out);

#endif
