/* A listening socket for "host:port", with better error messages than libmicrohttpd's. */
#ifndef ET_LISTEN_H
#define ET_LISTEN_H

#include <stddef.h>

/* Returns the socket, and its address as "host:port" (port 0 selects a free port). -1: failed, reported on stderr. */
int et_listen(const char *text, char *address, size_t size);

#endif
