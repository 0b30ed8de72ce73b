// Coroutines of Boost.Context, each on a stack of its own from mmap().
#include <boost/context/continuation.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace ctx = boost::context;

static unsigned sum_to(unsigned limit)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < limit; i++)
        sum = (sum * 31 + i) % 1000003;
    return sum;
}

static unsigned thrown(unsigned value)
{
    try {
        if (value % 3 == 0)
            throw std::runtime_error("thrown in a coroutine");
    } catch (const std::exception &) {
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? atoi(argv[1]) : 10;
    unsigned long total = 0;
    std::vector<ctx::continuation> running;

    for (unsigned i = 0; i < 20; i++)
        running.push_back(ctx::callcc(std::allocator_arg, ctx::protected_fixedsize_stack(64 * 1024), [&total, rounds, i](ctx::continuation &&back) {
            std::vector<char> *kept = new std::vector<char>(1000);
            for (unsigned j = 0; j < rounds; j++) {
                total += sum_to(100000 + i) + thrown(j);
                void *block = malloc(100 + j % 5000);
                back = back.resume();
                free(block);
            }
            delete kept;
            return std::move(back);
        }));
    for (bool some = true; some;) {
        some = false;
        for (auto &each : running)
            if (each) {
                each = each.resume();
                some = true;
            }
    }
    printf("%lu\n", total);
    return 0;
}
