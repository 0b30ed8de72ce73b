/*
 * Another tracer, as a shared object with a thread context of its own (OTEP 4947). One record a thread.
 */
#ifndef TRACER_H
#define TRACER_H

#include <stdint.h>

/* All bytes of the ids are `id`; valid: 1, or what else a record may say. */
void tracer_span(uint8_t id, uint8_t valid);
void tracer_none(void);
/* The thread's pointer points there. */
void tracer_point(void *record);

#endif
