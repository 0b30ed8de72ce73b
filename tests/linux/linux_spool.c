/*
 * The spool's directory on a real file system: one process at a time uses it, a forked child does not keep it, and only
 * this user or root may own it and what is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

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

/* What ep_port_store_open() returns in another process. */
static int open_elsewhere(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        int error = ep_port_store_open(dir);
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
        pid_t child = ep_port_store_open(dir) == 0 ? fork_child() : 0;
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

static void test_one_process_at_a_time(void **state)
{
    (void)state;
    assert_int_equal(ep_port_store_open(dir), 0);
    assert_int_equal(open_elsewhere(), -EBUSY);
    assert_int_equal(ep_port_store_open(dir), -EBUSY); /* and it keeps the lock */
    assert_int_equal(open_elsewhere(), -EBUSY);
    ep_port_store_close();
    assert_int_equal(open_elsewhere(), 0);
}

static void test_a_child_does_not_keep_the_directory(void **state)
{
    pid_t (*const ways[])(void) = {fork, bare_fork};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        pid_t left = open_and_die(ways[i]);
        assert_true(left > 0);
        int error = open_elsewhere();
        assert_int_equal(kill(left, SIGKILL), 0);
        assert_int_equal(error, 0);
    }
}

/* The child's calls leave the parent's lock alone, and the child cannot have the directory meanwhile. */
static void test_a_child_does_not_release_the_directory(void **state)
{
    int status = 0;

    (void)state;
    assert_int_equal(ep_port_store_open(dir), 0);
    pid_t child = bare_fork();
    if (child == 0)
        _exit(-ep_port_store_open(dir));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), EBUSY);
    assert_int_equal(open_elsewhere(), -EBUSY);
    ep_port_store_close();
}

static void test_files_are_private(void **state)
{
    struct stat status;
    char path[96];
    mode_t mask = umask(0);

    (void)state;
    assert_int_equal(ep_port_store_open(dir), 0);
    assert_int_equal(ep_port_store_write(1, 0, block, sizeof block), 0);
    ep_port_store_close();
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

static void test_links_are_not_followed(void **state)
{
    char path[96], target[96];
    struct stat status;

    (void)state;
    (void)snprintf(target, sizeof target, "%s-target", dir);
    assert_int_equal(ep_port_store_open(dir), 0);
    file_path(path, sizeof path, "edgeprof-01");
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(ep_port_store_write(1, 0, block, sizeof block), -ELOOP);
    assert_int_equal(ep_port_store_read(1, 0, block, sizeof block), -ELOOP);
    assert_int_equal(stat(target, &status), -1);
    ep_port_store_close();
}

static void test_directories_that_everybody_may_write(void **state)
{
    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(ep_port_store_open(dir), -EPERM);
    assert_int_equal(open_elsewhere(), -EPERM); /* nothing is left behind */
    assert_int_equal(chmod(dir, 01777), 0);
    assert_int_equal(ep_port_store_open(dir), 0);
    ep_port_store_close();
    assert_int_equal(chmod(dir, 0770), 0);
    assert_int_equal(ep_port_store_open(dir), 0);
    ep_port_store_close();
}

static void test_directories_of_others(void **state)
{
    char path[96];

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(dir, 0700), 0);
    if (chown(dir, OTHER, OTHER) != 0)
        skip(); /* a user namespace with one user */
    assert_int_equal(ep_port_store_open(dir), -EPERM);
    assert_int_equal(chown(dir, 0, 0), 0);
    assert_int_equal(ep_port_store_open(dir), 0);
    assert_int_equal(ep_port_store_write(1, 0, block, sizeof block), 0);
    file_path(path, sizeof path, "edgeprof-01");
    assert_int_equal(chown(path, OTHER, OTHER), 0);
    assert_int_equal(ep_port_store_read(1, 0, block, sizeof block), -EPERM);
    assert_int_equal(ep_port_store_write(1, 0, block, sizeof block), -EPERM);
    ep_port_store_close();
}

/* Root's directory in a child of another user: usable if its mode allows it. */
static void test_directory_of_root(void **state)
{
    int status = 0;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chmod(dir, 01777), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(setuid(OTHER) != 0 ? 200 : -ep_port_store_open(dir));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) == 200)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_process_at_a_time, begin, end),
        cmocka_unit_test_setup_teardown(test_a_child_does_not_keep_the_directory, begin, end),
        cmocka_unit_test_setup_teardown(test_a_child_does_not_release_the_directory, begin, end),
        cmocka_unit_test_setup_teardown(test_files_are_private, begin, end),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, begin, end),
        cmocka_unit_test_setup_teardown(test_directories_that_everybody_may_write, begin, end),
        cmocka_unit_test_setup_teardown(test_directories_of_others, begin, end),
        cmocka_unit_test_setup_teardown(test_directory_of_root, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
