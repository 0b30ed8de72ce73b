/* Answers of the API that two commands print: verdict and leaks themselves, and report in a sentence. */
#ifndef ET_ANSWERS_H
#define ET_ANSWERS_H

#include "tools/cmd/options.h"
#include "tools/serve/query/versions.h"

struct et_verdict_call {
    struct et_symbols *symbols; /* NULL with --url */
    struct et_versions_request request;
};

/* The answers of /api/verdict and /api/leaks as text. Return an exit code; report errors. */
int et_verdict_ask(const struct et_options *options, const struct et_query *query, const struct et_verdict_call *call,
                   struct et_buf *text);
int et_leaks_ask(const struct et_options *options, const struct et_query *query, struct et_symbols *symbols,
                 struct et_buf *text);

/* Returns the exit code of an answer of /api/verdict, and unless ET_OK appends it in words. */
int et_verdict_judge(const json_t *document, struct et_buf *out);

/* A rate of a place as "+1.00MiB", "?" when it is unknown. */
void et_leaks_rate(const json_t *row, const char *name, const char *unit, char text[40]);

#endif
