/*
 * What programs do that take for granted that they are alone, in many forms. kinds.py runs each form with and without
 * edgeprof and compares.
 *
 *   kinds --list       KIND/NAME of each form
 *   kinds KIND/NAME    one form
 *
 * Built twice: with edgeprof in it (-DLINKED), and without for the preload library.
 */
#include "kinds.h"

static const struct {
    const char *name;
    const struct kinds_form *forms;
} kinds[] = {
    {"signals", kinds_signals},       {"stacks", kinds_stacks}, {"threads", kinds_threads},
    {"processes", kinds_processes},   {"ends", kinds_ends},     {"descriptors", kinds_descriptors},
    {"memory", kinds_memory},         {"ids", kinds_ids},       {"limits", kinds_limits},
    {"namespaces", kinds_namespaces}, {"loader", kinds_loader},
};
#define KINDS (sizeof kinds / sizeof *kinds)

#define START_STEPS 45 /* the threads of the preload library run after 3 s, from the next sample on */
#define STEP_MS     100
#define STEP_BURN   5
#define INTERVAL_MS 250 /* as in kinds.py */
#define LIVES       3

void kinds_burn(unsigned ms)
{
    const uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000ull;

    do {
        for (volatile int i = 0; i < 20000; i++) {
        }
    } while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end);
}

static bool has_edgeprof(void)
{
    return getenv("KINDS_ENDPOINT") || getenv("EDGEPROF_ENDPOINT");
}

void kinds_burn_until_profiled(void)
{
    static bool was_profiled; /* later no descriptor may be free to look with */

    for (unsigned i = 0; has_edgeprof() && !was_profiled && i < START_STEPS; i++) {
        kinds_burn(STEP_BURN);
        was_profiled = own_ns("edgeprof-coll") != 0;
        (void)usleep((STEP_MS - STEP_BURN) * 1000);
    }
    kinds_burn(100);
}

void kinds_live(void)
{
    kinds_burn_until_profiled();
    for (unsigned i = 0; has_edgeprof() && i < LIVES; i++) {
        kinds_burn(50);
        (void)usleep((INTERVAL_MS - 50) * 1000);
    }
}

void kinds_say(const char *format, ...)
{
    char line[512];
    va_list list;

    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    (void)!write(STDOUT_FILENO, line, (size_t)length);
}

void kinds_fail(const char *what)
{
    perror(what);
    _exit(KINDS_FAILED);
}

int kinds_wait(int child)
{
    int status;

    if (child < 0 || waitpid(child, &status, __WALL) != child)
        kinds_fail("wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void *burn_always(void *unused)
{
    for (;;)
        kinds_burn(1000);
    return unused;
}

void kinds_burn_beside(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, burn_always, NULL) != 0)
        kinds_fail("thread");
    (void)pthread_detach(thread);
}

const char *kinds_plugin(void)
{
    const char *path = getenv("KINDS_PLUGIN");

    return path ? path : "";
}

#ifdef LINKED
#include <edgeprof/edgeprof.h>

static int begin(void)
{
    static uint8_t memory[EP_MEMORY_DEFAULT];
    const struct ep_config config = {.memory = memory,
                                     .memory_size = sizeof memory,
                                     .service = "kinds",
                                     .level = EP_LEVEL_HIGH,
                                     .interval_ms = INTERVAL_MS,
                                     .endpoint = getenv("KINDS_ENDPOINT")};

    return ep_start(&config);
}
#else
static int begin(void)
{
    return 0;
}
#endif

static const struct kinds_form *find(const char *name)
{
    const char *slash = strchr(name, '/');

    for (size_t i = 0; slash && i < KINDS; i++)
        for (const struct kinds_form *form = kinds[i].forms; form->name; form++)
            if (strlen(kinds[i].name) == (size_t)(slash - name) &&
                strncmp(kinds[i].name, name, (size_t)(slash - name)) == 0 && strcmp(form->name, slash + 1) == 0)
                return form;
    return NULL;
}

static int list(void)
{
    for (size_t i = 0; i < KINDS; i++)
        for (const struct kinds_form *form = kinds[i].forms; form->name; form++)
            printf("%s/%s\n", kinds[i].name, form->name);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    if (argc == 2 && strcmp(argv[1], "--child") == 0) { /* what forms execute */
        kinds_burn(50);
        kinds_say("executed\n");
        return 5;
    }
    const struct kinds_form *form = argc == 2 ? find(argv[1]) : NULL;
    if (!form || begin() != 0)
        return 3;
    return form->run();
}
