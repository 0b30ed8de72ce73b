/*
 * Appends messages to a file ("file:///path", the path is taken literally). Each message follows 4 bytes with its
 * length, little-endian, in any format. `edgeprof cat` reads such files.
 *
 * A message is in the file completely or not at all: what a full disk cut short is removed, and the message is sent
 * again later. Not here: surviving a power cut during a write, rotation, a size limit; the spool does that. One writer
 * a file.
 *
 * A new file belongs to the program's user alone (0600); one that exists keeps its permissions. In a folder where
 * others write, the path could lead to any file of this user, or to one that others read. So it must not be a symbolic
 * link (-ELOOP), and the file must belong to this user or root and have no other name (-EPERM). Links among the folders
 * before it are followed.
 *
 *   file_send -> append -> write_both
 */
#include <edgeprof/transport.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct file {
    const char *path; /* points into the endpoint */
};

static int file_open(void *state, const struct ep_target *target)
{
    static const char scheme[] = "file://";
    struct file *file = state;

    if (!target->endpoint || strncmp(target->endpoint, scheme, sizeof scheme - 1) != 0)
        return -EINVAL;
    file->path = target->endpoint + sizeof scheme - 1;
    return file->path[0] == '/' && file->path[1] != '\0' ? 0 : -EINVAL;
}

static int write_both(int fd, struct iovec part[2])
{
    while (part[0].iov_len + part[1].iov_len > 0) {
        ssize_t n = writev(fd, part, 2);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ENOSPC;
        for (int i = 0; i < 2; i++) {
            size_t done = (size_t)n < part[i].iov_len ? (size_t)n : part[i].iov_len;
            part[i].iov_base = (char *)part[i].iov_base + done;
            part[i].iov_len -= done;
            n -= (ssize_t)done;
        }
    }
    return 0;
}

static int append(int fd, const struct ep_message *message)
{
    struct stat before;
    if (fstat(fd, &before) != 0)
        return -errno;
    if (!S_ISREG(before.st_mode))
        return -EINVAL; /* a pipe or a device cannot be truncated after a partial write */
    if ((before.st_uid != geteuid() && before.st_uid != 0) || before.st_nlink > 1)
        return -EPERM;

    uint32_t size = (uint32_t)message->size;
    uint8_t length[4] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16), (uint8_t)(size >> 24)};
    struct iovec part[2] = {
        {.iov_base = length, .iov_len = sizeof length},
        {.iov_base = (void *)(uintptr_t)message->data, .iov_len = message->size},
    };
    int err = write_both(fd, part);
    if (err && ftruncate(fd, before.st_size) != 0)
        return -errno;
    return err;
}

/* Opens the file for each message, because it may be moved or deleted in between. */
static int file_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                     uint64_t *retry_ns)
{
    const struct file *file = state;
    (void)deadline;
    (void)retry_ns;

    if (message->size > UINT32_MAX)
        return -EMSGSIZE;
    /* O_NONBLOCK matters only for a pipe, whose open would wait for a reader. */
    int fd = open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return -errno;
    int err = append(fd, message);
    if (close(fd) != 0 && !err)
        err = -errno;
    return err;
}

static void file_close(void *state)
{
    (void)state;
}

const struct ep_transport ep_transport_file = {
    .name = "file",
    .state_size = sizeof(struct file),
    .open = file_open,
    .send = file_send,
    .close = file_close,
};
