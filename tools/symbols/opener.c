/*
 * See opener.h. A question is a message with a path, an answer one with an error and, when that is 0, a descriptor.
 */
#include "tools/symbols/opener.h"
#include "tools/lib/confine.h"
#include "tools/symbols/symfile.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

union control { /* a message's descriptor; aligned */
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* ---- in the process ---- */

static bool is_symbol_file(int fd)
{
    struct {
        unsigned char ident[EI_NIDENT];
        uint16_t type;
    } header;
    if (pread(fd, &header, sizeof header, 0) != sizeof header || memcmp(header.ident, ELFMAG, SELFMAG) != 0) {
        return false;
    }
    static const unsigned char core[2][2] = {{ET_CORE, 0}, {0, ET_CORE}}; /* in either byte order */
    return memcmp(&header.type, core[0], 2) != 0 && memcmp(&header.type, core[1], 2) != 0;
}

static int open_symbol_file(const char *path)
{
    int fd = et_symfile_open_file(path);
    if (fd >= 0 && !is_symbol_file(fd)) {
        close(fd);
        return -ENOEXEC;
    }
    return fd;
}

static bool answer(int questions, int fd)
{
    union control control = {0};
    int err = fd < 0 ? fd : 0;
    struct iovec part = {.iov_base = &err, .iov_len = sizeof err};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    bool sent = sendmsg(questions, &message, MSG_NOSIGNAL) == sizeof err;
    if (fd >= 0) {
        close(fd);
    }
    return sent;
}

static void confine(void)
{
    struct et_confine_rules rules;
    if (et_confine_begin(&rules, false, false) == 0) {
        (void)et_confine_files(&rules); /* without them it still opens ELF files only */
    }
    (void)et_confine_calls(false);
}

static _Noreturn void serve_questions(int given)
{
    char path[PATH_MAX];
    ssize_t size;
    const int questions = STDIN_FILENO;
    prctl(PR_SET_NAME, "edgeprof-opener");
    if (dup2(given, questions) < 0) {
        _exit(1);
    }
    closefrom(questions + 1); /* whoever waits for the end of the tool's output does not wait for this process */
    confine();
    while ((size = recv(questions, path, sizeof path - 1, 0)) > 0 || (size < 0 && errno == EINTR)) {
        path[size > 0 ? size : 0] = '\0';
        if (size > 0 && !answer(questions, open_symbol_file(path))) {
            break;
        }
    }
    _exit(0);
}

/* ---- in the tool ---- */

static int connection = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ended; /* and reported */

/* The answer's descriptor, or a negative errno value; -EPIPE: there is no answer. */
static int receive(void)
{
    union control control = {0};
    int err = 0, fd = -EPIPE;
    struct iovec part = {.iov_base = &err, .iov_len = sizeof err};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    do {
        got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    struct cmsghdr *header = got == sizeof err ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    }
    return got == sizeof err && err ? err : fd;
}

static int ask(const char *path)
{
    size_t size = strlen(path);
    if (size == 0 || size >= PATH_MAX) {
        return size ? -ENAMETOOLONG : -ENOENT;
    }
    pthread_mutex_lock(&lock);
    int fd = send(connection, path, size, MSG_NOSIGNAL) == (ssize_t)size ? receive() : -EPIPE;
    if (fd == -EPIPE && !ended) {
        et_error("symbols: the process that opens symbol files has ended; restart the server");
        ended = true;
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

int et_opener_start(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return -errno;
    }
    pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        serve_questions(ends[1]);
    }
    int err = process < 0 ? -errno : 0;
    close(ends[1]);
    if (err) {
        close(ends[0]);
        return err;
    }
    connection = ends[0];
    et_symfile_set_opener(ask);
    return 0;
}
