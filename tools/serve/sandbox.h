/*
 * What `edgeprof serve` gives up before it reads anything from others: files that it has no use for, system calls that
 * it never makes, and new privileges. A fault in a parser then reaches what the server itself needs, and no more.
 *
 * Symbol files that devices name are opened by another process (tools/symbols/reader.h), which has to run before.
 * Without it only what is written is limited.
 */
#ifndef ET_SANDBOX_H
#define ET_SANDBOX_H

#include "tools/serve/relay/relay.h"
#include "tools/serve/settings.h"

struct et_sandbox_config {
    const struct et_serve_settings *settings;
    const struct et_relay_config *relay;
    const struct et_list *symbols, *sources; /* folders */
    const char *symbols_store;               /* NULL: none */
    const char *debuginfod; /* servers, blanks between; NULL: none are asked. Their client is a program of its own. */
    const char *cache;      /* of debuginfod */
};

/* Never fails: what this kernel cannot do is left out. Appends one line for the user that says what holds. Context:
 * once, before the process has a second thread. */
void et_sandbox_enter(const struct et_sandbox_config *config, struct et_buf *line);

/* What holds since et_sandbox_enter(). Context: any thread. */
struct et_sandbox_state {
    bool landlock, seccomp;
};
struct et_sandbox_state et_sandbox_state(void);

#endif
