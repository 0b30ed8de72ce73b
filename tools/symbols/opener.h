/*
 * A process that opens symbol files for this one, which has given up the right to do it itself (tools/lib/confine.h).
 *
 * Devices name the files of their programs and libraries, and those may be anywhere on this machine. The process opens
 * regular files that are ELF, and no core dumps, which hold other programs' memory: whoever controls this process can
 * read no other file by it. It starts no program and writes nothing.
 */
#ifndef ET_OPENER_H
#define ET_OPENER_H

/* Starts it: et_symfile_...() functions open their files by it from then on. It ends when this process does. Returns 0
 * or a negative errno value. Context: once, before the process has a second thread. */
int et_opener_start(void);

#endif
