/*
 * The control and the pull endpoint answer requests over HTTP inside the program (core/features/control/README.md,
 * core/features/pull/README.md). edgeprof.h includes this header.
 */
#ifndef EDGEPROF_ENDPOINT_H
#define EDGEPROF_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts the control endpoint, which serves level, kinds and statistics over HTTP to curl and to tools on the device. A
 * program that does not call this does not link it. The endpoint stays open across ep_stop() and ep_start().
 *
 *   where  the path of a Unix socket, which only the program's user can access, or a port of 127.0.0.1. NULL: where and
 *          token are read from EDGEPROF_CONTROL and EDGEPROF_CONTROL_TOKEN
 *   token  the text that requests carry as "Authorization: Bearer TOKEN". A port needs one of at least 16 characters
 *
 * Both strings must stay valid until ep_control_stop().
 *
 * Returns
 *   1          it listens
 *   0          no address was given
 *   -EINVAL    neither a path nor a port, or a port without a valid token
 *   -EALREADY  it listens already
 *   others     the system's error
 * Context: init. */
int ep_control_start(const char *where, const char *token);
/* Stops the control endpoint. Returns 0, -ESRCH when there is none, or -EBUSY: its thread does not end within 10 s and
 * keeps its memory. Context: init. */
int ep_control_stop(void);

struct ep_pull_config {
    /* All memory of the endpoint, at least EP_PULL_MEMORY_MIN bytes, any alignment. It holds requests and the
     * endpoint's own profiles; more memory makes these larger. It must stay valid until ep_pull_stop(). */
    void *memory;
    size_t memory_size;
    /* "port" (of 127.0.0.1), "address:port", "[IPv6 address]:port". NULL: where and token are read from
     * EDGEPROF_PULL and EDGEPROF_PULL_TOKEN. */
    const char *where;
    /* Requests must carry it, as "Authorization: Bearer TOKEN" or as a password ("http://any:TOKEN@host/..."). An
     * address other than loopback needs one of at least 16 characters; /control needs one on every address. */
    const char *token;
    /* Your consent (EDGEPROF_PULL_INSECURE=1) to an address other than loopback, because the token and the profiles
     * cross the network unencrypted. Better: TLS in front, on this machine. */
    bool insecure;
};

/* Starts the pull endpoint, which serves profiles on request over HTTP. It has the paths of Go programs: /debug/pprof/
 * for go tool pprof, Parca and curl, and /metrics for Prometheus. A program that does not call this does not link it.
 *
 * Pulled profiles have memory of their own, so pulling removes nothing from pushed profiles. Without an endpoint in
 * ep_config, profiles are available by pull only. The endpoint stays open across ep_stop() and ep_start(). `where` and
 * `token` must stay valid until ep_pull_stop().
 *
 * Returns
 *   1          it listens
 *   0          no address was given
 *   -EINVAL    no valid address and port, or one that needs a (longer) token
 *   -EACCES    an address beyond loopback, without consent
 *   -ENOMEM    memory_size is too small
 *   -EALREADY  it listens already
 *   others     the system's error
 * Context: init. */
int ep_pull_start(const struct ep_pull_config *config);
/* Stops the pull endpoint. Returns as ep_control_stop(). Context: init. */
int ep_pull_stop(void);

#ifdef __cplusplus
}
#endif

#endif
