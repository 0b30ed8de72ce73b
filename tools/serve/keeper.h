/*
 * The thread of `serve` that limits the database's size: it merges and deletes (store_keep.h) in steps, with pauses as
 * long as the steps, so that it uses at most half of the database's time. Also parses the retention options and the
 * section [keep].
 */
#ifndef ET_KEEPER_H
#define ET_KEEPER_H

#include "tools/lib/config.h"
#include "tools/serve/http/http.h"
#include "tools/store/store_keep.h"

struct et_keeper;

/* Its steps share transactions with arriving messages: a separate connection would make senders wait for the lock.
 * NULL: failed, reported on stderr. */
struct et_keeper *et_keeper_start(struct et_server *server, const struct et_policy *policy);
/* Call it before the server stops. Waits for the step in progress. keeper may be NULL. */
void et_keeper_stop(struct et_keeper *keeper);

/* "14d", "forever"; "4G", "any". False: malformed. */
bool et_policy_keep(const char *text, struct et_policy *policy);
bool et_policy_size(const char *text, struct et_policy *policy);

/* Applies the section's settings. False: invalid, which was reported. */
bool et_policy_read(const struct et_config *config, const struct et_section *section, struct et_policy *policy);

#endif
