/* See closest.h. */
#include "tools/lib/closest.h"

#include <string.h>

enum { LONGEST = 40 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to insert, delete, replace, or swap with the next one (Damerau and Levenshtein). */
static size_t distance_of(const char *typed, const char *word)
{
    size_t rows[3][LONGEST + 1], size = strlen(word);
    for (size_t k = 0; k <= size; k++) {
        rows[0][k] = k;
    }
    for (size_t i = 1; typed[i - 1]; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t k = 1; k <= size; k++) {
            row[k] = least(least(row[k - 1], above[k]) + 1, above[k - 1] + (typed[i - 1] != word[k - 1]));
            if (i > 1 && k > 1 && typed[i - 1] == word[k - 2] && typed[i - 2] == word[k - 1]) {
                row[k] = least(row[k], second[k - 2] + 1);
            }
        }
    }
    return rows[strlen(typed) % 3][size];
}

void et_closest_offer(struct et_closest *closest, const char *typed, const char *word)
{
    size_t length = strlen(typed);
    if (length == 0 || length > LONGEST || strlen(word) > LONGEST) {
        return;
    }
    size_t distance = distance_of(typed, word), most = (length + 2) / 3;
    if (distance <= most && distance < length && (!closest->word || distance < closest->distance)) {
        *closest = (struct et_closest){.word = word, .distance = distance};
    }
}
