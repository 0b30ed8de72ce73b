/* Loads the NativeAOT library and calls its function; see host.c. */
#ifndef HOST_H
#define HOST_H

/* 0, or 1 after a line on standard error. */
int host_load(const char *path);
/* Ends with one more throw. */
void host_call(void);
unsigned long host_throws(void);

#endif
