/*
 * found_stacks.c while threads ask at any moment: a stack that is mapped is found, even if it is asked for while the
 * mappings are being read. An answer for an ended thread with the same id is not taken. What no mapping contains is
 * asked for once.
 */
#include "linux_test.h"

#include "port/linux/linux.h"

static void (*at_end)(void);

/* The moment when all mappings were looked at. */
static int each_mapping(bool (*each)(const struct ep_linux_mapping *mapping, void *context), void *context)
{
    const int error = ep_linux_maps_each(each, context);

    if (at_end)
        at_end();
    return error;
}

#define ep_linux_maps_each each_mapping
#include "port/linux/found_stacks.c"
#undef ep_linux_maps_each

#define STACK_BYTES 65536u

enum { ONE = 1000001, TWO = 1000002 }; /* no threads of this process */

static uint8_t stack_one[4096], *stack_two;

static bool ask_for(uint32_t tid, const void *sp, struct ep_linux_bounds *bounds)
{
    *bounds = (struct ep_linux_bounds){0};
    return ep_linux_stack_found(tid, (uintptr_t)sp, bounds);
}

/* Pages between two that are not accessible, so the kernel joins them with no neighbour. */
static uint8_t *mapping_make(size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *all = mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (all == MAP_FAILED || mprotect(all + page, size, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    return all + page;
}

static bool is_inside(const void *sp, const struct ep_linux_bounds *bounds)
{
    return (uintptr_t)sp >= bounds->start && (uintptr_t)sp < bounds->end;
}

static void second_asks(void)
{
    struct ep_linux_bounds bounds;

    at_end = NULL;
    assert_false(ask_for(TWO, stack_two, &bounds));
}

TEST(test_asked_while_reading)
{
    struct ep_linux_bounds bounds;

    assert_false(ask_for(ONE, stack_one, &bounds));
    at_end = second_asks;
    ep_port_stacks_find();
    assert_true(ask_for(ONE, stack_one, &bounds));
    assert_true(is_inside(stack_one, &bounds));
    ep_port_stacks_find();
    assert_true(ask_for(TWO, stack_two, &bounds));
    assert_true(is_inside(stack_two, &bounds));
}

/* The bounds are the mapping's, to the byte. */
TEST(test_whole_mapping)
{
    struct ep_linux_bounds bounds;

    for (size_t at = 0; at < STACK_BYTES; at += STACK_BYTES / 2 - 1) {
        assert_false(ask_for(ONE + (uint32_t)at, stack_two + at, &bounds));
        ep_port_stacks_find();
        assert_true(ask_for(ONE + (uint32_t)at, stack_two + at, &bounds));
        assert_int_equal(bounds.start, (uintptr_t)stack_two);
        assert_int_equal(bounds.end, (uintptr_t)stack_two + STACK_BYTES);
    }
}

TEST(test_reused_id)
{
    struct ep_linux_bounds bounds;

    assert_false(ask_for(ONE, stack_one, &bounds));
    ep_port_stacks_find();
    assert_false(ask_for(ONE, stack_two, &bounds)); /* another thread by now */
    ep_port_stacks_find();
    assert_true(ask_for(ONE, stack_two, &bounds));
    assert_true(is_inside(stack_two, &bounds));
}

TEST(test_ended_threads_leave_room)
{
    struct ep_linux_bounds bounds;

    for (uint32_t i = 0; i < 2 * ASKED_MOST; i++)
        assert_false(ask_for(TWO + i, stack_one, &bounds));
    ep_port_stacks_find();
    ep_linux_stacks_forget();
    assert_false(ask_for(ONE, stack_one, &bounds));
    ep_port_stacks_find();
    assert_true(ask_for(ONE, stack_one, &bounds));
}

TEST(test_nowhere)
{
    struct ep_linux_bounds bounds;

    assert_false(ask_for(ONE, (const void *)64, &bounds));
    ep_port_stacks_find();
    assert_true(ask_for(ONE, (const void *)64, &bounds));
    assert_false(is_inside((const void *)64, &bounds));
    assert_true(bounds.end != 0); /* which ends the asking */
}

int main(void)
{
    stack_two = mapping_make(STACK_BYTES);
    if (!stack_two)
        return 2;
    return test_run();
}
