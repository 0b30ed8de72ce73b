/*
 * The file of a crash record, cut and changed at every byte, and as a power cut leaves it at any of the handler's
 * writes: what is damaged is refused, what is whole is read right. Linked with --wrap, to see the writes.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/features/crash/crash.h"
#include "tests/unit/test.h"
#include <edgeprof/transport.h>

#define SECTOR 512u

static char dir[] = "/dev/shm/linux-crash-XXXXXX", path[64];
static uint64_t memory[EP_MEMORY_DEFAULT / 8];
static uint8_t whole[EP_CRASH_FILE_SIZE];
static uint32_t body_size;

/* What the handler wrote, in order; `epoch` counts the syncs before it. */
static struct {
    bool on;
    unsigned count, epoch;
    struct {
        unsigned epoch;
        uint32_t at, size;
        uint8_t bytes[EP_CRASH_FILE_SIZE];
    } write[8];
} disk;

int __real_ep_port_crash_write(uint64_t at, const void *bytes, size_t size);
int __wrap_ep_port_crash_write(uint64_t at, const void *bytes, size_t size);
int __real_ep_port_crash_sync(void);
int __wrap_ep_port_crash_sync(void);

int __wrap_ep_port_crash_write(uint64_t at, const void *bytes, size_t size)
{
    if (disk.on) {
        assert_true(disk.count < 8 && at + size <= EP_CRASH_FILE_SIZE);
        disk.write[disk.count].epoch = disk.epoch;
        disk.write[disk.count].at = (uint32_t)at;
        disk.write[disk.count].size = (uint32_t)size;
        memcpy(disk.write[disk.count++].bytes, bytes, size);
    }
    return __real_ep_port_crash_write(at, bytes, size);
}

int __wrap_ep_port_crash_sync(void)
{
    disk.epoch += disk.on;
    return __real_ep_port_crash_sync();
}

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
    struct ep_crash_event event = {.signal = 11, .code = 1, .values = 3, .value = {1, 2, 3}};
    struct ep_crash_head head;

    (void)state;
    if (access("/dev/shm", W_OK) != 0)
        (void)snprintf(dir, sizeof dir, "/tmp/linux-crash-XXXXXX");
    assert_non_null(mkdtemp(dir)); /* in memory: thousands of files are synced */
    (void)snprintf(path, sizeof path, "%s/edgeprof-crash", dir);
    assert_int_equal(ep_crash_start(&crash), 0);
    assert_int_equal(ep_start(&config), 0);
    event.tid = ep_port_here(&event.registers);
    disk.on = true;
    assert_true(ep_crash_begin(&event));
    for (unsigned step = 0; step < EP_CRASH_STEPS; step++)
        ep_crash_step((enum ep_crash_step_number)step);
    ep_crash_end();
    disk.on = false;
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

TEST(whole_is_read)
{
    const struct ep_crash_view *view;

    file_set(whole, sizeof whole);
    assert_int_equal(look(&view), 0);
    assert_int_equal(view->fault.signal, 11);
    assert_int_equal(view->register_count, 3);
    assert_true(view->stacks >= 1 && view->modules >= 1);
    assert_true(view->stack[0].head.depth >= 3);
    assert_int_equal(view->run.pid, getpid());
}

TEST(each_byte_counts)
{
    const struct ep_crash_view *view;
    unsigned refused = 0;

    for (uint32_t at = 0; at < sizeof(struct ep_crash_head) + body_size; at += unit_step()) {
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
    assert_true(refused > 500 / unit_step());
}

TEST(each_cut_is_seen)
{
    const struct ep_crash_view *view;
    uint32_t end = EP_CRASH_BODY_AT + body_size, last = end;

    while (last > 0 && whole[last - 1] == 0) /* zeros come back when the file is filled up */
        last--;
    for (uint32_t size = 0; size < end; size += size < EP_CRASH_HEAD_AT ? 512 : unit_step()) {
        file_set(whole, size);
        int error = look(&view);
        if (size <= EP_CRASH_HEAD_AT)
            assert_int_equal(error, -ENOENT);
        else
            assert_int_equal(error, size < last ? -EBADMSG : 0);
    }
}

/* Puts a write's sectors of which `which` has the bit onto the disk. Returns whether that is all of them. */
static bool sectors_write(uint8_t *file, unsigned write, uint64_t which)
{
    const uint32_t at = disk.write[write].at, end = at + disk.write[write].size;
    bool all = true;

    for (uint32_t from = at, i = 0; from < end; i++) {
        uint32_t to = (from / SECTOR + 1) * SECTOR < end ? (from / SECTOR + 1) * SECTOR : end;
        if (which >> i & 1)
            memcpy(file + from, disk.write[write].bytes + from - at, to - from);
        all = all && which >> i & 1;
        from = to;
    }
    return all;
}

/* The power fails when all writes before `last`, and these of its sectors, are on the disk. An earlier record was
 * delivered, so its head is gone; `old` is what its body left. Returns the stacks that are read; 0: there is no record.
 */
static unsigned power_fails(unsigned last, uint64_t which, int old)
{
    static uint8_t file[EP_CRASH_FILE_SIZE];
    const struct ep_crash_view *view;
    unsigned heads = 0;

    memset(file, 0, sizeof file);
    memset(file + EP_CRASH_BODY_AT, old, EP_CRASH_BODY_MOST);
    for (unsigned i = 0; i <= last; i++) {
        bool all = sectors_write(file, i, i < last ? UINT64_MAX : which);
        heads += disk.write[i].at == EP_CRASH_HEAD_AT && all;
    }
    file_set(file, sizeof file);
    int error = look(&view);
    assert_int_equal(error, heads ? 0 : -ENOENT); /* what comes after the first head takes nothing away */
    if (error)
        return 0;
    assert_int_equal(view->fault.signal, 11);
    assert_true(view->stacks >= 1 && view->stack[0].head.depth >= 3);
    return view->stacks;
}

TEST(each_write_can_be_the_last)
{
    unsigned found = 0;

    assert_true(disk.count == 5 && disk.write[1].at == EP_CRASH_BODY_AT && disk.write[2].at == EP_CRASH_HEAD_AT);
    for (unsigned i = 1; i < disk.count; i++) /* a head comes when its body is safe */
        assert_true(disk.write[i].at != EP_CRASH_HEAD_AT || disk.write[i].epoch > disk.write[i - 1].epoch);
    for (unsigned last = 0; last < disk.count; last++)
        for (unsigned i = 0; i < 64; i += unit_part())
            for (int old = 0; old < 256; old += 51) {
                found += power_fails(last, (1ull << i) - 1, old) > 0;
                found += power_fails(last, ~(1ull << i), old) > 0;
                found += power_fails(last, 1ull << i, old) > 0;
            }
    assert_true(found > 0);
}

/* A record of another version of the library: of its two stacks one is deeper than receivers accept. */
TEST(too_deep_is_left_out)
{
    static uint8_t body[EP_CRASH_BODY_MOST];
    static uint8_t file[EP_CRASH_FILE_SIZE];
    const struct ep_crash_fault fault = {.signal = 11};
    struct ep_crash_head head = {.magic = {'E', 'P', 'C', '1'}, .version = EP_CRASH_VERSION};
    const struct ep_crash_view *view;

    for (unsigned depth = EP_CRASH_DEPTH; depth <= EP_CRASH_DEPTH + 1; depth++) {
        const struct ep_crash_stack stack = {.tid = depth, .depth = (uint16_t)depth};
        const struct ep_crash_section sections[] = {
            {.type = EP_CRASH_AT_FAULT, .size = sizeof fault},
            {.type = EP_CRASH_AT_STACK, .size = (uint32_t)(sizeof stack + depth * sizeof(uint64_t))}};
        memcpy(body, &sections[0], 8);
        memcpy(body + 8, &fault, sizeof fault);
        memcpy(body + 8 + sizeof fault, &sections[1], 8);
        memcpy(body + 16 + sizeof fault, &stack, sizeof stack);
        head.size = (uint32_t)(16 + sizeof fault) + sections[1].size;
        head.crc = ep_crash_crc_on(ep_crash_crc(&head.version, 8), body, head.size);
        memcpy(file + EP_CRASH_HEAD_AT, &head, sizeof head);
        memcpy(file + EP_CRASH_BODY_AT, body, head.size);
        file_set(file, sizeof file);
        assert_int_equal(look(&view), 0);
        assert_int_equal(view->stacks, depth <= EP_CRASH_DEPTH);
    }
}

/* A body that is not what it says, with a right sum: a later version, or another program. */
TEST(nonsense_is_read_safely)
{
    const struct ep_crash_view *view;
    uint32_t seed = 1;

    for (unsigned round = 0; round < 3000; round += unit_part()) {
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

static unsigned sends;

static int count_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                      uint64_t *retry_ns)
{
    (void)state, (void)message, (void)deadline, (void)retry_ns;
    sends++;
    return 0;
}

/* Starts the profiler with a receiver. Returns how many messages wait at its start. */
static unsigned sent_at_start(void)
{
    static const struct ep_transport counting = {.name = "counting", .send = count_send};
    const struct ep_config config = {
        .memory = memory, .memory_size = sizeof memory, .transport = &counting, .flags = EP_MANUAL};

    sends = 0;
    if (ep_start(&config) != 0 || ep_deliver(1000) != 0)
        return UINT8_MAX;
    const unsigned sent = sends;
    (void)ep_stop(1000);
    return sent;
}

/* A forked child does not send its parent's record, also if it starts a profiler of its own; the parent does, once. */
TEST(only_the_owner_delivers)
{
    const struct ep_crash_config crash = {.dir = dir};
    int status = 0;

    file_set(whole, sizeof whole);
    assert_int_equal(ep_crash_start(&crash), 0);
    pid_t child = fork();
    if (child == 0)
        _exit((int)sent_at_start());
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(sent_at_start(), 1);
    assert_int_equal(sent_at_start(), 0); /* its place is free */
    ep_crash_stop();
}

static int (*test_begin)(void **state) = record_make;
static int (*test_end)(void **state) = record_remove;

TEST_MAIN
