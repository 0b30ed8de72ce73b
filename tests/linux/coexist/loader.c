/*
 * Libraries: constructors that do much, plug-ins that come and go. The plug-in reads KINDS_CONSTRUCTOR.
 */
#include "kinds.h"

static void *open_plugin(const char *constructor, int flags)
{
    (void)setenv("KINDS_CONSTRUCTOR", constructor, 1);
    void *plugin = dlopen(kinds_plugin(), RTLD_NOW | flags);
    if (!plugin)
        kinds_say("%s\n", dlerror());
    return plugin;
}

static int (*function_of(void *plugin, const char *name))(int)
{
    int (*function)(int) = NULL;
    void *symbol = dlsym(plugin, name);

    memcpy(&function, &symbol, sizeof function);
    return function;
}

static int constructor(const char *what)
{
    kinds_burn(100);
    void *plugin = open_plugin(what, 0);
    kinds_burn(100);
    if (!plugin || dlclose(plugin) != 0)
        return KINDS_FAILED;
    return KINDS_DONE;
}

static int thread_in_constructor(void)
{
    return constructor("thread");
}

static int fork_in_constructor(void)
{
    return constructor("fork");
}

static int work_in_constructor(void)
{
    return constructor("works");
}

static int end_in_constructor(void)
{
    return constructor("ends");
}

static int exit_in_destructor(void)
{
    return constructor("exit-at-close");
}

static int thread_leaves_in_constructor(void)
{
    return constructor("last");
}

static int comes_and_goes(void)
{
    for (unsigned i = 0; i < 60; i++) {
        void *plugin = open_plugin("nothing", 0);
        int (*function)(int) = plugin ? function_of(plugin, "plugin_work") : NULL;
        if (!function || function(5) != 5 || dlclose(plugin) != 0)
            return KINDS_FAILED;
    }
    return KINDS_DONE;
}

static void *open_often(void *unused)
{
    for (unsigned i = 0; i < 100; i++) {
        void *plugin = dlopen(kinds_plugin(), RTLD_NOW);
        kinds_burn(1);
        if (!plugin || dlclose(plugin) != 0)
            kinds_fail("dlopen");
    }
    return unused;
}

static int comes_in_threads(void)
{
    pthread_t threads[4];

    (void)setenv("KINDS_CONSTRUCTOR", "nothing", 1);
    for (unsigned i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, open_often, NULL) != 0)
            return KINDS_FAILED;
    for (unsigned i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    return KINDS_DONE;
}

/* It is closed while a call of it waits is over, and a thread of it has ended. */
static int waits_and_goes(void)
{
    for (unsigned i = 0; i < 10; i++) {
        void *plugin = open_plugin("nothing", 0);
        int (*function)(int) = plugin ? function_of(plugin, "plugin_waits") : NULL;
        if (!function || function(10) != 10 || dlclose(plugin) != 0)
            return KINDS_FAILED;
        kinds_burn(10);
    }
    return KINDS_DONE;
}

static int own_binding(void)
{
    void *plugin = open_plugin("signals", RTLD_DEEPBIND);
    int (*function)(int) = plugin ? function_of(plugin, "plugin_work") : NULL;

    if (!function)
        return KINDS_FAILED;
    kinds_say("%d\n", function(200));
    return dlclose(plugin) == 0 ? KINDS_DONE : KINDS_FAILED;
}

static int own_namespace(void)
{
    (void)setenv("KINDS_CONSTRUCTOR", "signals", 1);
    void *plugin = dlmopen(LM_ID_NEWLM, kinds_plugin(), RTLD_NOW);
    int (*function)(int) = plugin ? function_of(plugin, "plugin_work") : NULL;

    if (!function)
        return KINDS_CANNOT;
    kinds_say("%d\n", function(200));
    function = function_of(plugin, "plugin_waits");
    kinds_say("%d\n", function(20));
    return dlclose(plugin) == 0 ? KINDS_DONE : KINDS_FAILED;
}

static int resolver(void)
{
    void *plugin = open_plugin("nothing", RTLD_LAZY);
    int (*function)(int) = plugin ? function_of(plugin, "plugin_chosen") : NULL;

    if (!function)
        return KINDS_FAILED;
    kinds_say("%d\n", function(100));
    return KINDS_DONE;
}

const struct kinds_form kinds_loader[] = {
    {"constructor-thread", thread_in_constructor},
    {"constructor-fork", fork_in_constructor},
    {"constructor-works", work_in_constructor},
    {"constructor-ends", end_in_constructor},
    {"destructor-exit", exit_in_destructor},
    {"constructor-leaves", thread_leaves_in_constructor},
    {"comes-and-goes", comes_and_goes},
    {"comes-in-threads", comes_in_threads},
    {"waits-and-goes", waits_and_goes},
    {"own-binding", own_binding},
    {"own-namespace", own_namespace},
    {"resolver", resolver},
    {0},
};
