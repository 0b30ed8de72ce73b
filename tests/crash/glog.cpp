// A program with glog's handler of fatal signals, the real one, installed before or after edgeprof's, or after and then
// behind it by ep_crash_in_front(). It crashes in do_null(), or by LOG(FATAL). usage: glog before|after|front null|fatal
#include <glog/logging.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifdef LINKED
#include "core/edgeprof.h"

static uint64_t memory[EP_MEMORY_DEFAULT / 8];
static void begin()
{
    ep_config config = {};
    ep_crash_config crash = {};

    config.memory = memory;
    config.memory_size = sizeof memory;
    if (ep_config_from_env(&config) <= 0)
        return;
    if (ep_crash_from_env(&crash) <= 0 || ep_crash_start(&config, &crash) != 0 || ep_start(&config) != 0)
        std::fprintf(stderr, "start: %s\n", ep_start_error());
}

static void in_front()
{
    const int handlers = 6; // glog's: of SIGSEGV, SIGILL, SIGFPE, SIGABRT and SIGBUS, and SIGTERM, which is no crash

    if (std::getenv("EDGEPROF_CRASH") && ep_crash_in_front() != handlers - 1)
        std::fprintf(stderr, "in front of another number of handlers\n");
}

static void end()
{
    (void)ep_stop(2000);
    ep_crash_stop();
}
#else
static void begin() {}
static void in_front() {}
static void end() {}
#endif

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
        in_front();
    int result = middle(argv[2]);
    end();
    return result;
}
