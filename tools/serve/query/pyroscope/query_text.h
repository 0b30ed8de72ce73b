/*
 * What Pyroscope's clients write for a query: a service with the short name of what was measured, or the id of a
 * profile type, before a selector. And the other way round: ids of profile types for our kinds.
 *
 *   svc.cpu{version=1.2.3}    svc    svc{device=~"pi-.*"}
 *   process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="svc"}
 *   {__profile_type__="memory:alloc_space:bytes:space:bytes",service_name="svc"}
 */
#ifndef ET_QUERY_TEXT_H
#define ET_QUERY_TEXT_H

#include "tools/lib/kinds.h"
#include "tools/store/query_builder.h"

/* Adds to what is there. A suffix that names nothing measured belongs to the service. false: not of that form,
 * wanted->why says in what way. */
bool et_wanted_query(struct et_query_builder *wanted, const char *text);

/* Parts of a profile type's id, name:sample_type:sample_unit:period_type:period_unit. Zeroed: nothing. */
struct et_type {
    char *id, *name, *sample, *unit, *period, *period_unit;
};

/* What a kind's value or its count is called. unit: of a kind that kinds.h does not know. false: the kind has no such
 * figure. et_type_free() it. */
bool et_type_of(const char *kind, const char *unit, bool count, struct et_type *type);
/* The same of an id as clients write it, .NET's and others' names too. false: not of that form. */
bool et_type_parse(const char *id, struct et_type *type);
void et_type_free(struct et_type *type);

/* Kind and measure that a type means. Types of others that mean the same as ours are ours. */
void et_wanted_type(struct et_query_builder *wanted, const struct et_type *type);

#endif
