/* One line on standard error about what the preloaded profiler cannot do, and what to do about it. */
#ifndef EP_LINUX_PRELOAD_LINES_H
#define EP_LINUX_PRELOAD_LINES_H

/* "edgeprof: WHAT: WHY". `edgeprof run`, when that is our parent, learns that a line was written. Context: init. */
void ep_preload_say(const char *what, const char *why);

/* The same, with what the system means by a negative errno value: the limit that is reached, how to raise it. why: what
 * failed, "": nothing that has to be named. Context: init. */
void ep_preload_say_error(const char *what, const char *why, int error);

#endif
