/*
 * Threads that are cancelled, their data, and what describes them.
 */
#include "kinds.h"

#define ROUNDS 20

static atomic_int cleaned;
static atomic_uint inside; /* threads whose clean-up is in place */

static void clean(void *unused)
{
    (void)unused;
    (void)atomic_fetch_add(&cleaned, 1);
}

static void *cancelled_in_work(void *unused)
{
    int old;

    pthread_cleanup_push(clean, NULL);
    (void)pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    (void)atomic_fetch_add(&inside, 1);
    for (volatile unsigned long i = 0;; i++) {
    }
    pthread_cleanup_pop(0);
    return unused;
}

static int ends[2];

static void *cancelled_in_read(void *unused)
{
    char byte;

    pthread_cleanup_push(clean, NULL);
    (void)atomic_fetch_add(&inside, 1);
    kinds_burn(5);
    (void)!read(ends[0], &byte, 1);
    pthread_cleanup_pop(0);
    return unused;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void unlock(void *unused)
{
    (void)unused;
    (void)pthread_mutex_unlock(&mutex);
    clean(NULL);
}

static void *cancelled_in_condition(void *unused)
{
    (void)pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, NULL);
    (void)atomic_fetch_add(&inside, 1);
    for (;;)
        (void)pthread_cond_wait(&never, &mutex);
    pthread_cleanup_pop(0);
    return unused;
}

static void *cancelled_in_sleep(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    (void)atomic_fetch_add(&inside, 1);
    for (;;)
        (void)sleep(100);
    pthread_cleanup_pop(0);
    return unused;
}

static void *cancelled_in_semaphore(void *unused)
{
    static sem_t semaphore;

    pthread_cleanup_push(clean, NULL);
    (void)atomic_fetch_add(&inside, 1);
    (void)sem_wait(&semaphore);
    pthread_cleanup_pop(0);
    return unused;
}

static void *cancelled_in_join(void *unused)
{
    pthread_t thread;

    pthread_cleanup_push(clean, NULL);
    if (pthread_create(&thread, NULL, cancelled_in_sleep, NULL) != 0)
        kinds_fail("thread");
    (void)pthread_join(thread, NULL);
    pthread_cleanup_pop(0);
    return unused;
}

/* No call before this one ends a thread that is cancelled as soon as it exists. */
static void *cancelled_at_start(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    for (;;)
        pthread_testcancel();
    pthread_cleanup_pop(0);
    return unused;
}

static atomic_int steps;

static void *nothing(void *unused)
{
    return unused;
}

/* None of these calls is where a thread can be cancelled. */
static void *cancelled_later(void *unused)
{
    struct sigaction action;
    stack_t stack;
    pthread_t thread;
    void *library, *memory;

    pthread_cleanup_push(clean, NULL);
    (void)pthread_cancel(pthread_self());
    if (pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_detach(thread) == 0)
        (void)atomic_fetch_add(&steps, 1);
    if ((library = dlopen("libresolv.so.2", RTLD_NOW)) && dlclose(library) == 0)
        (void)atomic_fetch_add(&steps, 1);
    if (sigaction(SIGUSR2, NULL, &action) == 0 && sigaction(SIGUSR2, &action, NULL) == 0 &&
        sigaltstack(NULL, &stack) == 0)
        (void)atomic_fetch_add(&steps, 1);
    memory = malloc(8 << 20);
    free(realloc(memory, 16 << 20));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && unshare(0) == 0 && syscall(SYS_getpid) > 0)
        (void)atomic_fetch_add(&steps, 1);
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return unused;
}

static int cancel(void *(*work)(void *), bool at_start)
{
    pthread_t thread;
    void *result;
    int right = 0;

    if (pipe(ends) != 0)
        return KINDS_FAILED;
    for (unsigned i = 0; i < ROUNDS; i++) {
        atomic_store(&inside, at_start);
        if (pthread_create(&thread, NULL, work, NULL) != 0)
            return KINDS_FAILED;
        while (!atomic_load(&inside))
            (void)sched_yield();
        if (!at_start)
            kinds_burn(10);
        if (pthread_cancel(thread) != 0 || pthread_join(thread, &result) != 0)
            return KINDS_FAILED;
        right += result == PTHREAD_CANCELED;
    }
    kinds_say("%d %d %d\n", right, atomic_load(&cleaned), atomic_load(&steps));
    return KINDS_DONE;
}

static int in_work(void)
{
    return cancel(cancelled_in_work, false);
}

static int in_read(void)
{
    return cancel(cancelled_in_read, false);
}

static int in_condition(void)
{
    return cancel(cancelled_in_condition, false);
}

static int in_sleep(void)
{
    return cancel(cancelled_in_sleep, false);
}

static int in_semaphore(void)
{
    return cancel(cancelled_in_semaphore, false);
}

static int in_join(void)
{
    return cancel(cancelled_in_join, false);
}

static int at_start(void)
{
    return cancel(cancelled_at_start, true);
}

static int later(void)
{
    return cancel(cancelled_later, true);
}

static pthread_t main_thread;

static void *cancel_main(void *unused)
{
    kinds_burn(100);
    (void)pthread_cancel(main_thread);
    (void)pthread_join(main_thread, NULL);
    kinds_burn(50);
    kinds_say("main is gone\n");
    exit(3);
    return unused;
}

static int main_is_cancelled(void)
{
    pthread_t thread;

    main_thread = pthread_self();
    if (pthread_create(&thread, NULL, cancel_main, NULL) != 0)
        return KINDS_FAILED;
    for (;;)
        (void)pause();
}

/* ---- data of threads ---- */

static pthread_key_t key;

static void work_at_end(void *value)
{
    kinds_burn(20);
    (void)atomic_fetch_add(&cleaned, (int)(intptr_t)value);
}

static void *leave_data(void *unused)
{
    (void)pthread_setspecific(key, (void *)1);
    kinds_burn(10);
    return unused;
}

static int data_of_threads(void)
{
    pthread_t threads[10];

    (void)pthread_key_create(&key, work_at_end);
    for (unsigned i = 0; i < 10; i++)
        if (pthread_create(&threads[i], NULL, leave_data, NULL) != 0)
            return KINDS_FAILED;
    for (unsigned i = 0; i < 10; i++)
        (void)pthread_join(threads[i], NULL);
    kinds_say("%d\n", atomic_load(&cleaned));
    return KINDS_DONE;
}

/* All keys that the C library has, of which a program may have 1024. */
static int all_keys(void)
{
    static pthread_key_t keys[1100];
    unsigned made = 0;

    kinds_burn(50);
    while (made < 1100 && pthread_key_create(&keys[made], NULL) == 0)
        made++;
    kinds_say("%s\n", made >= 1000 ? "enough" : "few");
    kinds_burn_beside();
    kinds_burn(100);
    for (unsigned i = 0; i < made; i++)
        (void)pthread_key_delete(keys[i]);
    return KINDS_DONE;
}

/* The main thread's name and priority are as they were. */
static int names_and_priorities(void)
{
    char name[32] = "";

    kinds_burn(100);
    (void)pthread_getname_np(pthread_self(), name, sizeof name);
    kinds_say("%.5s %d\n", name, nice(0));
    (void)pthread_setname_np(pthread_self(), "renamed");
    (void)!nice(5);
    kinds_burn(50);
    (void)pthread_getname_np(pthread_self(), name, sizeof name);
    kinds_say("%s %d\n", name, nice(0));
    return KINDS_DONE;
}

const struct kinds_form kinds_threads[] = {
    {"cancelled-at-start", at_start},
    {"cancelled-later", later},
    {"cancelled-in-work", in_work},
    {"cancelled-in-read", in_read},
    {"cancelled-in-condition", in_condition},
    {"cancelled-in-sleep", in_sleep},
    {"cancelled-in-semaphore", in_semaphore},
    {"cancelled-in-join", in_join},
    {"main-cancelled", main_is_cancelled},
    {"data", data_of_threads},
    {"all-keys", all_keys},
    {"names-and-priorities", names_and_priorities},
    {0},
};
