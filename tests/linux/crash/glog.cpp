// A program with glog's handler of fatal signals, the real one, installed before or after edgeprof's, or after and then
// behind it by ep_crash_in_front(). It crashes in do_null(), or by LOG(FATAL). usage: glog before|after|front null|fatal
#include <glog/logging.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "own.h"

// glog's: of SIGSEGV, SIGILL, SIGFPE, SIGABRT and SIGBUS. That of SIGTERM is of no crash.
static const int handlers = 5;

static volatile uintptr_t nowhere = 16;
static volatile int zero;

__attribute__((noinline, noclone)) static int do_null()
{
    return *reinterpret_cast<volatile int *>(nowhere);
}

__attribute__((noinline, noclone)) static int do_fatal()
{
    LOG(FATAL) << "the valve is stuck";
    return zero;
}

__attribute__((noinline, noclone)) static int middle(const char *how)
{
    return (std::strcmp(how, "null") == 0 ? do_null() : std::strcmp(how, "fatal") == 0 ? do_fatal() : 0) + zero;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    google::InitGoogleLogging(argv[0]);
    if (std::strcmp(argv[1], "before") == 0)
        google::InstallFailureSignalHandler();
    begin();
    if (std::strcmp(argv[1], "before") != 0)
        google::InstallFailureSignalHandler();
    if (std::strcmp(argv[1], "front") == 0)
        in_front(handlers);
    int result = middle(argv[2]);
    end();
    return result;
}
