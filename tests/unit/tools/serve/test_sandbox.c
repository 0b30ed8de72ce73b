/*
 * A process that has entered the server's sandbox uses what its configuration names, also after an administrator has
 * replaced it, and nothing else. The test's folder is not one for temporary files, which the sandbox leaves open.
 */
#include "tools/lib/confine.h"
#include "tools/serve/sandbox.h"
#include "tools/symbols/reader.h"
#include "tests/unit/test.h"
#include "tests/program.h"

#include <elf.h>
#include <ftw.h>
#include <sys/mount.h>

static const char *tests_folder; /* of the build */
static char home[4096], before[4096];

static int remove_it(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

static void write_text(const char *path, const char *text)
{
    assert_int_equal(et_write_file(path, text, strlen(text)), 0);
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    snprintf(home, sizeof home, "%s/sandbox-XXXXXX", tests_folder);
    assert_non_null(mkdtemp(home));
    assert_int_equal(chdir(home), 0);
    static const char *const folders[] = {"site",          "site/db",         "site/keys",
                                          "site/releases", "site/releases/1", "site/releases/2",
                                          "site/symbols",  "elsewhere"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        assert_int_equal(mkdir(folders[i], 0700), 0);
    }
    assert_int_equal(symlink("db", "site/db-link"), 0);
    assert_int_equal(symlink("releases/1", "site/current"), 0);
    write_text("site/keys/token", "old");
    write_text("site/releases/1/cert", "old");
    write_text("site/releases/2/cert", "new");
    write_text("elsewhere/secret", "secret");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(chdir(before), 0);
    return nftw(home, remove_it, 8, FTW_DEPTH | FTW_PHYS);
}

/* 0 or the error. */
static int opened(const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0 ? 0 : errno;
}

static bool enter(void)
{
    char *folders[] = {"site/symbols"};
    const struct et_list symbols = {.items = (const char **)folders, .count = 1}, sources = {0};
    const struct et_relay_config relay = {0};
    const struct et_serve_settings settings = {
        .db = "site/db-link/e.db",
        .access = {.token_file = "site/keys/token", .tls = {.certificate = "site/current/cert"}}};
    struct et_buf line = {0};
    if (et_reader_start(et_confine_possible()) != 0) {
        return false;
    }
    et_sandbox_enter(&(struct et_sandbox_config){.settings = &settings,
                                                 .relay = &relay,
                                                 .symbols = &symbols,
                                                 .sources = &sources,
                                                 .symbols_store = "site/store"},
                     &line);
    et_buf_free(&line);
    return et_sandbox_state().seccomp;
}

/* Runs the checks in a process of their own, from the state before the sandbox. Each returns 0, or the number of what
 * is wrong. `outside` changes files meanwhile, without a sandbox; NULL: nothing changes. */
static void in_sandbox(int (*checks)(void), void (*outside)(void))
{
    int go[2], status = 0;
    char byte = 0;
    assert_int_equal(pipe(go), 0);
    pid_t process = fork();
    if (process == 0) {
        close(go[1]);
        bool entered = enter();
        _exit(!entered || read(go[0], &byte, 1) < 0 ? 100 : checks());
    }
    close(go[0]);
    if (outside) {
        char ready[64];
        snprintf(ready, sizeof ready, "/proc/%d/status", (int)process);
        for (bool entered = false; !entered && waitpid(process, &status, WNOHANG) == 0;) {
            struct et_buf text = {0};
            entered = et_read_file(ready, 1 << 16, &text) == 0 && strstr(text.data, "Seccomp:\t2");
            et_buf_free(&text);
        }
        outside();
    }
    close(go[1]);
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void need_landlock(void)
{
    struct et_confine_rules rules;
    int err = et_confine_begin(&rules, true, false);
    if (err) {
        print_message("SKIPPED: no landlock in this kernel: %s\n", strerror(-err));
        skip();
    }
    close(rules.ruleset);
}

#define CHECK(number, condition)                                                                                       \
    if (!(condition)) {                                                                                                \
        return number;                                                                                                 \
    }

static int use_own_files(void)
{
    CHECK(1, opened("site/db/e.db", O_RDWR | O_CREAT) == 0);
    CHECK(2, opened("site/db-link/e.db-wal", O_RDWR | O_CREAT) == 0);
    CHECK(3, opened("site/keys/token", O_RDONLY) == 0 && opened("site/current/cert", O_RDONLY) == 0);
    CHECK(4, mkdir("site/store/ab", 0700) == 0 && opened("site/store/ab/1", O_WRONLY | O_CREAT | O_TRUNC) == 0);
    CHECK(5, mkdir("site/store/cd", 0700) == 0 && rename("site/store/ab/1", "site/store/cd/1") == 0 &&
                 unlink("site/store/cd/1") == 0);
    CHECK(6, opened("/proc/self/stat", O_RDONLY) == 0 && opened("/proc/self/fd", O_RDONLY | O_DIRECTORY) == 0);
    CHECK(7, opened("/etc/passwd", O_RDONLY) == 0 && opened("/dev/null", O_RDWR) == 0);
    return 0;
}

TEST_WITH(own_files_are_allowed, set_up, tear_down)
{
    in_sandbox(use_own_files, NULL);
}

static int use_other_files(void)
{
    CHECK(1, opened("elsewhere/secret", O_RDONLY) == EACCES);
    CHECK(2, opened("elsewhere", O_RDONLY | O_DIRECTORY) == EACCES);
    CHECK(3, opened("elsewhere/new", O_WRONLY | O_CREAT) == EACCES);
    CHECK(4, opened("site/keys/token", O_WRONLY) == EACCES && opened("site/keys/new", O_WRONLY | O_CREAT) == EACCES);
    CHECK(5, rename("site/keys/token", "site/db/token") != 0 && link("elsewhere/secret", "site/db/secret") != 0);
    CHECK(6, unlink("site/keys/token") != 0 && errno == EACCES);
    CHECK(7, truncate("site/keys/token", 0) != 0);
    CHECK(8, opened("/proc/1/environ", O_RDONLY) != 0);
    return 0;
}

TEST_WITH(other_files_are_not, set_up, tear_down)
{
    need_landlock();
    in_sandbox(use_other_files, NULL);
}

static void replace_files(void)
{
    write_text("site/keys/new", "new");
    assert_int_equal(rename("site/keys/new", "site/keys/token"), 0);
    assert_int_equal(symlink("releases/2", "site/next"), 0);
    assert_int_equal(rename("site/next", "site/current"), 0);
    assert_int_equal(rename("site/symbols", "site/old-symbols"), 0);
    assert_int_equal(mkdir("site/symbols", 0700), 0);
    write_text("site/symbols/new", "new");
}

static int use_replaced_files(void)
{
    struct et_buf token = {0}, certificate = {0}, symbols = {0};
    CHECK(1, et_read_file("site/keys/token", 10, &token) == 0 && strcmp(token.data, "new") == 0);
    CHECK(2, et_read_file("site/current/cert", 10, &certificate) == 0 && strcmp(certificate.data, "new") == 0);
    CHECK(3, et_read_file("site/symbols/new", 10, &symbols) == 0);
    CHECK(4, opened("site/symbols", O_RDONLY | O_DIRECTORY) == 0);
    return 0;
}

TEST_WITH(replaced_files_are_allowed, set_up, tear_down)
{
    in_sandbox(use_replaced_files, replace_files);
}

static int read_symbol_files(void)
{
    struct et_symfile_facts facts;
    CHECK(1, et_reader_examine("elsewhere/program", &facts) == 0 && facts.quality > 0);
    CHECK(2, et_reader_examine("elsewhere/secret", &facts) == -EINVAL);
    CHECK(3, et_reader_examine("elsewhere/core", &facts) == -EINVAL);
    CHECK(4, et_reader_examine("elsewhere/none", &facts) == -ENOENT);
    CHECK(5, et_reader_examine("elsewhere", &facts) == -EINVAL && et_reader_examine("/dev/null", &facts) == -EINVAL);
    return 0;
}

/* A program that a device names, wherever it is; not a dump of a program's memory. */
TEST_WITH(symbol_files_are_allowed, set_up, tear_down)
{
    struct et_buf program = {0};
    assert_int_equal(et_read_file("/proc/self/exe", 1 << 30, &program), 0);
    assert_int_equal(et_write_file("elsewhere/program", program.data, program.size), 0);
    ((Elf64_Ehdr *)(void *)program.data)->e_type = ET_CORE;
    assert_int_equal(et_write_file("elsewhere/core", program.data, program.size), 0);
    et_buf_free(&program);
    in_sandbox(read_symbol_files, NULL);
}

static int make_calls(void)
{
    char *const arguments[] = {"true", NULL};
    CHECK(1, execv("/bin/true", arguments) != 0 && errno == EPERM);
    CHECK(2, mount("none", "site/db", "tmpfs", 0, NULL) != 0 && errno == EPERM);
    CHECK(3, unshare(CLONE_NEWUSER) != 0 && errno == EPERM);
    CHECK(4, chroot("site/db") != 0 && errno == EPERM);
    CHECK(5, getpid() > 0 && fork() >= 0);
    return 0;
}

TEST_WITH(dangerous_calls_are_not, set_up, tear_down)
{
    in_sandbox(make_calls, NULL);
}

int main(int argc, char **argv)
{
    tests_folder = argc > 1 ? realpath(argv[1], NULL) : ".";
    /* The server may use the folders of temporary files: what it may not use lies elsewhere. */
    if (!tests_folder || strncmp(tests_folder, "/tmp/", 5) == 0 || strncmp(tests_folder, "/var/tmp/", 9) == 0)
        tests_folder = "/dev/shm";
    return test_run();
}
