/*
 * A program that calls much and waits never: polls without a timeout, reads of a socket without data. It prints the
 * share of its time that hooks add to these calls, in %: the calls by their names, which a preloaded library
 * interposes, and the C library's own take turns. Usage: calls SECONDS
 */
#include "../../program.h"

#define CALLS 256u

typedef int poll_function(struct pollfd *events, nfds_t count, int timeout);
typedef ssize_t read_function(int fd, void *bytes, size_t size);

static int ends[2];

__attribute__((noinline)) uint64_t make_calls(poll_function *poll_it, read_function *read_it);
uint64_t make_calls(poll_function *poll_it, read_function *read_it)
{
    struct pollfd event = {.fd = ends[0], .events = POLLIN};
    uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    char byte;

    for (unsigned i = 0; i < CALLS; i++) {
        (void)poll_it(&event, 1, 0);
        (void)read_it(ends[0], &byte, 1);
    }
    return clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

int main(int argc, char **argv)
{
    uint64_t until =
        clock_ns(CLOCK_THREAD_CPUTIME_ID) + (argc > 1 ? strtoul(argv[1], NULL, 10) : 0) * UINT64_C(1000000000);
    void *library = dlopen("libc.so.6", RTLD_NOW), *found[2];
    uint64_t hooked = 0, bare = 0;
    poll_function *poll_it;
    read_function *read_it;

    if (!library || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0)
        return 1;
    found[0] = dlsym(library, "poll");
    found[1] = dlsym(library, "read");
    memcpy(&poll_it, &found[0], sizeof poll_it);
    memcpy(&read_it, &found[1], sizeof read_it);
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until) {
        hooked += make_calls(poll, read);
        bare += make_calls(poll_it, read_it);
    }
    printf("added %.2f\n", 100 * ((double)hooked - (double)bare) / (double)(hooked + bare));
    return 0;
}
