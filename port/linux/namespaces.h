/*
 * Private to the module table: finds the modules that dlmopen() loads into other namespaces.
 */
#ifndef EP_LINUX_NAMESPACES_H
#define EP_LINUX_NAMESPACES_H

#include <link.h>
#include <stdbool.h>

/* Returns true if there is executable memory that belongs to no listed module and was not asked for.
 * Context: collect. */
bool ep_linux_namespaces_more(void);

/* Asks for it, and pins what it finds. Waits for the loader's lock. Context: any thread, one at a time. */
void ep_linux_namespaces_pin(void);

/* Calls each() with every pinned module of another namespace. Context: collect. */
void ep_linux_namespaces_each(void (*each)(struct dl_phdr_info *info));

#endif
