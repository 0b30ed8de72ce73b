/* See report.h: what uses CPU time, memory, locks and waits, by kind, and the kinds without data. */
#include "tools/cmd/report.h"
#include "tools/formats/report.h"
#include "tools/lib/kinds.h"
#include "tools/profile/callers.h"

#include <string.h>

enum { NAMES_SHOWN = 3 };

static bool is_address(const char *name)
{
    const char *plus = strrchr(name, '+');
    return plus && strncmp(plus, "+0x", 3) == 0 && plus[3] && plus[3 + strspn(plus + 3, "0123456789abcdef")] == '\0';
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

/* "`hot` 60.4 %, `warm` 37.5 %, 55 others 2.1 %". */
static void write_hottest(const struct et_profile *profile, const struct et_table *table, struct et_buf *out)
{
    uint64_t rest = profile->total;
    size_t shown = 0;
    for (; shown < table->count && shown < NAMES_SHOWN && table->rows[shown].self; shown++) {
        const struct et_function *row = &table->rows[shown];
        et_buf_text(out, shown ? ", " : ": ");
        et_notes_name(out, et_text(&profile->strings, row->function));
        et_buf_printf(out, " %.1f %%", percent(row->self, profile->total));
        rest -= row->self;
    }
    if (shown < table->count && rest) {
        et_buf_printf(out, ", %zu others %.1f %%", table->count - shown, percent(rest, profile->total));
    }
}

/* "; most of the first through `locked` > `pthread_mutex_lock`": its callers on the hottest way, outermost first. */
static void write_way(const struct et_profile *profile, const struct et_table *table, struct et_buf *out)
{
    enum { CALLS = 64 };
    struct et_callers callers;
    et_callers_make(profile, et_text(&profile->strings, table->rows[0].function), CALLS, &callers);
    const struct et_call *calls = callers.callers.calls;
    uint32_t inner = callers.callers.count > 1 ? calls[0].first_child : 0, outer = inner ? calls[inner].first_child : 0;
    if (inner) {
        et_buf_text(out, "; most of the first through ");
    }
    if (outer) {
        et_notes_name(out, et_text(&profile->strings, calls[outer].function));
        et_buf_text(out, " > ");
    }
    if (inner) {
        et_notes_name(out, et_text(&profile->strings, calls[inner].function));
    }
    et_callers_free(&callers);
}

/* CPU time in functions that have an address for a name. */
static void sum_unnamed(struct et_report *report, const struct et_profile *profile, const struct et_table *table)
{
    uint64_t unnamed = 0;
    for (size_t i = 0; i < table->count; i++) {
        if (is_address(et_text(&profile->strings, table->rows[i].function))) {
            unnamed += table->rows[i].self;
            report->unnamed++;
        }
    }
    report->unnamed_share = percent(unnamed, profile->total);
}

void et_report_unnamed(struct et_report *report)
{
    double share = report->unnamed_share;
    if (share >= 0.05) {
        struct et_note *note = et_notes_add(report->notes, "Not measured", share >= 10, share, "percent");
        et_buf_printf(&note->text,
                      "%.1f %% of the CPU time is in %zu functions without a name, because symbols are missing", share,
                      report->unnamed);
        et_buf_printf(&note->command, "top --focus '\\+0x'%s", report->place);
    }
}

static void add_profile(struct et_report *report, const char *section, const char *kind, struct et_profile *profile)
{
    struct et_table table;
    struct et_note *note = et_notes_add(report->notes, section, false, (double)profile->total,
                                        et_text(&profile->strings, profile->unit)[0] == 'b'   ? "bytes"
                                        : et_text(&profile->strings, profile->unit)[0] == 'n' ? "nanoseconds"
                                                                                              : "count");
    et_table_make(profile, &table);
    profile->service = 0;
    et_report_total(profile, &note->text);
    write_hottest(profile, &table, &note->text);
    if (table.count && strcmp(kind, ET_CPU) != 0) { /* the leaf is a class of waits, or a type */
        write_way(profile, &table, &note->text);
    }
    et_buf_printf(&note->command, "top --kind %s%s", kind, report->place);
    if (strcmp(kind, ET_CPU) == 0) {
        sum_unnamed(report, profile, &table);
    }
    et_table_free(&table);
}

static const struct {
    const char *kind, *section, *needs;
} parts[] = {{"cpu", "CPU", ""},
             {"lock", "Locks and waits", "contended locks: level medium"},
             {"wait", "Locks and waits", "waits: level high"},
             {"gc", "Locks and waits", "pauses of .NET's garbage collector"},
             {"alloc", "Memory", "allocations: .NET, or `edgeprof run --native-memory`"},
             {"live", "Memory", "the live heap: .NET, or `edgeprof run --native-memory`"},
             {"heap", "Memory", "heap sizes of .NET"},
             {"write", "Files", "bytes written to files: level high"},
             {"sync", "Files", "fsync() and the like: level high"},
             {"exception", "Exceptions", "exceptions of .NET"}};

int et_report_kinds(struct et_report *report)
{
    struct et_buf missing = {0};
    size_t count = 0;
    int code = ET_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !code; i++) {
        struct et_profile *profile = NULL;
        struct et_query query = report->query;
        query.kind = parts[i].kind;
        code = et_options_fetch(report->options, &query, &profile);
        if (!code && profile->total) {
            et_options_symbolize(report->options, profile);
            add_profile(report, parts[i].section, parts[i].kind, profile);
        } else if (!code) {
            et_buf_printf(&missing, "%s%s%s%s%s", count++ ? "; " : "", parts[i].kind, *parts[i].needs ? " (" : "",
                          parts[i].needs, *parts[i].needs ? ")" : "");
        }
        et_profile_free(profile);
    }
    if (count && !code) {
        struct et_note *note = et_notes_add(report->notes, "Not measured", false, (double)count, "kinds");
        et_buf_printf(&note->text, "%zu kinds have no data: %s", count, missing.data);
        et_buf_text(&note->command, "query services --service ");
        et_report_word(&note->command, report->query.service);
    }
    et_buf_free(&missing);
    return code;
}
