/* Prints the tables of commands and options: as `--help`, and for the programs that make the manual page and
 * completions. */
#ifndef ET_HELP_H
#define ET_HELP_H

#include "tools/cmd/commands.h"
#include "tools/lib/util.h"

/* Appends the text of `edgeprof --help`. */
void et_help_print_all(struct et_buf *out);

/* Appends the text of `edgeprof COMMAND --help`. */
void et_help_print(const struct et_command *command, struct et_buf *out);

/* Appends the tables for a program, one row a line, the fields separated by tabs:
 *
 *   summary TEXT
 *   command NAME TEXT WORDS BEFORE             WORDS: what may follow, "file" or words; BEFORE: "1": another command
 * line usage TEXT about TEXT                                 a line before the options; empty between paragraphs
 *   heading TEXT                               of a group of options
 *   option --NAME -LETTER ARGUMENT VALUES TEXT VALUES: "", "file", "folder", "any" or words
 *   end TEXT                                   a line after the options
 */
void et_help_describe(struct et_buf *out);

#endif
