/*
 * The thread of `serve` that keeps the store small: what is due is merged, what is too old or too much goes
 * (store_keep.h), in steps with pauses of the same length, so that it has half of the store's time at most. And how
 * long and how much is kept, as options and the section [keep] of the config file say.
 */
#ifndef ET_KEEPER_H
#define ET_KEEPER_H

#include "tools/lib/config.h"
#include "tools/serve/http/http.h"
#include "tools/store/store_keep.h"

struct et_keeper;

/* Its steps are committed with what arrives meanwhile: a connection of its own would keep senders waiting for the lock.
 * NULL: failed, one line is on stderr. */
struct et_keeper *et_keeper_start(struct et_server *server, const struct et_policy *policy);
/* Before the server stops. Ends after the step that is under way. NULL is nothing. */
void et_keeper_stop(struct et_keeper *keeper);

/* "14d", "forever"; "4G", "any". False: not of that form. */
bool et_policy_keep(const char *text, struct et_policy *policy);
bool et_policy_size(const char *text, struct et_policy *policy);

/* Sets what the section says. False: wrong, and said. */
bool et_policy_read(const struct et_config *config, const struct et_section *section, struct et_policy *policy);

#endif
