/* The address that an endpoint listens at, as text. The port gets it as numbers. */
#include <errno.h>
#include <string.h>

#include "core/features/endpoint/serve.h"

#define HOST 48u /* bytes of the longest address, with brackets and NUL */
#define NONE 17u

uint16_t ep_address_port(const char *digits)
{
    uint32_t port = 0;

    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9' || port > UINT16_MAX)
            return 0;
        port = port * 10 + (uint32_t)(*digits - '0');
    }
    return port > UINT16_MAX ? 0 : (uint16_t)port;
}

/* Reads "127.0.0.1". Leading zeros are invalid, because some programs read them as octal numbers. */
static bool four_read(const char *at, uint8_t *ip)
{
    for (unsigned i = 0; i < 4; i++) {
        const size_t digits = strspn(at, "0123456789");
        unsigned value = 0;
        if (digits == 0 || digits > 3 || (digits > 1 && *at == '0') || at[digits] != (i < 3 ? '.' : 0))
            return false;
        for (size_t k = 0; k < digits; k++)
            value = value * 10 + (unsigned)(at[k] - '0');
        if (value > UINT8_MAX)
            return false;
        ip[i] = (uint8_t)value;
        at += digits + 1;
    }
    return true;
}

static unsigned hex_read(const char *at, size_t digits)
{
    unsigned value = 0;

    for (size_t i = 0; i < digits; i++)
        value = value << 4 | (unsigned)(at[i] <= '9' ? at[i] - '0' : (at[i] | 32) - 'a' + 10);
    return value;
}

/* Skips the colon after a group. *gap: where "::" stands for zeros, NONE: nowhere yet. NULL: invalid. */
static const char *colon_skip(const char *at, unsigned fill, unsigned *gap)
{
    if (at[0] != ':' || at[1] == 0)
        return NULL;
    if (at[1] != ':')
        return at + 1;
    if (*gap != NONE)
        return NULL;
    *gap = fill;
    return at + 2;
}

/* Reads the groups into the first bytes of ip. Returns the number of bytes; NONE: invalid. */
static unsigned groups_read(const char *at, uint8_t *ip, unsigned *gap)
{
    unsigned fill = 0;

    if (*at == ':')
        at = at[1] == ':' ? colon_skip(at, 0, gap) : NULL;
    while (at && *at) {
        const size_t digits = strspn(at, "0123456789abcdefABCDEF");
        if (at[digits] == '.')
            return fill <= 12 && four_read(at, ip + fill) ? fill + 4 : NONE;
        if (digits == 0 || digits > 4 || fill == 16)
            return NONE;
        const unsigned value = hex_read(at, digits);
        ip[fill++] = (uint8_t)(value >> 8);
        ip[fill++] = (uint8_t)value;
        at += digits;
        if (*at)
            at = colon_skip(at, fill, gap);
    }
    return at ? fill : NONE;
}

static bool six_read(const char *text, uint8_t *ip)
{
    unsigned gap = NONE, fill = groups_read(text, ip, &gap);

    if (fill == NONE || gap == NONE)
        return fill == 16;
    if (fill == 16)
        return false;
    memmove(ip + 16 - (fill - gap), ip + gap, fill - gap);
    memset(ip + gap, 0, 16 - fill);
    return true;
}

int ep_address_read(const char *text, struct ep_address *address)
{
    const char *colon = strrchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : 0;
    char host[HOST] = "127.0.0.1";
    bool valid;

    *address = (struct ep_address){.port = ep_address_port(colon ? colon + 1 : text)};
    if (!address->port || size >= sizeof host)
        return -EINVAL;
    if (colon) {
        memcpy(host, text, size);
        host[size] = 0;
    }
    address->ip_size = host[0] == '[' ? 16 : 4;
    if (host[0] != '[') {
        valid = four_read(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, address->ip);
    } else {
        valid = size >= 3 && host[size - 1] == ']';
        host[size ? size - 1 : 0] = 0;
        valid = valid && six_read(host + 1, address->ip);
    }
    return valid ? 0 : -EINVAL;
}

bool ep_address_loopback(const struct ep_address *address)
{
    static const uint8_t six[16] = {[15] = 1};

    if (address->path)
        return true;
    return address->ip_size == 4 ? address->ip[0] == 127 : memcmp(address->ip, six, sizeof six) == 0;
}
