/* Builds a query from the text of options and requests: services with tags, labels, kinds, measures. */
#ifndef ET_QUERY_BUILDER_H
#define ET_QUERY_BUILDER_H

#include "tools/store/store.h"
#include "tools/store/query_builder.h"

/* A query that owns its strings. Zeroed: everything. */
struct et_query_builder {
    struct et_selector selector;
    char *kind, *group;
    int64_t *ids; /* of query.ids */
    struct et_query query;
    const char *why; /* describes the last invalid text (static) */
};

/* "service", "service{key=value,other=~"regex"}", "{key!=value}"; adds the matchers. False: malformed. */
bool et_query_builder_name(struct et_query_builder *wanted, const char *name);
/* "key=value" of processes; accepts the other operators of selectors. */
bool et_query_builder_tag(struct et_query_builder *wanted, const char *tag);
/* "key=value" of stacks, else of their process. */
bool et_query_builder_label(struct et_query_builder *wanted, const char *label);
/* Groups by one more label; "": by no other. */
void et_query_builder_group(struct et_query_builder *wanted, const char *key);
/* "value", "bytes", "time" or "count", "objects" and the like; "": the default. */
bool et_query_builder_measure(struct et_query_builder *wanted, const char *word);
void et_query_builder_kind(struct et_query_builder *wanted, const char *kind);
void et_query_builder_free(struct et_query_builder *wanted);

#endif
