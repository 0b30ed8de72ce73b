/*
 * Tokens for reading and writing, from a file with one token per line:
 *
 *   # a comment
 *   0123456789abcdef                                  may do everything
 *   write fedcba9876543210 service=NAME label=K=V     may send profiles of these services with all these labels
 *   read ...                                          may read
 *   symbols ...                                       may send symbol files; "write,symbols": both
 *
 * Clients send "Authorization: Bearer TOKEN", or the token as the password of Basic; the user name is ignored.
 */
#ifndef ET_TOKENS_H
#define ET_TOKENS_H

#include "tools/lib/util.h"

enum et_right { ET_RIGHT_READ = 1, ET_RIGHT_WRITE = 2, ET_RIGHT_SYMBOLS = 4 };

/* What a request may do. */
struct et_grant {
    unsigned rights; /* enum et_right; 0: none */
    unsigned line;   /* of the token in its file, to name it in messages; 0: no token */
    char *scope;     /* "service=NAME" and "label=K=V" lines; NULL: any. free() it */
};

/* Returns NULL when the scope has the service (any of those listed) and tags (lines, all of those listed); otherwise
 * the reason, static. scope NULL: everything. */
const char *et_scope_refuses(const char *scope, const char *service, const char *tags);
/* The same for labels of stacks (lines), which hide a process's of the same name: they may not differ from the scope's.
 */
const char *et_scope_refuses_stacks(const char *scope, const char *lines);

struct et_tokens;

/* NULL: invalid file, which was reported. */
struct et_tokens *et_tokens_read(const char *path);
/* A list of one token with all rights. */
struct et_tokens *et_tokens_of(const char *token);
void et_tokens_free(struct et_tokens *tokens);

/* What an Authorization header's value grants. NULL: no header. Takes equally long for wrong and right tokens. Context:
 * any thread. */
struct et_grant et_tokens_grant(const struct et_tokens *tokens, const char *authorization);

#endif
