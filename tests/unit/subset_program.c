/* A program on the port of tests/unit/subset, without threads: it works, and sends to a file. */
#include <edgeprof/edgeprof.h>
#include <stdio.h>

static uint8_t memory[EP_MEMORY_DEFAULT];
static volatile unsigned sum;

__attribute__((noinline)) static void filter(void)
{
    for (unsigned i = 0; i < 3000000; i++)
        sum += i * i;
}

__attribute__((noinline)) static void add(void)
{
    for (unsigned i = 0; i < 1000000; i++)
        sum ^= i;
}

__attribute__((noinline)) static void work(void)
{
    filter();
    add();
    sum++; /* no tail call */
}

int main(int argc, char **argv)
{
    const struct ep_config config = {.memory = memory,
                                     .memory_size = sizeof memory,
                                     .service = "subset",
                                     .level = EP_LEVEL_HIGH,
                                     .endpoint = argv[argc - 1],
                                     .flags = EP_MANUAL};

    if (ep_start(&config) != 0) {
        fprintf(stderr, "subset_program: %s\n", ep_start_error());
        return 1;
    }
    for (int round = 0; round < 200; round++) {
        work();
        (void)ep_collect();
        (void)ep_deliver(0);
    }
    return ep_stop(1000) != 0;
}
