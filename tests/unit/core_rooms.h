/* The headers of every room of core/, for tests of internals. */
#ifndef CORE_ROOMS_H
#define CORE_ROOMS_H

#include "core/sample/waiting.h"
#include "core/collect/collect.h"
#include "core/sample/record.h"
#include "core/deliver/deliver.h"
#include "core/encode/encode.h"
#include "core/features/pprof/pprof.h"
#include "core/lifecycle/start.h"
#include "core/unwind/cfi.h"
#include "core/unwind/walk.h"

#endif
