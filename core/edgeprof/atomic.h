/*
 * Atomic types in headers that C and C++ programs include. C++ has std::atomic of the same size and representation.
 */
#ifndef EP_ATOMIC_H
#define EP_ATOMIC_H

#ifdef __cplusplus

#include <atomic>

#define EP_ATOMIC(type) std::atomic<type>
/* Reads an object without an order. */
#define EP_ATOMIC_READ(object) ((object).load(std::memory_order_relaxed))

#else

#include <stdatomic.h>

#define EP_ATOMIC(type)        _Atomic(type)
#define EP_ATOMIC_READ(object) atomic_load_explicit(&(object), memory_order_relaxed)

#endif

#endif
