/*
 * Finds the status of an HTTP/1.x response and the end of the response, from bytes in portions of any size. No I/O, no
 * clock; bounded by EP_HTTP_RESPONSE_MAX bytes. The body is skipped. Once the final response's head is complete, its
 * status counts: an invalid body only means that the connection is not used again.
 *
 *   ep_http_response_feed -> skip_body                             in bodies
 *                         -> feed_byte -> end_line -> status_line  in lines
 *                                                  -> header_line -> content_length, transfer_encoding ...
 *                                                  -> end_of_head
 *                                                  -> chunk_line
 */
#include "transport/http.h"

#include <errno.h>
#include <string.h>

enum state { STATUS, HEADER, BODY, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER, DONE };

void ep_http_response_start(struct ep_http_response *response)
{
    memset(response, 0, sizeof *response);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool equal_nocase(const char *text, size_t size, const char *word)
{
    if (strlen(word) != size)
        return false;
    for (size_t i = 0; i < size; i++)
        if (lower(text[i]) != word[i])
            return false;
    return true;
}

static void set_done(struct ep_http_response *response)
{
    response->state = DONE;
}

/* Called when the status is known, but not the end of the response. */
static void set_unusable(struct ep_http_response *response)
{
    response->close = true;
    set_done(response);
}

static int status_line(struct ep_http_response *response)
{
    const char *line = response->line;

    if (response->line_size < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ')
        return -EPROTO;
    unsigned status = 0;
    for (int i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return -EPROTO;
        status = status * 10 + (unsigned)(line[i] - '0');
    }
    if (status < 100 || status == 101)
        return -EPROTO;
    response->status = (uint16_t)status;
    response->close = line[7] == '0';
    response->state = HEADER;
    return 0;
}

/* Reads a number. False: the text is not all decimal digits. */
static bool number_parse(const char *text, size_t size, uint64_t *value)
{
    *value = 0;
    if (size == 0 || size > 18)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *value = *value * 10 + (uint64_t)(text[i] - '0');
    }
    return true;
}

static void content_length(struct ep_http_response *response, const char *text, size_t size)
{
    uint64_t value;
    bool valid = number_parse(text, size, &value);

    if (!valid || (response->sized && response->left != value))
        response->close = true;
    response->sized = true;
    response->left = valid ? value : EP_HTTP_RESPONSE_MAX + 1;
}

/* Reads a list of words. HTTP/1.0's keep-alive is ignored. */
static void connection(struct ep_http_response *response, const char *text, size_t size)
{
    while (size > 0) {
        const char *comma = memchr(text, ',', size);
        size_t part = comma ? (size_t)(comma - text) : size;
        size_t word = part;
        const char *start = text;
        for (; word > 0 && *start == ' '; word--)
            start++;
        while (word > 0 && start[word - 1] == ' ')
            word--;
        if (equal_nocase(start, word, "close"))
            response->close = true;
        part += comma != NULL;
        text += part;
        size -= part;
    }
}

static void transfer_encoding(struct ep_http_response *response, const char *text, size_t size)
{
    if (!equal_nocase(text, size, "chunked") || response->chunked)
        response->close = true;
    response->chunked = true;
}

static void content_type(struct ep_http_response *response, const char *text, size_t size)
{
    size_t word = 0;

    while (word < size && text[word] != ';' && text[word] != ' ' && text[word] != '\t')
        word++;
    response->page = equal_nocase(text, word, "text/html");
}

/* A date instead of seconds is ignored: the device may have no clock. */
static void retry_after(struct ep_http_response *response, const char *text, size_t size)
{
    uint64_t seconds;
    if (number_parse(text, size, &seconds))
        response->retry_s = (uint32_t)(seconds < EP_HTTP_RETRY_MAX ? seconds : EP_HTTP_RETRY_MAX);
}

static int end_of_head(struct ep_http_response *response)
{
    if (response->status < 200) {
        uint32_t bytes = response->bytes;
        ep_http_response_start(response);
        response->bytes = bytes;
        return 0;
    }
    response->known = true;
    if (response->status == 204 || response->status == 304)
        set_done(response);
    else if (response->close)
        set_unusable(response);
    else if (response->chunked && response->sized)
        set_unusable(response); /* contradictory (RFC 9112, 6.3): the end is unknown */
    else if (response->chunked)
        response->state = CHUNK_SIZE;
    else if (!response->sized || response->left > EP_HTTP_RESPONSE_MAX)
        set_unusable(response);
    else if (response->left == 0)
        set_done(response);
    else
        response->state = BODY;
    return 0;
}

static int header_line(struct ep_http_response *response)
{
    static const struct {
        const char *name;
        void (*take)(struct ep_http_response *response, const char *text, size_t size);
    } known[] = {
        {"content-length", content_length}, {"connection", connection},     {"transfer-encoding", transfer_encoding},
        {"retry-after", retry_after},       {"content-type", content_type},
    };
    const char *line = response->line;
    size_t size = response->line_size;

    if (size == 0)
        return end_of_head(response);
    const char *colon = memchr(line, ':', size);
    if (!colon)
        return 0;
    const char *value = colon + 1;
    while (value < line + size && (*value == ' ' || *value == '\t'))
        value++;
    while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\t'))
        size--;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!equal_nocase(line, (size_t)(colon - line), known[i].name))
            continue;
        response->close |= response->line_cut;
        known[i].take(response, value, value < line + size ? (size_t)(line + size - value) : 0);
    }
    return 0;
}

/* Reads a hexadecimal number and ignores extensions. */
static void chunk_line(struct ep_http_response *response)
{
    uint64_t value = 0;
    unsigned digits = 0;

    for (; digits < response->line_size; digits++) {
        char c = lower(response->line[digits]);
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uint64_t)(c - 'a' + 10);
        else
            break;
    }
    if (digits == 0 || digits > 8) {
        set_unusable(response);
        return;
    }
    response->left = value;
    response->state = value > 0 ? CHUNK_DATA : TRAILER;
}

static int end_line(struct ep_http_response *response)
{
    int err = 0;

    if (response->line_size > 0 && response->line[response->line_size - 1] == '\r' && !response->line_cut)
        response->line_size--;
    switch ((enum state)response->state) {
    case STATUS:
        err = status_line(response);
        break;
    case HEADER:
        err = header_line(response);
        break;
    case CHUNK_SIZE:
        chunk_line(response);
        break;
    case CHUNK_END:
        response->state = CHUNK_SIZE;
        if (response->line_size > 0)
            set_unusable(response);
        break;
    case TRAILER:
        if (response->line_size == 0)
            set_done(response);
        break;
    case BODY:
    case CHUNK_DATA:
    case DONE:
        break;
    }
    response->line_size = 0;
    response->line_cut = false;
    return err;
}

static int feed_byte(struct ep_http_response *response, char c)
{
    if (c == '\n')
        return end_line(response);
    if (response->line_size < EP_HTTP_LINE)
        response->line[response->line_size++] = c;
    else
        response->line_cut = true;
    return 0;
}

/* Skips body bytes. Returns how many of `size` belong to the body. */
static size_t skip_body(struct ep_http_response *response, size_t size)
{
    if (size > response->left)
        size = (size_t)response->left;
    response->left -= size;
    if (response->left == 0)
        response->state = response->state == BODY ? DONE : CHUNK_END;
    return size;
}

int ep_http_response_feed(struct ep_http_response *response, const uint8_t *bytes, size_t size, size_t *used)
{
    *used = 0;
    while (response->state != DONE && *used < size) {
        size_t step = 1;
        int err = 0;
        if (response->state == BODY || response->state == CHUNK_DATA)
            step = skip_body(response, size - *used);
        else
            err = feed_byte(response, (char)bytes[*used]);
        *used += step;
        response->bytes += (uint32_t)step;
        if (err)
            return err;
        if (response->bytes <= EP_HTTP_RESPONSE_MAX || response->state == DONE)
            continue;
        if (!response->known)
            return -EPROTO;
        set_unusable(response);
    }
    return response->state != DONE;
}
