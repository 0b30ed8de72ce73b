/*
 * One line on standard error about a failure of the preloaded profiler, and the remedy.
 */
#ifndef EP_LINUX_PRELOAD_LINES_H
#define EP_LINUX_PRELOAD_LINES_H

/* Writes "edgeprof: WHAT: WHY" and informs `edgeprof run` if that is the parent. Context: init. */
void ep_preload_say(const char *what, const char *why);

/* Writes "edgeprof: LINE" likewise. Context: deliver. */
void ep_preload_say_line(const char *line);

/* The same for a negative errno value: names the limit that was reached and how to raise it. why: what failed, "" if
 * that is obvious. Context: init. */
void ep_preload_say_error(const char *what, const char *why, int error);

#endif
