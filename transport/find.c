/*
 * Finds the transport for an endpoint by its scheme. The transport's open() checks the rest of the endpoint.
 */
#include <string.h>

#include "transport/http.h"

const struct ep_transport *ep_transport_https;

const struct ep_transport *ep_transport_find(const char *endpoint)
{
    static const struct {
        const char *scheme;
        const struct ep_transport *transport;
    } schemes[] = {
#if EP_SOCKETS
        {"http://", &ep_transport_http},
#endif
        {"file://", &ep_transport_file},
        {"null:", &ep_transport_null},
    };

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strncmp(endpoint, schemes[i].scheme, strlen(schemes[i].scheme)) == 0)
            return schemes[i].transport;
    return strncmp(endpoint, "https://", 8) == 0 ? ep_transport_https : NULL;
}
