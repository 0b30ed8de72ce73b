/* See kinds.h. The pprof names are those of Go programs, which every backend knows. */
#include "tools/lib/kinds.h"

#include <stdio.h>
#include <string.h>

const struct et_kind et_kinds[] = {
    {1, "cpu", "CPU time", "nanoseconds", "samples", "process_cpu", "samples", "cpu", "cpu", "nanoseconds", false},
    {0, ET_WALL, "Wall time", "nanoseconds", "", "wall", "", "wall", "cpu", "nanoseconds", false},
    {2, "wait", "Waiting", "nanoseconds", "waits", "block", "contentions", "delay", "contentions", "count", false},
    {3, "lock", "Locks", "nanoseconds", "contentions", "mutex", "contentions", "delay", "contentions", "count", false},
    {4, "alloc", "Allocation", "bytes", "objects", "memory", "alloc_objects", "alloc_space", "space", "bytes", false},
    {5, "live", "Live heap", "bytes", "objects", "memory", "inuse_objects", "inuse_space", "space", "bytes", true},
    {6, "exception", "Exceptions", "count", "", "exception", "exception", "", "exception", "count", false},
    {7, "gc", "GC pauses", "nanoseconds", "pauses", "gc", "pauses", "pause", "pause", "nanoseconds", false},
    {8, "thread", "Threads", "count", "", "goroutine", "goroutine", "", "goroutine", "count", false},
    {9, "heap", "GC heap", "bytes", "", "gc_heap", "", "heap_size", "space", "bytes", true},
};
const size_t et_kind_count = sizeof et_kinds / sizeof *et_kinds;

/* Other programs' sample types for the same kinds. */
static const struct {
    const char *type, *kind;
    bool count;
} foreign_types[] = {
    {"cpu_samples", "cpu", true},        {"alloc_samples", "alloc", true},  {"alloc_size", "alloc", false},
    {"lock_count", "lock", true},        {"lock_time", "lock", false},      {"mutex_count", "lock", true},
    {"mutex_contentions", "lock", true}, {"mutex_duration", "lock", false}, {"mutex_delay", "lock", false},
    {"block_count", "wait", true},       {"block_duration", "wait", false}, {"block_contentions", "wait", true},
    {"block_delay", "wait", false},      {"goroutines", "thread", true},    {"threads", "thread", true},
    {"exceptions", "exception", true},
};

const struct et_kind *et_kind_named(const char *name)
{
    for (size_t i = 0; i < et_kind_count; i++) {
        if (strcmp(et_kinds[i].name, name) == 0) {
            return &et_kinds[i];
        }
    }
    return NULL;
}

const struct et_kind *et_kind_numbered(uint32_t number)
{
    for (size_t i = 0; i < et_kind_count; i++) {
        if (number && et_kinds[i].number == number) {
            return &et_kinds[i];
        }
    }
    return NULL;
}

const struct et_kind *et_kind_of_pprof(const char *hint, const char *type, const char *unit, bool *is_count)
{
    const struct et_kind *found = NULL;
    for (size_t i = 0; i < et_kind_count; i++) {
        const struct et_kind *kind = &et_kinds[i];
        bool count = kind->count[0] && strcmp(kind->count, type) == 0 && strcmp(unit, "count") == 0;
        bool value = kind->value[0] && strcmp(kind->value, type) == 0 && strcmp(unit, kind->unit) == 0;
        /* Without a hint, contentions are lock contentions. */
        if ((count || value) && (!found || strcmp(kind->family, hint) == 0 || strcmp(found->family, hint) != 0)) {
            found = kind;
            *is_count = count && kind->value[0];
        }
    }
    for (size_t i = 0; i < sizeof foreign_types / sizeof *foreign_types && !found; i++) {
        const struct et_kind *kind = et_kind_named(foreign_types[i].kind);
        if (strcmp(foreign_types[i].type, type) == 0 &&
            strcmp(unit, foreign_types[i].count ? "count" : kind->unit) == 0) {
            found = kind;
            *is_count = foreign_types[i].count && kind->value[0];
        }
    }
    return found;
}

/* Pyroscope's .NET profiler has other families for the same kinds. */
static bool means_family(const struct et_kind *known, const struct et_kind_id *id)
{
    static const struct {
        const char *family, *kind;
    } foreign[] = {{"alloc", "alloc"}, {"heap", "live"}, {"lock", "lock"}};
    bool same = strcmp(id->family, known ? known->family : id->type) == 0;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign && known && !same; i++) {
        same = strcmp(foreign[i].family, id->family) == 0 && strcmp(foreign[i].kind, known->name) == 0;
    }
    return same;
}

bool et_kind_keeps_id(const struct et_kind *known, const struct et_kind_id *id, char name[ET_KIND_NAME])
{
    const char *period = known ? known->period : id->type, *period_unit = known ? known->period_unit : id->unit;
    bool cpu_time = known && strcmp(id->period, "cpu") == 0; /* .NET's has this period with all types */
    bool same_period = cpu_time || (strcmp(id->period, period) == 0 && strcmp(id->period_unit, period_unit) == 0);
    if (!id->period[0] || (same_period && means_family(known, id))) {
        return false; /* without a period it is no id that one could ask for */
    }
    int size =
        snprintf(name, ET_KIND_NAME, "%s:%s:%s:%s:%s", id->family, id->type, id->unit, id->period, id->period_unit);
    return id->family[0] && id->type[0] && size > 0 && size < ET_KIND_NAME;
}

void et_value_text(uint64_t value, const char *unit, char text[32])
{
    static const struct {
        double size;
        const char *unit, *name;
    } units[] = {
        {3600e9, "nanoseconds", "h"},   {60e9, "nanoseconds", "min"}, {1e9, "nanoseconds", "s"},
        {1e6, "nanoseconds", "ms"},     {1e3, "nanoseconds", "us"},   {1099511627776.0, "bytes", "TiB"},
        {1073741824.0, "bytes", "GiB"}, {1048576.0, "bytes", "MiB"},  {1024.0, "bytes", "KiB"},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(unit, units[i].unit) == 0 && (double)value >= units[i].size) {
            snprintf(text, 32, "%.2f%s", (double)value / units[i].size, units[i].name);
            return;
        }
    }
    const char *small = strcmp(unit, "nanoseconds") == 0 ? "ns" : strcmp(unit, "bytes") == 0 ? "B" : "";
    snprintf(text, 32, "%llu%s", (unsigned long long)value, value ? small : "");
}

const char *et_loss_name(uint32_t reason)
{
    static const char *const names[] = {
#define EP_NAME_LOSS(identifier, number, name, meaning) [number] = (name),
#include "core/proto/names.def"
    };
    return reason < sizeof names / sizeof *names ? names[reason] : "other";
}
