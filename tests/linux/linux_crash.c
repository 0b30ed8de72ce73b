/*
 * The file of a crash record, cut and changed at every byte: what a power cut leaves is refused or read right.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/crash/crash.h"

static char dir[] = "/tmp/linux-crash-XXXXXX", path[64];
static uint64_t memory[EP_MEMORY_DEFAULT / 8];
static uint8_t whole[EP_CRASH_FILE_SIZE];
static uint32_t body_size;

static void file_set(const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(close(fd), 0);
}

static void file_get(void *bytes, size_t size)
{
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(read(fd, bytes, size), size);
    assert_int_equal(close(fd), 0);
}

/* A record of this thread, as if it had crashed here. */
static int record_make(void **state)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .endpoint = "null:"};
    const struct ep_crash_config crash = {.dir = dir, .registers = true};
    struct ep_crash_event event = {.signal = 11, .code = 1, .registers = 3, .value = {1, 2, 3}};
    struct ep_crash_head head;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/edgeprof-crash", dir);
    assert_int_equal(ep_crash_start(&config, &crash), 0);
    assert_int_equal(ep_start(&config), 0);
    event.tid = ep_port_here(&event.context);
    assert_true(ep_crash_begin(&event));
    for (unsigned step = 0; step < EP_CRASH_STEPS; step++)
        ep_crash_step((enum ep_crash_step_number)step);
    ep_crash_end();
    assert_int_equal(ep_stop(1000), 0);
    ep_crash_stop();
    file_get(whole, sizeof whole);
    memcpy(&head, whole + EP_CRASH_HEAD_AT, sizeof head);
    body_size = head.size;
    return 0;
}

static int record_remove(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(dir);
}

/* Reads the file. Returns ep_crash_read()'s result. */
static int look(const struct ep_crash_view **view)
{
    assert_int_equal(ep_port_crash_open(dir, EP_CRASH_FILE_SIZE), 0);
    int error = ep_crash_read(view);
    ep_port_crash_close();
    return error;
}

static void whole_is_read(void **state)
{
    const struct ep_crash_view *view;

    (void)state;
    file_set(whole, sizeof whole);
    assert_int_equal(look(&view), 0);
    assert_int_equal(view->fault.signal, 11);
    assert_int_equal(view->register_count, 3);
    assert_true(view->stacks >= 1 && view->modules >= 1);
    assert_true(view->stack[0].head.depth >= 3);
    assert_int_equal(view->run.pid, getpid());
}

static void each_byte_counts(void **state)
{
    const struct ep_crash_view *view;
    unsigned refused = 0;

    (void)state;
    for (uint32_t at = 0; at < sizeof(struct ep_crash_head) + body_size; at++) {
        uint32_t place = at < sizeof(struct ep_crash_head)
                             ? EP_CRASH_HEAD_AT + at
                             : EP_CRASH_BODY_AT + at - (uint32_t)sizeof(struct ep_crash_head);
        uint8_t kept = whole[place];
        whole[place] ^= (uint8_t)(1u << at % 8);
        file_set(whole, sizeof whole);
        whole[place] = kept;
        int error = look(&view);
        assert_int_equal(error, -EBADMSG);
        refused++;
    }
    assert_true(refused > 500);
}

static void each_cut_is_seen(void **state)
{
    const struct ep_crash_view *view;
    uint32_t end = EP_CRASH_BODY_AT + body_size, last = end;

    (void)state;
    while (last > 0 && whole[last - 1] == 0) /* zeros come back when the file is filled up */
        last--;
    for (uint32_t size = 0; size < end; size += size < EP_CRASH_HEAD_AT ? 512 : 1) {
        file_set(whole, size);
        int error = look(&view);
        if (size <= EP_CRASH_HEAD_AT)
            assert_int_equal(error, -ENOENT);
        else
            assert_int_equal(error, size < last ? -EBADMSG : 0);
    }
}

/* A body that is not what it says, with a right sum: a later version, or another program. */
static void nonsense_is_read_safely(void **state)
{
    const struct ep_crash_view *view;
    uint32_t seed = 1;

    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        uint8_t file[EP_CRASH_FILE_SIZE];
        struct ep_crash_head head;
        memcpy(file, whole, sizeof file);
        for (unsigned i = 0; i < 8; i++) {
            seed = seed * 1664525 + 1013904223;
            uint32_t place = EP_CRASH_BODY_AT + (seed >> 8) % body_size;
            file[place] = (uint8_t)(round % 2 ? 0xff : seed >> 3);
        }
        memcpy(&head, file + EP_CRASH_HEAD_AT, sizeof head);
        head.crc = ep_crash_crc(&head.version, 8);
        head.crc = ep_crash_crc_on(head.crc, file + EP_CRASH_BODY_AT, head.size);
        memcpy(file + EP_CRASH_HEAD_AT, &head, sizeof head);
        file_set(file, sizeof file);
        if (look(&view) == 0) {
            assert_true(view->stacks <= EP_CRASH_THREADS + 1 && view->modules <= EP_CRASH_MODULES_MOST);
            for (unsigned i = 0; i < view->stacks; i++)
                assert_true(view->stack[i].pcs + view->stack[i].head.depth * 8u <= ep_crash_body + body_size);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_is_read),
        cmocka_unit_test(each_byte_counts),
        cmocka_unit_test(each_cut_is_seen),
        cmocka_unit_test(nonsense_is_read_safely),
    };

    return cmocka_run_group_tests(tests, record_make, record_remove);
}
