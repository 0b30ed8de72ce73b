/*
 * See sandbox.h. Rules are about files and folders as they are when the server starts. What an administrator may
 * replace later (a certificate, a link to the newest folder) is allowed by the folder that it is in.
 */
#include "tools/serve/sandbox.h"
#include "tools/lib/confine.h"
#include "tools/symbols/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS = 40 };

static struct et_sandbox_state state;

struct et_sandbox_state et_sandbox_state(void)
{
    return state;
}

/* ---- rules ---- */

struct grants {
    struct et_confine_rules rules;
    struct et_strings seen[2], named[2]; /* files and folders, by right; named: as in the line */
    struct et_buf written, read;         /* the configuration's, for the line */
    bool system;                         /* what comes is not the configuration's */
    int err;                             /* the first */
};

static void allow(struct grants *grants, const char *path, enum et_confine_right right)
{
    if (!et_known(&grants->seen[right], path)) {
        et_intern(&grants->seen[right], path);
        int err = et_confine_allow(&grants->rules, path, right);
        grants->err = grants->err ? grants->err : err;
    }
}

static void allow_named(struct grants *grants, const char *path, enum et_confine_right right)
{
    struct et_buf *list = right == ET_CONFINE_WRITE ? &grants->written : &grants->read;
    char *real = realpath(path, NULL);
    if (real && !grants->system && !et_known(&grants->named[right], real)) {
        et_intern(&grants->named[right], real);
        et_buf_printf(list, "%s%s", list->size ? ", " : "", real);
    }
    free(real);
    allow(grants, path, right);
}

static char *folder_of(const char *path)
{
    char *copy = et_strdup(path), *folder = et_strdup(dirname(copy));
    free(copy);
    return folder;
}

/* Where a link leads. NULL: it is none. */
static char *target_of(const char *path)
{
    char text[4096];
    ssize_t size = readlink(path, text, sizeof text - 1);
    if (size <= 0) {
        return NULL;
    }
    struct et_buf target = {0};
    char *folder = folder_of(path);
    et_buf_printf(&target, "%s%s%.*s", text[0] == '/' ? "" : folder, text[0] == '/' ? "" : "/", (int)size, text);
    free(folder);
    return target.data;
}

/* There is no rule for what does not exist: then the folder counts that it will be in. The caller frees the path. */
static char *existing(const char *path)
{
    char *name = et_strdup(path);
    while (access(name, F_OK) != 0 && errno == ENOENT && strcmp(name, "/") != 0 && strcmp(name, ".") != 0) {
        char *folder = folder_of(name);
        free(name);
        name = folder;
    }
    return name;
}

/* A file that is mounted cannot be replaced by another one. */
static bool is_mount(const char *path)
{
    struct statx file;
    return statx(AT_FDCWD, path, 0, STATX_INO, &file) == 0 && (file.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* The folder that has the file, and those to which links lead. */
static void allow_place(struct grants *grants, const char *path, enum et_confine_right right)
{
    char *name = et_strdup(path);
    for (int links = 0; name && links < LINKS; links++) {
        char *named = folder_of(name), *folder = existing(named), *next = target_of(name);
        bool only = right == ET_CONFINE_READ && strcmp(folder, "/") == 0 && is_mount(name);
        allow_named(grants, only ? name : folder, right);
        free(named);
        free(folder);
        free(name);
        name = next;
    }
    free(name);
}

/* Folders that are links may become links to something else. What is in the root folder stays as it is. */
static void allow_links(struct grants *grants, const char *path)
{
    char *part = et_strdup(path);
    for (char *slash = part; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        char *folder = folder_of(part), *target = strcmp(folder, "/") == 0 ? NULL : target_of(part);
        char *around = target ? folder_of(target) : NULL;
        if (around && strcmp(around, "/") != 0) {
            allow(grants, folder, ET_CONFINE_READ);
            allow(grants, around, ET_CONFINE_READ);
        }
        free(folder);
        free(target);
        free(around);
        *slash = '/';
    }
    free(part);
}

/* NULL: no such file is configured. */
static void allow_file(struct grants *grants, const char *path)
{
    if (path) {
        allow_links(grants, path);
        allow_place(grants, path, ET_CONFINE_READ);
    }
}

/* A folder that somebody may replace by another one of that name. */
static void allow_folder(struct grants *grants, const char *path)
{
    char *folder = folder_of(path);
    allow_named(grants, path, ET_CONFINE_READ);
    if (strcmp(folder, "/") != 0) {
        allow_file(grants, path);
    }
    free(folder);
}

static void allow_writing(struct grants *grants, const char *path)
{
    char *name = existing(path);
    allow_named(grants, name, ET_CONFINE_WRITE);
    free(name);
}

/* ---- what the server uses ---- */

/* Libraries and their settings, names of hosts, CA certificates, the time zone. Files in /etc are replaced by new ones,
 * so the rule is about all of it. In /proc landlock guards the memory and the environment of other processes. */
static const char *const system_places[] = {"/etc",
                                            "/usr",
                                            "/lib",
                                            "/lib32",
                                            "/lib64",
                                            "/nix/store",
                                            "/gnu/store",
                                            "/sys/devices/system/cpu",
                                            "/run/systemd/resolve",
                                            "/run/resolvconf",
                                            "/run/NetworkManager",
                                            "/run/connman",
                                            "/var/lib/ca-certificates",
                                            "/proc",
                                            "/dev/urandom",
                                            "/dev/random",
                                            "/dev/zero"};

/* Where SQLite sorts what is large. */
static const char *const temporary_places[] = {"/var/tmp", "/usr/tmp", "/tmp"};

static const char *const temporary_variables[] = {"SQLITE_TMPDIR", "TMPDIR"};

/* Files of libcurl, its TLS libraries and libdebuginfod. */
static const char *const file_variables[] = {
    "SSL_CERT_FILE", "SSL_CERT_DIR", "GNUTLS_SYSTEM_PRIORITY_FILE", "OPENSSL_CONF",
    "RESOLV_CONF",   "KRB5_CONFIG",  "DEBUGINFOD_HEADERS_FILE",     "DEBUGINFOD_IMA_CERT_PATH",
    "TZDIR"};

static int allow_library(struct dl_phdr_info *library, size_t size, void *context)
{
    (void)size;
    if (strchr(library->dlpi_name, '/')) {
        char *folder = folder_of(library->dlpi_name);
        allow(context, folder, ET_CONFINE_READ);
        free(folder);
    }
    return 0;
}

static void allow_system(struct grants *grants)
{
    grants->system = true;
    allow_file(grants, "/etc/resolv.conf"); /* a link into /run, to what may not be there yet */
    for (size_t i = 0; i < sizeof system_places / sizeof *system_places; i++) {
        allow(grants, system_places[i], ET_CONFINE_READ);
    }
    for (size_t i = 0; i < sizeof temporary_places / sizeof *temporary_places; i++) {
        allow(grants, temporary_places[i], ET_CONFINE_WRITE);
    }
    for (size_t i = 0; i < sizeof temporary_variables / sizeof *temporary_variables; i++) {
        const char *folder = getenv(temporary_variables[i]);
        allow(grants, folder && *folder ? folder : "/tmp", ET_CONFINE_WRITE);
    }
    for (size_t i = 0; i < sizeof file_variables / sizeof *file_variables; i++) {
        allow_file(grants, getenv(file_variables[i]));
    }
    allow(grants, "/dev/null", ET_CONFINE_WRITE);
    allow(grants, "/proc/self/exe", ET_CONFINE_READ); /* is started for debuginfod */
    dl_iterate_phdr(allow_library, grants);
}

static void allow_configured(struct grants *grants, const struct et_sandbox_config *config)
{
    const struct et_access_config *access = &config->settings->access;
    allow_place(grants, config->settings->db, ET_CONFINE_WRITE);
    allow_file(grants, access->token_file);
    allow_file(grants, access->tls.certificate);
    allow_file(grants, access->tls.key);
    allow_file(grants, access->tls.client_ca);
    allow_file(grants, access->tls.client_crl);
    allow_file(grants, config->settings->webhook.token_file);
    allow_file(grants, config->settings->webhook.ca);
    for (size_t i = 0; i < config->settings->scrape.count; i++) {
        allow_file(grants, config->settings->scrape.targets[i].ca);
    }
    for (size_t i = 0; i < config->relay->count; i++) {
        const struct et_destination_config *d = &config->relay->destinations[i];
        const char *const files[] = {d->token_file, d->password_file, d->api_key_file, d->ca, d->cert, d->key};
        for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
            allow_file(grants, files[k]);
        }
    }
}

static void allow_debuginfod(struct grants *grants, const struct et_sandbox_config *config)
{
    static const char scheme[] = "file://";
    char *copy = et_strdup(config->debuginfod), *rest = copy, *url;
    while ((url = strsep(&rest, " \t\n"))) {
        if (strncmp(url, scheme, sizeof scheme - 1) == 0) {
            allow_folder(grants, url + sizeof scheme - 1);
        }
    }
    free(copy);
    (void)et_make_folders(config->cache); /* a failure is reported when it is used */
    allow_writing(grants, config->cache);
}

static void allow_folders(struct grants *grants, const struct et_list *folders)
{
    for (size_t i = 0; i < folders->count; i++) {
        allow_folder(grants, folders->items[i]);
    }
}

static void allow_symbols(struct grants *grants, const struct et_sandbox_config *config)
{
    allow_folders(grants, config->symbols);
    allow_folders(grants, config->sources);
    if (config->symbols_store) {
        mkdir(config->symbols_store, 0777); /* as the first upload would */
        allow_writing(grants, config->symbols_store);
    }
    if (config->debuginfod) {
        allow_debuginfod(grants, config);
    }
}

/* ---- entering ---- */

static void free_grants(struct grants *grants)
{
    for (size_t i = 0; i < 2; i++) {
        et_strings_free(&grants->seen[i]);
        et_strings_free(&grants->named[i]);
    }
    et_buf_free(&grants->written);
    et_buf_free(&grants->read);
}

static void limit_files(const struct et_sandbox_config *config, struct et_buf *line)
{
    struct grants grants = {0};
    bool reading = et_reader_runs();
    int err = et_confine_begin(&grants.rules, reading, config->debuginfod != NULL);
    if (!err) {
        allow_configured(&grants, config);
        allow_symbols(&grants, config);
        allow_system(&grants);
        int failed = grants.err;
        err = failed ? failed : et_confine_files(&grants.rules);
    }
    state.landlock = !err;
    if (err == -ENOSYS || err == -EOPNOTSUPP) {
        et_buf_text(line, "landlock: not in this kernel");
    } else if (err) {
        et_buf_printf(line, "landlock: %s", strerror(-err));
    } else if (!reading) {
        et_buf_printf(line, "landlock: written files limited to %s and folders for temporary files",
                      grants.written.data);
    } else {
        et_buf_printf(line, "landlock: files limited to %s (to write), %s%sthe system's and symbol files",
                      grants.written.data, grants.read.size ? grants.read.data : "", grants.read.size ? ", " : "");
    }
    free_grants(&grants);
}

void et_sandbox_enter(const struct et_sandbox_config *config, struct et_buf *line)
{
    if (!et_confine_possible()) {
        et_buf_text(line, "sandbox: off: this process may not limit itself (SystemCallFilter= of its systemd unit?)");
        return;
    }
    limit_files(config, line);
    int err = et_confine_calls(config->debuginfod != NULL);
    state.seccomp = !err;
    et_buf_printf(line, "; seccomp: %s",
                  !err             ? "unused system calls refused"
                  : err == -ENOSYS ? "not in this kernel"
                                   : strerror(-err));
}
