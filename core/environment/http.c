/*
 * Request headers from the environment: credentials, a tenant, and custom headers. They become the configuration's
 * `headers`, in memory that lasts until the next call. Pyroscope's variables are used only if its variable has the
 * endpoint, so its secrets go to no other server. No value ever appears in a message.
 *
 *   ep_environment_headers -> own_headers, token_file, pyroscope_headers -> bearer_add, basic_add, headers_json ->
 * line_add -> put_char
 *                          -> names_check
 */
#include "core/deliver/deliver.h"
#include "core/environment/environment.h"
#include "core/sample/feature.h"

#include <errno.h>
#include <string.h>

static char *lines; /* EP_HEADERS_BYTES, from the first header on; NULL: none yet */
static size_t used;

static bool put_char(char c)
{
    if (!lines)
        lines = ep_port_memory(EP_HEADERS_BYTES);
    if (!lines || used + 1 >= EP_HEADERS_BYTES)
        return false;
    lines[used++] = c;
    lines[used] = 0;
    return true;
}

static int put_text(const char *variable, const char *text)
{
    for (; *text; text++) {
        if (*text < ' ' || *text > '~')
            return ep_complain(-EINVAL, variable, ": a character that is not printable ASCII", "");
        if (!put_char(*text))
            return ep_complain(-EINVAL, variable, ": too long, with the headers before it", "");
    }
    return 0;
}

/* Appends a line of `name` and `value`, such as "Name: scheme " and the credentials. */
static int line_add(const char *variable, const char *name, const char *value)
{
    int error;

    if (used && !put_char('\n'))
        return ep_complain(-EINVAL, variable, ": too long, with the headers before it", "");
    if ((error = put_text(variable, name)) < 0)
        return error;
    return put_text(variable, value);
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* True if the line begins with that name, given in lower case. */
static bool is_named(const char *at, const char *name)
{
    for (; *name; at++, name++)
        if (lower(*at) != *name)
            return false;
    return *at == ':';
}

static const char *next_line(const char *at)
{
    at += strcspn(at, "\n");
    return at + (*at == '\n');
}

static bool has_header(const char *headers, const char *name)
{
    for (; *headers; headers = next_line(headers))
        if (is_named(headers, name))
            return true;
    return false;
}

/* Returns true if a line of this call has the header. */
static bool is_given(const char *name)
{
    return used > 0 && has_header(lines, name);
}

/* ---- base64 ---- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Appends "user:password" in base64. */
static bool put_basic(const char *user, const char *password)
{
    const size_t colon = strlen(user), size = colon + 1 + strlen(password);
    bool fits = true;

    for (size_t i = 0; i < size && fits; i += 3) {
        uint32_t bits = 0;
        for (size_t k = i; k < i + 3; k++)
            bits = bits << 8 | (uint8_t)(k < colon                ? user[k]
                                         : k == colon             ? ':'
                                         : k < size && k >= colon ? password[k - colon - 1]
                                                                  : 0);
        for (size_t k = 0; k < 4; k++)
            fits = fits && put_char(k > size - i ? '=' : alphabet[bits >> (18 - 6 * k) & 63]);
    }
    return fits;
}

/* ---- headers as JSON ---- */

/* Decodes an escape, with *at behind the backslash; 0: a character not allowed in a header. */
static char decode_escape(const char **at)
{
    const char c = *(*at)++;
    int code = 0;

    if (c == '"' || c == '\\' || c == '/')
        return c;
    if (c != 'u')
        return 0;
    for (int i = 0; i < 4; i++) {
        const int digit = ep_hex_digit(**at);
        if (digit < 0)
            return 0;
        code = code * 16 + digit;
        (*at)++;
    }
    return (char)(code >= ' ' && code <= '~' ? code : 0);
}

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " \t\r\n");
}

/* Appends a JSON string. */
static int json_string(const char *variable, const char **at)
{
    if (*(*at)++ != '"')
        return ep_complain(-EINVAL, variable, ": must be a JSON object of strings, {\"Name\":\"value\"}", "");
    for (; **at != '"';) {
        const char *raw = (*at)++;
        const char c = *raw == '\\' ? decode_escape(at) : *raw;
        const char text[] = {c ? c : '\n', 0}; /* put_text() rejects '\n' */
        const int error = put_text(variable, text);
        if (error < 0)
            return error;
    }
    (*at)++;
    skip_blanks(at);
    return 0;
}

static int json_member(const char *variable, const char **at)
{
    int error;

    if ((error = line_add(variable, "", "")) < 0 || (error = json_string(variable, at)) < 0)
        return error;
    if (*(*at)++ != ':')
        return ep_complain(-EINVAL, variable, ": must be a JSON object of strings, {\"Name\":\"value\"}", "");
    skip_blanks(at);
    if ((error = put_text(variable, ": ")) < 0)
        return error;
    return json_string(variable, at);
}

static int headers_json(const char *variable)
{
    const char *at = ep_env_text(variable);
    bool more;

    if (!at)
        return 0;
    skip_blanks(&at);
    more = *at == '{';
    for (at += more, skip_blanks(&at); more && *at != '}'; skip_blanks(&at)) {
        const int error = json_member(variable, &at);
        if (error < 0)
            return error;
        more = *at == '}' || (*at == ',' && at[1 + strspn(at + 1, " \t\r\n")] == '"');
        at += *at == ',';
    }
    if (more) {
        at++;
        skip_blanks(&at);
    }
    return more && !*at
               ? 0
               : ep_complain(-EINVAL, variable, ": must be a JSON object of strings, {\"Name\":\"value\"}", "");
}

/* ---- variables ---- */

static int bearer_add(const char *variable)
{
    const char *token = ep_env_text(variable);

    return token && !is_given("authorization") ? line_add(variable, "Authorization: Bearer ", token) : 0;
}

static int basic_add(const char *user_variable, const char *password_variable)
{
    const char *user = ep_env_text(user_variable), *password = ep_env_text(password_variable);

    if (!user || is_given("authorization"))
        return 0;
    const int error = line_add(user_variable, "Authorization: Basic ", "");
    if (error < 0)
        return error;
    return put_basic(user, password ? password : "") ? 0 : ep_complain(-EINVAL, user_variable, ": too long", "");
}

static int own_headers(void)
{
    const char *headers = ep_env_text("EDGEPROF_HEADERS");

    for (; headers && *headers; headers = next_line(headers)) {
        if (used && !put_char('\n'))
            return ep_complain(-EINVAL, "EDGEPROF_HEADERS: too long", "", "");
        for (const char *at = headers; *at && *at != '\n'; at++)
            if (!put_char(*at))
                return ep_complain(-EINVAL, "EDGEPROF_HEADERS: too long", "", "");
    }
    return bearer_add("EDGEPROF_TOKEN");
}

/* The variable's file, unless the program has named one. Returns 1 if a file has the token, 0 if not, or -EINVAL. */
static int token_file(bool wanted)
{
    static bool ours;
    const char *path = wanted ? ep_env_text("EDGEPROF_TOKEN_FILE") : NULL;

    if (ep_running() || (EP_HAS_FEATURE(headers) && !ours))
        return EP_HAS_FEATURE(headers);
    ours = path != NULL;
    if (!path || !is_given("authorization"))
        return ep_token_file(path) < 0 ? -EINVAL : path != NULL;
    (void)ep_token_file(NULL);
    return ep_refuse(-EINVAL, "EDGEPROF_TOKEN_FILE: there is a token in EDGEPROF_TOKEN or EDGEPROF_HEADERS already");
}

static int pyroscope_headers(bool has_token)
{
    const char *tenant = ep_env_text("PYROSCOPE_TENANT_ID");
    int error;

    if ((error = headers_json("PYROSCOPE_HTTP_HEADERS")) < 0)
        return error;
    if (!has_token && (error = bearer_add("PYROSCOPE_AUTH_TOKEN")) < 0)
        return error;
    if (!has_token && (error = basic_add("PYROSCOPE_BASIC_AUTH_USER", "PYROSCOPE_BASIC_AUTH_PASSWORD")) < 0)
        return error;
    return tenant && !is_given("x-scope-orgid") ? line_add("PYROSCOPE_TENANT_ID", "X-Scope-OrgID: ", tenant) : 0;
}

/* Rejects headers that the HTTP client sends itself, and credentials given twice. */
static int names_check(const struct ep_config *config)
{
    static const char ours[][18] = {"host",       "content-type", "content-length", "transfer-encoding",
                                    "connection", "expect",       "user-agent",     "content-encoding"};
    const char *path = config->endpoint ? strstr(config->endpoint, "://") : NULL;
    const size_t authority = path ? strcspn(path + 3, "/") : 0;

    for (size_t i = 0; config->headers && i < sizeof ours / sizeof ours[0]; i++)
        if (has_header(config->headers, ours[i]))
            return ep_complain(-EINVAL, "headers: edgeprof sets this one itself: ", ours[i], "");
    const bool token = EP_HAS_FEATURE(headers) || (config->headers && has_header(config->headers, "authorization"));
    if (token && path && memchr(path + 3, '@', authority))
        return ep_refuse(-EINVAL, "headers: use a token or a user in the endpoint, not both");
    return 0;
}

int ep_environment_headers(struct ep_config *config, bool pyroscope)
{
    const bool wanted = !config->headers;
    int error = 0;

    used = 0;
    if (wanted)
        error = own_headers();
    const int file = error ? error : token_file(wanted);
    if (file >= 0 && wanted && pyroscope)
        error = pyroscope_headers(file > 0);
    if (wanted)
        config->headers = used ? lines : NULL;
    return file < 0 ? file : error ? error : names_check(config);
}
