/*
 * Compares the lengths that ep_x86_decode finds with those of objdump.
 *
 *   objdump -dw FILE... | decode_lengths LEAST
 *
 * Fails when fewer than LEAST instructions were compared or one differs. Left out: lines that objdump calls (bad), and
 * prefixes that it prints apart, as before data. It counts fwait as part of what follows; the processor does not.
 */
#include "core/unwind/code_x86_64.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 15
#define FWAIT 0x9b

/* The bytes of a line "  addr:\tbytes \tmnemonic operands"; 0: it is no such line. */
static size_t read_line(const char *line, uint8_t *bytes, const char **mnemonic)
{
    const char *at = strchr(line, '\t');
    size_t count = 0;
    char byte[3];

    if (!at || at == line || at[-1] != ':')
        return 0;
    for (at++; count < BYTES && sscanf(at, "%2[0-9a-f] ", byte) == 1 && at[2] == ' '; at += 3)
        bytes[count++] = (uint8_t)strtoul(byte, NULL, 16);
    at = strchr(at, '\t');
    *mnemonic = at ? at + 1 : "";
    return count;
}

/* No more than a prefix is there. */
static bool is_prefix_alone(const uint8_t *bytes, size_t count)
{
    static const uint8_t prefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65};

    for (size_t i = 0; i < count; i++)
        if (!memchr(prefixes, bytes[i], sizeof prefixes) && (bytes[i] & 0xf0) != 0x40)
            return false;
    return true;
}

static size_t decoded_size(const uint8_t *bytes, size_t count)
{
    size_t wait = count > 1 && bytes[0] == FWAIT;

    return wait + ep_x86_decode(bytes + wait, bytes + count).size;
}

int main(int argc, char **argv)
{
    long compared = 0, apart = 0, wrong = 0, least = argc == 2 ? atol(argv[1]) : 0;
    char line[1024];

    while (fgets(line, sizeof line, stdin)) {
        uint8_t bytes[BYTES];
        const char *mnemonic;
        size_t count = read_line(line, bytes, &mnemonic);
        if (count == 0)
            continue;
        if (strstr(mnemonic, "(bad)") || *mnemonic == '\0' || is_prefix_alone(bytes, count)) {
            apart++;
            continue;
        }
        compared++;
        if (decoded_size(bytes, count) != count && wrong++ < 20)
            printf("decoded as %zu bytes: %s", decoded_size(bytes, count), line);
    }
    printf("decode_lengths: %ld instructions compared, %ld differ, %ld left out\n", compared, wrong, apart);
    return wrong || compared < least || apart > compared / 100 ? 1 : 0;
}
