/* See symstore.h. */
#include "tools/symbols/symstore.h"
#include "tools/formats/json.h"
#include "tools/symbols/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char ENDING[] = ".debug", NEW[] = ".new-";

bool et_build_id_read(const char *text, char id[ET_BUILD_ID_TEXT])
{
    static const char digits[] = "0123456789abcdefABCDEF";
    size_t size = strnlen(text, ET_BUILD_ID_TEXT);
    if (size < 2 || size >= ET_BUILD_ID_TEXT || size % 2 || strspn(text, digits) != size) {
        return false;
    }
    for (size_t i = 0; i <= size; i++) {
        id[i] = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] - 'A' + 'a') : text[i];
    }
    return true;
}

void et_symstore_path(const char *folder, const char *id, struct et_buf *path)
{
    et_buf_printf(path, "%s/%.2s/%s%s", folder, id, id + 2, ENDING);
}

const char *et_symbols_words(unsigned quality)
{
    return quality & 4 ? "DWARF" : quality & 2 ? "symbol table" : quality & 1 ? "dynamic symbols" : "no symbols";
}

static int check(const char *path, const char *id, bool all, unsigned *quality, const char **why)
{
    struct et_symfile_facts facts;
    struct et_buf trouble = {0};
    int err = all ? et_reader_examine_all(path, &facts, &trouble) : et_reader_examine(path, &facts);
    et_buf_free(&trouble);
    *quality = facts.quality;
    if (err == -EINVAL) {
        *why = "not an ELF file";
    } else if (err == -EBADMSG) {
        *why = "it breaks the process that reads it; the server's messages say how";
        err = -EINVAL;
    } else if (err) {
        *why = strerror(-err);
    } else if (!facts.build_id[0]) {
        *why = "no build id";
        err = -EINVAL;
    } else if (strcmp(facts.build_id, id) != 0) {
        *why = "wrong build id";
        err = -EINVAL;
    } else if (facts.quality == 0) {
        *why = all ? "no symbols that can be read" : "no symbols";
        err = -EINVAL;
    }
    return err;
}

int et_symstore_check(const char *path, const char *id, unsigned *quality, const char **why)
{
    return check(path, id, false, quality, why);
}

/* ---- what is left over ---- */

static int remove_it(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

void et_symstore_remove(const char *path)
{
    nftw(path, remove_it, 8, FTW_DEPTH | FTW_PHYS);
}

void et_symstore_remove_old(const char *path, const char *start, const char *ending, int64_t seconds)
{
    DIR *folder = opendir(path);
    struct dirent *item;
    while (folder && (item = readdir(folder))) {
        struct stat status;
        size_t size = strlen(item->d_name), tail = strlen(ending);
        struct et_buf file = {0};
        et_buf_printf(&file, "%s/%s", path, item->d_name);
        if (strncmp(item->d_name, start, strlen(start)) == 0 && size > tail &&
            strcmp(item->d_name + size - tail, ending) == 0 && lstat(file.data, &status) == 0 &&
            time(NULL) - status.st_mtime >= seconds) {
            et_symstore_remove(file.data);
        }
        et_buf_free(&file);
    }
    if (folder) {
        closedir(folder);
    }
}

/* Files on their way in whose process was ended, as by a power cut. */
static void remove_left(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *item;
    while (folder && (item = readdir(folder))) {
        char id[ET_BUILD_ID_TEXT];
        struct et_buf inner = {0};
        et_buf_printf(&inner, "%s/%s", path, item->d_name);
        if (strlen(item->d_name) == 2 && et_build_id_read(item->d_name, id)) {
            et_symstore_remove_old(inner.data, NEW, "", ET_LEFT_SECONDS);
        }
        et_buf_free(&inner);
    }
    if (folder) {
        closedir(folder);
    }
}

/* ---- putting in ---- */

static int make_folder(const char *path)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : -errno;
}

int et_symstore_begin(const char *folder, const char *id, struct et_symstore_file *file)
{
    struct et_buf path = {0};
    et_buf_printf(&path, "%s/%.2s", folder, id);
    int err = make_folder(folder);
    err = err ? err : make_folder(path.data);
    *file = (struct et_symstore_file){0};
    remove_left(folder);
    if (!err) {
        et_buf_printf(&path, "/%sXXXXXX", NEW);
        int fd = mkostemp(path.data, O_CLOEXEC);
        file->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
        err = file->file ? 0 : -errno;
        if (fd >= 0 && !file->file) {
            close(fd);
            unlink(path.data);
        }
    }
    if (err) {
        et_buf_free(&path);
    } else {
        file->path = path.data;
    }
    return err;
}

void et_symstore_abort(struct et_symstore_file *file)
{
    if (file->file) {
        fclose(file->file);
    }
    if (file->path) {
        unlink(file->path);
    }
    free(file->path);
    *file = (struct et_symstore_file){0};
}

/* All of it on the disk; the file is closed. */
static int finish_file(struct et_symstore_file *file)
{
    int err = fflush(file->file) == 0 && fsync(fileno(file->file)) == 0 ? 0 : -errno;
    fchmod(fileno(file->file), 0644);
    if (fclose(file->file) != 0 && !err) {
        err = -errno;
    }
    file->file = NULL;
    return err;
}

static int sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int err = fd >= 0 && fsync(fd) == 0 ? 0 : -errno;
    if (fd >= 0) {
        close(fd);
    }
    return err;
}

static int put_in_place(const char *folder, const char *id, const struct et_symstore_file *file, unsigned quality)
{
    struct et_buf place = {0}, inner = {0};
    const char *unused;
    unsigned own;
    et_symstore_path(folder, id, &place);
    et_buf_printf(&inner, "%s/%.2s", folder, id);
    bool as_good = check(place.data, id, true, &own, &unused) == 0 && own >= quality;
    int err = as_good ? 1 : rename(file->path, place.data) == 0 ? sync_folder(inner.data) : -errno;
    et_buf_free(&place);
    et_buf_free(&inner);
    return err;
}

int et_symstore_commit(const char *folder, const char *id, struct et_symstore_file *file, const char **why)
{
    unsigned quality;
    int err = finish_file(file);
    err = err ? err : check(file->path, id, true, &quality, why);
    err = err ? err : put_in_place(folder, id, file, quality);
    if (err) {
        unlink(file->path);
    }
    free(file->path);
    *file = (struct et_symstore_file){0};
    return err;
}

int et_symstore_put(const char *folder, const char *id, const void *bytes, size_t size, const char **why)
{
    struct et_symstore_file file;
    int err = et_symstore_begin(folder, id, &file);
    if (err) {
        return err;
    }
    if (fwrite(bytes, 1, size, file.file) != size) {
        err = errno ? -errno : -EIO;
        et_symstore_abort(&file);
        return err;
    }
    return et_symstore_commit(folder, id, &file, why);
}

/* ---- looking through ---- */

struct looking {
    void (*file)(void *context, const struct et_symstore_entry *entry);
    void *context;
};

/* The build id that folder "ab" and file "cdef.debug" are named for. */
static bool named(const char *folder, const char *file, char id[ET_BUILD_ID_TEXT])
{
    size_t size = strlen(file), ending = sizeof ENDING - 1;
    char text[ET_BUILD_ID_TEXT];
    if (size < ending || size - ending + 2 >= sizeof text || strcmp(file + size - ending, ENDING) != 0) {
        return false;
    }
    snprintf(text, sizeof text, "%.2s%.*s", folder, (int)(size - ending), file);
    return et_build_id_read(text, id) && strncmp(id, text, sizeof text) == 0;
}

static int look_into(const struct looking *looking, const char *path, const char *name)
{
    DIR *folder = opendir(path);
    struct dirent *item;
    if (!folder) {
        return errno == ENOTDIR ? 0 : -errno;
    }
    while ((item = readdir(folder))) {
        char id[ET_BUILD_ID_TEXT];
        struct stat status;
        struct et_buf file = {0};
        et_buf_printf(&file, "%s/%s", path, item->d_name);
        if (named(name, item->d_name, id) && stat(file.data, &status) == 0 && S_ISREG(status.st_mode)) {
            const struct et_symstore_entry entry = {.id = id,
                                                    .path = file.data,
                                                    .size = (uint64_t)status.st_size,
                                                    .used_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 +
                                                               status.st_mtim.tv_nsec};
            looking->file(looking->context, &entry);
        }
        et_buf_free(&file);
    }
    closedir(folder);
    return 0;
}

int et_symstore_each(const char *folder, void (*file)(void *context, const struct et_symstore_entry *entry),
                     void *context)
{
    const struct looking looking = {file, context};
    DIR *outer = opendir(folder);
    struct dirent *item;
    int err = outer ? 0 : -errno;
    while (!err && (item = readdir(outer))) {
        char id[ET_BUILD_ID_TEXT];
        if (strlen(item->d_name) == 2 && et_build_id_read(item->d_name, id)) {
            struct et_buf path = {0};
            et_buf_printf(&path, "%s/%s", folder, item->d_name);
            err = look_into(&looking, path.data, item->d_name);
            et_buf_free(&path);
        }
    }
    if (outer) {
        closedir(outer);
    }
    return err;
}

struct lines {
    char **lines;
    size_t count, capacity;
};

static void on_entry(void *context, const struct et_symstore_entry *entry)
{
    struct lines *list = context;
    struct et_buf line = {0};
    struct et_symfile_facts facts;
    (void)et_reader_examine(entry->path, &facts); /* no facts: no symbols */
    et_buf_printf(&line, "{\"build_id\":\"%s\",\"bytes\":%llu,\"symbols\":\"%s\"}", entry->id,
                  (unsigned long long)entry->size, et_symbols_words(facts.quality));
    list->lines = et_reserve(list->lines, &list->capacity, list->count + 1, sizeof *list->lines);
    list->lines[list->count++] = line.data;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int et_symstore_json(const char *folder, struct et_buf *out)
{
    struct lines list = {0};
    int err = et_symstore_each(folder, on_entry, &list);
    if (list.count) {
        qsort(list.lines, list.count, sizeof *list.lines, by_text);
    }
    et_buf_text(out, "{\"symbols\":[");
    for (size_t i = 0; i < list.count; i++) {
        et_buf_printf(out, "%s\n%s", i ? "," : "", list.lines[i]);
        free(list.lines[i]);
    }
    et_buf_text(out, "]}\n");
    free(list.lines);
    return err == -ENOENT ? 0 : err;
}
