/*
 * See reader_process.h. The process that opens files parses nothing and is therefore trusted as the server is. A file's
 * process has the file's descriptor and the socket, can open nothing else, and is never asked about another file.
 */
#include "tools/symbols/reader_process.h"
#include "tools/symbols/answer.h"
#include "tools/lib/confine.h"
#include "tools/symbols/resolve.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* SECONDS, MEMORY: for a file of no size. */
enum { SECONDS = 2, BYTES_A_SECOND = 8 << 20, MEMORY = 96 << 20, MEMORY_A_BYTE = 6, MEMORY_FOR_BYTES = 512 << 20 };

/* Files up to this size are copied: somebody may overwrite them while they are in use. */
enum { COPY_MOST = 16 << 20 };

unsigned et_reader_seconds(uint64_t bytes)
{
    return SECONDS + (unsigned)(bytes / BYTES_A_SECOND);
}

uint64_t et_reader_memory_most(uint64_t bytes)
{
    uint64_t more = bytes < MEMORY_FOR_BYTES / MEMORY_A_BYTE ? bytes * MEMORY_A_BYTE : MEMORY_FOR_BYTES;
    return MEMORY + more + (bytes <= COPY_MOST ? bytes : 0);
}

struct et_file_identity et_file_identity(const struct stat *status)
{
    return (struct et_file_identity){
        .device = status->st_dev,
        .inode = status->st_ino,
        .size = (uint64_t)status->st_size,
        .changed_ns = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec,
    };
}

/* ---- the process of a file ---- */

/* The sockets and descriptors of both kinds of process. */
enum { SOCKET = STDIN_FILENO, NOWHERE = STDOUT_FILENO, FILE_READ = 3 };

struct reading {
    int fd;
    struct stat status; /* when it was opened */
    struct et_symfile *file;
};

static void receive_all(void *bytes, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t more = recv(SOCKET, (char *)bytes + got, size - got, 0);
        if (more == 0 || (more < 0 && errno != EINTR)) {
            _exit(0);
        }
        got += more > 0 ? (size_t)more : 0;
    }
}

static void send_all(const void *bytes, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t more = send(SOCKET, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL);
        if (more < 0 && errno != EINTR) {
            _exit(0);
        }
        sent += more > 0 ? (size_t)more : 0;
    }
}

static void answer_names(struct reading *reading, const struct et_question *question)
{
    for (uint32_t i = 0; i < question->count; i++) {
        struct et_resolved resolved = {0};
        struct et_buf out = {0};
        uint32_t size = 0;
        et_resolve(reading->file, question->module, question->addresses[i], &resolved);
        et_buf_add(&out, &size, sizeof size);
        et_answer_write(&resolved, &out);
        size = (uint32_t)(out.size - sizeof size);
        memcpy(out.data, &size, sizeof size);
        send_all(out.data, out.size);
        et_buf_free(&out);
        et_resolved_free(&resolved);
    }
}

static void answer_lacks(const struct reading *reading, const struct et_question *question)
{
    struct et_lacks_answer answer = {0};
    for (uint32_t i = 0; reading->file && i < question->count && !answer.lacks; i++) {
        answer.lacks = et_symfile_lacks(reading->file, question->addresses[i], &answer.companion);
    }
    send_all(&answer, sizeof answer);
}

static void take_companion(const struct reading *reading, const struct et_question *question)
{
    char *room = reading->file ? et_symfile_room(reading->file, question->size) : NULL;
    int32_t good = room != NULL;
    send_all(&good, sizeof good);
    if (room) {
        receive_all(room, (size_t)question->size);
        good = et_symfile_supply(reading->file, &question->companion, room, question->size);
        send_all(&good, sizeof good);
    }
}

static void answer_open(struct reading *reading)
{
    struct et_open_answer answer = {0};
    const char *why = "", *trouble = NULL;
    if (!reading->file) {
        reading->file = et_symfile_open(reading->fd, reading->status.st_size > COPY_MOST, &why);
    }
    answer.opened = reading->file != NULL;
    if (reading->file) {
        answer.quality = et_symfile_quality(reading->file);
        answer.companions = et_symfile_has_companions(reading->file);
        trouble = et_symfile_trouble(reading->file);
        why = trouble ? trouble : "";
    }
    snprintf(answer.why, sizeof answer.why, "%s", why);
    send_all(&answer, sizeof answer);
}

/* Pages that were read may not fit those that are read later. */
static bool is_changed(const struct reading *reading)
{
    struct stat now;
    if (reading->file && reading->status.st_size <= COPY_MOST) {
        return false;
    }
    return fstat(reading->fd, &now) != 0 || now.st_size != reading->status.st_size ||
           memcmp(&now.st_mtim, &reading->status.st_mtim, sizeof now.st_mtim) != 0;
}

static _Noreturn void answer_questions(int fd)
{
    struct reading reading = {.fd = fd};
    struct et_question *question = et_alloc(1, sizeof *question);
    if (fstat(fd, &reading.status) != 0) {
        _exit(ET_READER_CHANGED);
    }
    for (;;) {
        receive_all(question, sizeof *question);
        question->module[sizeof question->module - 1] = '\0';
        if (is_changed(&reading) || question->count > ET_ADDRESSES_MOST) {
            _exit(ET_READER_CHANGED);
        }
        if (question->kind == ET_ASK_FACTS) {
            struct et_facts_answer answer = {0};
            answer.error = et_symfile_examine(fd, &answer.facts);
            send_all(&answer, sizeof answer);
        } else if (question->kind == ET_ASK_OPEN) {
            answer_open(&reading);
        } else if (question->kind == ET_ASK_LACKS) {
            answer_lacks(&reading, question);
        } else if (question->kind == ET_SUPPLY) {
            take_companion(&reading, question);
        } else {
            answer_names(&reading, question);
        }
    }
}

static void limit(int what, rlim_t most)
{
    setrlimit(what, &(struct rlimit){.rlim_cur = most, .rlim_max = most});
}

/* Memory that the process has by the fork already: bytes of addresses, and of data. */
static void read_memory(uint64_t *addresses, uint64_t *data)
{
    unsigned long long size = 0, pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    if (!statm || fscanf(statm, "%llu %*u %*u %*u %*u %llu", &size, &pages) != 2) {
        size = pages = 0;
    }
    if (statm) {
        fclose(statm);
    }
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *addresses = size * page;
    *data = pages * page;
}

/* A sanitizer reserves addresses by the terabyte. */
static void limit_memory(uint64_t bytes)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    uint64_t addresses, data, most = et_reader_memory_most(bytes);
    read_memory(&addresses, &data);
    if (addresses) {
        limit(RLIMIT_AS, addresses + bytes + most);
        limit(RLIMIT_DATA, data + bytes + most);
    }
#else
    (void)read_memory;
    (void)bytes;
#endif
}

static void limit_self(uint64_t bytes, bool confined)
{
    struct et_confine_rules rules;
    limit_memory(bytes);
    setrlimit(RLIMIT_CPU, &(struct rlimit){et_reader_seconds(bytes), et_reader_seconds(bytes) + 1});
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CORE, 0);
    if (confined && et_confine_begin(&rules, true, false) == 0) {
        (void)et_confine_files(&rules);
    }
    limit(RLIMIT_NOFILE, 0); /* no other one can be opened */
    if (confined) {
        (void)et_confine_to_computing();
    }
}

/* In the new process. The given descriptors get the numbers above. */
static _Noreturn void become_reader(int socket, int file, uint64_t bytes, bool confined)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "edgeprof-reader");
    int own = fcntl(file, F_DUPFD, FILE_READ + 1);
    if (own < 0 || dup2(socket, SOCKET) < 0 || dup2(own, FILE_READ) < 0) {
        _exit(ET_READER_CHANGED);
    }
    closefrom(FILE_READ + 1);
    limit_self(bytes, confined);
    answer_questions(FILE_READ);
}

/* ---- the process that opens files ---- */

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

static int open_symbol_file(const char *path, struct et_file_identity *identity)
{
    struct stat status;
    int fd = et_symfile_open_file(path);
    if (fd >= 0 && (!is_symbol_file(fd) || fstat(fd, &status) != 0)) {
        close(fd);
        return -ENOEXEC;
    }
    if (fd >= 0) {
        *identity = et_file_identity(&status);
    }
    return fd;
}

/* Returns the socket of the new process, which done->process gets. */
static int start_reader(const char *path, struct et_order_done *done, bool confined)
{
    int ends[2], file = open_symbol_file(path, &done->file);
    if (file < 0) {
        return file;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        int err = -errno;
        close(file);
        return err;
    }
    pid_t process = fork();
    if (process == 0) {
        become_reader(ends[1], file, done->file.size, confined);
    }
    int err = process < 0 ? -errno : 0;
    done->process = process;
    close(file);
    close(ends[1]);
    if (err) {
        close(ends[0]);
    }
    return err ? err : ends[0];
}

/* Only of a process that was started here: others have no status for this one. */
static void end_reader(pid_t process, struct et_order_done *done)
{
    pid_t ended;
    if (process > 0 && waitpid(process, &done->status, WNOHANG) == 0) {
        kill(process, SIGKILL);
        do {
            ended = waitpid(process, &done->status, 0);
        } while (ended < 0 && errno == EINTR);
    }
}

static bool report(const struct et_order_done *done, int socket)
{
    union {
        struct cmsghdr header; /* alignment */
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)done, .iov_len = sizeof *done};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (socket >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof socket)};
        memcpy(CMSG_DATA(header), &socket, sizeof socket);
    }
    bool sent = sendmsg(SOCKET, &message, MSG_NOSIGNAL) == sizeof *done;
    if (socket >= 0) {
        close(socket);
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

/* Whoever waits for the end of the tool's output does not wait for this process: it has none. */
static void leave_output(int orders)
{
    /* above all three, which may be closed */
    int nowhere = fcntl(open("/dev/null", O_RDWR | O_CLOEXEC), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (dup2(orders, SOCKET) < 0 || nowhere < 0 || dup2(nowhere, NOWHERE) < 0 || dup2(nowhere, STDERR_FILENO) < 0) {
        _exit(1);
    }
    closefrom(STDERR_FILENO + 1);
}

_Noreturn void et_reader_process(int orders, bool confined)
{
    struct et_order *order = et_alloc(1, sizeof *order);
    ssize_t size;
    prctl(PR_SET_NAME, "edgeprof-opener");
    leave_output(orders);
    if (confined) {
        confine();
    }
    while ((size = recv(SOCKET, order, sizeof *order - 1, 0)) > 0 || (size < 0 && errno == EINTR)) {
        struct et_order_done done = {0};
        int socket = -1;
        if (size < (ssize_t)offsetof(struct et_order, path)) {
            continue;
        }
        ((char *)order)[size] = '\0';
        if (order->kind == ET_ORDER_OPEN) {
            socket = start_reader(order->path, &done, confined);
            done.error = socket < 0 ? socket : 0;
        } else if (order->kind == ET_ORDER_READ) {
            socket = open_symbol_file(order->path, &done.file);
            done.error = socket < 0 ? socket : 0;
        } else {
            end_reader(order->process, &done);
        }
        if (!report(&done, socket)) {
            break;
        }
    }
    _exit(0);
}
