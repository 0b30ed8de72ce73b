/* See notes.h. */
#include "tools/cmd/notes.h"
#include "tools/lib/json_write.h"

#include <stdlib.h>
#include <string.h>

enum { NAME = 60, LAST_LINE = 100 };

struct et_note *et_notes_add(struct et_notes *notes, const char *section, bool look, double value, const char *unit)
{
    notes->notes = et_reserve(notes->notes, &notes->capacity, notes->count + 1, sizeof *notes->notes);
    struct et_note *note = &notes->notes[notes->count++];
    *note = (struct et_note){.section = section, .look = look, .value = value, .unit = unit};
    return note;
}

void et_notes_free(struct et_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++) {
        et_buf_free(&notes->notes[i].text);
        et_buf_free(&notes->notes[i].command);
    }
    free(notes->notes);
    *notes = (struct et_notes){0};
}

/* The bytes of the name's first NAME characters. */
static size_t cut_name(const char *name)
{
    size_t size = 0, characters = 0;
    for (; name[size]; size++) {
        characters += ((unsigned char)name[size] & 0xc0) != 0x80;
        if (characters > NAME) {
            break;
        }
    }
    return size;
}

void et_notes_name(struct et_buf *out, const char *name)
{
    char *clean = et_clean(name, strlen(name));
    size_t size = cut_name(clean);
    for (char *at = strchr(clean, '`'); at; at = strchr(at, '`')) {
        *at = '\'';
    }
    et_buf_printf(out, "`%.*s%s`", (int)size, clean, clean[size] ? "..." : "");
    free(clean);
}

/* ---- Markdown ---- */

struct page {
    const struct et_notes *notes;
    struct et_buf *out;
    size_t end, left_out; /* of the page; sentences */
    bool full;            /* nothing is added behind what did not fit */
};

/* Appends text between so many backquotes that none in it ends it. */
static void add_code(struct et_buf *out, const char *text)
{
    size_t longest = 0, run = 0;
    for (const char *at = text; *at; at++) {
        run = *at == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (size_t i = 0; i < 2 * (longest + 1); i++) {
        et_buf_text(out, i == longest + 1 ? text : "");
        et_buf_char(out, '`');
    }
}

static void add_note(struct page *page, const char *heading, const struct et_note *note)
{
    struct et_buf line = {0};
    struct et_buf command = {0};
    et_buf_printf(&line, "%s%s%s- %s (", heading ? "\n## " : "", heading ? heading : "", heading ? "\n" : "",
                  note->text.data ? note->text.data : "");
    et_buf_printf(&command, "edgeprof %s", note->command.data ? note->command.data : "");
    add_code(&line, command.data);
    et_buf_text(&line, ")\n");
    et_buf_free(&command);
    page->full |= page->out->size + line.size > page->end;
    if (page->full) {
        page->left_out++;
    } else {
        et_buf_add(page->out, line.data, line.size);
    }
    et_buf_free(&line);
}

static bool is_first_of_section(const struct et_notes *notes, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (!notes->notes[i].look && strcmp(notes->notes[i].section, notes->notes[index].section) == 0) {
            return false;
        }
    }
    return true;
}

static void add_section(struct page *page, size_t first)
{
    const char *section = page->notes->notes[first].section, *heading = section;
    for (size_t i = first; i < page->notes->count; i++) {
        const struct et_note *note = &page->notes->notes[i];
        if (!note->look && strcmp(note->section, section) == 0) {
            add_note(page, heading, note);
            heading = NULL;
        }
    }
}

void et_notes_markdown(const struct et_notes *notes, const char *title, struct et_buf *out)
{
    struct page page = {.notes = notes, .out = out, .end = out->size + ET_NOTES_PAGE - LAST_LINE};
    const char *heading = "Look at this";
    et_buf_text(out, title);
    for (size_t i = 0; i < notes->count; i++) {
        if (notes->notes[i].look) {
            add_note(&page, heading, &notes->notes[i]);
            heading = NULL;
        }
    }
    if (heading) {
        et_buf_text(out, "\nNothing stands out.\n");
    }
    for (size_t i = 0; i < notes->count; i++) {
        if (!notes->notes[i].look && is_first_of_section(notes, i)) {
            add_section(&page, i);
        }
    }
    if (page.left_out) {
        et_buf_printf(out, "\n%zu more %s left out; `edgeprof report --json` has all.\n", page.left_out,
                      page.left_out == 1 ? "sentence is" : "sentences are");
    }
}

/* ---- JSON ---- */

void et_notes_json(const struct et_notes *notes, struct et_buf *out)
{
    et_buf_text(out, ",\n\"notes\":[");
    for (size_t i = 0; i < notes->count; i++) {
        const struct et_note *note = &notes->notes[i];
        et_buf_text(out, i ? ",\n{\"section\":" : "\n{\"section\":");
        et_json_string(out, note->section);
        et_buf_printf(out, ",\"look\":%s,\"value\":%.9g,\"unit\":", note->look ? "true" : "false", note->value);
        et_json_string(out, note->unit);
        et_buf_text(out, ",\"text\":");
        et_json_string(out, note->text.data ? note->text.data : "");
        struct et_buf command = {0};
        et_buf_printf(&command, "edgeprof %s", note->command.data ? note->command.data : "");
        et_buf_text(out, ",\"command\":");
        et_json_string(out, command.data);
        et_buf_free(&command);
        et_buf_char(out, '}');
    }
    et_buf_char(out, ']');
}
