/* The table of options: each command's getopt array, its --help, the manual page and the completions come from it. */
#ifndef ET_OPTION_TABLE_H
#define ET_OPTION_TABLE_H

#include "tools/cmd/options.h"

#include <stddef.h>

/* One row an option; an option that means different things to different commands has a row for each meaning. */
struct et_option {
    const char *name;     /* without "--"; NULL: a heading, help is its text */
    char letter;          /* the short option; 0: none */
    const char *argument; /* as in --help, "FILE"; NULL: the option has none */
    const char *values;   /* what completion offers: "file", "folder" or the words; NULL: nothing */
    bool (*set)(const char *value, void *field, struct et_options *out); /* false: invalid */
    size_t field;                                                        /* its offset in struct et_options */
    uint32_t commands;                                                   /* a bit ET_BIT_IDENTIFIER for each */
    const char *help;                                                    /* whole sentences */
};

extern const struct et_option et_option_table[];
extern const size_t et_option_count;

#endif
