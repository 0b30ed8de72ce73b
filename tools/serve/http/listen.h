/*
 * A listening socket of "host:port": libmicrohttpd would not say why it failed.
 */
#ifndef ET_LISTEN_H
#define ET_LISTEN_H

#include <stddef.h>

/* The socket, and where it listens as "host:port" (port 0 took a free one); -1 with a line on stderr. */
int et_listen(const char *text, char *address, size_t size);

#endif
