/*
 * The first and only process of a board in QEMU: makes a small Linux out of an initramfs, runs the jobs of /jobs one
 * after another, tells the console how each ended, switches the machine off.
 *
 *   /jobs, one job a line:   NAME SECONDS [VARIABLE=VALUE...] PROGRAM ARGUMENT...
 *                                                                 must end with exit code 0 within that time
 *                            show NAME PATH                        the file, as hexadecimal lines "@NAME ..."
 *
 * main -> mounts, loopback, job -> run, show -> power off. What it says starts with "@", programs' output comes as it
 * is.
 */
#include "../../program.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <termios.h>

#define ARGUMENTS 16

static void mounts(void)
{
    (void)mkdir("/proc", 0755);
    (void)mkdir("/sys", 0755);
    (void)mkdir("/tmp", 01777);
    (void)mkdir("/dev", 0755);
    if (mount("proc", "/proc", "proc", 0, NULL) != 0 || mount("sysfs", "/sys", "sysfs", 0, NULL) != 0 ||
        mount("tmpfs", "/tmp", "tmpfs", 0, NULL) != 0 || mount("devtmpfs", "/dev", "devtmpfs", 0, NULL) != 0)
        perror("@ mount");
}

static void console(void)
{
    int fd = open("/dev/console", O_RDWR);
    for (int i = 0; fd >= 0 && i < 3; i++)
        (void)dup2(fd, i);
}

static void loopback(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) != 0) {
        perror("@ lo");
        return;
    }
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP | IFF_RUNNING);
    if (ioctl(fd, SIOCSIFFLAGS, &request) != 0)
        perror("@ lo");
    (void)close(fd);
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Waits for child, and for orphans that land here; 128 + signal when it was killed. */
static int result_of(pid_t child, double seconds)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    double end = now_s() + seconds;
    int status;

    for (;;) {
        pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (ended > 0)
            continue;
        if (now_s() > end) {
            printf("@ took longer than %.0f s\n", seconds);
            (void)kill(child, SIGKILL);
            end += 5;
        }
        (void)nanosleep(&pause, NULL);
    }
}

static void start(char **command)
{
    (void)chdir("/tmp");
    while (*command && strchr(*command, '='))
        (void)putenv(*command++);
    if (*command)
        execv(*command, command);
    perror(*command);
    _exit(127);
}

static int run(char **words)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        start(words + 2);
    double start = now_s();
    int result = result_of(child, atof(words[1]));
    printf("@end %s %d %.2f\n", words[0], result, now_s() - start);
    return result;
}

static int show(const char *name, const char *path)
{
    unsigned char bytes[32];
    FILE *file = fopen(path, "rb");
    size_t n;

    if (!file) {
        perror(path);
        return 1;
    }
    while ((n = fread(bytes, 1, sizeof bytes, file)) > 0) {
        printf("@%s ", name);
        for (size_t i = 0; i < n; i++)
            printf("%02x", bytes[i]);
        printf("\n");
    }
    (void)fclose(file);
    return 0;
}

static int job(char *line)
{
    char *words[ARGUMENTS + 1] = {NULL};
    int count = 0;

    for (char *word = strtok(line, " \n"); word && count < ARGUMENTS; word = strtok(NULL, " \n"))
        words[count++] = word;
    if (count < 3)
        return count != 0;
    return strcmp(words[0], "show") == 0 ? show(words[1], words[2]) : run(words);
}

int main(void)
{
    char line[512];
    int jobs = 0, failed = 0;

    mounts();
    console();
    loopback();
    (void)setenv("PATH", "/bin", 1);
    FILE *file = fopen("/jobs", "r");
    while (file && fgets(line, sizeof line, file)) {
        failed += job(line) != 0;
        jobs++;
    }
    printf("@verdict %s, %d jobs, %d failed\n", jobs > 0 && failed == 0 ? "ok" : "FAILED", jobs, failed);
    fflush(stdout);
    (void)tcdrain(1);
    sync();
    (void)reboot(RB_POWER_OFF);
    return 1;
}
