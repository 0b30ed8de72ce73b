/*
 * See access.h. et_access_open() checks what the listening address requires. et_access_allows() checks certificate,
 * host, origin, token and rate, cheapest first.
 */
#include "tools/serve/http/access.h"
#include "tools/lib/time_text.h"
#include "tools/serve/http/rejections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct et_access {
    struct et_limits limits;
    char *token_file, *hosts, *tenant;
    pthread_mutex_t lock; /* for tokens (et_access_reload() replaces them) and connections */
    struct et_tokens *tokens;
    struct et_tls *tls;
    struct et_rate_limit *rate_limit;
    uint64_t connections;
    bool check_host;
};

/* ---- opening ---- */

/* An address beyond this machine needs an explicit decision: anyone who reaches the port could read profiles and fill
 * the database. TLS alone encrypts but admits everybody. */
static bool is_safe(const struct et_access_config *config, bool loopback, const char *address)
{
    if (!loopback && !config->token_file && !config->tls.client_ca && !config->insecure) {
        et_error(
            "--listen %s: anyone who can reach it could read and write; use --token-file FILE (`openssl rand -hex 32 "
            ">FILE` creates one), --tls-client-ca FILE, or --insecure if intended",
            address);
        return false;
    }
    if (!loopback && config->token_file && !config->tls.certificate) {
        et_error(
            "--listen %s: without TLS, tokens are sent in clear text; use --tls-cert and --tls-key, or a TLS proxy "
            "in front",
            address);
    }
    return true;
}

static bool files_ok(const struct et_tls_files *tls)
{
    if (!tls->certificate != !tls->key || (tls->client_ca && !tls->certificate)) {
        et_error("--tls-cert and --tls-key require each other, and --tls-client-ca requires both");
        return false;
    }
    if (tls->client_crl && !tls->client_ca) {
        et_error("client-crl requires tls-client-ca");
        return false;
    }
    return true;
}

static bool is_not_star(void *context, const char *item)
{
    (void)context;
    return strcmp(item, "*") != 0;
}

static bool any_host(const char *hosts)
{
    return !et_config_list(hosts, is_not_star, NULL);
}

struct et_access *et_access_open(const struct et_access_config *config, const struct et_limits *limits, int fd,
                                 const char *address)
{
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof bound;
    bool loopback = getsockname(fd, (struct sockaddr *)&bound, &size) == 0 &&
                    et_sender_is_loopback((const struct sockaddr *)&bound);
    if (!files_ok(&config->tls) || !is_safe(config, loopback, address)) {
        return NULL;
    }
    struct et_access *access = et_alloc(1, sizeof *access);
    pthread_mutex_init(&access->lock, NULL);
    access->limits = *limits;
    access->token_file = config->token_file ? et_strdup(config->token_file) : NULL;
    access->tenant = et_strdup(config->tenant ? config->tenant : ET_TENANT);
    access->hosts = config->hosts ? et_strdup(config->hosts) : NULL;
    access->check_host = !config->token_file && !config->tls.client_ca && !(config->hosts && any_host(config->hosts));
    access->tokens = config->token_file ? et_tokens_read(config->token_file)
                     : config->token    ? et_tokens_of(config->token)
                                        : NULL;
    access->tls = config->tls.certificate ? et_tls_open(&config->tls) : NULL;
    access->rate_limit = et_rate_limit_new(limits->rate);
    if ((config->token_file && !access->tokens) || (config->tls.certificate && !access->tls)) {
        et_access_close(access);
        return NULL;
    }
    return access;
}

void et_access_close(struct et_access *access)
{
    if (access) {
        et_tokens_free(access->tokens);
        et_tls_close(access->tls);
        et_rate_limit_free(access->rate_limit);
        pthread_mutex_destroy(&access->lock);
        free(access->token_file);
        free(access->hosts);
        free(access->tenant);
        free(access);
    }
}

void et_access_reload(struct et_access *access)
{
    struct et_tokens *tokens = access->token_file ? et_tokens_read(access->token_file) : NULL;
    if (access->token_file) {
        et_audit("token file %s: %s", access->token_file, tokens ? "read again" : "wrong, the old tokens stay");
    }
    if (tokens) {
        pthread_mutex_lock(&access->lock);
        struct et_tokens *before = access->tokens;
        access->tokens = tokens;
        pthread_mutex_unlock(&access->lock);
        et_tokens_free(before);
    }
    if (access->tls) {
        bool read = et_tls_reload(access->tls);
        et_audit("TLS certificates: %s", read ? "read again" : "wrong, the old ones stay");
    }
}

const struct et_tls *et_access_tls(const struct et_access *access)
{
    return access->tls;
}

/* ---- requests ---- */

static bool differs(void *name, const char *item)
{
    return strcasecmp(name, item) != 0;
}

/* Protects against DNS rebinding: a foreign page whose name resolves to this server sends its own name as Host. */
static bool is_own_host(const struct et_access *access, const char *host)
{
    char name[256];
    struct in6_addr address; /* large enough for IPv4 and IPv6 */
    bool bracket = host[0] == '[';
    size_t size = strcspn(host + bracket, bracket ? "]" : ":");
    if (size == 0 || size >= sizeof name) {
        return false;
    }
    memcpy(name, host + bracket, size);
    name[size] = '\0';
    return inet_pton(bracket ? AF_INET6 : AF_INET, name, &address) == 1 ||
           (!bracket &&
            (strcasecmp(name, "localhost") == 0 || (access->hosts && !et_config_list(access->hosts, differs, name))));
}

/* Whether a page of another origin causes the request, by an image or the like; it could make the server work. A link
 * to the server's own page is fine. Only browsers send the header, and only to loopback addresses and with TLS. */
static bool is_foreign_page(const struct et_visit *visit)
{
    bool foreign = visit->site && strcmp(visit->site, "same-origin") != 0 && strcmp(visit->site, "none") != 0;
    bool link = !visit->post && visit->mode && strcmp(visit->mode, "navigate") == 0 && strcmp(visit->path, "/") == 0;
    return foreign && !link;
}

static struct et_grant visitor_grant(struct et_access *access, const char *authorization)
{
    pthread_mutex_lock(&access->lock);
    struct et_grant grant = {.rights = ET_RIGHT_READ | ET_RIGHT_WRITE | ET_RIGHT_SYMBOLS};
    grant = access->tokens ? et_tokens_grant(access->tokens, authorization) : grant;
    pthread_mutex_unlock(&access->lock);
    return grant;
}

static unsigned needed_right(const struct et_visit *visit, enum et_need need)
{
    return !visit->post || need == ET_NEED_READ ? ET_RIGHT_READ
           : need == ET_NEED_SYMBOLS            ? ET_RIGHT_SYMBOLS
                                                : ET_RIGHT_WRITE;
}

static bool reject_request(const struct et_visit *visit, enum et_rejection reason, unsigned status, const char *text,
                           struct et_answer *answer)
{
    char sender[64];
    et_sender_text(visit->sender, sender);
    et_reject(reason, "%s, %s: %s", sender, visit->path, text);
    et_answer_text(answer, status, text);
    if (status == 401) {
        et_answer_header(answer, "WWW-Authenticate", "Basic realm=\"edgeprof\", charset=\"UTF-8\"");
    }
    return false;
}

static bool within_rate(struct et_access *access, const struct sockaddr *sender)
{
    bool held = access->limits.rate_on_loopback || !et_sender_is_loopback(sender);
    return !held || et_rate_limit_allows(access->rate_limit, sender, et_monotonic() / 1000000);
}

bool et_access_allows(struct et_access *access, const struct et_visit *visit, const struct et_route *route,
                      struct et_grant *grant, struct et_answer *answer)
{
    enum et_need need = route ? route->need : ET_NEED_USUAL;
    bool reads = !visit->post || need == ET_NEED_READ;
    if (visit->session && et_tls_is_bare(access->tls, visit->session)) {
        return reject_request(visit, ET_REJECTED_CERTIFICATE, 403, "client certificate required", answer);
    }
    if (access->check_host && visit->host && !is_own_host(access, visit->host)) {
        return reject_request(
            visit, ET_REJECTED_ACCESS, 403,
            "unknown host name; use an address or localhost, add the name with --hosts, or use a token file", answer);
    }
    if (visit->post && visit->origin) {
        return reject_request(visit, ET_REJECTED_ACCESS, 403, "web pages may not send profiles", answer);
    }
    if (need != ET_NEED_NOTHING && is_foreign_page(visit)) {
        return reject_request(visit, ET_REJECTED_ACCESS, 403, "pages of other sites may not ask", answer);
    }
    *grant = need == ET_NEED_NOTHING ? (struct et_grant){.rights = ~0u} : visitor_grant(access, visit->authorization);
    unsigned needed = needed_right(visit, need);
    if (!(grant->rights & needed)) {
        return reject_request(visit, ET_REJECTED_ACCESS, grant->rights ? 403 : 401,
                              grant->rights && needed == ET_RIGHT_SYMBOLS
                                  ? "this token may not send symbols; its line must begin with symbols or write,symbols"
                              : grant->rights
                                  ? "this token does not have the required right"
                                  : "token required: Authorization: Bearer TOKEN, or as the password of Basic",
                              answer);
    }
    if (need != ET_NEED_NOTHING && visit->tenant && *visit->tenant && strcmp(visit->tenant, access->tenant) != 0) {
        return reject_request(visit, ET_REJECTED_ACCESS, 403,
                              "X-Scope-OrgID names another tenant, and this server has one: start a server for each "
                              "tenant, with its name in --tenant",
                              answer);
    }
    if (!reads && !within_rate(access, visit->sender)) {
        return reject_request(visit, ET_REJECTED_RATE, 429,
                              "too many profiles per second, see profiles-per-second in [limits]", answer);
    }
    return true;
}

void et_access_charge(struct et_access *access, const struct sockaddr *sender, uint64_t profiles)
{
    if (access->limits.rate_on_loopback || !et_sender_is_loopback(sender)) {
        et_rate_limit_charge(access->rate_limit, sender, profiles);
    }
}

/* ---- connections ---- */

bool et_access_connects(struct et_access *access, const struct sockaddr *sender)
{
    char text[64];
    pthread_mutex_lock(&access->lock);
    bool full = access->connections >= access->limits.connections;
    pthread_mutex_unlock(&access->lock);
    uint64_t own = access->limits.sender_connections ? et_rate_limit_connections(access->rate_limit, sender, 0) : 0;
    bool many = access->limits.sender_connections && own >= access->limits.sender_connections;
    if (full || many) {
        et_sender_text(sender, text);
        et_reject(ET_REJECTED_CONNECTIONS, "connection from %s: limit of %llu reached, see %s in [limits]", text,
                  (unsigned long long)(full ? access->limits.connections : own),
                  full ? "connections" : "sender-connections");
    }
    return !full && !many;
}

void et_access_connected(struct et_access *access, const struct sockaddr *sender, int change)
{
    pthread_mutex_lock(&access->lock);
    access->connections += (uint64_t)(int64_t)change;
    pthread_mutex_unlock(&access->lock);
    et_rate_limit_connections(access->rate_limit, sender, change);
}
