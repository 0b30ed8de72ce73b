/*
 * Function names for pprof messages: what an encoder asks, and who answers.
 */
#ifndef EP_DATA_NAMING_H
#define EP_DATA_NAMING_H

#include <stddef.h>
#include <stdint.h>

struct ep_deadline;

/* A place in a file. */
struct ep_place {
    const uint8_t *build_id;
    const char *path;
    size_t build_id_size;
    uint64_t address; /* ELF */
    unsigned hint;    /* used by find(); 0 before the first call for a module */
};

#define EP_NAMED_MOST      1536u /* maximum number of functions with a name of their own */
#define EP_NAMED_LOCATIONS 8192u /* named locations of a message; further ones are named by their address */

/* What an encoder knows about the message that it writes with names. */
struct ep_named {
    unsigned count;                       /* functions with names */
    uint16_t of[EP_NAMED_LOCATIONS];      /* function of each location, from 1 on; 0: its address is its name */
    uint16_t name[EP_NAMED_MOST];         /* name of each function */
    uint16_t function[EP_NAMED_MOST + 1]; /* function with a name; 0: none yet */
};

/*
 * Finds function names, for servers that cannot symbolize; implemented by ep_names_process
 * (core/features/names/names.c).
 *
 * begin  starts another message; names not found before the deadline, which may be made earlier, are missing
 * find   the number of the name of the function at a place, 1..EP_NAMED_MOST; 0: none
 * text   the name with that number, valid until the next begin
 * memory the encoder's memory, the same at each call; NULL: the system has none, and nothing else may be called
 * Context: deliver.
 */
struct ep_names {
    void (*begin)(const struct ep_deadline *deadline);
    unsigned (*find)(struct ep_place *place);
    const char *(*text)(unsigned name);
    struct ep_named *(*memory)(void);
};

#endif
