/*
 * The spool's directory on a real file system: one process at a time uses it, a forked child does not keep it, and only
 * this user or root may own it and what is in it.
 */
#include "tests/unit/test.h"
#include "tests/program.h"

#include <edgeprof/port.h>

#define OTHER 65534 /* a user without rights, in tests as root */

static char dir[64];
static uint8_t block[4096];

static void file_path(char *path, size_t size, const char *name)
{
    (void)snprintf(path, size, "%s/%s", dir, name);
}

static void empty(void)
{
    static const char *const names[] = {"edgeprof-00", "edgeprof-01", "edgeprof.lock"};
    char path[96];

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        file_path(path, sizeof path, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

static int begin(void **state)
{
    static unsigned count;

    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/ep-spool-%d-%u", (int)getpid(), count++);
    empty();
    return 0;
}

static int end(void **state)
{
    (void)state;
    empty();
    return 0;
}

/* A child by the bare system call: no handler of pthread_atfork() runs. */
static pid_t bare_fork(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

/* What ep_port_spool_open() returns in another process. */
static int open_elsewhere(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        int error = ep_port_spool_open(dir);
        _exit(-error);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

/* Opens the spool, leaves a child behind and dies. Returns the child, or 0 if the spool could not be opened. */
static pid_t open_and_die(pid_t (*fork_child)(void))
{
    int ends[2], status;
    pid_t left = 0;

    assert_int_equal(pipe(ends), 0);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        pid_t child = ep_port_spool_open(dir) == 0 ? fork_child() : 0;
        if (child == 0) {
            (void)close(ends[0]);
            (void)close(ends[1]);
            for (;;)
                (void)pause();
        }
        _exit(write(ends[1], &child, sizeof child) != sizeof child);
    }
    (void)close(ends[1]);
    ssize_t got = read(ends[0], &left, sizeof left);
    (void)close(ends[0]);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    return got == sizeof left ? left : 0;
}

TEST_WITH(test_one_process_at_a_time, begin, end)
{
    assert_int_equal(ep_port_spool_open(dir), 0);
    assert_int_equal(open_elsewhere(), -EBUSY);
    assert_int_equal(ep_port_spool_open(dir), -EBUSY); /* and it keeps the lock */
    assert_int_equal(open_elsewhere(), -EBUSY);
    ep_port_spool_close();
    assert_int_equal(open_elsewhere(), 0);
}

TEST_WITH(test_a_child_does_not_keep_the_directory, begin, end)
{
    pid_t (*const ways[])(void) = {fork, bare_fork};

    for (unsigned i = 0; i < 2; i++) {
        pid_t left = open_and_die(ways[i]);
        assert_true(left > 0);
        int error = open_elsewhere();
        assert_int_equal(kill(left, SIGKILL), 0);
        assert_int_equal(error, 0);
    }
}

/* The child's calls leave the parent's lock alone, and the child cannot have the directory meanwhile. */
TEST_WITH(test_a_child_does_not_release_the_directory, begin, end)
{
    int status = 0;

    assert_int_equal(ep_port_spool_open(dir), 0);
    pid_t child = bare_fork();
    if (child == 0)
        _exit(-ep_port_spool_open(dir));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), EBUSY);
    assert_int_equal(open_elsewhere(), -EBUSY);
    ep_port_spool_close();
}

TEST_WITH(test_files_are_private, begin, end)
{
    struct stat status;
    char path[96];
    mode_t mask = umask(0);

    assert_int_equal(ep_port_spool_open(dir), 0);
    assert_int_equal(ep_port_spool_write(1, 0, block, sizeof block), 0);
    ep_port_spool_close();
    (void)umask(mask);
    assert_int_equal(stat(dir, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    file_path(path, sizeof path, "edgeprof-01");
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    file_path(path, sizeof path, "edgeprof.lock");
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
}

TEST_WITH(test_links_are_not_followed, begin, end)
{
    char path[96], target[96];
    struct stat status;

    (void)snprintf(target, sizeof target, "%s-target", dir);
    assert_int_equal(ep_port_spool_open(dir), 0);
    file_path(path, sizeof path, "edgeprof-01");
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(ep_port_spool_write(1, 0, block, sizeof block), -ELOOP);
    assert_int_equal(ep_port_spool_read(1, 0, block, sizeof block), -ELOOP);
    assert_int_equal(stat(target, &status), -1);
    ep_port_spool_close();
}

TEST_WITH(test_directories_that_everybody_may_write, begin, end)
{
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(ep_port_spool_open(dir), -EPERM);
    assert_int_equal(open_elsewhere(), -EPERM); /* nothing is left behind */
    assert_int_equal(chmod(dir, 01777), 0);
    assert_int_equal(ep_port_spool_open(dir), 0);
    ep_port_spool_close();
    assert_int_equal(chmod(dir, 0770), 0);
    assert_int_equal(ep_port_spool_open(dir), 0);
    ep_port_spool_close();
}

TEST_WITH(test_directories_of_others, begin, end)
{
    char path[96];

    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(dir, 0700), 0);
    if (chown(dir, OTHER, OTHER) != 0)
        skip(); /* a user namespace with one user */
    assert_int_equal(ep_port_spool_open(dir), -EPERM);
    assert_int_equal(chown(dir, 0, 0), 0);
    assert_int_equal(ep_port_spool_open(dir), 0);
    assert_int_equal(ep_port_spool_write(1, 0, block, sizeof block), 0);
    file_path(path, sizeof path, "edgeprof-01");
    assert_int_equal(chown(path, OTHER, OTHER), 0);
    assert_int_equal(ep_port_spool_read(1, 0, block, sizeof block), -EPERM);
    assert_int_equal(ep_port_spool_write(1, 0, block, sizeof block), -EPERM);
    ep_port_spool_close();
}

/* A folder before the spool's, a link to it, or a second name of a file, all of another user's making. */
TEST_WITH(test_planted_ways, begin, end)
{
    char path[160], way[96], planted[96];

    if (geteuid() != 0)
        skip();
    (void)snprintf(way, sizeof way, "%s-way", dir);
    (void)snprintf(planted, sizeof planted, "%s-link", dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(mkdir(way, 0755), 0);
    assert_int_equal(symlink(dir, planted), 0);
    (void)snprintf(path, sizeof path, "%s/spool", way);
    assert_int_equal(ep_port_spool_open(path), 0);
    ep_port_spool_close();
    assert_int_equal(ep_port_spool_open(planted), 0); /* of this user */
    ep_port_spool_close();
    bool is_other = chown(way, OTHER, OTHER) == 0 && lchown(planted, OTHER, OTHER) == 0;
    int error = ep_port_spool_open(path), linked = ep_port_spool_open(planted), crash = ep_port_crash_open(path, 4096);
    int crash_linked = ep_port_crash_open(planted, 4096);
    (void)unlink(planted);
    (void)snprintf(path, sizeof path, "%s/spool/edgeprof.lock", way);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/spool", way);
    (void)rmdir(path);
    (void)rmdir(way);
    if (!is_other)
        skip();
    assert_int_equal(error, -EPERM);
    assert_int_equal(linked, -EPERM);
    assert_int_equal(crash, -EPERM);
    assert_int_equal(crash_linked, -EPERM);
}

TEST_WITH(test_second_names, begin, end)
{
    char path[96], victim[96], text[8];

    (void)snprintf(victim, sizeof victim, "%s-victim", dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    int fd = open(victim, O_CREAT | O_RDWR | O_TRUNC, 0600);
    assert_int_equal(write(fd, "precious", 8), 8);
    static const char *const names[] = {"edgeprof-crash", "edgeprof-01", "edgeprof.lock"};
    for (unsigned i = 0; i < 3; i++) {
        file_path(path, sizeof path, names[i]);
        assert_int_equal(link(victim, path), 0);
    }
    int crash = ep_port_crash_open(dir, 8192), locked = ep_port_spool_open(dir);
    (void)unlink(path); /* the lock */
    assert_int_equal(ep_port_spool_open(dir), 0);
    int written = ep_port_spool_write(1, 0, block, sizeof block);
    ep_port_spool_close();
    file_path(path, sizeof path, "edgeprof-crash");
    (void)unlink(path);
    assert_int_equal(pread(fd, text, sizeof text, 0), 8);
    assert_int_equal(lseek(fd, 0, SEEK_END), 8);
    (void)close(fd);
    (void)unlink(victim);
    assert_memory_equal(text, "precious", 8);
    assert_int_equal(crash, -EPERM);
    assert_int_equal(locked, -EPERM);
    assert_int_equal(written, -EPERM);
}

/* Root's directory in a child of another user: usable if its mode allows it. */
TEST_WITH(test_directory_of_root, begin, end)
{
    int status = 0;

    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chmod(dir, 01777), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(setuid(OTHER) != 0 ? 200 : -ep_port_spool_open(dir));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) == 200)
        skip();
    assert_int_equal(status, 0);
}

TEST_MAIN
