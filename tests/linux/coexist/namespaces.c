/*
 * Namespaces, entered after work.
 */
#include "kinds.h"

#include <linux/sched.h>
#include <sys/mount.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static int entered(int flags)
{
    kinds_burn_until_profiled();
    if (unshare(flags) != 0) {
        perror("unshare");
        return KINDS_CANNOT;
    }
    kinds_burn(100);
    return KINDS_DONE;
}

static int user(void)
{
    return entered(CLONE_NEWUSER);
}

static int user_and_more(void)
{
    return entered(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC);
}

static int cgroup(void)
{
    return entered(CLONE_NEWCGROUP | CLONE_FS | CLONE_FILES);
}

static void *burn_long(void *unused)
{
    kinds_burn(150);
    return unused;
}

/* As container tools do that were written for older C libraries; a thread has ended. */
static int user_by_call(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, burn_long, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return KINDS_FAILED;
    kinds_burn_until_profiled();
    if (syscall(SYS_unshare, CLONE_NEWUSER) != 0) {
        perror("unshare");
        return KINDS_CANNOT;
    }
    kinds_burn(100);
    return KINDS_DONE;
}

/* What a child in the new namespace does. */
static int child_works(int ending)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, burn_long, NULL) != 0)
        return 30;
    kinds_burn(150);
    if (ending == 1)
        (void)syscall(SYS_exit, 0);
    if (ending == 2)
        pthread_exit(NULL);
    (void)pthread_join(thread, NULL);
    const int child = fork();
    if (child == 0) {
        kinds_burn(150);
        exit(2);
    }
    return kinds_wait(child) == 2 ? (int)getpid() : 32;
}

static int with_child(int flags, int ending)
{
    const int result = entered(flags);

    if (result != KINDS_DONE)
        return result;
    const int child = fork();
    if (child == 0)
        exit(child_works(ending));
    kinds_say("%d\n", kinds_wait(child));
    kinds_burn(100);
    return KINDS_DONE;
}

/* As `unshare --pid --fork`: /proc shows other numbers than the child has. */
static int processes(void)
{
    return with_child(CLONE_NEWPID, 0);
}

static int processes_main_leaves(void)
{
    return with_child(CLONE_NEWPID, 2);
}

static int processes_child_raw(void)
{
    return with_child(CLONE_NEWPID, 1);
}

static int processes_of_user(void)
{
    return with_child(CLONE_NEWUSER | CLONE_NEWPID, 0);
}

/* The caller cannot create threads any more. */
static int processes_and_thread(void)
{
    pthread_t thread;

    kinds_burn(50);
    if (unshare(CLONE_NEWPID) != 0)
        return KINDS_CANNOT;
    kinds_burn(100);
    kinds_say("%d\n", pthread_create(&thread, NULL, burn_long, NULL));
    kinds_burn(100);
    return KINDS_DONE;
}

static int processes_with_proc(void)
{
    if (entered(CLONE_NEWPID | CLONE_NEWNS) != KINDS_DONE)
        return KINDS_CANNOT;
    const int child = fork();
    if (child == 0) {
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("proc", "/proc", "proc", 0, NULL) != 0)
            exit(KINDS_CANNOT);
        exit(child_works(0));
    }
    kinds_say("%d\n", kinds_wait(child));
    return KINDS_DONE;
}

static int time_of_children(void)
{
    kinds_burn_until_profiled();
    if (unshare(CLONE_NEWTIME) != 0)
        return KINDS_CANNOT;
    const int offsets = open("/proc/self/timens_offsets", O_WRONLY);
    if (offsets >= 0 && write(offsets, "monotonic 86400 0\nboottime 86400 0\n", 35) != 35)
        return KINDS_FAILED;
    const int child = fork();
    if (child == 0) {
        kinds_burn(150);
        exit(5);
    }
    kinds_say("%d\n", kinds_wait(child));
    kinds_burn(150);
    return KINDS_DONE;
}

/* A child makes a namespace, its parent enters it. */
static int enters(int flag, const char *file)
{
    int ready[2], go[2];
    char byte, path[64];

    kinds_burn_until_profiled();
    if (pipe(ready) != 0 || pipe(go) != 0)
        return KINDS_FAILED;
    const int child = fork();
    if (child == 0) {
        (void)!write(ready[1], unshare(flag) == 0 ? "y" : "n", 1);
        (void)!read(go[0], &byte, 1);
        _exit(0);
    }
    (void)!read(ready[0], &byte, 1);
    (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", child, file);
    const int fd = open(path, O_RDONLY);
    const int result = byte == 'y' && fd >= 0 ? setns(fd, flag) : -2;
    (void)!write(go[1], "x", 1);
    (void)kinds_wait(child);
    kinds_say("%d\n", result);
    kinds_burn(100);
    return KINDS_DONE;
}

static int enters_user(void)
{
    return enters(CLONE_NEWUSER, "user");
}

static int enters_mount(void)
{
    return enters(CLONE_NEWNS, "mnt");
}

static int enters_time(void)
{
    return enters(CLONE_NEWTIME, "time_for_children");
}

static int twice(void)
{
    const int first = entered(CLONE_NEWUSER);

    return first == KINDS_DONE ? entered(CLONE_NEWNS | CLONE_NEWUTS) : first;
}

static int child_of_clone(void *unused)
{
    (void)unused;
    kinds_burn(150);
    return (int)getpid() + 40;
}

static int clones_into(void)
{
    static _Alignas(64) unsigned char stack[262144];

    kinds_burn_until_profiled();
    const int child = clone(child_of_clone, stack + sizeof stack, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, NULL);
    kinds_say("%d\n", kinds_wait(child));
    return KINDS_DONE;
}

/* In a child, after a thread has ended. */
static int in_child(void)
{
    pthread_t thread;

    kinds_burn(50);
    const int child = fork();
    if (child == 0) {
        if (pthread_create(&thread, NULL, burn_long, NULL) != 0 || pthread_join(thread, NULL) != 0)
            exit(30);
        kinds_burn_until_profiled();
        exit(unshare(CLONE_NEWUSER) == 0 ? 5 : 6);
    }
    kinds_say("%d\n", kinds_wait(child));
    return KINDS_DONE;
}

const struct kinds_form kinds_namespaces[] = {
    {"user", user},
    {"user-by-call", user_by_call},
    {"user-and-more", user_and_more},
    {"cgroup", cgroup},
    {"processes", processes},
    {"processes-main-leaves", processes_main_leaves},
    {"processes-child-raw", processes_child_raw},
    {"processes-of-user", processes_of_user},
    {"processes-and-thread", processes_and_thread},
    {"processes-with-proc", processes_with_proc},
    {"time", time_of_children},
    {"enters-user", enters_user},
    {"enters-mount", enters_mount},
    {"enters-time", enters_time},
    {"twice", twice},
    {"clone", clones_into},
    {"in-child", in_child},
    {0},
};
