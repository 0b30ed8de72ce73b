/*
 * Terminal control for a full-screen program: alternate screen, single keys. The terminal is restored on every exit:
 * return, exit(), Ctrl-C, Ctrl-Z, kill, a crash.
 *
 * Context: one thread.
 */
#ifndef ET_TERMINAL_H
#define ET_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

enum et_key {
    ET_KEY_NONE, /* timeout */
    ET_KEY_UP = 256,
    ET_KEY_DOWN,
    ET_KEY_PAGE_UP,
    ET_KEY_PAGE_DOWN,
    ET_KEY_HOME,
    ET_KEY_DRAW,  /* redraw: the size has changed, or the program was continued */
    ET_KEY_GONE,  /* end of input */
    ET_KEY_OTHER, /* a key without a name here */
};

/* False: standard input or output is not a terminal, or a dumb one. */
bool et_terminal_open(void);
void et_terminal_close(void);

/* Waits for a key: a character, or one of enum et_key. */
int et_terminal_key(long ms);

void et_terminal_size(size_t *rows, size_t *columns);

#endif
