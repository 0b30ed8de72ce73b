/*
 * Users, privileges, and another root of the file system. As root.
 */
#include "kinds.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#define NOBODY 65534

static void *say_id(void *unused)
{
    kinds_burn(20);
    kinds_say("%d %d\n", (int)syscall(SYS_geteuid), (int)syscall(SYS_getegid));
    return unused;
}

static int in_thread_too(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, say_id, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return KINDS_FAILED;
    (void)say_id(NULL);
    kinds_burn(150);
    return KINDS_DONE;
}

static int drops_privileges(void)
{
    if (getuid() != 0)
        return KINDS_CANNOT;
    kinds_burn(100);
    if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
        return KINDS_FAILED;
    kinds_say("%d\n", setuid(0));
    return in_thread_too();
}

static atomic_bool ready, go_on;

static void *say_id_later(void *unused)
{
    atomic_store(&ready, true);
    while (!atomic_load(&go_on))
        kinds_burn(1);
    return say_id(unused);
}

/* The C library changes the ids of all threads by a signal. */
static int drops_beside_threads(void)
{
    pthread_t threads[4];

    if (getuid() != 0)
        return KINDS_CANNOT;
    for (unsigned i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, say_id_later, NULL) != 0)
            return KINDS_FAILED;
    kinds_burn(150);
    if (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return KINDS_FAILED;
    atomic_store(&go_on, true);
    for (unsigned i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    return KINDS_DONE;
}

/* As file servers, for each request. */
static int changes_often(void)
{
    if (getuid() != 0)
        return KINDS_CANNOT;
    kinds_burn_beside();
    for (unsigned i = 0; i < 300; i++) {
        if (seteuid(NOBODY) != 0 || geteuid() != NOBODY)
            return KINDS_FAILED;
        kinds_burn(1);
        if (seteuid(0) != 0 || geteuid() != 0)
            return KINDS_FAILED;
    }
    return KINDS_DONE;
}

static int drops_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {0};

    kinds_burn(100);
    if (syscall(SYS_capset, &header, none) != 0)
        return KINDS_FAILED;
    kinds_burn_beside();
    kinds_burn(100);
    return KINDS_DONE;
}

static int hides_from_all(void)
{
    if (getuid() != 0)
        return KINDS_CANNOT;
    kinds_burn(50);
    if (setuid(NOBODY) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return KINDS_FAILED;
    kinds_burn_beside();
    kinds_burn(100);
    (void)syscall(SYS_exit_group, 5);
    return KINDS_DONE;
}

static void *burn_and_leave(void *unused)
{
    kinds_burn(100);
    return unused;
}

/* Its main thread leaves; edgeprof cannot read /proc. */
static int hides_and_leaves(void)
{
    pthread_t thread;

    if (getuid() != 0)
        return KINDS_CANNOT;
    kinds_burn(50);
    if (setuid(NOBODY) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
        pthread_create(&thread, NULL, burn_and_leave, NULL) != 0)
        return KINDS_FAILED;
    pthread_exit(NULL);
}

/* ---- another root ---- */

static bool change_root(void)
{
    char path[] = "/tmp/kindsXXXXXX";

    if (getuid() != 0 || !mkdtemp(path) || chroot(path) != 0 || chdir("/") != 0)
        return false;
    return true;
}

static int changed_root(void)
{
    kinds_burn(50);
    if (!change_root())
        return KINDS_CANNOT;
    kinds_burn_beside();
    kinds_burn(100);
    kinds_say("%d\n", access("/proc", F_OK));
    return KINDS_DONE;
}

static int changed_root_and_forks(void)
{
    kinds_burn(50);
    if (!change_root())
        return KINDS_CANNOT;
    const int child = fork();
    if (child == 0) {
        kinds_burn(150);
        exit(5);
    }
    kinds_say("%d\n", kinds_wait(child));
    return KINDS_DONE;
}

static int pivots_root(void)
{
    char path[] = "/tmp/kindsXXXXXX";

    kinds_burn(50);
    if (getuid() != 0 || unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        !mkdtemp(path) || mount("none", path, "tmpfs", 0, NULL) != 0 || chdir(path) != 0)
        return KINDS_CANNOT;
    if (syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0)
        return KINDS_CANNOT;
    kinds_burn(150);
    kinds_say("%d\n", access("/proc", F_OK));
    return KINDS_DONE;
}

static int without_proc(void)
{
    kinds_burn(50);
    if (getuid() != 0 || unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        umount2("/proc", MNT_DETACH) != 0)
        return KINDS_CANNOT;
    kinds_burn_beside();
    kinds_burn(150);
    return KINDS_DONE;
}

/* ---- perf events of the program's own ---- */

static int own_events(void)
{
    struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE,
                                         .size = sizeof attributes,
                                         .config = PERF_COUNT_SW_TASK_CLOCK,
                                         .inherit = 1,
                                         .exclude_kernel = 1};
    uint64_t value = 0;
    const int fd = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);

    if (fd < 0)
        return KINDS_CANNOT;
    kinds_burn(100);
    const bool right = read(fd, &value, sizeof value) == sizeof value && value > 150000000;
    kinds_say("%d %d\n", fd, right);
    (void)ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    (void)close(fd);
    return KINDS_DONE;
}

/* The system call that switches all events of the process off. */
static int switches_events_off(void)
{
    kinds_burn(50);
    (void)prctl(PR_TASK_PERF_EVENTS_DISABLE, 0, 0, 0, 0);
    kinds_burn(150);
    (void)prctl(PR_TASK_PERF_EVENTS_ENABLE, 0, 0, 0, 0);
    kinds_burn(50);
    return KINDS_DONE;
}

const struct kinds_form kinds_ids[] = {
    {"drops-privileges", drops_privileges},
    {"drops-beside-threads", drops_beside_threads},
    {"changes-often", changes_often},
    {"drops-capabilities", drops_capabilities},
    {"hides-from-all", hides_from_all},
    {"hides-and-leaves", hides_and_leaves},
    {"changed-root", changed_root},
    {"changed-root-and-forks", changed_root_and_forks},
    {"pivots-root", pivots_root},
    {"without-proc", without_proc},
    {"own-events", own_events},
    {"switches-events-off", switches_events_off},
    {0},
};
