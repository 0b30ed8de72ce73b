/* A table of every public function of the library, which public_functions.py writes from the headers. */
#ifndef PUBLIC_FUNCTIONS_H
#define PUBLIC_FUNCTIONS_H

struct public_function {
    const char *name; /* NULL: the end of the table */
    void (*address)(void);
};
extern const struct public_function public_functions[];

#endif
