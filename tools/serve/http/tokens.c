/* See tokens.h. */
#include "tools/serve/http/tokens.h"
#include "tools/lib/json_read.h"

#include <errno.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FILE_LIMIT = 1 << 16, SHORTEST = 16, LONGEST = 512 };

/* Stored as digests: all have the same length, so comparison takes constant time. */
struct token_entry {
    uint8_t digest[SHA256_DIGEST_SIZE];
    unsigned rights;
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

/* Returns NULL, or what is wrong with the line. */
static const char *add_token(struct et_tokens *tokens, const char *line, size_t size)
{
    static const char blanks[] = " \t\r";
    unsigned rights = ET_RIGHT_READ | ET_RIGHT_WRITE;
    while (size && strchr(blanks, line[size - 1])) {
        size--;
    }
    if (size == 0 || line[0] == '#') {
        return NULL;
    }
    size_t word = strcspn(line, blanks);
    if (word < size) {
        rights = word == 4 && memcmp(line, "read", 4) == 0    ? ET_RIGHT_READ
                 : word == 5 && memcmp(line, "write", 5) == 0 ? ET_RIGHT_WRITE
                                                              : 0;
        word += strspn(line + word, blanks);
        line += word;
        size -= word;
    }
    if (!rights || memchr(line, ' ', size) || memchr(line, '\t', size)) {
        return "expected TOKEN, read TOKEN or write TOKEN";
    }
    if (size < SHORTEST || size > LONGEST) {
        return "a token must have 16 to 512 characters; `openssl rand -hex 32` creates one";
    }
    for (size_t i = 0; i < size; i++) {
        if (line[i] <= ' ' || line[i] > '~') {
            return "a token may only have visible ASCII characters";
        }
    }
    tokens->items = et_reserve(tokens->items, &tokens->capacity, tokens->count + 1, sizeof *tokens->items);
    tokens->items[tokens->count].rights = rights;
    make_digest(line, size, tokens->items[tokens->count++].digest);
    return NULL;
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
        wrong = add_token(tokens, text.data + at, size);
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

void et_tokens_free(struct et_tokens *tokens)
{
    if (tokens) {
        free(tokens->items);
        free(tokens);
    }
}

static unsigned token_rights(const struct et_tokens *tokens, const char *token, size_t size)
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    unsigned rights = 0;
    make_digest(token, size, digest);
    for (size_t i = 0; i < tokens->count; i++) {
        rights |= memeql_sec(digest, tokens->items[i].digest, sizeof digest) ? tokens->items[i].rights : 0;
    }
    return rights;
}

unsigned et_tokens_rights(const struct et_tokens *tokens, const char *authorization)
{
    static const char bearer[] = "Bearer ", basic[] = "Basic ";
    unsigned rights = 0;
    if (!authorization || strlen(authorization) > 4 * LONGEST) {
        return 0;
    }
    if (strncasecmp(authorization, bearer, sizeof bearer - 1) == 0) {
        const char *token = authorization + sizeof bearer - 1;
        rights = token_rights(tokens, token, strlen(token));
    } else if (strncasecmp(authorization, basic, sizeof basic - 1) == 0) {
        struct et_buf plain = {0};
        const char *text = authorization + sizeof basic - 1;
        const char *colon =
            et_base64(text, strlen(text), &plain) && plain.size ? memchr(plain.data, ':', plain.size) : NULL;
        rights = colon ? token_rights(tokens, colon + 1, plain.size - (size_t)(colon + 1 - plain.data)) : 0;
        et_buf_free(&plain);
    }
    return rights;
}
