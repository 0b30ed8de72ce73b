/* See crash_name.h. */
#include "tools/formats/crash_name.h"
#include "tools/lib/pattern.h"

static const char ENDINGS[] =
    "^(_*pthread_kill(_implementation|_internal|@.*)?"
    "|_*(libc_|GI_)*(raise|gsignal|abort|message|fatal|assert_fail(_base)?|assert_perror_fail|stack_chk_fail|fortify_"
    "fail|"
    "chk_fail)(_impl)?"
    "|tgkill|kill|malloc_printerr|_int_free.*|_int_malloc|_*(libc_)?(free|malloc|realloc)|__restore_rt|\\[signal\\]"
    "|std::terminate.*|__cxxabiv1::.*|__cxa_(throw|rethrow|pure_virtual).*|__gnu_cxx::__verbose_terminate_handler.*"
    "|__sanitizer::.*|__asan.*|RhFailFast.*|System\\.Environment\\.FailFast.*"
    "|rust_panic.*|std::panicking::.*|core::panicking::.*|runtime\\.(throw|fatalpanic|dieFromSignal|raise).*)$";

bool et_crash_is_ending(const char *function)
{
    struct et_buf why = {0};
    struct et_pattern *pattern = et_pattern_new(ENDINGS, &why);
    bool found = pattern && et_pattern_matches(pattern, function);
    et_pattern_free(pattern);
    et_buf_free(&why);
    return found;
}
