/*
 * Threads that nobody announces: std::thread calls pthread_create() inside libstdc++.so, which the linker's --wrap does
 * not see. From a thread's second sample on, its stacks are whole.
 *
 *   threads SECONDS PROFILE    exits with 1 unless 99 % of the samples have whole stacks
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <edgeprof/edgeprof.h>

static uint8_t memory[EP_MEMORY_DEFAULT];
static double seconds;

static double cpu_time()
{
    timespec now{};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

__attribute__((noinline)) static unsigned descend(unsigned depth)
{
    volatile unsigned sum = depth;

    if (depth)
        return descend(depth - 1) + sum;
    for (unsigned i = 0; i < 20000; i++)
        sum = sum + i;
    return sum;
}

static void work(unsigned depth)
{
    for (double end = cpu_time() + seconds; cpu_time() < end;)
        (void)descend(depth);
}

int main(int argc, char **argv)
{
    ep_config config{};
    ep_stats stats{};
    std::vector<std::thread> threads;

    if (argc != 3)
        return 2;
    seconds = std::atof(argv[1]);
    std::string endpoint = std::string("file://") + argv[2];
    config.memory = memory;
    config.memory_size = sizeof memory;
    config.service = "foreign";
    config.endpoint = endpoint.c_str();
    config.rate_hz = 250;
    if (ep_start(&config) != 0)
        return 2;
    for (unsigned i = 0; i < 4; i++)
        threads.emplace_back(work, 5 + 10 * i);
    for (std::thread &thread : threads)
        thread.join();
    if (ep_stats_get(&stats) != 0 || ep_stop(20000) != 0)
        return 2;
    double whole = 100.0 * static_cast<double>(stats.exact) / static_cast<double>(stats.samples);
    std::printf("threads of std::thread: %.2f %% of %llu stacks are whole, %llu cut\n", whole,
                static_cast<unsigned long long>(stats.samples), static_cast<unsigned long long>(stats.cut));
    return whole < 99;
}
