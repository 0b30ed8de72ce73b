/*
 * edgeprof run: starts a program with the profiler preloaded and a server in this process, unless --url names one, and
 * prints the result.
 *
 * The program runs in the terminal's foreground as if started alone. Signals sent to this process are passed on to it.
 */
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"
#include "tools/cmd/outlived.h"
#include "tools/cmd/run_result.h"
#include "tools/formats/output.h"
#include "tools/lib/kinds.h"
#include "tools/lib/time_text.h"
#include "tools/serve/start.h"
#include "tools/cmd/target.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

const struct et_help et_help_run = {
    .usage = "[options] [--] COMMAND [ARGUMENT...]",
    .about = "Profiles an unmodified program and prints the most expensive functions. One line on standard error names "
             "threads that could not be sampled, with the reason and what to do.",
    .end =
        "Programs started by COMMAND are profiled, too, and so are processes that it forks. With several processes, "
        "lines below the functions give the time of each. Some CPU time is in no profile: that of processes that ended "
        "early, and that in the kernel at the ends of processes. It is shown as one function, [short processes]. "
        "The sum is the CPU time that the kernel counted: at most 4 ms less, or 1 % more.\n"
        "Each run's server wants a token of its own, so other users of the machine can neither read nor change the "
        "profile. COMMAND gets it as EDGEPROF_TOKEN; --listen and --serve print it.\n"
        "A process that ends by a signal, exec or the system call exit_group() is profiled until then. One line on "
        "standard error names a signal that ended COMMAND. This needs a tmpfs at /dev/shm.\n"
        "With --url the sum is that of the samples, and there are no lines for processes; several programs with one "
        "service name that run at the same time are printed together.\n"
        "\n"
        "If COMMAND cannot be profiled, one line before its start says why: it is static, set-user-id, for another "
        "architecture, or does not use glibc. Programs with AddressSanitizer are profiled; run adds "
        "verify_asan_link_order=0 to their ASAN_OPTIONS.\n"
        "\n"
        "exit codes: the command's own; 128 + N when signal N ended it; 127 not found, 126 not executable; else 2 "
        "wrong usage, 125 edgeprof failed, and 3 when the command ended with 0 but sent no profile",
    .before_command = true,
    .words = "",
};

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, BY_SIGNAL = 128 };

extern char **environ;

/* ---- getting ready ---- */

static bool find_preload(struct et_run_command *run)
{
    static const char *const places[] = {"", "../lib/", "../lib/edgeprof/"};
    const char *name = run->options->native_memory ? "libedgeprof-memory.so" : "libedgeprof-preload.so";
    char self[PATH_MAX / 2];
    if (run->options->preload) {
        if (realpath(run->options->preload, run->preload) && access(run->preload, R_OK) == 0) {
            return true;
        }
        et_error("run: --preload %s: %s", run->options->preload, strerror(errno));
        return false;
    }
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    self[size > 0 ? size : 0] = '\0';
    char *slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%.*s/%s%s", (int)(slash - self), self, places[i], name);
        if (realpath(path, run->preload) && access(run->preload, R_OK) == 0) {
            return true;
        }
    }
    et_error("run: %s is neither beside edgeprof nor in ../lib; name it with --preload FILE", name);
    return false;
}

/* LD_PRELOAD separates its files by spaces and colons, and has no way to quote them. */
static bool can_be_preloaded(const struct et_run_command *run)
{
    if (!strpbrk(run->preload, " :")) {
        return true;
    }
    et_error("run: %s: LD_PRELOAD cannot name a file with a space or a colon; name a copy with --preload FILE",
             run->preload);
    return false;
}

static bool choose_db(struct et_run_command *run)
{
    if (run->options->db) {
        snprintf(run->db, sizeof run->db, "%s", run->options->db);
        return true;
    }
    const char *temporary = getenv("TMPDIR");
    snprintf(run->folder, sizeof run->folder, "%s/edgeprof-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(run->folder)) {
        et_error("run: %s: %s", run->folder, strerror(errno));
        run->folder[0] = '\0';
        return false;
    }
    snprintf(run->db, sizeof run->db, "%s/edgeprof.db", run->folder);
    return true;
}

static void remove_db(const struct et_run_command *run)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    for (size_t i = 0; run->folder[0] && i < sizeof endings / sizeof *endings; i++) {
        char path[PATH_MAX + 8];
        snprintf(path, sizeof path, "%s%s", run->db, endings[i]);
        unlink(path);
    }
    if (run->folder[0]) {
        rmdir(run->folder);
    }
}

static void check_target(struct et_run_command *run)
{
    struct et_buf why = {0};
    run->target = et_target_look(et_target_program(run->command), run->preload, &why);
    if (run->target != ET_TARGET_FINE) {
        et_error("run: %s", why.data);
    }
    et_buf_free(&why);
}

/* ---- the program ---- */

struct environment_list {
    char **list;
    size_t count, capacity;
};

static void set_variable(struct environment_list *environment, const char *name, const char *value, const char *after)
{
    struct et_buf text = {0};
    et_buf_printf(&text, "%s=%s%s%s", name, value, after && *after ? ":" : "", after ? after : "");
    environment->list =
        et_reserve(environment->list, &environment->capacity, environment->count + 2, sizeof *environment->list);
    environment->list[environment->count++] = text.data;
}

/* Sets a variable to the names of an option, separated by commas. */
static void set_names(struct environment_list *environment, const char *name, const struct et_list *list)
{
    struct et_buf names = {0};
    for (size_t i = 0; i < list->count; i++) {
        et_buf_printf(&names, "%s%s", i ? "," : "", list->items[i]);
    }
    if (names.size) {
        set_variable(environment, name, names.data, NULL);
    }
    et_buf_free(&names);
}

static bool is_replaced(const struct et_options *options, const char *variable)
{
    static const char *const names[] = {
        "LD_PRELOAD=",      "EDGEPROF_ENDPOINT=", "EDGEPROF_SERVICE=",      "EDGEPROF_LEVEL=", "EDGEPROF_INTERVAL=",
        "EDGEPROF_FORMAT=", "EDGEPROF_RUN=",      "EDGEPROF_ENDPOINT_OLD=", "ASAN_OPTIONS=",   "EDGEPROF_OUTLIVE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(variable, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return (options->only.count && strncmp(variable, "EDGEPROF_ONLY=", 14) == 0) ||
           (options->skip.count && strncmp(variable, "EDGEPROF_SKIP=", 14) == 0) ||
           ((options->token_file || !options->url) && strncmp(variable, "EDGEPROF_TOKEN", 14) == 0) ||
           (!options->url && strncmp(variable, "EDGEPROF_HEADERS=", 17) == 0) ||
           (options->ca && strncmp(variable, "EDGEPROF_TLS_CA=", 16) == 0) ||
           (options->no_fork && strncmp(variable, "EDGEPROF_FORK=", 14) == 0);
}

static void set_preload(struct environment_list *environment, const struct et_run_command *run)
{
    const char *given = getenv("LD_PRELOAD");
    if (run->target != ET_TARGET_REFUSES) {
        set_variable(environment, "LD_PRELOAD", run->preload, given);
    } else if (given) {
        set_variable(environment, "LD_PRELOAD", given, NULL);
    }
    /* AddressSanitizer's runtime refuses to load after another library, but works when it does. Programs started by
     * COMMAND may have it although COMMAND itself does not. */
    given = getenv("ASAN_OPTIONS");
    set_variable(environment, "ASAN_OPTIONS", given && *given ? given : "verify_asan_link_order=0",
                 given && *given ? "verify_asan_link_order=0" : NULL);
}

static char **make_environment(const struct et_run_command *run)
{
    struct environment_list environment = {0};
    const struct et_options *options = run->options;
    struct et_buf url = {0};
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    for (char **variable = environ; *variable; variable++) {
        if (!is_replaced(options, *variable)) {
            char *equals = strchr(*variable, '=');
            char *name = equals ? strndup(*variable, (size_t)(equals - *variable)) : NULL;
            if (name) {
                set_variable(&environment, name, equals + 1, NULL);
            }
            free(name);
        }
    }
    et_buf_text(&url, run->server ? et_server_url(run->server) : options->url);
    set_preload(&environment, run);
    set_names(&environment, "EDGEPROF_ONLY", &options->only);
    set_names(&environment, "EDGEPROF_SKIP", &options->skip);
    if (options->no_fork) {
        set_variable(&environment, "EDGEPROF_FORK", "0", NULL);
    }
    set_variable(&environment, "EDGEPROF_ENDPOINT", url.data, NULL);
    set_variable(&environment, "EDGEPROF_SERVICE", run->service, NULL);
    set_variable(&environment, "EDGEPROF_LEVEL", et_run_level(options), NULL);
    set_variable(&environment, "EDGEPROF_INTERVAL", options->interval ? options->interval : "1000", NULL);
    set_variable(&environment, "EDGEPROF_RUN", pid, NULL);
    if (run->server || options->token) {
        set_variable(&environment, "EDGEPROF_TOKEN", run->server ? run->token : options->token, NULL);
    }
    if (options->ca && !run->server) {
        set_variable(&environment, "EDGEPROF_TLS_CA", options->ca, NULL);
    }
    if (run->outlived.folder[0]) {
        set_variable(&environment, "EDGEPROF_OUTLIVE", run->outlived.folder, NULL);
    }
    et_buf_free(&url);
    return environment.list;
}

static void free_environment(char **environment)
{
    for (size_t i = 0; environment[i]; i++) {
        free(environment[i]);
    }
    free(environment);
}

static int start_program(struct et_run_command *run, const sigset_t *mask)
{
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, mask);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int err = posix_spawnp(&run->pid, run->command[0], NULL, &attributes, run->command, run->environment);
    posix_spawnattr_destroy(&attributes);
    if (err && !(err == ENOEXEC && run->target != ET_TARGET_FINE)) {
        et_error("run: %s: %s", run->command[0], strerror(err));
    }
    return err == 0 ? 0 : err == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
}

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/* Reads the profiler's signal: SIGURG, which nothing else sends here, and which other processes ignore. */
static void read_profiler_signals(struct et_run_command *run)
{
    const struct timespec now = {0};
    sigset_t urgent;
    siginfo_t info;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    while (sigtimedwait(&urgent, &info, &now) == SIGURG) {
        run->said |= info.si_pid == run->pid;
    }
}

static uint64_t time_ns(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

/* Says by which signal the program ended, since its last seconds were read from its memory. */
static void report_end(const struct et_run_command *run, int status)
{
    const uint64_t oom_kills = et_outlived_oom_kills(&run->outlived);
    if (WTERMSIG(status) == SIGKILL && oom_kills) {
        et_error("run: %s was killed, and meanwhile the kernel has killed %llu for want of memory; its profile goes on "
                 "until then",
                 run->command[0], (unsigned long long)oom_kills);
    } else {
        et_error("run: %s was ended by signal %d (%s); its profile goes on until then", run->command[0],
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
}

/* Whether no child that an ended process has waited for has used CPU time, in units of 10 ms. Only before wait4(). */
static bool was_alone(pid_t pid)
{
    char path[32];
    struct et_buf stat = {0};
    unsigned long long used[2] = {1, 1}; /* of its children: user, system */
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const char *name_end = et_read_file(path, 4096, &stat) == 0 ? strrchr(stat.data, ')') : NULL;
    if (name_end) {
        (void)sscanf(name_end, ") %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &used[0], &used[1]);
    }
    et_buf_free(&stat);
    return used[0] + used[1] == 0;
}

/* Waits for the program's end and returns its exit code. The terminal sends its signals to the program directly. */
static int wait_for_program(struct et_run_command *run, const sigset_t *signals)
{
    siginfo_t info;
    const struct timespec pause = {.tv_sec = 1};
    struct rusage used;
    int status;
    for (;;) {
        siginfo_t ended = {0};
        if (waitid(P_PID, (id_t)run->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == run->pid) {
            run->alone = was_alone(run->pid);
            (void)wait4(run->pid, &status, 0, &used);
            run->used_ns = time_ns(used.ru_utime) + time_ns(used.ru_stime);
            run->by_signal = WIFSIGNALED(status);
            read_profiler_signals(run);
            if (et_outlived_sweep(&run->outlived, run->environment, run->pid) && run->by_signal) {
                report_end(run, status);
            }
            return WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
        }
        (void)et_outlived_sweep(&run->outlived, run->environment, run->pid);
        int signal = sigtimedwait(signals, &info, &pause);
        if (signal == SIGURG) {
            run->said |= info.si_pid == run->pid;
        } else if (signal > 0 && signal != SIGCHLD && info.si_code <= 0) {
            kill(run->pid, signal);
        }
    }
}

/* Other users of this machine reach the server's port, too. The kernel's random numbers are there long before this. */
static bool make_token(struct et_run_command *run)
{
    uint8_t bytes[(sizeof run->token - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        et_error("run: no random numbers: %s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(run->token + 2 * i, 3, "%02x", bytes[i]);
    }
    return true;
}

static void keep_serving(const struct et_run_command *run)
{
    sigset_t ends;
    int signal;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    et_printf("edgeprof: %s\n", et_server_url(run->server));
    et_printf("edgeprof: token %s; a browser asks for it as a password, with any user name\n", run->token);
    fflush(stdout);
    sigwait(&ends, &signal);
}

/* Starts the server, or asks that of --url, so that what is wrong with it is told before the program runs. */
static int find_server(struct et_run_command *run)
{
    const struct et_options *options = run->options;
    if (options->url) {
        const struct et_remote remote = et_options_remote(options);
        struct et_buf answer = {0};
        int code = et_source_get(&remote, "/api/services", NULL, &answer);
        et_buf_free(&answer);
        return code;
    }
    run->server = et_server_start(
        &(struct et_server_config){
            .listen = options->listen ? options->listen : "127.0.0.1:0",
            .db = run->db,
            .symbols = et_options_symbols(options),
            /* It lasts as long as the program, and --listen is somebody's decision. */
            .access = {.insecure = options->listen != NULL, .hosts = options->hosts, .token = run->token}},
        NULL, NULL, NULL, 0);
    return run->server ? ET_OK : ET_FAILED;
}

static int run_with_server(struct et_run_command *run)
{
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGURG);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) {
        sigaddset(&signals, passed_on[i]);
    }
    sigprocmask(SIG_BLOCK, &signals, &before); /* before the server starts threads, which inherit the mask */
    if (find_server(run) != ET_OK) {
        return ET_RUN_FAILED;
    }
    if (run->options->listen) {
        et_error("run: serving at %s, with the token %s", et_server_url(run->server), run->token);
    }
    et_outlived_begin(&run->outlived);
    run->environment = make_environment(run);
    int code = start_program(run, &before);
    if (code == 0) {
        code = wait_for_program(run, &signals);
        int reported = et_run_print_result(run);
        code = code ? code : reported;
        if (run->options->serve) {
            keep_serving(run);
        }
    }
    et_outlived_end(&run->outlived);
    free_environment(run->environment);
    if (run->server) {
        et_server_stop(run->server);
    }
    return code;
}

static bool is_valid_run_usage(const struct et_options *options, int argc, char **argv)
{
    const char *kind = options->wanted.query.kind;
    static const char levels[] = " low medium high ";
    struct et_buf level = {0};
    et_buf_printf(&level, " %s ", options->level ? options->level : "low");
    bool known = strstr(levels, level.data) != NULL;
    et_buf_free(&level);
    if (options->first >= argc) {
        et_error("run: no command given; see `edgeprof %s --help`", argv[0]);
    } else if (options->url && (options->db || options->listen || options->serve)) {
        et_error("run: --url cannot be combined with --db, --listen or --serve, which are of a server of its own");
    } else if (kind && *kind && !et_kind_named(kind)) {
        et_error("run: --kind %s: there is no such kind; see `edgeprof run --help`", kind);
    } else if (!known) {
        et_error("run: --level %s: must be low, medium or high", options->level);
    } else if (options->interval &&
               (strspn(options->interval, "0123456789") != strlen(options->interval) ||
                strtoul(options->interval, NULL, 10) < 100 || strtoul(options->interval, NULL, 10) > 3600000)) {
        et_error("run: --interval %s: must be 100 to 3600000 milliseconds", options->interval);
    } else {
        return !options->flame || et_flame_format(options->flame) != ET_FORMAT_NONE;
    }
    return false;
}

int et_cmd_run(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    if (!is_valid_run_usage(&options, argc, argv)) {
        et_options_free(&options);
        return ET_USAGE;
    }
    struct et_run_command run = {.options = &options, .command = argv + options.first};
    const char *program = et_target_program(run.command), *slash = strrchr(program, '/');
    const char *named = options.wanted.query.service;
    run.service = named && *named ? named : slash ? slash + 1 : program;
    options.from_ns = et_now() - 1000000000; /* excludes earlier runs in the database */
    bool ready = find_preload(&run) && can_be_preloaded(&run) && make_token(&run) && (options.url || choose_db(&run));
    if (ready) {
        check_target(&run);
    }
    code = ready ? run_with_server(&run) : ET_RUN_FAILED;
    remove_db(&run);
    et_options_free(&options);
    return code;
}
