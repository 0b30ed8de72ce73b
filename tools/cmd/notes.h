/* Sentences of a report, each with its figure and the command that shows more, as one page of Markdown or as JSON. */
#ifndef ET_NOTES_H
#define ET_NOTES_H

#include "tools/lib/util.h"

/* The size of a page in bytes. */
enum { ET_NOTES_PAGE = 4096 };

struct et_note {
    const char *section;         /* static */
    bool look;                   /* something to look at; it comes first */
    struct et_buf text, command; /* without line ends; the command without "edgeprof" */
    double value;
    const char *unit; /* static */
};

/* Zeroed: empty. */
struct et_notes {
    struct et_note *notes;
    size_t count, capacity;
};

/* Adds a sentence; its text and command are to be appended. Valid until the next call. */
struct et_note *et_notes_add(struct et_notes *notes, const char *section, bool look, double value, const char *unit);
void et_notes_free(struct et_notes *notes);

/* Appends a name for Markdown: `name`, cut after 60 characters. */
void et_notes_name(struct et_buf *out, const char *name);

/* Appends the page below its title: first what is to be looked at, then the sections in the order of their first
 * sentences. What does not fit is left out from the end and counted. */
void et_notes_markdown(const struct et_notes *notes, const char *title, struct et_buf *out);
/* Appends ,"notes":[...] with all of them. */
void et_notes_json(const struct et_notes *notes, struct et_buf *out);

#endif
