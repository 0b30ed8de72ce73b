/*
 * Pending work of a language runtime, on demand: POST /tasks makes the list, GET /tasks?FROM reads on in it. The list
 * is text, and larger than an answer. Knows no specific runtime: its hooks make the list.
 *
 *   ep_tasks_attach, then ep_control_act -> ep_tasks_put -> the runtime's look, read
 */
#include <errno.h>
#include <stdatomic.h>

#include "core/hooks.h"
#include "core/endpoint/request.h"

#define PART 2048u /* bytes of the list in an answer; a line break takes two there */

static _Atomic(const struct ep_tasks_source *) source;

void ep_tasks_attach(const struct ep_tasks_source *of)
{
    atomic_store(&source, of);
}

/* The text has neither quotes nor backslashes, nor control characters but line breaks. */
static void put_lines(struct ep_text *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n')
            ep_text_put(out, "\\n");
        else
            ep_text_bytes(out, &text[i], 1);
    }
}

static size_t number_of(struct ep_part digits)
{
    size_t number = 0;

    for (size_t i = 0; i < digits.size && i < 9 && digits.at[i] >= '0' && digits.at[i] <= '9'; i++)
        number = number * 10 + (size_t)(digits.at[i] - '0');
    return number;
}

int ep_tasks_put(struct ep_text *out, bool look, struct ep_part from)
{
    const struct ep_tasks_source *of = atomic_load(&source);
    char part[PART];
    const size_t at = look ? 0 : number_of(from);

    if (!of)
        return -ENOSYS;
    const int error = look ? of->look() : 0;
    if (error)
        return error;
    const size_t size = of->read(at, part, sizeof part);
    ep_text_put(out, "{\"text\":\"");
    put_lines(out, part, size);
    ep_text_put(out, "\",\"next\":");
    ep_text_number(out, size ? at + size : 0);
    ep_text_put(out, "}\n");
    return 0;
}
