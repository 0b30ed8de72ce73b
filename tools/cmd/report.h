/* The parts of `edgeprof report`. Each adds sentences about one service; a part without data says so. */
#ifndef ET_CMD_REPORT_H
#define ET_CMD_REPORT_H

#include "tools/cmd/notes.h"
#include "tools/cmd/options.h"

struct et_report {
    const struct et_options *options;
    struct et_query query;      /* the service, times and tags */
    struct et_symbols *symbols; /* NULL with --url */
    struct et_notes *notes;
    size_t unnamed; /* functions with CPU time and without a name, and their share in per cent */
    double unnamed_share;
    const char *place; /* options of commands that select the same: " --service svc --last 1d" */
};

/* Adds an argument as a shell takes it. */
void et_report_word(struct et_buf *out, const char *word);

/* Adds the CPU time in functions without a name, which et_report_kinds() has found. */
void et_report_unnamed(struct et_report *report);

/* Return ET_OK, or an exit code whose error was reported. */
int et_report_kinds(struct et_report *report);
int et_report_versions(struct et_report *report, const char *kind);
int et_report_leaks(struct et_report *report);
int et_report_crashes(struct et_report *report);
int et_report_incidents(struct et_report *report);
int et_report_devices(struct et_report *report);

/* Reads an answer of the API for report->query. Returns an exit code; reports errors. json_decref() *document. */
int et_report_ask(const struct et_report *report, const char *path, et_source_call *call, const void *context,
                  json_t **document);
/* The same of an answer that came: it becomes *document, and its text is freed. */
int et_report_read(int code, struct et_buf *text, json_t **document);

#endif
