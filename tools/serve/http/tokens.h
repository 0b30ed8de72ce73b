/*
 * Who may read and who may write: tokens from a file, one a line.
 *
 *   # a comment
 *   0123456789abcdef            may do both
 *   write fedcba9876543210      may send profiles and symbols
 *   read  ...                   may look at them
 *
 * They come as "Authorization: Bearer TOKEN", or as the password of Basic for tools and browsers that know only that;
 * the user is not looked at.
 */
#ifndef ET_TOKENS_H
#define ET_TOKENS_H

#include "tools/lib/util.h"

enum et_right { ET_RIGHT_READ = 1, ET_RIGHT_WRITE = 2 };

struct et_tokens;

/* NULL: wrong, and said. */
struct et_tokens *et_tokens_read(const char *path);
void et_tokens_free(struct et_tokens *tokens);

/* What the value of an Authorization header may do: rights or 0. NULL: there is none. Takes as long for a wrong token
 * as for a right one. Context: any thread. */
unsigned et_tokens_rights(const struct et_tokens *tokens, const char *authorization);

#endif
