/* See kinds.h. The pprof names are those of Go programs, which every backend knows. */
#include "tools/lib/kinds.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

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
    {10, "write", "File writes", "bytes", "writes", "write", "writes", "written", "space", "bytes", false},
    {11, "sync", "File syncs", "nanoseconds", "syncs", "sync", "syncs", "sync_time", "sync_time", "nanoseconds", false},
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

/* Of units with more than two bytes the final s is left out. */
static const struct {
    const char *name;
    uint64_t factor;
} times[] = {{"ns", 1},
             {"nanosecond", 1},
             {"us", 1000},
             {"\u03bc", 1000}, /* Greek mu */
             {"\u00b5", 1000}, /* the micro sign */
             {"microsecond", 1000},
             {"ms", 1000000},
             {"millisecond", 1000000},
             {"s", 1000000000},
             {"sec", 1000000000},
             {"second", 1000000000},
             {"min", 60000000000},
             {"minute", 60000000000},
             {"hr", 3600000000000},
             {"hour", 3600000000000}};

/* 1024 each: "k" of "kb", "kbyte", "kilobyte". */
static const struct {
    const char *letter, *word;
} memory[] = {{"", ""}, {"k", "kilo"}, {"m", "mega"}, {"g", "giga"}, {"t", "tera"}, {"p", "peta"}};

static bool is_unit(const char *unit, size_t size, const char *prefix, const char *name)
{
    size_t start = strlen(prefix);
    return size == start + strlen(name) && strncasecmp(unit, prefix, start) == 0 &&
           strncasecmp(unit + start, name, size - start) == 0;
}

const char *et_unit_base(const char *unit, uint64_t *factor)
{
    size_t size = strlen(unit);
    size -= size > 2 && (unit[size - 1] == 's' || unit[size - 1] == 'S');
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (is_unit(unit, size, "", times[i].name)) {
            *factor = times[i].factor;
            return "nanoseconds";
        }
    }
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        if (is_unit(unit, size, memory[i].letter, "b") || is_unit(unit, size, memory[i].letter, "byte") ||
            is_unit(unit, size, memory[i].word, "byte")) {
            *factor = 1ULL << 10 * i;
            return "bytes";
        }
    }
    *factor = 1;
    return unit;
}

const struct et_kind *et_kind_of_pprof(const char *hint, const char *type, const char *unit, bool *is_count)
{
    const struct et_kind *found = NULL;
    uint64_t factor;
    unit = et_unit_base(unit, &factor);
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
    uint64_t factor;
    const char *unit = et_unit_base(id->unit, &factor), *sent_unit = et_unit_base(id->period_unit, &factor);
    const char *period = known ? known->period : id->type, *period_unit = known ? known->period_unit : unit;
    bool cpu_time = known && strcmp(id->period, "cpu") == 0; /* .NET's has this period with all types */
    bool same_period = cpu_time || (strcmp(id->period, period) == 0 && strcmp(sent_unit, period_unit) == 0);
    /* CPU and wall time mean the same in every family: Pyroscope's Node SDK sends both as wall:...:wall:nanoseconds. */
    bool is_time = known && (strcmp(known->name, ET_CPU) == 0 || strcmp(known->name, ET_WALL) == 0);
    bool time = is_time && (strcmp(id->type, known->value) == 0 ||
                            (strcmp(id->type, known->count) == 0 && strcmp(id->period, ET_WALL) == 0));
    if (!id->period[0] || time || (same_period && means_family(known, id))) {
        return false; /* without a period it is no id that one could ask for */
    }
    int size = snprintf(name, ET_KIND_NAME, "%s:%s:%s:%s:%s", id->family, id->type, unit, id->period, sent_unit);
    return id->family[0] && id->type[0] && size > 0 && size < ET_KIND_NAME;
}

void et_kind_title(const char *name, struct et_buf *out)
{
    const struct et_kind *known = et_kind_named(name);
    size_t family = strcspn(name, ":"), at = name[family] ? family + 1 : 0, type = strcspn(name + at, ":");
    size_t start = out->size;
    if (known) {
        et_buf_text(out, known->title);
        return;
    }
    et_buf_add(out, name + at, type);
    if (at && !(family == type && memcmp(name, name + at, type) == 0)) {
        et_buf_printf(out, " (%.*s)", (int)family, name);
    }
    for (size_t i = start; i < out->size; i++) {
        out->data[i] = out->data[i] == '_' ? ' ' : out->data[i];
    }
    if (out->size > start && out->data[start] >= 'a' && out->data[start] <= 'z') {
        out->data[start] = (char)(out->data[start] - 'a' + 'A');
    }
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

bool et_loss_kept(uint32_t reason)
{
    return reason == ET_LOSS_TREE_FULL || reason == ET_LOSS_ENTRIES_FULL || reason == ET_LOSS_MODULES_FULL ||
           reason == ET_LOSS_TAGS || reason == ET_LOSS_LABELS;
}
