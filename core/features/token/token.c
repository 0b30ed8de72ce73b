/*
 * The bearer token from a file, which may be replaced while the program runs. Only programs that call ep_token_file(),
 * or read their settings from the environment, link this. No line ever has the token.
 *
 *   ep_start -> token_headers -> token_load
 *   a send   -> token_sent    -> token_load    after 401 and 403, and while there is no token yet
 *
 * The headers stay at one address, so the transport's target need not change. Only the deliver thread reads them.
 */
#include "core/deliver/deliver.h"

#include <errno.h>
#include <string.h>

#define PATH_BYTES  256u
#define TOKEN_BYTES 2048u

static struct {
    char path[PATH_BYTES];
    const char *more; /* the other headers, or NULL */
    bool loaded;
    bool told;   /* that the file cannot be read */
    char *lines; /* all headers, EP_HEADERS_BYTES; from the first file on */
} token;

static const char authorization[] = "Authorization: Bearer ";

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Removes blanks around the token. Returns its size, or -EINVAL: none, or characters that no header may have. */
static int token_trim(const char **text, int size)
{
    while (size > 0 && is_blank((*text)[size - 1]))
        size--;
    for (; size > 0 && is_blank(**text); size--)
        (*text)++;
    for (int i = 0; i < size; i++)
        if ((*text)[i] <= ' ' || (*text)[i] > '~')
            return -EINVAL;
    return size > 0 ? size : -EINVAL;
}

/* Writes the headers: the token's line, if there is one, and the others. Returns 0 or -EFBIG. */
static int lines_write(const char *text, size_t size)
{
    size_t head = size ? sizeof authorization - 1 : 0, more = token.more ? strlen(token.more) : 0;
    char *to = token.lines;

    if (head + size + 1 + more >= EP_HEADERS_BYTES)
        return -EFBIG;
    memcpy(to, authorization, head);
    memcpy(to + head, text, size);
    to += head + size;
    if (head && more)
        *to++ = '\n';
    memcpy(to, token.more ? token.more : "", more);
    to[more] = 0;
    return 0;
}

/* The same token as before. */
static bool is_known(const char *text, size_t size)
{
    const char *at = token.lines + sizeof authorization - 1;

    return token.loaded && strncmp(at, text, size) == 0 && (at[size] == 0 || at[size] == '\n');
}

static void unread_tell(int error)
{
    if (!token.told)
        EP_EACH_FEATURE (at, unreadable)
            at.feature->unreadable(token.path, error);
    token.told = true;
}

/* Reads the file. An error keeps the old token. True: there is a new one. */
static bool token_load(void)
{
    char bytes[TOKEN_BYTES];
    const char *text = bytes;
    int size = ep_port_file_read(token.path, bytes, sizeof bytes);

    if (size >= 0)
        size = token_trim(&text, size);
    if (size >= 0 && is_known(text, (size_t)size))
        return false;
    int error = size < 0 ? size : lines_write(text, (size_t)size);
    if (error) {
        unread_tell(error);
        return false;
    }
    token.loaded = true;
    token.told = false;
    return true;
}

static const char *token_headers(struct ep *ep)
{
    token.more = ep->config.headers;
    token.loaded = token.told = false;
    if (lines_write("", 0) != 0)
        return token.more;
    (void)token_load();
    return token.lines;
}

static void token_sent(struct ep *ep, const struct ep_sent *sent)
{
    bool wanted = sent->status == 401 || sent->status == 403 || !token.loaded;

    if (wanted && token_load())
        ep->deliver->backoff_ns = 0; /* the new token is tried soon */
}

int ep_token_file(const char *path)
{
    static const struct ep_feature feature = {.name = "token", .headers = token_headers, .sent = token_sent};

    if (ep_running())
        return ep_refuse(-EALREADY, "token file: the profiler is running; call ep_token_file() before ep_start()");
    ep_feature_remove(&feature);
    if (!path)
        return 0;
    if (!path[0] || strlen(path) >= PATH_BYTES)
        return ep_refuse(-EINVAL, "token file: no path given, or one of more than 255 characters");
    if (!token.lines && !(token.lines = ep_port_memory(EP_HEADERS_BYTES)))
        return ep_refuse(-ENOMEM, "token file: the system has no memory for the headers");
    memcpy(token.path, path, strlen(path) + 1);
    return ep_feature_add(&feature);
}
