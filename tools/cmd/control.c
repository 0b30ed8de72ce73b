/*
 * edgeprof status, level, kinds, threads: clients of a running service's control endpoint (EDGEPROF_CONTROL in the
 * service). make_target() makes the path of a request to core/endpoint/control.c; the answer is one line of JSON.
 * print_status() prints the important fields of /status.
 */
#include "tools/cmd/commands.h"
#include "tools/lib/json_read.h"
#include "tools/lib/kinds.h"
#include "tools/cmd/options.h"
#include "tools/formats/unsampled.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MOST 65536u

#define AT_HELP                                                                                                        \
    "  --at WHERE          the service's control endpoint: /path or unix:/path of its socket, or its port on\n"        \
    "                      127.0.0.1; default: $EDGEPROF_CONTROL\n"                                                    \
    "\n"                                                                                                               \
    "The service opens the endpoint that its own EDGEPROF_CONTROL names. EDGEPROF_CONTROL_TOKEN has the token.\n"      \
    "\n"                                                                                                               \
    "exit codes: 0 done, 1 failed, 2 wrong usage\n"

static const struct {
    const char *name, *help;
} actions[] = {
    {"status", "usage: edgeprof status [--at WHERE] [--json]\n"
               "\n"
               "Prints the level, the enabled kinds, the cost of profiling, losses, and threads that are not sampled, "
               "with reasons.\n"
               "\n"
               "  --json              the service's complete answer as JSON\n" AT_HELP},
    {"level", "usage: edgeprof level [--at WHERE] low|medium|high\n"
              "\n"
              "Sets the service's preset for sampling rate and kinds.\n"
              "\n" AT_HELP},
    {"kinds", "usage: edgeprof kinds [--at WHERE] KIND[,KIND...]\n"
              "       edgeprof kinds [--at WHERE] (on|off) KIND[,KIND...] ...\n"
              "\n"
              "Sets the kinds that the service collects: exactly these, or enables (on) or disables (off) some.\n"
              "Kinds: cpu, wait, lock, alloc, live, exception, gc, thread and heap.\n"
              "\n" AT_HELP},
    {"threads", "usage: edgeprof threads [--at WHERE]\n"
                "\n"
                "Makes the service capture a stack of every thread and send it as a profile of kind thread.\n"
                "\n" AT_HELP},
};

/* ---- request paths ---- */

static bool are_known_kinds(const char *list)
{
    char name[16];
    for (const char *at = list;; at++) {
        size_t size = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", size < sizeof name ? (int)size : 0, at);
        const struct et_kind *kind = et_kind_named(name);
        if (!kind || !kind->number) {
            return false;
        }
        at += size;
        if (!*at) {
            return true;
        }
    }
}

static bool make_kinds_target(int argc, char **argv, struct et_buf *target)
{
    et_buf_text(target, "/kinds?");
    if (argc == 1) {
        et_buf_text(target, argv[0]);
        return are_known_kinds(argv[0]);
    }
    for (int i = 0; i + 1 < argc; i += 2) {
        if ((strcmp(argv[i], "on") != 0 && strcmp(argv[i], "off") != 0) || !are_known_kinds(argv[i + 1])) {
            return false;
        }
        et_buf_printf(target, "%s%s=%s", i ? "&" : "", argv[i], argv[i + 1]);
    }
    return argc > 0 && argc % 2 == 0;
}

static bool make_target(const char *action, int argc, char **argv, struct et_buf *target)
{
    if (strcmp(action, "kinds") == 0) {
        return make_kinds_target(argc, argv, target);
    }
    if (strcmp(action, "level") != 0) {
        et_buf_printf(target, "/%s", action);
        return argc == 0;
    }
    et_buf_printf(target, "/level?%s", argc ? argv[0] : "");
    return argc == 1 && (strcmp(argv[0], "low") == 0 || strcmp(argv[0], "medium") == 0 || strcmp(argv[0], "high") == 0);
}

/* ---- the endpoint ---- */

struct control_endpoint {
    char url[32];
    const char *socket; /* NULL: a TCP port */
    struct curl_slist *headers;
};

static bool find_endpoint(const char *at, struct control_endpoint *endpoint)
{
    const char *where = at ? at : getenv("EDGEPROF_CONTROL"), *token = getenv("EDGEPROF_CONTROL_TOKEN");
    struct et_buf header = {0};
    *endpoint = (struct control_endpoint){.url = "http://localhost"};
    if (!where || !*where) {
        et_error("no control endpoint given; set --at or EDGEPROF_CONTROL");
        return false;
    }
    where += strncmp(where, "unix:", 5) == 0 ? 5 : 0;
    size_t digits = strspn(where, "0123456789");
    if (where[0] == '/') {
        endpoint->socket = where;
    } else if (digits && digits < 6 && !where[digits]) {
        snprintf(endpoint->url, sizeof endpoint->url, "http://127.0.0.1:%s", where);
    } else {
        et_error("--at %s: expected a socket's path or a local port number", where);
        return false;
    }
    if (token && *token) {
        et_buf_printf(&header, "Authorization: Bearer %s", token);
        endpoint->headers = curl_slist_append(NULL, header.data);
        et_buf_free(&header);
    }
    return true;
}

static size_t append_data(char *bytes, size_t size, size_t count, void *context)
{
    struct et_buf *answer = context;
    if (size * count > ANSWER_MOST - answer->size) {
        return 0;
    }
    et_buf_add(answer, bytes, size * count);
    return size * count;
}

/* Reports the service's error, which is {"error":"..."}. */
static void report_refusal(const char *where, long status, const struct et_buf *answer)
{
    static const char before[] = "{\"error\":\"";
    const char *text = answer->data ? answer->data : "";
    text += strncmp(text, before, sizeof before - 1) == 0 ? sizeof before - 1 : 0;
    char *clean = et_clean(text, strcspn(text, "\"\n"));
    et_error(status == 401 ? "%s: %s; set EDGEPROF_CONTROL_TOKEN" : "%s: %s", where,
             *clean ? clean : "unexpected answer; is this edgeprof's endpoint?");
    free(clean);
}

static int request_service(const struct control_endpoint *endpoint, const char *target, struct et_buf *answer)
{
    CURL *curl = curl_easy_init();
    struct et_buf url = {0};
    long status = 0;
    if (!curl) {
        et_error("cannot start libcurl");
        return ET_FAILED;
    }
    et_buf_printf(&url, "%s%s", endpoint->url, target);
    curl_easy_setopt(curl, CURLOPT_URL, url.data);
    if (endpoint->socket) {
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, endpoint->socket);
    }
    if (strcmp(target, "/status") != 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    }
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, endpoint->headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    et_buf_free(&url);
    const char *where = endpoint->socket ? endpoint->socket : endpoint->url;
    if (code != CURLE_OK) {
        et_error("%s: %s: does a service listen there?", where, curl_easy_strerror(code));
    } else if (status != 200) {
        report_refusal(where, status, answer);
    }
    return code == CURLE_OK && status == 200 ? ET_OK : ET_FAILED;
}

/* ---- the answer to /status ---- */

/* The number after "name": in the text from `from`; 0 when absent. */
static unsigned long long number_after(const char *from, const char *name)
{
    struct et_buf key = {0};
    et_buf_printf(&key, "\"%s\":", name);
    const char *found = strstr(from, key.data);
    unsigned long long value = found ? strtoull(found + key.size, NULL, 10) : 0;
    et_buf_free(&key);
    return value;
}

static void print_losses(const char *status)
{
    const char *at = strstr(status, "\"losses\":{");
    at = at ? at + 10 : "";
    for (const char *between = "lost     "; *at == '"' || *at == ','; between = ", ") {
        at += strspn(at, ",\"");
        size_t size = strcspn(at, "\"");
        char *name = et_clean(at, size);
        printf("%s%s %llu", between, name, number_after(at + size, "count"));
        free(name);
        at += strcspn(at, "}");
        at += *at == '}';
        if (*at != ',') {
            putchar('\n');
        }
    }
}

static uint64_t json_number(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

/* Prints a line about threads that are not sampled. */
static void print_unsampled(const char *status)
{
    struct et_buf why = {0}, line = {0};
    struct et_unsampled all = {0};
    json_t *read = et_json_read(status, strlen(status), &why);
    size_t i, k;
    const json_t *of, *name;
    json_array_foreach(json_object_get(read, "unsampled"), i, of)
    {
        et_unsampled_add(&all, (uint32_t)json_number(of, "number"), json_number(of, "threads"),
                         (uint32_t)json_number(of, "error"), json_number(of, "limit"));
        json_array_foreach(json_object_get(of, "names"), k, name)
        {
            et_unsampled_name(&all, json_string_value(name) ? json_string_value(name) : "");
        }
    }
    all.cpu_ns = json_number(read, "unsampled_ns");
    all.of_ns = json_number(read, "weight_ns") + json_number(read, "thread_exit_ns");
    et_unsampled_text(&all, &line);
    if (line.size) {
        printf("threads  %s\n", line.data);
    }
    json_decref(read);
    et_unsampled_free(&all);
    et_buf_free(&why);
    et_buf_free(&line);
}

static void print_status(const char *status)
{
    const char *level = strstr(status, "\"level\":\"");
    char *name = et_clean(level ? level + 9 : "", level ? strcspn(level + 9, "\"") : 0);
    printf("level    %s\nkinds   ", *name ? name : "none: the profiler is not running");
    for (size_t i = 0; i < et_kind_count; i++) {
        struct et_buf on = {0};
        et_buf_printf(&on, "\"%s\":{\"on\":true", et_kinds[i].name);
        if (strstr(status, on.data)) {
            printf(" %s", et_kinds[i].name);
        }
        et_buf_free(&on);
    }
    printf("\ncost     %llu ppm of the CPU time", number_after(status, "cost_ppm"));
    if (number_after(status, "budget_ppm")) {
        printf(", budget %llu, periods %llu %% of the level's", number_after(status, "budget_ppm"),
               number_after(status, "stretch_pct"));
    }
    printf("\nsent     %llu of %llu messages\n", number_after(status, "delivered"), number_after(status, "messages"));
    print_losses(status);
    print_unsampled(status);
    free(name);
}

/* ---- the command ---- */

/* Performs the action and prints the new state. */
static int run_action(const struct et_options *options, const char *target)
{
    struct control_endpoint endpoint;
    struct et_buf answer = {0}, status = {0};
    bool changes = strcmp(target, "/status") != 0;
    if (!find_endpoint(options->at, &endpoint)) {
        return ET_USAGE;
    }
    int code = changes ? request_service(&endpoint, target, &answer) : ET_OK;
    code = code ? code : request_service(&endpoint, "/status", &status);
    if (!code && options->json) {
        fputs(status.data ? status.data : "", stdout);
    } else if (!code) {
        print_status(status.data ? status.data : "");
    }
    curl_slist_free_all(endpoint.headers);
    et_buf_free(&answer);
    et_buf_free(&status);
    return code;
}

int et_cmd_control(int argc, char **argv)
{
    struct et_options options;
    struct et_buf target = {0};
    size_t action = 0;
    while (strcmp(actions[action].name, argv[0]) != 0) {
        action++;
    }
    int code = et_options_parse(argc, argv, action ? "a" : "aj", actions[action].help, &options);
    if (code >= 0) {
        return code;
    }
    if (make_target(argv[0], argc - options.first, argv + options.first, &target)) {
        code = run_action(&options, target.data);
    } else {
        const char *last = options.first < argc ? argv[argc - 1] : "";
        et_error("%s%s%s: invalid; see `edgeprof %s --help`", argv[0], *last ? " ... " : "", last, argv[0]);
        code = ET_USAGE;
    }
    et_buf_free(&target);
    et_options_free(&options);
    return code;
}
