/*
 * See debuginfod_fetch.h.
 *
 *   et_debuginfod_fetch -> start -> listen -> judge          et_debuginfod_fetcher -> the library
 *
 * The library gives one error for all that a server may answer. Only its log tells "there is no such file" from a
 * failure, and so the process writes it to standard output:
 *
 *   header HTTP/1.1 404 Not Found              of every answer, redirects too
 *   server response HTTP response code said error
 *   url 0 The requested URL returned error: 404
 *
 * A log that says something else makes a failure of it, which is asked for again; never a file that is missing.
 */
#include "tools/symbols/debuginfod_fetch.h"
#include "tools/lib/progress.h"

#include <curl/curl.h>
#include <elfutils/debuginfod.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONNECT_SECONDS = 10, SECONDS = 120, FILE_LIMIT = 512 << 20, REDIRECTS = 4, HEADERS_LIMIT = 65536 };

static char process_name[] = "edgeprof-debuginfod";

/* ---- in the process ---- */

static bool not_connected; /* in time */

static void on_limit(int number)
{
    _exit(number == SIGXFSZ ? EFBIG : ETIME);
}

static bool connected(void)
{
    for (int fd = STDERR_FILENO + 1; fd < 64; fd++) {
        struct tcp_info tcp;
        socklen_t size = sizeof tcp;
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &tcp, &size) == 0 && tcp.tcpi_state != TCP_SYN_SENT) {
            return true;
        }
    }
    return false;
}

/* The library calls it at least once a second. It has no limit of its own for connecting. */
static int on_progress(debuginfod_client *client, long done, long total)
{
    static time_t last;
    struct timespec now;
    (void)client;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (last == 0 || connected()) {
        last = now.tv_sec;
    }
    not_connected = now.tv_sec - last > CONNECT_SECONDS;
    bool nobody_reads = dprintf(STDOUT_FILENO, "done %ld %ld\n", total > 0 ? done : 0, total > 0 ? total : 0) < 0;
    return not_connected || nobody_reads;
}

/* The user's own value when it is lower. */
static long limit(const char *variable, long most)
{
    const char *own = getenv(variable);
    long value = own ? strtol(own, NULL, 10) : 0;
    char text[24];
    value = value > 0 && value < most ? value : most;
    snprintf(text, sizeof text, "%ld", value);
    setenv(variable, text, 1);
    return value;
}

static void set_limits(void)
{
    sigset_t none;
    struct rlimit size;
    size.rlim_cur = size.rlim_max = (rlim_t)limit(DEBUGINFOD_MAXSIZE_ENV_VAR, FILE_LIMIT);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGXFSZ, on_limit);
    signal(SIGALRM, on_limit);
    setrlimit(RLIMIT_FSIZE, &size);
    alarm((unsigned)limit(DEBUGINFOD_MAXTIME_ENV_VAR, SECONDS));
}

/* ---- headers that may be secret ---- */

static struct curl_slist *read_headers(const char *path)
{
    struct et_buf text = {0};
    struct curl_slist *headers = NULL;
    bool read = et_read_file(path, HEADERS_LIMIT, &text) == 0;
    for (size_t at = 0, size; read && at < text.size; at += size + 1) {
        size = strcspn(text.data + at, "\r\n");
        char *line = strndup(text.data + at, size);
        headers = line && strchr(line, ':') ? curl_slist_append(headers, line) : headers;
        free(line);
    }
    et_buf_free(&text);
    return headers;
}

/* The status is all that is wanted. */
static size_t on_body(char *bytes, size_t one, size_t size, void *context)
{
    (void)bytes, (void)one, (void)size, (void)context;
    return 0;
}

/* The library follows redirects and sends its headers to any server, so a server with them is asked first. */
static bool redirects_headers(const char *url, const char *id)
{
    const char *path = getenv(DEBUGINFOD_HEADERS_FILE_ENV_VAR);
    struct curl_slist *headers = path && *path ? read_headers(path) : NULL;
    struct et_buf target = {0};
    long status = 0;
    CURL *curl = headers ? curl_easy_init() : NULL;
    if (curl) {
        et_buf_printf(&target, "%s%sbuildid/%s/debuginfo", url, *url && url[strlen(url) - 1] == '/' ? "" : "/", id);
        curl_easy_setopt(curl, CURLOPT_URL, target.data);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_perform(curl); /* ignored: the library meets the error again and tells it */
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_cleanup(curl);
    }
    curl_slist_free_all(headers);
    et_buf_free(&target);
    return status / 100 == 3;
}

int et_debuginfod_fetcher(int argc, char **argv)
{
    if (argc != 4 || strcmp(argv[0], process_name) != 0) {
        return -1;
    }
    closefrom(STDERR_FILENO + 1); /* other threads' files and connections */
    set_limits();
    setenv(DEBUGINFOD_URLS_ENV_VAR, argv[1], 1);
    setenv(DEBUGINFOD_CACHE_PATH_ENV_VAR, argv[3], 1);
    setenv(DEBUGINFOD_RETRY_LIMIT_ENV_VAR, "0", 1);
    if (redirects_headers(argv[1], argv[2])) {
        dprintf(STDOUT_FILENO, "server response it redirects, and another server would get the headers of "
                               "DEBUGINFOD_HEADERS_FILE; name the server that it redirects to\n");
        return EPERM;
    }
    debuginfod_client *client = debuginfod_begin();
    if (!client) {
        return ENOMEM;
    }
    debuginfod_set_verbose_fd(client, STDOUT_FILENO);
    debuginfod_set_progressfn(client, on_progress);
    int found = debuginfod_find_debuginfo(client, (const unsigned char *)argv[2], 0, NULL);
    debuginfod_end(client);
    return found >= 0 ? 0 : not_connected ? ETIMEDOUT : -found;
}

/* ---- in the tool ---- */

struct answer {
    pid_t process;
    long http; /* the last status */
    int redirects;
    bool ended;
    struct et_buf words; /* of the library, about what went wrong */
};

static int start(const char *url, const char *id, const char *folder, pid_t *process)
{
    char *const arguments[] = {process_name, (char *)url, (char *)id, (char *)folder, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -errno;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int err = posix_spawn(process, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (err) {
        close(ends[0]);
    }
    return err ? -err : ends[0];
}

static void set_words(struct answer *a, const char *text)
{
    char *clean = et_clean(text, strlen(text));
    et_buf_free(&a->words);
    et_buf_text(&a->words, clean);
    free(clean);
}

static void on_line(struct answer *a, const char *line)
{
    static const char response[] = "server response ", detail[] = "url 0 ";
    size_t done, total;
    if (sscanf(line, "done %zu %zu", &done, &total) == 2) {
        et_progress_of(done, total);
    } else if (sscanf(line, "header HTTP/%*s %ld", &a->http) == 1) {
        a->redirects += a->http / 100 == 3;
        if (a->redirects == REDIRECTS + 1) {
            kill(a->process, SIGKILL);
        }
    } else if (strncmp(line, response, sizeof response - 1) == 0) {
        const char *text = line + sizeof response - 1;
        a->ended = true;
        set_words(a, strcmp(text, "No error") == 0 ? "" : text);
    } else if (a->ended && strncmp(line, detail, sizeof detail - 1) == 0) {
        set_words(a, line + sizeof detail - 1);
    }
}

static void listen_to(struct answer *a, int fd)
{
    char *line = NULL;
    size_t capacity = 0;
    FILE *log = fdopen(fd, "r");
    while (log && getline(&line, &capacity, log) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        on_line(a, line);
    }
    free(line);
    if (log) {
        fclose(log);
    } else {
        close(fd);
    }
}

static int judge(const struct answer *a, int status, struct et_buf *why)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (a->redirects > REDIRECTS) {
        et_buf_printf(why, "more than %d redirects", REDIRECTS);
    } else if (!WIFEXITED(status)) {
        et_buf_printf(why, "the request process was ended by signal %d", WTERMSIG(status));
    } else if (code == 0 || (code == ENOENT && a->http == 404)) {
        return code == 0;
    } else if (code == EFBIG) {
        et_buf_text(why, "the file is too large");
    } else if (code == EIO) { /* a write that ended at the limit, which no signal says, or at the disk's end */
        et_buf_text(why, "the file is too large, or the disk is full");
    } else if (a->http >= 400) {
        et_buf_printf(why, "HTTP status %ld", a->http);
    } else if (a->words.size) {
        et_buf_text(why, a->words.data);
    } else if (code == ETIME) {
        et_buf_text(why, "timeout");
    } else if (code == ENOENT && a->http == 200) {
        et_buf_text(why, "empty answer, not an ELF file");
    } else if (code == ENOENT && a->http) {
        et_buf_printf(why, "HTTP status %ld", a->http);
    } else {
        et_buf_text(why, strerror(code));
    }
    return -EIO;
}

/* A process that has ended keeps its number until it is waited for: only then its place is free. */
static bool enter(struct et_fetches *fetches, pid_t process)
{
    bool entered = false;
    pthread_mutex_lock(&fetches->lock);
    for (size_t i = 0; i < sizeof fetches->processes / sizeof *fetches->processes && !entered && !fetches->stopped;
         i++) {
        entered = fetches->processes[i] == 0;
        fetches->processes[i] = entered ? process : fetches->processes[i];
    }
    bool stopped = fetches->stopped;
    pthread_mutex_unlock(&fetches->lock);
    return !stopped;
}

static int end(struct et_fetches *fetches, pid_t process)
{
    int status = 0;
    siginfo_t ended;
    while (waitid(P_PID, (id_t)process, &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    pthread_mutex_lock(&fetches->lock);
    for (size_t i = 0; i < sizeof fetches->processes / sizeof *fetches->processes; i++) {
        fetches->processes[i] = fetches->processes[i] == process ? 0 : fetches->processes[i];
    }
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    pthread_mutex_unlock(&fetches->lock);
    return status;
}

void et_fetches_stop(struct et_fetches *fetches)
{
    pthread_mutex_lock(&fetches->lock);
    fetches->stopped = true;
    for (size_t i = 0; i < sizeof fetches->processes / sizeof *fetches->processes; i++) {
        if (fetches->processes[i]) {
            kill(fetches->processes[i], SIGKILL);
        }
    }
    pthread_mutex_unlock(&fetches->lock);
}

bool et_fetches_stopped(struct et_fetches *fetches)
{
    pthread_mutex_lock(&fetches->lock);
    bool stopped = fetches->stopped;
    pthread_mutex_unlock(&fetches->lock);
    return stopped;
}

int et_debuginfod_fetch(struct et_fetches *fetches, const char *url, const char *id, const char *folder,
                        struct et_buf *why)
{
    struct answer a = {0};
    int log = start(url, id, folder, &a.process);
    if (log < 0) {
        et_buf_printf(why, "cannot start a process: %s", strerror(-log));
        return log;
    }
    if (!enter(fetches, a.process)) {
        kill(a.process, SIGKILL);
    }
    listen_to(&a, log);
    int found = judge(&a, end(fetches, a.process), why);
    et_buf_free(&a.words);
    return found;
}
