/* Loads the NativeAOT library and calls its function; see host.c. */
#ifndef HOST_H
#define HOST_H

/* For the calling thread. 0, or 1 after a line on standard error. */
int host_load(const char *path);
/* For another thread, once, after host_load(). 0 or 1. */
int host_join(void);
/* Ends with one more throw. */
void host_call(void);
unsigned long host_throws(void);

#endif
