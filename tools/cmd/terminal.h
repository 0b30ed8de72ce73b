/*
 * A terminal taken over for a while: another screen, keys one by one. It is given back as it was on every way out:
 * return, exit(), Ctrl-C, Ctrl-Z, kill, a crash.
 *
 * Context: one thread.
 */
#ifndef ET_TERMINAL_H
#define ET_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

enum et_key {
    ET_KEY_NONE, /* the time is up */
    ET_KEY_UP = 256,
    ET_KEY_DOWN,
    ET_KEY_PAGE_UP,
    ET_KEY_PAGE_DOWN,
    ET_KEY_HOME,
    ET_KEY_DRAW,  /* the terminal's size has changed, or the program was stopped */
    ET_KEY_GONE,  /* nobody can press any more */
    ET_KEY_OTHER, /* one that has no name here */
};

/* false: standard input or output is no terminal, or one that can do nothing. */
bool et_terminal_open(void);
void et_terminal_close(void);

/* Waits for a key: a character, or one of enum et_key. */
int et_terminal_key(long ms);

void et_terminal_size(size_t *rows, size_t *columns);

#endif
