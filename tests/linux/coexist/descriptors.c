/*
 * A program that takes for granted that all descriptors are its own.
 */
#include "kinds.h"

#include <sys/epoll.h>

#define LAST 1024

static int data_file(void)
{
    char path[] = "/tmp/kindsXXXXXX";
    const int fd = mkstemp(path);

    if (fd < 0)
        kinds_fail("file");
    (void)unlink(path);
    return fd;
}

static int lowest_is_three(void)
{
    const int early = open("/dev/null", O_RDONLY);

    kinds_live();
    const int late = open("/dev/null", O_RDONLY), later = dup(1);
    kinds_say("%d %d %d\n", early, late, later);
    return KINDS_DONE;
}

static int all_closed(void (*close_them)(void))
{
    kinds_live();
    close_them();
    const int first = data_file(), second = data_file();
    kinds_say("%d %d\n", first, second);
    (void)!write(first, "first", 5), (void)!write(second, "second", 6);
    kinds_live();
    struct stat one = {0}, two = {0};
    (void)fstat(first, &one), (void)fstat(second, &two);
    kinds_say("%d %d\n", (int)one.st_size, (int)two.st_size);
    return KINDS_DONE;
}

static void by_closefrom(void)
{
    closefrom(3);
}

static void by_range(void)
{
    (void)close_range(3, ~0u, 0);
}

static void by_loop(void)
{
    for (int fd = 3; fd < sysconf(_SC_OPEN_MAX) && fd < 70000; fd++)
        (void)close(fd);
}

static void by_raw_call(void)
{
    (void)syscall(SYS_close_range, 3, ~0u, 0);
}

static void by_folder(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL)
        if (atoi(entry->d_name) > 2 && atoi(entry->d_name) != dirfd(dir))
            (void)close(atoi(entry->d_name));
    if (dir)
        (void)closedir(dir);
}

static int closefrom_three(void)
{
    return all_closed(by_closefrom);
}

static int range_closed(void)
{
    return all_closed(by_range);
}

static int loop_closes(void)
{
    return all_closed(by_loop);
}

static int raw_call_closes(void)
{
    return all_closed(by_raw_call);
}

static int folder_closes(void)
{
    return all_closed(by_folder);
}

/* Every number is a copy of one file: nothing but the program writes to it. */
static int all_overwritten(void)
{
    struct stat now = {0};
    const int file = data_file();

    kinds_live();
    for (int fd = 3; fd < LAST; fd++)
        if (fd != file)
            (void)dup2(file, fd);
    (void)!write(file, "mine", 4);
    kinds_live();
    for (int fd = 3; fd < LAST; fd++)
        if (fd != file && fcntl(fd, F_GETFD) < 0) {
            kinds_say("%d is closed\n", fd);
            break;
        }
    (void)fstat(file, &now);
    kinds_say("%d\n", (int)now.st_size);
    return KINDS_DONE;
}

/* Closed and taken again all the time, while edgeprof opens its own. */
static int taken_always(void)
{
    struct stat now = {0};
    const int file = data_file();

    for (unsigned round = 0; round < 60; round++) {
        for (int fd = 3; fd < 64; fd++)
            if (fd != file)
                (void)dup2(file, fd);
        kinds_burn(10);
        for (int fd = 3; fd < 64; fd++)
            if (fd != file)
                (void)close(fd);
        kinds_burn(10);
        (void)usleep(10000);
    }
    (void)fstat(file, &now);
    kinds_say("%d\n", (int)now.st_size);
    return KINDS_DONE;
}

/* Standard descriptors that become files of the program. */
static int standard_ones_are_files(void)
{
    struct stat now = {0};
    const int out = dup(1);

    kinds_burn(50);
    for (int fd = 0; fd < 3; fd++)
        (void)close(fd);
    for (int fd = 0; fd < 3; fd++)
        kinds_burn(data_file() == fd ? 1 : 2);
    kinds_live();
    off_t sum = 0;
    for (int fd = 0; fd < 3; fd++) {
        (void)fstat(fd, &now);
        sum += now.st_size;
    }
    (void)dup2(out, 1);
    kinds_say("%d\n", (int)sum);
    return KINDS_DONE;
}

/* As many as the limit permits. */
static int as_many_as_permitted(void)
{
    const struct rlimit limit = {64, 64};
    int opened = 0;

    kinds_live();
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    while (open("/dev/null", O_RDONLY) >= 0)
        opened++;
    kinds_say("%d\n", opened);
    kinds_live();
    return KINDS_DONE;
}

/* None is free: edgeprof cannot open a file. */
static int none_is_free(void)
{
    const struct rlimit limit = {3, 3};

    (void)setrlimit(RLIMIT_NOFILE, &limit);
    kinds_live();
    kinds_burn_beside();
    kinds_burn(150);
    return KINDS_DONE;
}

static int numbers(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int sum = 0;
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL)
        sum += entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir) && atoi(entry->d_name) < 512;
    if (dir)
        (void)closedir(dir);
    return sum;
}

/* What an executed program inherits. */
static int inherited(void)
{
    kinds_live();
    const int child = fork();
    if (child == 0) {
        (void)execl("/bin/sh", "sh", "-c", "unset LD_PRELOAD; exec ls /proc/self/fd", (char *)NULL);
        _exit(1);
    }
    return kinds_wait(child) == 0 ? KINDS_DONE : KINDS_FAILED;
}

static int none_in_child(void)
{
    kinds_live();
    const int child = fork();
    if (child == 0)
        _exit(numbers());
    const int got = kinds_wait(child);
    if (got != 3)
        kinds_say("%d\n", got);
    return KINDS_DONE;
}

const struct kinds_form kinds_descriptors[] = {
    {"lowest-is-three", lowest_is_three},
    {"closefrom", closefrom_three},
    {"close-range", range_closed},
    {"loop-closes", loop_closes},
    {"raw-call-closes", raw_call_closes},
    {"folder-closes", folder_closes},
    {"all-overwritten", all_overwritten},
    {"taken-always", taken_always},
    {"standard-ones-are-files", standard_ones_are_files},
    {"as-many-as-permitted", as_many_as_permitted},
    {"none-is-free", none_is_free},
    {"inherited", inherited},
    {"none-in-child", none_in_child},
    {0},
};
