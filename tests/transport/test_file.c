/*
 * The file transport on a real file system, with writes that stop short (a limit on the file's size stands for a full
 * disk), the null transport, and which endpoint leads to which transport.
 */

#include "tests/unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <edgeprof/transport.h>

static char directory[] = "/tmp/edgeprof-test-XXXXXX";
static char endpoint[96];
static char *const path = endpoint + sizeof "file://" - 1;
static uint64_t state[EP_TRANSPORT_BYTES / 8];
static struct ep_target target = {.endpoint = endpoint, .service = "", .tags = ""};

static void open_file(const char *name)
{
    snprintf(endpoint, sizeof endpoint, "file://%s/%s", directory, name);
    memset(state, 0, sizeof state);
    assert_int_equal(ep_transport_file.open(state, &target), 0);
}

static int send_text(const char *text)
{
    struct ep_message message = {.data = (const uint8_t *)text, .size = strlen(text)};
    struct ep_deadline past = {0};
    uint64_t retry_ns = 0;
    return ep_transport_file.send(state, &message, &past, &retry_ns);
}

static void content_is(const char *bytes, size_t size)
{
    char content[256];
    FILE *f = fopen(path, "rb");

    assert_non_null(f);
    assert_int_equal(fread(content, 1, sizeof content, f), size);
    assert_memory_equal(content, bytes, size);
    fclose(f);
}

TEST(test_append)
{
    open_file("append");
    assert_int_equal(send_text("one"), 0);
    assert_int_equal(send_text(""), 0);
    ep_transport_file.close(state);
    open_file("append");
    assert_int_equal(send_text("three"), 0);
    content_is("\3\0\0\0one\0\0\0\0\5\0\0\0three", 20);
}

static void limit(rlim_t bytes)
{
    struct rlimit r;
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* Every size at which the disk can be full: what was there stays, nothing half-written does, and later it goes on. */
TEST(test_full_disk)
{
    char name[16];

    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t size = 7; size < 16; size++) {
        snprintf(name, sizeof name, "full%u", (unsigned)size);
        open_file(name);
        assert_int_equal(send_text("one"), 0);
        limit(size);
        int err = send_text("second");
        limit(RLIM_INFINITY);
        assert_true(err == -EFBIG || err == -ENOSPC);
        content_is("\3\0\0\0one", 7);
        assert_int_equal(send_text("second"), 0);
        content_is("\3\0\0\0one\6\0\0\0second", 17);
    }
}

TEST(test_bad_paths)
{
    static const char *const bad[] = {"file://", "file://relative", "file:///", "file:/x", "http://h"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ep_target t = {.endpoint = bad[i], .service = "", .tags = ""};
        assert_int_equal(ep_transport_file.open(state, &t), -EINVAL);
    }
    target.endpoint = NULL;
    assert_int_equal(ep_transport_file.open(state, &target), -EINVAL);
    target.endpoint = endpoint;
    open_file("no/such/folder");
    assert_int_equal(send_text("x"), -ENOENT);
    open_file(".");
    assert_int_equal(send_text("x"), -EISDIR);
    open_file("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(send_text("x"), -ENXIO);
}

/* Profiles show what a program does: only its user may read them. A file that exists keeps its permissions. */
TEST(test_private)
{
    struct stat st;

    mode_t mask = umask(0);
    open_file("private");
    int err = send_text("one");
    umask(mask);
    assert_int_equal(err, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);

    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(send_text("two"), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

/* In a folder where others write, a link must not lead the program to another file, neither an old nor a new one. */
TEST(test_links)
{
    char link[128];

    open_file("other");
    assert_int_equal(send_text("one"), 0);
    snprintf(link, sizeof link, "%s/to-other", directory);
    assert_int_equal(symlink(path, link), 0);
    open_file("to-other");
    assert_int_equal(send_text("two"), -ELOOP);
    open_file("other");
    content_is("\3\0\0\0one", 7);

    snprintf(link, sizeof link, "%s/to-nothing", directory);
    open_file("nothing");
    assert_int_equal(symlink(path, link), 0);
    open_file("to-nothing");
    assert_int_equal(send_text("two"), -ELOOP);
    open_file("nothing");
    assert_int_equal(access(path, F_OK), -1);
}

/* Nor must another name of a file, and nobody else's file gets profiles. */
TEST(test_other_names_and_owners)
{
    char name[128];

    open_file("victim");
    assert_int_equal(send_text("one"), 0);
    snprintf(name, sizeof name, "%s/planted", directory);
    assert_int_equal(link(path, name), 0);
    open_file("planted");
    assert_int_equal(send_text("two"), -EPERM);
    open_file("victim");
    content_is("\3\0\0\0one", 7);
    if (geteuid() != 0)
        return;
    open_file("foreign");
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0644)), 0);
    if (chown(path, 65534, 65534) != 0)
        return;
    assert_int_equal(send_text("three"), -EPERM);
    content_is("", 0);
}

TEST(test_find)
{
    assert_ptr_equal(ep_transport_find("http://h"), &ep_transport_http);
    assert_ptr_equal(ep_transport_find("file:///x"), &ep_transport_file);
    assert_ptr_equal(ep_transport_find("null:"), &ep_transport_null);
    assert_null(ep_transport_find("https://h"));
    assert_null(ep_transport_find("http:/h"));
    assert_null(ep_transport_find("h:4040"));
    assert_null(ep_transport_find(""));
}

TEST(test_null)
{
    struct ep_message message = {.data = (const uint8_t *)"x", .size = 1};
    struct ep_deadline past = {0};
    uint64_t retry_ns = 0;

    assert_int_equal(ep_transport_null.open(state, &target), 0);
    assert_int_equal(ep_transport_null.send(state, &message, &past, &retry_ns), 0);
    ep_transport_null.close(state);
}

TEST(test_sizes)
{
    assert_true(ep_transport_http.state_size <= EP_TRANSPORT_BYTES);
    assert_true(ep_transport_file.state_size <= EP_TRANSPORT_BYTES);
    assert_true(ep_transport_null.state_size <= EP_TRANSPORT_BYTES);
}

static int make_directory(void **unused)
{
    (void)unused;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **unused)
{
    char command[128];
    (void)unused;
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* The endpoint "http://" is not opened here. */
uint64_t ep_port_uptime_ns(void);
uint64_t ep_port_uptime_ns(void)
{
    return 0;
}

static int (*test_begin)(void **state) = make_directory;
static int (*test_end)(void **state) = remove_directory;

TEST_MAIN
