/*
 * The template of a port in a library without sockets (BOARD_SOCKETS := 0): it delivers to files, and refuses http://.
 */
#include <stdio.h>
#include <string.h>

#include <edgeprof/edgeprof.h>

static uint8_t memory[EP_MEMORY_DEFAULT];

static int start(const char *endpoint)
{
    const struct ep_config config = {
        .memory = memory, .memory_size = sizeof memory, .service = "offline", .endpoint = endpoint, .flags = EP_MANUAL};
    const int error = ep_start(&config);

    if (error == 0)
        (void)ep_stop(0);
    return error;
}

int main(void)
{
    const int to_file = start("null:"), to_server = start("http://127.0.0.1:4040");

    printf("offline: null: %d, http: %d, %s\n", to_file, to_server, ep_start_error());
    return to_file == 0 && to_server < 0 && strstr(ep_start_error(), "endpoint") ? 0 : 1;
}
