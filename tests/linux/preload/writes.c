/*
 * A program that writes to files in functions of its own, and counts exactly what each has written. At its end it
 * prints "write SITE BYTES" for each, "sync SITE COUNT NS", and "wchar BYTES", which the kernel has counted for files.
 *
 * usage: writes FOLDER
 */
#include "../../program.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define SITE    __attribute__((noipa))
#define THREADS 2u
#define ROUNDS  12000u
#define SYNCS   60u

enum { PLAIN, VECTOR, PLACED, PLACED_VECTOR, BUFFERED, LINES, LETTERS, PRINTED, COPIED, REUSED, BIG, SITES };
static const char *const names[SITES] = {"plain",   "vector",  "placed", "placed_vector", "buffered", "lines",
                                         "letters", "printed", "copied", "reused",        "big"};
static _Atomic uint64_t written[SITES], elsewhere, synced_ns, syncs;
static const char *folder;
static char bytes[1 << 20];

struct worker {
    unsigned number;
    int log, placed, copy;
    FILE *stream;
};

static void must(bool good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void count(int site, ssize_t size)
{
    must(size > 0, names[site]);
    written[site] += (uint64_t)size;
}

static int file_open(const char *name, unsigned number)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s-%u.log", folder, name, number);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0, path);
    return fd;
}

static SITE void plain(const struct worker *me, unsigned i)
{
    count(PLAIN, write(me->log, bytes, 1 + i * 7919 % 4000));
}

static SITE void vector(const struct worker *me, unsigned i)
{
    const struct iovec parts[2] = {{bytes, 1 + i % 900}, {bytes, 1 + i * 31 % 2000}};

    count(VECTOR, writev(me->log, parts, 2));
}

static SITE void placed(const struct worker *me, unsigned i)
{
    count(PLACED, pwrite(me->placed, bytes, 4096, (off_t)4096 * (i % 512)));
}

static SITE void placed_vector(const struct worker *me, unsigned i)
{
    const struct iovec parts[2] = {{bytes, 100}, {bytes, 1 + i % 3000}};

    count(PLACED_VECTOR, pwritev(me->placed, parts, 2, (off_t)4096 * (i % 512)));
}

static SITE void buffered(const struct worker *me, unsigned i)
{
    count(BUFFERED, (ssize_t)fwrite(bytes, 1, 20 + i % 3000, me->stream));
}

static SITE void lines(const struct worker *me)
{
    static const char line[] = "2026-11-28 12:00:00.000 [information] one line of a log, as services write them\n";

    must(fputs(line, me->stream) >= 0, "fputs");
    count(LINES, sizeof line - 1);
}

static SITE void letters(const struct worker *me)
{
    for (unsigned i = 0; i < 100; i++)
        must(fputc('x', me->stream) == 'x', "fputc");
    count(LETTERS, 100);
}

static SITE void printed(const struct worker *me, unsigned i)
{
    count(PRINTED, fprintf(me->stream, "%u %*s\n", i, (int)(1 + i % 800), "text"));
}

static SITE void copied(const struct worker *me, unsigned i)
{
    off_t from = 0;

    must(lseek(me->copy, 0, SEEK_SET) == 0, "lseek");
    count(COPIED, sendfile(me->copy, me->placed, &from, 1 + i % 5000));
}

/* Every second time the number of the file becomes that of a socket, whose bytes are no file's. */
static SITE void reused(const struct worker *me, unsigned i)
{
    int pair[2], fd = file_open("reused", me->number);

    count(REUSED, write(fd, bytes, 1 + i % 9000));
    must(close(fd) == 0, "close");
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    elsewhere += (uint64_t)write(pair[0], bytes, 1 + i % 9000);
    if (i & 1) {
        int again = file_open("reused", me->number);
        must(dup2(again, pair[0]) == pair[0] && close(again) == 0, "dup2");
        count(REUSED, write(pair[0], bytes, 1 + i % 9000));
    }
    must(close(pair[0]) == 0 && close(pair[1]) == 0, "close");
}

static SITE void big(const struct worker *me)
{
    count(BIG, pwrite(me->placed, bytes, sizeof bytes, 0));
}

static SITE void synced(const struct worker *me, unsigned i)
{
    uint64_t start = clock_ns(CLOCK_MONOTONIC);

    must((i & 1 ? fsync(me->log) : fdatasync(me->log)) == 0, "fsync");
    synced_ns += clock_ns(CLOCK_MONOTONIC) - start;
    syncs++;
}

static SITE void *work(void *context)
{
    struct worker *me = context;

    for (unsigned i = 0; i < ROUNDS; i++) {
        plain(me, i);
        vector(me, i);
        placed(me, i);
        placed_vector(me, i);
        buffered(me, i);
        lines(me);
        letters(me);
        printed(me, i);
        copied(me, i);
        if (i % 8 == 0)
            reused(me, i);
        if (i % 600 == 0)
            big(me);
        if (i % (ROUNDS / SYNCS) == 0)
            synced(me, i);
        if (i % 1024 == 0) { /* the files stay small */
            must(ftruncate(me->log, 0) == 0 && lseek(me->log, 0, SEEK_SET) == 0, "ftruncate");
            rewind(me->stream);
        }
    }
    must(fclose(me->stream) == 0, "fclose");
    return NULL;
}

static uint64_t wchar_now(void)
{
    char text[512] = "";
    int fd = open("/proc/self/io", O_RDONLY);

    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return 0; /* qemu-user */
    close(fd);
    const char *at = strstr(text, "wchar: ");
    return at ? strtoull(at + 7, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    must(argc == 2, "usage: writes FOLDER");
    folder = argv[1];
    const uint64_t before = wchar_now();
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){i, file_open("plain", i), file_open("placed", i), file_open("copy", i), NULL};
        workers[i].stream = fdopen(file_open("stream", i), "w");
        must(workers[i].stream && pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "thread");
    }
    for (unsigned i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0, "join");
    const uint64_t after = wchar_now();
    for (unsigned site = 0; site < SITES; site++)
        printf("write %s %llu\n", names[site], (unsigned long long)written[site]);
    printf("sync synced %llu %llu\n", (unsigned long long)syncs, (unsigned long long)synced_ns);
    printf("wchar %llu\n", (unsigned long long)(after > before ? after - before - elsewhere : 0));
    return 0;
}
