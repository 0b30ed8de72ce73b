/*
 * Says at start that the program's own __wrap_pthread_create() took the place of edgeprof's, which the linker does
 * without a message. docs/getting-started-c.md shows how to have both.
 */
#include "sampler.h"

#include "thread_start.h"

extern ep_linux_create __wrap_pthread_create __attribute__((weak));
extern ep_linux_create *const ep_linux_wrapped __attribute__((weak)); /* thread_wrap.c, where the linker took it */
extern void ep_notice_line(const char *line) __attribute__((weak));   /* if the program has ep_notice_to() */

void ep_linux_wraps_check(void)
{
    if (__wrap_pthread_create && !&ep_linux_wrapped && ep_notice_line)
        ep_notice_line("the program's own __wrap_pthread_create() replaces edgeprof's: new threads are found within "
                       "seconds, not at once; docs/getting-started-c.md shows how to call both");
}
