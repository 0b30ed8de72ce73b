/* See tokens.h. */
#include "tools/serve/http/tokens.h"
#include "tools/lib/json_read.h"

#include <errno.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FILE_LIMIT = 1 << 20, SHORTEST = 16, LONGEST = 512 };

/* Stored as digests: all have the same length, so comparison takes constant time. */
struct token_entry {
    uint8_t digest[SHA256_DIGEST_SIZE];
    unsigned rights, line;
    char *scope; /* NULL: any */
};

struct et_tokens {
    struct token_entry *items;
    size_t count, capacity;
};

static void make_digest(const char *text, size_t size, uint8_t digest[SHA256_DIGEST_SIZE])
{
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, size, (const uint8_t *)text);
    sha256_digest(&context, SHA256_DIGEST_SIZE, digest);
}

/* "read", "write,symbols". 0: unknown. */
static unsigned read_rights(const char *word, size_t size)
{
    static const struct {
        const char *name;
        unsigned right;
    } known[] = {{"read", ET_RIGHT_READ}, {"write", ET_RIGHT_WRITE}, {"symbols", ET_RIGHT_SYMBOLS}};
    unsigned rights = 0;
    for (const char *end = word + size; word <= end;) {
        size_t length = 0;
        unsigned right = 0;
        while (word + length < end && word[length] != ',') {
            length++;
        }
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            bool same = length == strlen(known[i].name) && memcmp(word, known[i].name, length) == 0;
            right |= same ? known[i].right : 0;
        }
        if (!right) {
            return 0;
        }
        rights |= right;
        word += length + 1;
    }
    return rights;
}

/* Adds a word after the token to the scope. */
static bool add_to_scope(const char *word, size_t size, struct et_buf *scope)
{
    static const char service[] = "service=", label[] = "label=";
    bool is_service = size > sizeof service - 1 && memcmp(word, service, sizeof service - 1) == 0;
    bool is_label = size > sizeof label - 1 && memcmp(word, label, sizeof label - 1) == 0 &&
                    memchr(word + sizeof label, '=', size - sizeof label);
    if (is_service || is_label) {
        char *clean = et_clean(word, size);
        et_buf_printf(scope, "%s\n", clean);
        free(clean);
    }
    return is_service || is_label;
}

static const char *check_token(const char *token, size_t size)
{
    if (size < SHORTEST || size > LONGEST) {
        return "a token must have 16 to 512 characters; `openssl rand -hex 32` creates one";
    }
    for (size_t i = 0; i < size; i++) {
        if (token[i] <= ' ' || token[i] > '~') {
            return "a token may only have visible ASCII characters";
        }
    }
    return NULL;
}

static bool next_word(const char **at, const char *end, const char **word, size_t *size)
{
    static const char blanks[] = " \t\r";
    const char *from = *at;
    while (from < end && strchr(blanks, *from)) {
        from++;
    }
    *word = from;
    while (from < end && !strchr(blanks, *from)) {
        from++;
    }
    *size = (size_t)(from - *word);
    *at = from;
    return *size > 0;
}

static const char *store_token(struct et_tokens *tokens, const struct token_entry *entry)
{
    for (size_t i = 0; i < tokens->count; i++) {
        const struct token_entry *known = &tokens->items[i];
        if (memeql_sec(known->digest, entry->digest, sizeof entry->digest) && (known->scope || entry->scope)) {
            return "this token has another line; put the services and labels of a token into one";
        }
    }
    tokens->items = et_reserve(tokens->items, &tokens->capacity, tokens->count + 1, sizeof *tokens->items);
    tokens->items[tokens->count++] = *entry;
    return NULL;
}

/* Returns NULL, or what is wrong with the line. */
static const char *add_token(struct et_tokens *tokens, const char *line, size_t size, unsigned number)
{
    static const char form[] =
        "expected TOKEN, read TOKEN or write TOKEN; symbols TOKEN; write TOKEN service=NAME label=K=V";
    const char *word, *end = line + size;
    struct token_entry entry = {.rights = ET_RIGHT_READ | ET_RIGHT_WRITE | ET_RIGHT_SYMBOLS, .line = number};
    struct et_buf scope = {0};
    size_t length;
    if (!next_word(&line, end, &word, &length) || *word == '#') {
        return NULL;
    }
    unsigned rights = read_rights(word, length);
    if (rights) {
        entry.rights = rights;
        if (!next_word(&line, end, &word, &length)) {
            return form;
        }
    }
    const char *wrong = check_token(word, length);
    make_digest(word, length, entry.digest);
    if (wrong && next_word(&line, end, &word, &length)) {
        wrong = form; /* rather than a short token, a word in its place */
    }
    while (!wrong && next_word(&line, end, &word, &length)) {
        wrong = add_to_scope(word, length, &scope) ? NULL : form;
    }
    if (!wrong && scope.size && (entry.rights & ET_RIGHT_READ)) {
        wrong = "service= and label= bind what a token may send; begin the line with write or write,symbols";
    }
    entry.scope = scope.data;
    wrong = wrong ? wrong : store_token(tokens, &entry);
    if (wrong) {
        et_buf_free(&scope);
    }
    return wrong;
}

struct et_tokens *et_tokens_read(const char *path)
{
    struct et_tokens *tokens = et_alloc(1, sizeof *tokens);
    struct et_buf text = {0};
    int err = et_read_file(path, FILE_LIMIT, &text);
    const char *wrong = NULL;
    unsigned line = 0;
    for (size_t at = 0; at < text.size && !err && !wrong; line++) {
        size_t size = strcspn(text.data + at, "\n");
        wrong = add_token(tokens, text.data + at, size, line + 1);
        at += size + 1;
    }
    if (err) {
        et_error("token file %s: %s", path, strerror(-err));
    } else if (wrong) {
        et_error("token file %s:%u: %s", path, line, wrong);
    } else if (tokens->count == 0) {
        et_error("token file %s: no token; `openssl rand -hex 32 >%s` creates one", path, path);
    }
    et_buf_free(&text);
    if (err || wrong || tokens->count == 0) {
        et_tokens_free(tokens);
        return NULL;
    }
    return tokens;
}

struct et_tokens *et_tokens_of(const char *token)
{
    struct et_tokens *tokens = et_alloc(1, sizeof *tokens);
    (void)add_token(tokens, token, strlen(token), 1); /* it is well-formed */
    return tokens;
}

void et_tokens_free(struct et_tokens *tokens)
{
    if (tokens) {
        for (size_t i = 0; i < tokens->count; i++) {
            free(tokens->items[i].scope);
        }
        free(tokens->items);
        free(tokens);
    }
}

static struct et_grant find_token(const struct et_tokens *tokens, const char *token, size_t size)
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct et_grant grant = {0};
    make_digest(token, size, digest);
    for (size_t i = 0; i < tokens->count; i++) {
        const struct token_entry *entry = &tokens->items[i];
        if (memeql_sec(digest, entry->digest, sizeof digest)) {
            grant =
                (struct et_grant){.rights = grant.rights | entry->rights, .line = entry->line, .scope = entry->scope};
        }
    }
    grant.scope = grant.scope ? et_strdup(grant.scope) : NULL;
    return grant;
}

struct et_grant et_tokens_grant(const struct et_tokens *tokens, const char *authorization)
{
    static const char bearer[] = "Bearer ", basic[] = "Basic ";
    struct et_grant grant = {0};
    if (!authorization || strlen(authorization) > 4 * LONGEST) {
        return grant;
    }
    if (strncasecmp(authorization, bearer, sizeof bearer - 1) == 0) {
        const char *token = authorization + sizeof bearer - 1;
        grant = find_token(tokens, token, strlen(token));
    } else if (strncasecmp(authorization, basic, sizeof basic - 1) == 0) {
        struct et_buf plain = {0};
        const char *text = authorization + sizeof basic - 1;
        const char *colon =
            et_base64(text, strlen(text), &plain) && plain.size ? memchr(plain.data, ':', plain.size) : NULL;
        if (colon) {
            grant = find_token(tokens, colon + 1, plain.size - (size_t)(colon + 1 - plain.data));
        }
        et_buf_free(&plain);
    }
    return grant;
}
