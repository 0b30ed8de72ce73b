/*
 * Tokens for reading and writing, from a file with one token per line:
 *
 *   # a comment
 *   0123456789abcdef            may do both
 *   write fedcba9876543210      may send profiles and symbols
 *   read  ...                   may read
 *
 * Clients send "Authorization: Bearer TOKEN", or the token as the password of Basic; the user name is ignored.
 */
#ifndef ET_TOKENS_H
#define ET_TOKENS_H

#include "tools/lib/util.h"

enum et_right { ET_RIGHT_READ = 1, ET_RIGHT_WRITE = 2 };

struct et_tokens;

/* NULL: invalid file, which was reported. */
struct et_tokens *et_tokens_read(const char *path);
void et_tokens_free(struct et_tokens *tokens);

/* The rights of an Authorization header's value: enum et_right, or 0. NULL: no header. Takes equally long for wrong and
 * right tokens. Context: any thread. */
unsigned et_tokens_rights(const struct et_tokens *tokens, const char *authorization);

#endif
