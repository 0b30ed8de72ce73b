/*
 * A host for Microsoft's NativeAOT library from the npm package node-api-dotnet: Node's C interface as far as the
 * library asks for it. Every function succeeds and hands out a handle that is not null, so the library starts, defines
 * its one function and hands it back. Each call of that function looks on the disk for a .NET installation, throws and
 * catches a managed exception and ends in napi_throw: exceptions, P/Invoke, strings and allocation.
 *
 * Types and signatures: Node-API, https://nodejs.org/api/n-api.html.
 */
#include "../../program.h"
#include "host.h"

#define EXPORT __attribute__((visibility("default")))

typedef void *handle;
typedef handle callback(handle env, handle info);
typedef void finalizer(handle env, void *data, void *hint);

struct property {
    const char *utf8name;
    handle name;
    callback *method, *getter, *setter;
    handle value;
    int attributes;
    void *data;
};

/* Of a thread, as of a worker of Node's: the library keeps its own state so, too. */
static _Thread_local struct property function; /* what the library hands back */
static _Thread_local void *instance;
/* Of each call: the version of .NET that is wanted, where its library would be, and two more. */
static const char *const argument[] = {"net8.0", "/nowhere/net8.0/Microsoft.JavaScript.NodeApi.DotNetHost.dll", "", ""};
#define ARGUMENTS (sizeof argument / sizeof argument[0])

static unsigned long throws;
static handle (*start)(handle env, handle exports);
static uintptr_t handles = 0x1000;

static int give(handle *result)
{
    if (result)
        *result = (handle)(__atomic_fetch_add(&handles, 16, __ATOMIC_RELAXED) | 1);
    return 0;
}

/* $(1): name, $(2): the arguments before the result. */
#define GIVES(name, ...)                                                                                               \
    EXPORT int name(__VA_ARGS__, handle *result);                                                                      \
    int name(__VA_ARGS__, handle *result)                                                                              \
    {                                                                                                                  \
        return give(result);                                                                                           \
    }
#define SUCCEEDS(name, ...)                                                                                            \
    EXPORT int name(__VA_ARGS__);                                                                                      \
    int name(__VA_ARGS__)                                                                                              \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"

GIVES(napi_call_function, handle env, handle self, handle fn, size_t count, const handle *arguments)
GIVES(napi_create_error, handle env, handle code, handle text)
GIVES(napi_create_range_error, handle env, handle code, handle text)
GIVES(napi_create_type_error, handle env, handle code, handle text)
GIVES(node_api_create_syntax_error, handle env, handle code, handle text)
GIVES(napi_create_object, handle env)
GIVES(napi_create_reference, handle env, handle value, uint32_t count)
GIVES(napi_create_string_utf16, handle env, const uint16_t *text, size_t length)
GIVES(napi_get_and_clear_last_exception, handle env)
GIVES(napi_get_global, handle env)
GIVES(napi_get_property, handle env, handle object, handle key)
GIVES(napi_get_reference_value, handle env, handle reference)
GIVES(napi_get_undefined, handle env)
GIVES(napi_open_escapable_handle_scope, handle env)
GIVES(napi_open_handle_scope, handle env)
GIVES(napi_add_finalizer, handle env, handle object, void *data, finalizer *end, void *hint)
GIVES(napi_create_threadsafe_function, handle env, handle fn, handle resource, handle name, size_t queue,
      size_t threads, void *data, finalizer *end, void *context, void *call)
SUCCEEDS(napi_add_env_cleanup_hook, handle env, void (*end)(void *), void *data)
SUCCEEDS(napi_remove_env_cleanup_hook, handle env, void (*end)(void *), void *data)
SUCCEEDS(napi_call_threadsafe_function, handle fn, void *data, int blocking)
SUCCEEDS(napi_release_threadsafe_function, handle fn, int mode)
SUCCEEDS(napi_unref_threadsafe_function, handle env, handle fn)
SUCCEEDS(napi_close_escapable_handle_scope, handle env, handle scope)
SUCCEEDS(napi_close_handle_scope, handle env, handle scope)
SUCCEEDS(napi_delete_reference, handle env, handle reference)
SUCCEEDS(napi_set_property, handle env, handle object, handle key, handle value)

EXPORT int napi_define_properties(handle env, handle object, size_t count, const struct property *properties);
int napi_define_properties(handle env, handle object, size_t count, const struct property *properties)
{
    for (size_t i = 0; i < count; i++) {
        if (properties[i].method)
            function = properties[i];
    }
    return 0;
}

EXPORT int napi_get_cb_info(handle env, handle info, size_t *count, handle *arguments, handle *self, void **data);
int napi_get_cb_info(handle env, handle info, size_t *count, handle *arguments, handle *self, void **data)
{
    if (count) {
        for (size_t i = 0; arguments && i < *count && i < ARGUMENTS; i++)
            arguments[i] = (handle)&argument[i];
        *count = ARGUMENTS;
    }
    give(self);
    if (data)
        *data = function.data;
    return 0;
}

EXPORT int napi_get_instance_data(handle env, void **data);
int napi_get_instance_data(handle env, void **data)
{
    *data = instance;
    return 0;
}

EXPORT int napi_set_instance_data(handle env, void *data, finalizer *end, void *hint);
int napi_set_instance_data(handle env, void *data, finalizer *end, void *hint)
{
    instance = data;
    return 0;
}

struct error_info {
    const char *message;
    void *reserved;
    uint32_t engine;
    int code;
};

EXPORT int napi_get_last_error_info(handle env, const struct error_info **result);
int napi_get_last_error_info(handle env, const struct error_info **result)
{
    static const struct error_info none = {.message = "none"};

    *result = &none;
    return 0;
}

EXPORT int napi_get_value_string_utf16(handle env, handle value, uint16_t *text, size_t size, size_t *length);
int napi_get_value_string_utf16(handle env, handle value, uint16_t *text, size_t size, size_t *length)
{
    const char *wanted =
        (uintptr_t)value - (uintptr_t)argument < sizeof argument ? *(const char *const *)value : argument[0];
    size_t n = strlen(wanted);

    if (text) {
        for (size_t i = 0; i < n && i + 1 < size; i++)
            text[i] = (uint16_t)wanted[i];
        text[n < size ? n : size - 1] = 0;
    }
    if (length)
        *length = n;
    return 0;
}

EXPORT int napi_has_own_property(handle env, handle object, handle key, bool *result);
int napi_has_own_property(handle env, handle object, handle key, bool *result)
{
    *result = true;
    return 0;
}

EXPORT int napi_is_exception_pending(handle env, bool *result);
int napi_is_exception_pending(handle env, bool *result)
{
    *result = false;
    return 0;
}

EXPORT int napi_strict_equals(handle env, handle a, handle b, bool *result);
int napi_strict_equals(handle env, handle a, handle b, bool *result)
{
    *result = a == b;
    return 0;
}

EXPORT int napi_throw(handle env, handle error);
int napi_throw(handle env, handle error)
{
    __atomic_fetch_add(&throws, 1, __ATOMIC_RELAXED);
    return 0;
}

EXPORT int napi_typeof(handle env, handle value, int *type);
int napi_typeof(handle env, handle value, int *type)
{
    *type = 4; /* a string */
    return 0;
}

EXPORT void napi_fatal_error(const char *place, size_t place_length, const char *text, size_t length);
void napi_fatal_error(const char *place, size_t place_length, const char *text, size_t length)
{
    fprintf(stderr, "host: the library gave up: %.*s\n", (int)(length == (size_t)-1 ? strlen(text) : length), text);
    abort();
}

int host_load(const char *path)
{
    /* A .NET that is installed would be started; this folder exists and has none. */
    void *library = setenv("DOTNET_ROOT", "/proc", 1) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = library ? dlsym(library, "napi_register_module_v1") : NULL;

    if (!symbol) {
        fprintf(stderr, "host: %s\n", dlerror());
        return 1;
    }
    memcpy(&start, &symbol, sizeof start);
    return host_join();
}

int host_join(void)
{
    handle env, exports;

    give(&env);
    give(&exports);
    start(env, exports);
    return function.method ? 0 : 1;
}

void host_call(void)
{
    (void)function.method((handle)0x11, (handle)0x21);
}

unsigned long host_throws(void)
{
    return __atomic_load_n(&throws, __ATOMIC_RELAXED);
}
