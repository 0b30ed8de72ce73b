/*
 * Routes for symbol files in the folder of `serve --symbols-store`: upload, list, and download as from a debuginfod
 * server. An upload must be an ELF file with the build id of its path.
 */
#include "tools/serve/query/api.h"
#include "tools/serve/http/routes.h"
#include "tools/symbols/symfile.h"
#include "tools/symbols/symstore.h"

#include <errno.h>
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
    et_error("symbols store: %s", strerror(-err));
    et_answer_text(answer, 503, strerror(-err));
}

static void receive_symbols(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    char id[ET_BUILD_ID_TEXT];
    struct et_buf bytes = {0};
    const char *folder = find_folder(server, answer), *why = "";
    if (!folder) {
        return;
    }
    if (!et_build_id_read(request->path + sizeof TAKEN - 1, id)) {
        et_answer_text(answer, 400, "a build id must have 2 to 64 hexadecimal digits");
    } else if (et_body(request, FILE_LIMIT, &bytes, answer) == 0) {
        int err = et_symstore_put(folder, id, bytes.data ? bytes.data : "", bytes.size, &why);
        if (err == -EINVAL) {
            et_answer_text(answer, 400, why);
        } else if (err < 0) {
            answer_error(answer, err);
        } else {
            et_answer_text(answer, err ? 200 : 201, err ? "kept: the existing file is as good" : "added");
        }
        struct et_buf line = {0};
        et_buf_printf(&line, "symbols of %s, %zu bytes: %.*s", id, bytes.size, (int)answer->body.size - 1,
                      answer->body.data);
        et_request_audit(request, line.data);
        et_buf_free(&line);
    }
    et_buf_free(&bytes);
}

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
     .need = ET_NEED_SYMBOLS},
    {.method = "GET", .path = "/api/symbols", .handle = list_symbols},
    {.method = "GET", .path = "/buildid/*", .handle = send_symbols},
    {0},
};
