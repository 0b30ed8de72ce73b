/* See foreign.h. */
#include "tools/formats/foreign.h"
#include "tools/formats/foreign_pprof.h"

#include <string.h>

static bool is_speedscope(const char *bytes, size_t size)
{
    static const char schema[] = "www.speedscope.app/file-format-schema.json";
    size_t blanks = 0;
    while (blanks < size && strchr(" \t\r\n", bytes[blanks]) && bytes[blanks]) {
        blanks++;
    }
    return blanks < size && bytes[blanks] == '{' && memmem(bytes, size, schema, sizeof schema - 1);
}

enum et_foreign et_foreign_recognize(const char *bytes, size_t size)
{
    static const char heap[] = "heap profile:";
    return size >= sizeof heap - 1 && memcmp(bytes, heap, sizeof heap - 1) == 0 ? ET_FOREIGN_HEAP
           : et_gperftools_cpu_is(bytes, size)                                  ? ET_FOREIGN_CPU
           : is_speedscope(bytes, size)                                         ? ET_FOREIGN_SPEEDSCOPE
           : et_perf_script_is(bytes, size)                                     ? ET_FOREIGN_PERF
                                                                                : ET_FOREIGN_NONE;
}

bool et_foreign_read(enum et_foreign format, const char *bytes, size_t size, struct et_buf *pprof, struct et_buf *why)
{
    static bool (*const readers[])(const char *, size_t, struct et_foreign_pprof *,
                                   struct et_buf *) = {[ET_FOREIGN_PERF] = et_perf_script_read,
                                                       [ET_FOREIGN_SPEEDSCOPE] = et_speedscope_read,
                                                       [ET_FOREIGN_CPU] = et_gperftools_cpu_read,
                                                       [ET_FOREIGN_HEAP] = et_gperftools_heap_read};
    struct et_foreign_pprof built = {0};
    bool ok = format != ET_FOREIGN_NONE && readers[format](bytes, size, &built, why);
    if (ok ? built.sample_count == 0 : why->size == 0) {
        why->size = 0;
        et_buf_text(why, "it has no samples");
        ok = false;
    }
    if (ok) {
        et_foreign_encode(&built, pprof);
    }
    et_foreign_free(&built);
    return ok;
}
