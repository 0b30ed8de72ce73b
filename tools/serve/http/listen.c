/* See listen.h. */
#include "tools/serve/http/listen.h"
#include "tools/lib/util.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int et_listen(const char *text, char *address, size_t size)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof host || digits == 0 || digits > 5 ||
        colon[1 + digits] || strtoul(colon + 1, NULL, 10) > 65535) {
        et_error("--listen %s: expected host:port", text);
        return -1;
    }
    bool bracket = text[0] == '[' && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(colon - text) - 2 * bracket, text + bracket);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
    int err = getaddrinfo(host, colon + 1, &hints, &found);
    if (err) {
        et_error("--listen %s: %s", text, gai_strerror(err));
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    struct sockaddr_storage bound;
    socklen_t bound_size = sizeof bound;
    char port[8] = "?";
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &bound_size) != 0) {
        et_error("cannot listen on %s: %s%s", text, strerror(errno),
                 errno == EADDRINUSE ? "; choose another port with --listen" : "");
        if (fd >= 0) {
            close(fd);
        }
        fd = -1;
    } else {
        getnameinfo((struct sockaddr *)&bound, bound_size, NULL, 0, port, sizeof port, NI_NUMERICSERV);
        snprintf(address, size, bracket ? "[%s]:%s" : "%s:%s", host, port);
    }
    freeaddrinfo(found);
    return fd;
}
