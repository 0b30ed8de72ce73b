/*
 * A scripted ep_stream for tests: what the far end says is given beforehand, what it hears is recorded, and any call
 * can be made to fail. One script at a time, in the global `script`.
 */
#ifndef SCRIPT_H
#define SCRIPT_H

#include <edgeprof/transport.h>

#define SCRIPT_CONNECTIONS 8
#define SCRIPT_HEARD       16384

struct script_connection {
    const char *says; /* all that the far end ever sends, at once after the connect; then it closes */
    size_t size;
    size_t pause; /* after that many bytes it waits for another request; 0: it does not */
    int resumed;
    size_t said;
    size_t heard_size;
    char heard[SCRIPT_HEARD];
};

struct script {
    struct script_connection connections[SCRIPT_CONNECTIONS];
    unsigned given, opened, closed;
    size_t read_at_most, write_at_most; /* 0: no limit */
    unsigned calls;                     /* connect, read, write together */
    unsigned fail_at;                   /* the n-th call from now on fails, 0: none */
    long fail_with;                     /* negative errno value, or 0: the far end has closed */
    int failed;
    int open;
    const char *host, *port;
    uint64_t deadline_ns; /* of the last call */
};

extern struct script script;
extern const struct ep_stream script_stream;

void script_reset(void);
/* The next connection's far end. */
void script_say_bytes(const char *bytes, size_t size);
void script_say(const char *text);
/* From the next call on, the n-th fails. */
void script_fail(unsigned n, long with);

#endif
