/* relay_pyroscope.c's reader of answers. */
#ifndef ET_RELAY_PYROSCOPE_H
#define ET_RELAY_PYROSCOPE_H

#include "tools/serve/relay/relay_backend.h"

/* A backend's judge(), see relay_backend.h. */
enum et_relay_told et_relay_pyroscope_judge(const struct et_relay_part *const *parts, size_t count, const char *words,
                                            enum et_relay_verdict *verdicts);

#endif
