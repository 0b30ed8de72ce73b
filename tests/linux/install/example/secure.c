/*
 * Https, for the test of what was installed: set up with a pinned key, so that nothing of the system is needed, and an
 * endpoint that nobody listens at. Says what ep_start() made of it.
 *
 *   cc -O2 -g secure.c $(pkg-config --cflags --libs edgeprof) -o secure
 */
#include <edgeprof/edgeprof.h>
#include <edgeprof/tls.h>
#include <stdio.h>

static uint8_t memory[EP_MEMORY_DEFAULT], tls_memory[EP_TLS_MEMORY];

int main(void)
{
    const struct ep_tls_config tls = {.memory = tls_memory,
                                      .memory_size = sizeof tls_memory,
                                      .pin = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="};
    const struct ep_config config = {
        .memory = memory, .memory_size = sizeof memory, .flags = EP_MANUAL, .endpoint = "https://127.0.0.1:1"};

    int before = ep_start(&config);
    printf("%s\n", before != 0 ? ep_start_error() : "started without TLS");
    int set_up = ep_tls_setup(&tls), after = ep_start(&config), stopped = ep_stop(0);
    printf("%d %d %d\n", set_up, after, stopped == 0 || before == 0);
    return 0;
}
