/*
 * Parses queries of Pyroscope's clients: a service with a suffix for the kind, or a profile type id before a selector.
 * Also makes profile type ids for our kinds.
 *
 *   svc.cpu{version=1.2.3}    svc    svc{device=~"pi-.*"}
 *   process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="svc"}
 *   {__profile_type__="memory:alloc_space:bytes:space:bytes",service_name="svc"}
 */
#ifndef ET_QUERY_TEXT_H
#define ET_QUERY_TEXT_H

#include "tools/lib/kinds.h"
#include "tools/store/query_builder.h"

/* Adds the text's selection to wanted. An unknown suffix is a part of the service's name. False: malformed, see
 * wanted->why. */
bool et_wanted_query(struct et_query_builder *wanted, const char *text);

/* Parts of a profile type's id, name:sample_type:sample_unit:period_type:period_unit. Zeroed: empty. */
struct et_type {
    char *id, *name, *sample, *unit, *period, *period_unit;
};

/* Makes the type of a kind's value or count. unit: for kinds that kinds.h does not know. False: the kind has no such
 * measure. et_type_free() it. */
bool et_type_of(const char *kind, const char *unit, bool count, struct et_type *type);
/* Parses an id, including other programs' names, such as .NET's. False: malformed. et_type_free() it. */
bool et_type_parse(const char *id, struct et_type *type);
void et_type_free(struct et_type *type);

/* Sets the kind and measure of a type. Converts other programs' types to our kinds. */
void et_wanted_type(struct et_query_builder *wanted, const struct et_type *type);

#endif
