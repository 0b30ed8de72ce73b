/*
 * edgeprof status, level, kinds, threads, tasks: clients of a running service's control endpoint (EDGEPROF_CONTROL in
 * the service). make_target() makes the path of a request to core/features/control/control.c; the answer is one line
 * of JSON. control_status.c prints the important fields of /status, show_tasks() the list of pending work, which comes
 * in parts.
 */
#include "tools/cmd/commands.h"
#include "tools/cmd/control_status.h"
#include "tools/lib/json_read.h"
#include "tools/lib/kinds.h"
#include "tools/lib/progress.h"
#include "tools/cmd/options.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MOST 65536u

#define CONTROL_END                                                                                                    \
    "The service opens the endpoint that its own EDGEPROF_CONTROL names. EDGEPROF_CONTROL_TOKEN has the token.\n"      \
    "\n"                                                                                                               \
    "exit codes: 0 done, 1 failed, 2 wrong usage"

const struct et_help et_help_status = {
    .usage = "[--at WHERE] [--json]",
    .about = "Prints the level, the enabled kinds, the cost of profiling, losses, and threads that are not sampled, "
             "with reasons.",
    .end = CONTROL_END,
    .words = "",
};

const struct et_help et_help_level = {
    .usage = "[--at WHERE] low|medium|high",
    .about = "Sets the service's preset for sampling rate and kinds.",
    .end = CONTROL_END,
    .words = "low medium high",
};

const struct et_help et_help_kinds = {
    .usage = "[--at WHERE] KIND[,KIND...]\n"
             "[--at WHERE] (on|off) KIND[,KIND...] ...",
    .about = "Sets the kinds that the service collects: exactly these, or enables (on) or disables (off) some.\n"
             "\n"
             "The kinds are cpu, wait, lock, alloc, live, exception, gc, thread, heap, write and sync.",
    .end = CONTROL_END,
    .words = "on off",
};

const struct et_help et_help_threads = {
    .usage = "[--at WHERE]",
    .about = "Makes the service capture a stack of every thread and send it as a profile of kind thread.",
    .end = CONTROL_END,
    .words = "",
};

const struct et_help et_help_tasks = {
    .usage = "[--at WHERE]",
    .about = "Lists what the pending async methods of a .NET service (NativeAOT) wait for, at this moment: a line for "
             "each chain of methods that wait for each other, with the number of such chains, as in\n"
             "\n"
             "       123  Orders.Db.ReadAsync <- Orders.Pricing.SumAsync <- Orders.Api.Checkout\n"
             "\n"
             "The service makes a full garbage collection for it. The first line says how long it stood still.",
    .end = CONTROL_END,
    .words = "",
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

static bool is_post(const char *target)
{
    return strcmp(target, "/status") != 0 && strncmp(target, "/tasks?", 7) != 0;
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
    if (is_post(target)) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    }
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, endpoint->headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, strcmp(target, "/tasks") == 0 ? 40L : 10L);
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

/* ---- the answer to /tasks ---- */

/* Prints the part that is answered. Returns where the next one begins; 0: this was the end; -1: it is no answer. */
static json_int_t show_part(const struct et_buf *answer)
{
    struct et_buf why = {0};
    json_t *part = et_json_read(answer->data ? answer->data : "", answer->size, &why);
    const char *text = json_string_value(json_object_get(part, "text"));
    json_int_t next = text ? json_integer_value(json_object_get(part, "next")) : -1;
    if (text) {
        for (size_t size; *text; text += size + (text[size] == '\n')) {
            size = strcspn(text, "\n");
            et_printf("%.*s%s", (int)size, text, text[size] ? "\n" : "");
        }
    } else {
        et_error("unexpected answer (%s); is this edgeprof's endpoint?", why.data ? why.data : "no text");
    }
    json_decref(part);
    et_buf_free(&why);
    return next;
}

/* The endpoint refuses the next part if somebody else has asked for a later list meanwhile. */
static int show_tasks(const struct control_endpoint *endpoint)
{
    json_int_t next = 0, before;
    int code;
    do {
        struct et_buf answer = {0}, target = {0};
        before = next;
        if (before) {
            et_buf_printf(&target, "/tasks?%lld", (long long)before);
        } else {
            et_buf_text(&target, "/tasks");
        }
        code = request_service(endpoint, target.data, &answer);
        if (!code) {
            next = show_part(&answer);
        }
        et_buf_free(&target);
        et_buf_free(&answer);
    } while (!code && next > before);
    return code ? code : next < 0 ? ET_FAILED : ET_OK;
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
    if (strcmp(target, "/tasks") == 0) {
        et_progress("asking the service");
        int shown = show_tasks(&endpoint);
        et_progress_end();
        curl_slist_free_all(endpoint.headers);
        return shown;
    }
    et_progress("asking the service");
    int code = changes ? request_service(&endpoint, target, &answer) : ET_OK;
    code = code ? code : request_service(&endpoint, "/status", &status);
    et_progress_end();
    if (!code && options->json) {
        code = et_print_json(&status);
    } else if (!code) {
        code = et_control_show_status(&status);
    }
    curl_slist_free_all(endpoint.headers);
    et_buf_free(&answer);
    et_buf_free(&status);
    return code;
}

int et_control_incident(const char *at, const char *name)
{
    struct control_endpoint endpoint;
    struct et_buf target = {0}, answer = {0};
    if (name[strcspn(name, " \t\r\n#?%&")]) {
        et_error("incident: a name for --now has no blanks and none of #?%%&");
        return ET_USAGE;
    }
    if (!find_endpoint(at, &endpoint)) {
        return ET_USAGE;
    }
    et_buf_printf(&target, "/incident%s%s", *name ? "?" : "", name);
    int code = request_service(&endpoint, target.data, &answer);
    curl_slist_free_all(endpoint.headers);
    et_buf_free(&target);
    et_buf_free(&answer);
    return code;
}

int et_cmd_control(int argc, char **argv)
{
    struct et_options options;
    struct et_buf target = {0};
    int code = et_options_parse(argc, argv, &options);
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
