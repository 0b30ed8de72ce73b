/*
 * Checks for valid UTF-8: receivers reject messages with other strings.
 */
#include <edgeprof/transport.h>

#include <stddef.h>
#include <stdint.h>

/* The size of the character at the start, 0: invalid. */
static unsigned utf8_size(const uint8_t *at, size_t size)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned more = at[0] < 0x80 ? 0 : at[0] < 0xe0 ? 1 : at[0] < 0xf0 ? 2 : 3;
    uint32_t code = at[0] & (more == 0 ? 0x7fu : 0x3fu >> more);

    if (at[0] >= 0xf8 || (at[0] >= 0x80 && at[0] < 0xc0) || more >= size)
        return 0;
    for (unsigned i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    return code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : more + 1;
}

size_t ep_utf8_run(const char *text, size_t size)
{
    size_t run = 0;

    for (unsigned one; run < size && (one = utf8_size((const uint8_t *)text + run, size - run)) != 0;)
        run += one;
    return run;
}
