/*
 * Routes for symbol files in the folder of `serve --symbols-store`: upload, list, and download as from a debuginfod
 * server. An upload must be an ELF file with the build id of its path.
 */
#include "tools/serve/query/api.h"
#include "tools/lib/gzip.h"
#include "tools/serve/http/limits.h"
#include "tools/serve/http/routes.h"
#include "tools/symbols/symfile.h"
#include "tools/symbols/symstore.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SENT_LIMIT = 128 << 20, FILE_LIMIT = 512 << 20 };

static const char TAKEN[] = "/api/symbols/", GIVEN[] = "/buildid/", DEBUGINFO[] = "/debuginfo";

/* NULL: no folder; the answer says so. */
static const char *find_folder(struct et_server *server, struct et_answer *answer)
{
    const char *folder = et_symbols_store(et_server_symbols(server));
    if (!folder) {
        et_answer_text(answer, 404, "no symbol folder; start serve with --symbols-store DIR");
    }
    return folder;
}

static void answer_error(struct et_answer *answer, int err)
{
    et_error("symbol store: %s", strerror(-err));
    et_answer_text(answer, 503, strerror(-err));
}

/* ---- upload ---- */

/* A file on its way into the folder. */
struct upload {
    struct et_request request; /* its body is not here */
    const char *folder;
    char id[ET_BUILD_ID_TEXT];
    struct et_symstore_file file;
    struct et_inflater *inflater;
    size_t size, limit; /* limit: of the whole folder; 0: none */
    uint64_t others;    /* bytes of the other files there, after so many commits */
    unsigned commits;
    bool begun, failed;
    struct et_answer answer; /* of what failed */
};

static int write_part(void *context, const void *bytes, size_t size)
{
    struct upload *upload = context;
    if (!et_memory_try_reserve(upload->request.work->budget, upload->request.work, size)) {
        return -EAGAIN;
    }
    upload->size += size;
    if (upload->limit && upload->size > upload->limit) {
        return -EDQUOT;
    }
    errno = 0;
    return fwrite(bytes, 1, size, upload->file.file) == size ? 0 : errno ? -errno : -EIO;
}

static void audit_upload(const struct upload *upload, const struct et_answer *answer)
{
    struct et_buf line = {0};
    et_buf_printf(&line, "symbols of %s, %zu bytes: %.*s", upload->id, upload->size, (int)answer->body.size - 1,
                  answer->body.data);
    et_request_audit(&upload->request, line.data);
    et_buf_free(&line);
}

/* ---- the folder's limit ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t reserved; /* by uploads that are being put in place */
static unsigned commits;  /* that have ended */

struct total {
    const char *without; /* the file of this build id, which will be replaced */
    uint64_t bytes;
};

static void add_entry(void *context, const struct et_symstore_entry *entry)
{
    struct total *total = context;
    total->bytes += strcmp(entry->id, total->without) == 0 ? 0 : entry->size;
}

static void look_at_others(struct upload *upload)
{
    struct total total = {.without = upload->id};
    (void)et_symstore_each(upload->folder, add_entry, &total); /* ignored: without a folder there is no file */
    upload->others = total.bytes;
    upload->commits = commits;
}

/* Before it is received. */
static bool is_full(struct upload *upload)
{
    if (upload->limit) {
        pthread_mutex_lock(&lock);
        look_at_others(upload);
        pthread_mutex_unlock(&lock);
    }
    return upload->limit && upload->others >= upload->limit;
}

/* False: the folder would exceed its limit. true: release_room() follows. */
static bool reserve_room(struct upload *upload)
{
    pthread_mutex_lock(&lock);
    if (upload->limit && upload->commits != commits) { /* others came meanwhile */
        look_at_others(upload);
    }
    bool fits = !upload->limit || upload->others + reserved + upload->size <= upload->limit;
    reserved += fits ? upload->size : 0;
    pthread_mutex_unlock(&lock);
    return fits;
}

static void release_room(const struct upload *upload)
{
    pthread_mutex_lock(&lock);
    reserved -= upload->size;
    commits++;
    pthread_mutex_unlock(&lock);
}

/* ---- the end of an upload ---- */

static void answer_full(struct et_answer *answer)
{
    et_answer_text(answer, 507, "the symbol store is full; see symbols-store in [limits]");
}

/* The file is gone at once, whatever still comes. */
static void fail_upload(struct upload *upload, int err)
{
    upload->failed = true;
    et_symstore_abort(&upload->file);
    et_memory_shrink(upload->request.work, 0);
    if (err == -EFBIG || err == -EBADMSG) {
        et_body_broken(&upload->request, FILE_LIMIT, err, &upload->answer);
    } else if (err == -EAGAIN) {
        et_body_no_room(&upload->answer);
    } else if (err == -EDQUOT) {
        answer_full(&upload->answer);
        audit_upload(upload, &upload->answer);
    } else {
        answer_error(&upload->answer, err);
        audit_upload(upload, &upload->answer);
    }
}

static void *begin_upload(struct et_server *server, const struct et_request *request)
{
    struct upload *upload = et_alloc(1, sizeof *upload);
    upload->request = *request;
    upload->folder = find_folder(server, &upload->answer);
    upload->limit = et_server_limits(server)->symbols_store;
    if (upload->folder && !et_build_id_read(request->path + sizeof TAKEN - 1, upload->id)) {
        et_answer_text(&upload->answer, 400, "a build id must have 2 to 64 hexadecimal digits");
    } else if (upload->folder && et_body_encoding(request, &upload->answer)) {
        upload->begun = true;
        upload->inflater = et_inflater_new(FILE_LIMIT, write_part, upload);
        int err = is_full(upload) ? -EDQUOT : et_symstore_begin(upload->folder, upload->id, &upload->file);
        if (err) {
            fail_upload(upload, err);
        }
    }
    return upload;
}

static void add_to_upload(void *context, const void *bytes, size_t size)
{
    struct upload *upload = context;
    int err = upload->begun && !upload->failed ? et_inflater_add(upload->inflater, bytes, size) : 0;
    if (err) {
        fail_upload(upload, err);
    }
}

static void end_upload(void *context)
{
    struct upload *upload = context;
    et_symstore_abort(&upload->file);
    et_inflater_free(upload->inflater);
    et_buf_free(&upload->answer.body);
    free(upload);
}

static const struct et_sink upload_sink = {begin_upload, add_to_upload, end_upload};

static void keep_upload(struct upload *upload, struct et_answer *answer)
{
    const char *why = "";
    if (!reserve_room(upload)) {
        et_symstore_abort(&upload->file);
        answer_full(answer);
        audit_upload(upload, answer);
        return;
    }
    int err = et_symstore_commit(upload->folder, upload->id, &upload->file, &why);
    release_room(upload);
    if (err == -EINVAL) {
        et_answer_text(answer, 400, why);
    } else if (err < 0) {
        answer_error(answer, err);
    } else {
        et_answer_text(answer, err ? 200 : 201, err ? "kept: the existing file is as good" : "added");
    }
    audit_upload(upload, answer);
}

static void receive_symbols(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct upload *upload = request->sink;
    (void)server;
    int err = upload->begun && !upload->failed ? et_inflater_end(upload->inflater) : 0;
    if (err) {
        fail_upload(upload, err);
    }
    if (upload->begun && !upload->failed) {
        keep_upload(upload, answer);
        return;
    }
    answer->status = upload->answer.status;
    et_buf_add(&answer->body, upload->answer.body.data, upload->answer.body.size);
}

/* ---- what is there ---- */

static void list_symbols(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    const char *folder = find_folder(server, answer);
    int err = folder ? et_symstore_json(folder, &answer->body) : 0;
    (void)request;
    if (err) {
        answer_error(answer, err);
    } else if (folder) {
        answer->type = "application/json; charset=utf-8";
    }
}

/* Whether there is such a file. */
static bool send_file(const char *path, struct et_answer *answer)
{
    struct stat status;
    int fd = et_symfile_open_file(path);
    if (fd < 0 || fstat(fd, &status) != 0) {
        return false;
    }
    answer->has_file = true;
    answer->file = fd;
    answer->file_size = (uint64_t)status.st_size;
    answer->type = "application/octet-stream";
    return true;
}

/* Serves "/buildid/ID/debuginfo". Other files of a build id answer 404, as some debuginfod servers do. */
static void send_symbols(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    char id[ET_BUILD_ID_TEXT], text[ET_BUILD_ID_TEXT] = "";
    const char *rest = request->path + sizeof GIVEN - 1, *folder = find_folder(server, answer), *why;
    size_t size = strcspn(rest, "/");
    struct et_buf path = {0};
    unsigned quality;
    if (!folder) {
        return;
    }
    if (size < sizeof text && strcmp(rest + size, DEBUGINFO) == 0) {
        memcpy(text, rest, size);
    }
    bool named = et_build_id_read(text, id);
    if (named) {
        et_symstore_path(folder, id, &path);
    }
    if (!named || et_symstore_check(path.data, id, &quality, &why) != 0 || !send_file(path.data, answer)) {
        et_answer_text(answer, 404, "not here");
    }
    et_buf_free(&path);
}

const struct et_route et_routes_symbols[] = {
    {.method = "POST",
     .path = "/api/symbols/*",
     .handle = receive_symbols,
     .limit = SENT_LIMIT,
     .need = ET_NEED_SYMBOLS,
     .sink = &upload_sink},
    {.method = "GET", .path = "/api/symbols", .handle = list_symbols},
    {.method = "GET", .path = "/buildid/*", .handle = send_symbols},
    {0},
};
