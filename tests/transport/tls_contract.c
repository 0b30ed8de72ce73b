/*
 * transport/contract/ on https: far.c's HTTP server plays its parts behind tls_contract.py, which ends TLS in front of
 * it.
 *
 *     tls_contract        prints the far end's port, reads the one that speaks TLS; EDGEPROF_TLS_*
 */
#include <stdalign.h>
#include <stdio.h>

#include "far.h"
#include "transport/http.h"
#include <edgeprof/tls.h>

static alignas(16) uint8_t memory[EP_TLS_MEMORY];

int main(void)
{
    static const char *const bad[] = {"", "https://", "https://h:0", "https://h/a b", NULL};
    struct ep_tls_config tls = {.memory = memory, .memory_size = sizeof memory};
    struct far far;
    char port[8], endpoint[96];
    struct ep_contract_transport test = {.target = {.endpoint = endpoint, .service = "contract", .tags = ""},
                                         .bad_endpoints = bad};

    far_start(&far, &far_http);
    printf("%s\n", far.port);
    fflush(stdout);
    if (scanf("%7[0-9]", port) != 1 || ep_tls_config_from_env(&tls) != 0 || ep_tls_setup(&tls) != 0) {
        fprintf(stderr, "tls_contract: %s\n", ep_tls_error());
        return 1;
    }
    snprintf(endpoint, sizeof endpoint, "https://127.0.0.1:%s/prefix", port);
    test.transport = ep_transport_https;
    test.far = far_contract(&far);
    unsigned broken = ep_contract_transport(&test);
    far_stop(&far);
    ep_tls_end();
    printf("tls_contract: %u promises broken\n", broken);
    return broken != 0;
}
