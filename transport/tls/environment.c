/*
 * TLS settings from environment variables. Linked only into programs that call one of its functions.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include <edgeprof/port.h>

static void field_from_env(const char **field, const void *other, const char *name)
{
    if (!*field && !other)
        *field = ep_env_text(name);
}

static bool is_https(const char *endpoint)
{
    return endpoint && strncmp(endpoint, "https://", 8) == 0;
}

bool ep_tls_is_needed(const char *endpoint)
{
    return is_https(endpoint) || is_https(ep_env_text("EDGEPROF_ENDPOINT_OLD"));
}

int ep_tls_config_from_env(struct ep_tls_config *config)
{
    const char *no_clock = ep_env_text("EDGEPROF_TLS_NO_CLOCK");

    field_from_env(&config->ca_file, config->ca, "EDGEPROF_TLS_CA");
    field_from_env(&config->pin, NULL, "EDGEPROF_TLS_PIN");
    if (!config->pin)
        field_from_env(&config->ca_file, config->ca, "SSL_CERT_FILE");
    field_from_env(&config->cert_file, config->cert, "EDGEPROF_TLS_CERT");
    field_from_env(&config->key_file, config->key, "EDGEPROF_TLS_KEY");
    field_from_env(&config->server_name, NULL, "EDGEPROF_TLS_NAME");
    if (no_clock && strcmp(no_clock, "1") != 0 && strcmp(no_clock, "0") != 0)
        return ep_tls_refuse(-EINVAL, "EDGEPROF_TLS_NO_CLOCK: must be 1 or 0, not ", no_clock);
    if (no_clock && *no_clock == '1')
        config->flags |= EP_TLS_NO_CLOCK;
    return 0;
}
