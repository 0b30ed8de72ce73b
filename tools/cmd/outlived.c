/*
 * See outlived.h. Whether a process still has its memory is known by a lease: the kernel grants a read lease of a file
 * only if nobody has it open or mapped for writing. So process ids of other namespaces, zombies and exec need no rules.
 */
#include "tools/cmd/outlived.h"
#include "tools/lib/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TMPFS = 0x01021994 };

static uint64_t oom_kills(void)
{
    char line[128];
    unsigned long long count = 0;
    FILE *file = fopen("/proc/vmstat", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "oom_kill %llu", &count) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return count;
}

uint64_t et_outlived_oom_kills(const struct et_outlived *outlived)
{
    return oom_kills() - outlived->oom_kills;
}

void et_outlived_begin(struct et_outlived *outlived)
{
    struct statfs info;
    outlived->oom_kills = oom_kills();
    outlived->folder[0] = '\0';
    if (statfs("/dev/shm", &info) != 0 || info.f_type != TMPFS) {
        return;
    }
    snprintf(outlived->folder, sizeof outlived->folder, "/dev/shm/edgeprof-XXXXXX");
    if (!mkdtemp(outlived->folder)) {
        outlived->folder[0] = '\0';
    }
}

/* Nobody has it mapped any more. */
static bool is_left(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool left = fd >= 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return left;
}

/* Starts a program in which the library reads the file and ends it with 0 before main(). */
static bool reads(const char *program, char **environment)
{
    char *const arguments[] = {(char *)(uintptr_t)program, NULL};
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_t silent;
    posix_spawn_file_actions_init(&silent);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        posix_spawn_file_actions_addopen(&silent, fd, "/dev/null", O_RDWR, 0);
    }
    if (posix_spawn(&pid, program, &silent, NULL, arguments, environment) == 0) {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    posix_spawn_file_actions_destroy(&silent);
    return status == 0;
}

/* True: it was read, or there was nothing to read. This program would do, but takes 9 ms to load its libraries; without
 * the library false fails. */
static bool send_rest(const char *path, char *const *environment)
{
    char self[PATH_MAX], variable[128];
    size_t count = 0;
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    while (environment[count]) {
        count++;
    }
    char **with = et_alloc(count + 2, sizeof *with);
    memcpy(with, environment, count * sizeof *with);
    snprintf(variable, sizeof variable, "EDGEPROF_OUTLIVED=%s", path);
    with[count] = variable;
    self[size > 0 ? size : 0] = '\0';
    bool sent = reads("/bin/false", with) || reads(self, with);
    free(with);
    return sent;
}

bool et_outlived_sweep(const struct et_outlived *outlived, char *const *environment, pid_t program)
{
    bool sent = false;
    DIR *folder = outlived->folder[0] ? opendir(outlived->folder) : NULL;
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        char path[sizeof outlived->folder + sizeof entry->d_name + 1];
        if (entry->d_name[0] == '.' || !is_left(dirfd(folder), entry->d_name)) {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", outlived->folder, entry->d_name);
        sent |= send_rest(path, environment) && strtol(entry->d_name, NULL, 10) == program;
        unlink(path);
    }
    if (folder) {
        closedir(folder);
    }
    return sent;
}

void et_outlived_end(struct et_outlived *outlived)
{
    DIR *folder = outlived->folder[0] ? opendir(outlived->folder) : NULL;
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (entry->d_name[0] != '.') {
            unlinkat(dirfd(folder), entry->d_name, 0);
        }
    }
    if (folder) {
        closedir(folder);
        rmdir(outlived->folder);
    }
}
