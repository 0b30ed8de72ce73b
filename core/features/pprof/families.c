/*
 * The value types of pprofs: a family of kinds for each pprof, with the names that Go profiles use.
 */
#include "core/features/pprof/parts.h"

const char ep_pprof_words[EP_TEXT_CLOCK][16] = {
    "",          "samples",       "count",       "cpu",           "nanoseconds", "contentions",
    "delay",     "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "bytes",
    "space",     "exception",     "pauses",      "pause",         "goroutine",   "heap_size",
    "span_id",   "trace_id",      "thread",      "writes",        "written",     "syncs",
    "sync_time",
};

static const struct ep_pprof_family families[] = {
    {"process_cpu",
     EP_KIND_BIT(EP_KIND_CPU),
     2,
     {EP_TEXT_SAMPLES, EP_TEXT_COUNT, EP_TEXT_CPU, EP_TEXT_NANOSECONDS},
     {EP_TEXT_CPU, EP_TEXT_NANOSECONDS},
     EP_TEXT_CPU,
     NULL},
    {"block",
     EP_KIND_BIT(EP_KIND_WAIT),
     2,
     {EP_TEXT_CONTENTIONS, EP_TEXT_COUNT, EP_TEXT_DELAY, EP_TEXT_NANOSECONDS},
     {EP_TEXT_CONTENTIONS, EP_TEXT_COUNT},
     EP_TEXT_DELAY,
     "edgeprof kind: wait"},
    {"mutex",
     EP_KIND_BIT(EP_KIND_LOCK),
     2,
     {EP_TEXT_CONTENTIONS, EP_TEXT_COUNT, EP_TEXT_DELAY, EP_TEXT_NANOSECONDS},
     {EP_TEXT_CONTENTIONS, EP_TEXT_COUNT},
     EP_TEXT_DELAY,
     "edgeprof kind: lock"},
    {"memory",
     EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE),
     4,
     {EP_TEXT_ALLOC_OBJECTS, EP_TEXT_COUNT, EP_TEXT_ALLOC_SPACE, EP_TEXT_BYTES, EP_TEXT_INUSE_OBJECTS, EP_TEXT_COUNT,
      EP_TEXT_INUSE_SPACE, EP_TEXT_BYTES},
     {EP_TEXT_SPACE, EP_TEXT_BYTES},
     EP_TEXT_INUSE_SPACE,
     NULL},
    {"exception",
     EP_KIND_BIT(EP_KIND_EXCEPTION),
     1,
     {EP_TEXT_EXCEPTION, EP_TEXT_COUNT},
     {EP_TEXT_CPU, EP_TEXT_NANOSECONDS},
     EP_TEXT_EXCEPTION,
     NULL},
    {"gc",
     EP_KIND_BIT(EP_KIND_GC),
     2,
     {EP_TEXT_PAUSES, EP_TEXT_COUNT, EP_TEXT_PAUSE, EP_TEXT_NANOSECONDS},
     {EP_TEXT_PAUSE, EP_TEXT_NANOSECONDS},
     EP_TEXT_PAUSE,
     NULL},
    {"goroutine",
     EP_KIND_BIT(EP_KIND_THREAD),
     1,
     {EP_TEXT_GOROUTINE, EP_TEXT_COUNT},
     {EP_TEXT_GOROUTINE, EP_TEXT_COUNT},
     EP_TEXT_GOROUTINE,
     NULL},
    {"gc_heap",
     EP_KIND_BIT(EP_KIND_HEAP),
     1,
     {EP_TEXT_HEAP_SIZE, EP_TEXT_BYTES},
     {EP_TEXT_SPACE, EP_TEXT_BYTES},
     EP_TEXT_HEAP_SIZE,
     NULL},
    {"write",
     EP_KIND_BIT(EP_KIND_WRITE),
     2,
     {EP_TEXT_WRITES, EP_TEXT_COUNT, EP_TEXT_WRITTEN, EP_TEXT_BYTES},
     {EP_TEXT_SPACE, EP_TEXT_BYTES},
     EP_TEXT_WRITTEN,
     NULL},
    {"sync",
     EP_KIND_BIT(EP_KIND_SYNC),
     2,
     {EP_TEXT_SYNCS, EP_TEXT_COUNT, EP_TEXT_SYNC_TIME, EP_TEXT_NANOSECONDS},
     {EP_TEXT_SYNC_TIME, EP_TEXT_NANOSECONDS},
     EP_TEXT_SYNC_TIME,
     NULL},
};

const struct ep_pprof_family *ep_pprof_family_of(uint32_t kinds)
{
    for (unsigned i = 0; i < sizeof families / sizeof families[0]; i++)
        if (kinds & families[i].kinds)
            return &families[i];
    return &families[0]; /* no kinds: an empty CPU profile */
}

uint32_t ep_pprof_together(uint32_t kinds)
{
    return ep_pprof_family_of(kinds)->kinds;
}

const char *ep_pprof_family(uint32_t kinds)
{
    return ep_pprof_family_of(kinds)->name;
}
