/* A group of OTLP profiles that become one profile per kind again; for otlp_profile.c. */
#ifndef ET_OTLP_GROUP_H
#define ET_OTLP_GROUP_H

#include "tools/formats/otlp_read.h"
#include "tools/formats/pprof_read.h"

struct et_otlp_source {
    const Otlp__ProfilesDictionary *d;
    size_t left;        /* bytes of the limit */
    struct et_buf *why; /* what was left out; the first reason */
    size_t refused;     /* profiles that were left out */
};

/* Sample and period type in pprof's names. */
struct et_otlp_types {
    const char *type, *unit, *period, *period_unit;
    const char *family; /* of the profile types' ids */
};

/* The first sample of a row: the others have the same stack and labels. */
struct et_otlp_row {
    const Otlp__Profile *profile;
    const Otlp__Sample *sample;
    bool broken; /* too many frames or labels */
};

struct et_otlp_group {
    char *service;
    const Otlp__Profile *first; /* has the interval and the period of all */
    struct et_otlp_types types[ET_PPROF_KINDS];
    uint64_t *values[ET_PPROF_KINDS]; /* one per row */
    size_t capacity[ET_PPROF_KINDS], type_count;
    struct et_strings keys; /* of rows, in order, from 1 */
    struct et_otlp_row *rows;
    size_t row_capacity;
    struct et_map locations;           /* index in the dictionary -> first of its places for frames + 1 */
    struct et_map mappings, functions; /* index in the dictionary -> 1: counted against the limit */
    size_t places;                     /* for frames: one a line, or one a location without lines */
};

/* Counts size bytes against the limit. */
static inline void et_otlp_use(struct et_otlp_source *source, size_t size)
{
    source->left = size < source->left ? source->left - size : 0;
}

static inline const char *et_otlp_text(const struct et_otlp_source *source, int32_t index)
{
    return source->d->string_table[index];
}

/* Whether an index refers to an element. 0 stands for "none", unless a sender has a real element there. */
static inline bool et_otlp_is_function(const struct et_otlp_source *source, int32_t index)
{
    const Otlp__Function *f = source->d->n_function_table ? source->d->function_table[index] : NULL;
    return f && (index || f->name_strindex || f->system_name_strindex || f->filename_strindex);
}

static inline bool et_otlp_is_mapping(const struct et_otlp_source *source, int32_t index)
{
    const Otlp__Mapping *m = source->d->n_mapping_table ? source->d->mapping_table[index] : NULL;
    return m && (index || m->filename_strindex || m->memory_limit || m->n_attribute_indices);
}

/* The unit of the period, in our units (kinds.h); *factor: the size of the sender's unit in it. */
static inline const char *et_otlp_period_unit(const struct et_otlp_source *source, const Otlp__Profile *profile,
                                              uint64_t *factor)
{
    const Otlp__ValueType *type = profile->period_type;
    return et_unit_base(type ? et_otlp_text(source, type->unit_strindex) : "", factor);
}

/* The key of an attribute; "": none. */
const char *et_otlp_key(const struct et_otlp_source *source, int32_t index);

/* The number of lines with a function; 0: the location is a frame without a name. At most ET_PPROF_FRAMES. */
size_t et_otlp_lines(const struct et_otlp_source *source, const Otlp__Location *location);

/* The stack of a sample; without a stack table an empty one. */
const Otlp__Stack *et_otlp_stack(const struct et_otlp_source *source, const Otlp__Sample *sample);

/* Calls add() for each label of a row. */
typedef void et_otlp_label(void *context, const char *key, const char *value);
void et_otlp_for_labels(const struct et_otlp_source *source, const struct et_otlp_row *row, et_otlp_label *add,
                        void *context);

/* The number of the sample's row, from 0; adds it when it is new. */
size_t et_otlp_add_row(struct et_otlp_source *source, struct et_otlp_group *group, const Otlp__Profile *profile,
                       const Otlp__Sample *sample);

/* Calls take() for a profile of each kind. Broken rows, and kinds whose values are too large, are left out. */
void et_otlp_finish_group(struct et_otlp_source *source, const struct et_otlp_group *group, const char *tags,
                          et_otlp_take *take, void *context);
void et_otlp_free_group(struct et_otlp_group *group);

#endif
