/* Finds the word that a mistyped one stands for: "did you mean --service?" */
#ifndef ET_CLOSEST_H
#define ET_CLOSEST_H

#include <stddef.h>

/* The best of the words so far. Zeroed: none. */
struct et_closest {
    const char *word; /* NULL: no word is close */
    size_t distance;
};

/* Offers a word: it is kept if fewer letters of `typed` than before have to be changed to it, and at most a third. */
void et_closest_offer(struct et_closest *closest, const char *typed, const char *word);

#endif
