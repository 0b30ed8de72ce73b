// Objects of every form of operator new, from four threads, for an allocator that is preloaded.
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

struct alignas(64) Line {
    unsigned words[16];
};

static unsigned long work(unsigned seed)
{
    std::vector<std::unique_ptr<std::string>> kept;
    unsigned long sum = 0;
    for (unsigned i = 0; i < 6000000; i++) {
        seed = seed * 1103515245 + 12345;
        kept.push_back(std::make_unique<std::string>(seed >> 24, 'x'));
        std::unique_ptr<Line> line(new Line());
        std::unique_ptr<char[]> some(new (std::nothrow) char[seed >> 22]);
        some[0] = static_cast<char>(i);
        line->words[i % 16] = seed;
        sum += kept.back()->size() + line->words[i % 16] % 7;
        if (kept.size() > 5000)
            kept.clear();
    }
    return sum;
}

int main()
{
    unsigned long sums[4];
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; i++)
        threads.emplace_back([&sums, i] { sums[i] = work(i); });
    for (auto &thread : threads)
        thread.join();
    printf("%lu\n", sums[0] + sums[1] + sums[2] + sums[3]);
    return 0;
}
