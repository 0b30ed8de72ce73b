/*
 * Reads variables that hold one word of a list.
 */
#include "core/environment/environment.h"

#include <errno.h>
#include <string.h>

/* The place of a word in a list + 1; 0: not found. */
static int word_find(const char *words, const char *word, size_t size)
{
    int i = 1;

    for (; *words; words += strlen(words) + 1, i++)
        if (strlen(words) == size && memcmp(words, word, size) == 0)
            return i;
    return 0;
}

int ep_environment_word(const char *name, const char *words, const char *must, int *place)
{
    const char *word = ep_port_env(name);

    *place = word ? word_find(words, word, strlen(word)) : 0;
    return *place || !word ? 0 : ep_complain(-EINVAL, name, must, word);
}

int ep_environment_switch(const char *name, bool *set, bool *on)
{
    static const char words[] = "1\0true\0yes\0y\0t\0on\0"
                                "0\0false\0no\0n\0f\0off\0";
    const char *value = ep_env_text(name);
    char lower[8];
    size_t size = value ? strlen(value) : 0;

    *set = value != NULL;
    if (!value)
        return 0;
    for (size_t i = 0; i < size && i < sizeof lower; i++)
        lower[i] = (char)(value[i] >= 'A' && value[i] <= 'Z' ? value[i] - 'A' + 'a' : value[i]);
    const int place = size <= sizeof lower ? word_find(words, lower, size) : 0;
    *on = place <= 6;
    return place ? 0 : ep_complain(-EINVAL, name, ": must be true or false, not ", value);
}
