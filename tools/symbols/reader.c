/*
 * See reader.h.
 *
 *   et_reader_open   et_reader_order(open) -> ask(facts) -> ask(open)
 *   et_reader_names  ask(names) -> receive, check
 *   an error         give_up -> et_reader_order(end) -> judge -> note
 */
#include "tools/symbols/reader.h"
#include "tools/symbols/answer.h"
#include "tools/symbols/reader_known.h"
#include "tools/symbols/reader_messages.h"
#include "tools/symbols/reader_process.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINES_MOST = 200, FACTS_SECONDS = 60, WAIT_SECONDS = 600, HIDDEN_MEMORY = 4 << 20 };
enum { QUALITY_ALL = ET_QUALITY_DYNAMIC | ET_QUALITY_SYMTAB | ET_QUALITY_DWARF };

struct et_reader {
    char *path;
    struct et_symfile *file; /* parsed in this process; NULL: in another one */
    int socket;
    pid_t process;
    struct et_file_identity identity;
    unsigned quality;
    bool companions; /* it may lack some */
    bool answered;   /* an address */
};

/* ---- ends of processes ---- */

/* What the end of a process means, in words that follow "the process that reads it". */
static enum et_reader_failure judge(const struct et_reader *reader, int err, int status, struct et_buf *words)
{
    if (err == -ETIMEDOUT) {
        et_buf_text(words, "does not answer");
        return ET_READER_TIME;
    }
    if (err == -EPROTO) {
        et_buf_text(words, "gives invalid answers");
        return ET_READER_ANSWER;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
        et_buf_printf(words, "took more than %u s of CPU time", et_reader_seconds(reader->identity.size));
        return ET_READER_TIME;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == ET_FAILED) {
        et_buf_printf(words, "needs more than %u MiB of memory",
                      (unsigned)(et_reader_memory_most(reader->identity.size) >> 20));
        return ET_READER_MEMORY;
    }
    if (WIFSIGNALED(status)) {
        et_buf_printf(words, "was ended by signal %d", WTERMSIG(status));
    } else {
        et_buf_text(words, "ended without an answer");
    }
    return ET_READER_CRASH;
}

static int end_process(struct et_reader *reader)
{
    struct et_order order = {.kind = ET_ORDER_END, .process = reader->process};
    int fd = -1, status = 0;
    if (reader->socket >= 0) {
        close(reader->socket);
        status = et_reader_order(&order, &fd).status;
    }
    if (fd >= 0) {
        close(fd);
    }
    reader->socket = -1;
    return status;
}

/* The process cannot be asked any more: says why, unless that was not the file's fault. Returns the error to pass on.
 */
static int give_up(struct et_reader *reader, int err)
{
    static atomic_uint lines;
    int status = end_process(reader);
    bool changed = err == -EPIPE && WIFEXITED(status) && WEXITSTATUS(status) == ET_READER_CHANGED;
    if (err == -ECANCELED) {
        return err;
    }
    struct et_buf words = {0};
    enum et_reader_failure failure = judge(reader, err, status, &words);
    if (et_file_note_death(&reader->identity, reader->answered || changed)) {
        et_reader_failed(failure);
        unsigned line = lines++;
        if (line < LINES_MOST) {
            et_error("symbols: %s: the process that reads it %s; it is not read again until it changes%s", reader->path,
                     words.data, line + 1 == LINES_MOST ? "; further messages of this kind are omitted" : "");
        }
    }
    et_buf_free(&words);
    return -EAGAIN;
}

/* ---- questions ---- */

/* Asks for an answer of a fixed size. */
static int ask(struct et_reader *reader, enum et_question_kind kind, void *answer, size_t size, int seconds,
               const atomic_bool *stopping)
{
    struct et_question *question = et_alloc(1, sizeof *question);
    const struct et_reader_waiting waiting = et_reader_wait(reader->socket, seconds, stopping);
    question->kind = kind;
    int err = et_reader_send(reader->socket, question);
    err = err ? err : et_reader_receive(&waiting, answer, size);
    free(question);
    return err;
}

static bool are_facts(const struct et_symfile_facts *facts)
{
    size_t digits = strnlen(facts->build_id, sizeof facts->build_id),
           link = strnlen(facts->debuglink, sizeof facts->debuglink);
    return facts->quality <= QUALITY_ALL && digits < sizeof facts->build_id && digits % 2 == 0 &&
           et_is_hex(facts->build_id, digits) && link < sizeof facts->debuglink && !strchr(facts->debuglink, '/');
}

static int ask_facts(struct et_reader *reader, struct et_symfile_facts *facts, const atomic_bool *stopping)
{
    struct et_facts_answer answer;
    int err = ask(reader, ET_ASK_FACTS, &answer, sizeof answer, FACTS_SECONDS, stopping);
    if (!err && answer.error != -EINVAL && (answer.error || !are_facts(&answer.facts))) {
        err = -EPROTO;
    }
    if (err) {
        return give_up(reader, err);
    }
    *facts = answer.facts;
    return answer.error ? -EINVAL : 0;
}

/* ---- opening ---- */

static int open_here(struct et_reader *reader, const char *path, struct et_symfile_facts *facts)
{
    int fd = et_symfile_open_file(path);
    int err = fd < 0 ? fd : et_symfile_examine(fd, facts);
    if (err && fd >= 0) {
        close(fd);
    }
    reader->socket = err ? -1 : fd; /* of the file, until it is read */
    return err;
}

/* Starts the file's process, and reads the headers. */
static int open_there(struct et_reader *reader, const char *path, struct et_symfile_facts *facts,
                      const atomic_bool *stopping)
{
    struct et_order order = {.kind = ET_ORDER_OPEN};
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof order.path) {
        return size ? -ENAMETOOLONG : -ENOENT;
    }
    memcpy(order.path, path, size + 1);
    struct et_order_done done = et_reader_order(&order, &reader->socket);
    if (!done.error && reader->socket < 0) { /* its descriptor did not arrive */
        int none;
        et_reader_order(&(struct et_order){.kind = ET_ORDER_END, .process = done.process}, &none);
    }
    if (done.error || reader->socket < 0) {
        return done.error == -ENOEXEC ? -EINVAL : done.error ? done.error : -EPIPE;
    }
    reader->process = done.process;
    reader->identity = done.file;
    int err = et_file_given_up(&done.file) ? -EBADMSG : ask_facts(reader, facts, stopping);
    if (err == -EAGAIN) {
        err = -EBADMSG;
    }
    return err;
}

static int begin(struct et_reader *reader, const char *path, struct et_symfile_facts *facts,
                 const atomic_bool *stopping)
{
    *reader = (struct et_reader){.socket = -1, .path = et_strdup(path)};
    return et_reader_runs() ? open_there(reader, path, facts, stopping) : open_here(reader, path, facts);
}

static void end(struct et_reader *reader)
{
    if (et_reader_runs()) {
        (void)end_process(reader);
    } else if (reader->socket >= 0) {
        close(reader->socket);
    }
    et_symfile_close(reader->file);
    free(reader->path);
}

int et_reader_examine(const char *path, struct et_symfile_facts *facts)
{
    struct et_reader reader;
    struct stat status;
    *facts = (struct et_symfile_facts){0};
    bool there = stat(path, &status) == 0;
    const struct et_file_identity file = there ? et_file_identity(&status) : (struct et_file_identity){0};
    if (there && !et_file_given_up(&file) && et_file_recall(&file, facts)) {
        return 0;
    }
    int err = begin(&reader, path, facts, NULL);
    end(&reader);
    if (!err && there) {
        et_file_remember(&file, facts);
    }
    return err;
}

static int open_file(struct et_reader *reader, const atomic_bool *stopping, struct et_buf *why)
{
    const char *words = "";
    struct et_open_answer answer = {0};
    if (!et_reader_runs()) {
        reader->file = et_symfile_open(reader->socket, false, &words);
        close(reader->socket);
        reader->socket = -1;
        if (reader->file) {
            reader->quality = et_symfile_quality(reader->file);
            reader->companions = et_symfile_has_companions(reader->file);
            words = et_symfile_trouble(reader->file);
        }
        et_buf_text(why, words ? words : "");
        return reader->file ? 0 : -EINVAL;
    }
    int err = ask(reader, ET_ASK_OPEN, &answer, sizeof answer, WAIT_SECONDS, stopping);
    if (!err && ((answer.opened != 0 && answer.opened != 1) || answer.quality > QUALITY_ALL)) {
        err = -EPROTO;
    }
    if (err) {
        return give_up(reader, err);
    }
    char *clean = et_clean(answer.why, strnlen(answer.why, sizeof answer.why));
    et_buf_text(why, clean);
    free(clean);
    reader->quality = answer.quality;
    reader->companions = answer.companions != 0;
    return answer.opened == 1 ? 0 : -EINVAL;
}

struct et_reader *et_reader_open(const char *path, const char *build_id, const atomic_bool *stopping,
                                 struct et_buf *why)
{
    struct et_reader *reader = et_alloc(1, sizeof *reader);
    struct et_symfile_facts facts;
    int err = begin(reader, path, &facts, stopping);
    if (!err && strcmp(facts.build_id, build_id) != 0) {
        et_buf_text(why, "changed while it was looked for");
        err = -EAGAIN;
    } else if (err && err != -EBADMSG) {
        et_buf_text(why, err == -EINVAL ? "not an ELF file" : strerror(-err));
    }
    err = err ? err : open_file(reader, stopping, why);
    if (err) {
        et_buf_text(why, "");
        et_reader_close(reader);
        return NULL;
    }
    if (reader->quality != facts.quality && et_reader_runs()) {
        facts.quality = reader->quality; /* nobody need open it again to know */
        et_file_remember(&reader->identity, &facts);
    }
    return reader;
}

int et_reader_examine_all(const char *path, struct et_symfile_facts *facts, struct et_buf *why)
{
    int err = et_reader_examine(path, facts);
    if (!err && facts->quality) {
        struct et_reader *reader = et_reader_open(path, facts->build_id, NULL, why);
        facts->quality = reader ? reader->quality : 0;
        err = !reader && why->size == 0 ? -EBADMSG : 0;
        et_reader_close(reader);
    }
    return err;
}

struct et_reader *et_reader_open_vdso(const char *build_id)
{
    struct et_symfile *file = et_symfile_open_vdso(build_id);
    struct et_reader *reader = file ? et_alloc(1, sizeof *reader) : NULL;
    if (reader) {
        *reader = (struct et_reader){
            .path = et_strdup("[vdso]"), .file = file, .socket = -1, .quality = et_symfile_quality(file)};
    }
    return reader;
}

unsigned et_reader_quality(const struct et_reader *reader)
{
    return reader->quality;
}

void et_reader_close(struct et_reader *reader)
{
    if (reader) {
        end(reader);
        free(reader);
    }
}

uint64_t et_reader_memory(const struct et_reader *reader)
{
    char path[64];
    unsigned long long resident = 0, shared = 0;
    if (reader->file) {
        return et_symfile_bytes(reader->file);
    }
    snprintf(path, sizeof path, "/proc/%d/statm", (int)reader->process);
    FILE *statm = fopen(path, "re");
    if (!statm) { /* hidden by ProtectProc=invisible or landlock */
        return reader->identity.size + HIDDEN_MEMORY;
    }
    if (fscanf(statm, "%*u %llu %llu", &resident, &shared) != 2) {
        resident = shared = 0;
    }
    fclose(statm);
    return (resident > shared ? resident - shared : 0) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- names ---- */

static int receive_answer(const struct et_reader_waiting *waiting, uint64_t address, struct et_resolved *out)
{
    uint32_t size;
    int err = et_reader_receive(waiting, &size, sizeof size);
    if (err || size > ET_ANSWER_MOST) {
        return err ? err : -EPROTO;
    }
    uint8_t *bytes = et_alloc(size, 1);
    err = et_reader_receive(waiting, bytes, size);
    if (!err && !et_answer_read(bytes, size, address, out)) {
        err = -EPROTO;
    }
    free(bytes);
    return err;
}

/* ---- companions ---- */

enum { COMPANION_MOST = 1 << 30, PART = 1 << 20 };

/* 1: the file has something to complete; 0: it lacks nothing for these addresses. */
static int ask_lacks(struct et_reader *reader, const uint64_t *addresses, size_t count, struct et_companion *companion,
                     const atomic_bool *stopping)
{
    struct et_lacks_answer answer = {0};
    for (size_t i = 0; reader->file && i < count; i++) {
        if (et_symfile_lacks(reader->file, addresses[i], companion)) {
            return 1;
        }
    }
    if (reader->file) {
        return 0;
    }
    struct et_question *question = et_alloc(1, sizeof *question);
    const struct et_reader_waiting waiting = et_reader_wait(reader->socket, WAIT_SECONDS, stopping);
    question->kind = ET_ASK_LACKS;
    question->count = (uint32_t)count;
    memcpy(question->addresses, addresses, count * sizeof *addresses);
    int err = et_reader_send(reader->socket, question);
    free(question);
    err = err ? err : et_reader_receive(&waiting, &answer, sizeof answer);
    *companion = answer.companion;
    bool sound = (answer.lacks == 0 || answer.lacks == 1) && companion->kind <= ET_COMPANION_SPLIT &&
                 memchr(companion->id, 0, sizeof companion->id) && et_is_hex(companion->id, strlen(companion->id)) &&
                 memchr(companion->name, 0, sizeof companion->name) &&
                 memchr(companion->folder, 0, sizeof companion->folder);
    return err ? err : sound ? answer.lacks : -EPROTO;
}

/* Passes the file's bytes on to the process; 1: they were right. */
static int pass_on(struct et_reader *reader, const struct et_companion *companion, int fd, uint64_t size,
                   const atomic_bool *stopping)
{
    struct et_question *question = et_alloc(1, sizeof *question);
    const struct et_reader_waiting waiting = et_reader_wait(reader->socket, WAIT_SECONDS, stopping);
    int32_t good = 0;
    question->kind = ET_SUPPLY;
    question->size = size;
    question->companion = *companion;
    int err = et_reader_send(reader->socket, question);
    free(question);
    err = err ? err : et_reader_receive(&waiting, &good, sizeof good);
    char *part = et_alloc(PART, 1);
    for (uint64_t at = 0; !err && good == 1 && at < size;) {
        size_t wanted = size - at < PART ? (size_t)(size - at) : PART;
        ssize_t got = pread(fd, part, wanted, (off_t)at);
        size_t sent = got > 0 ? (size_t)got : wanted; /* cut meanwhile: what follows is wrong, and found to be */
        err = et_reader_send_bytes(&waiting, part, sent);
        at += sent;
    }
    free(part);
    if (!err && good == 1) {
        err = et_reader_receive(&waiting, &good, sizeof good);
    }
    return err ? err : good == 1;
}

static int supply_here(struct et_reader *reader, const struct et_companion *companion, const char *path)
{
    struct stat status;
    int fd = et_symfile_open_file(path);
    char *room = fd >= 0 && fstat(fd, &status) == 0 && status.st_size <= COMPANION_MOST
                     ? et_symfile_room(reader->file, (uint64_t)status.st_size)
                     : NULL;
    bool good = room && pread(fd, room, (size_t)status.st_size, 0) == status.st_size &&
                et_symfile_supply(reader->file, companion, room, (uint64_t)status.st_size);
    if (fd >= 0) {
        close(fd);
    }
    return good;
}

static int supply(struct et_reader *reader, const struct et_companion *companion, const char *path,
                  const atomic_bool *stopping)
{
    struct et_order order = {.kind = ET_ORDER_READ};
    size_t size = strlen(path);
    if (reader->file) {
        return supply_here(reader, companion, path);
    }
    if (size == 0 || size >= sizeof order.path) {
        return 0;
    }
    memcpy(order.path, path, size + 1);
    int fd = -1;
    struct et_order_done done = et_reader_order(&order, &fd);
    int good =
        fd >= 0 && done.file.size <= COMPANION_MOST ? pass_on(reader, companion, fd, done.file.size, stopping) : 0;
    if (fd >= 0) {
        close(fd);
    }
    return good;
}

/* Looks for what the file lacks for these addresses. 0, or an error of its process. */
static int complete(struct et_reader *reader, const struct et_reader_places *places, const uint64_t *addresses,
                    size_t count, const atomic_bool *stopping)
{
    struct et_companion companion;
    int good = 0;
    while (reader->companions && (good = ask_lacks(reader, addresses, count, &companion, stopping)) == 1) {
        struct et_buf path = {0};
        good = 0;
        for (size_t i = 0; good == 0 && places->place(places->context, &companion, i, &path); i++) {
            good = path.size ? supply(reader, &companion, path.data, stopping) : 0;
            et_buf_free(&path);
        }
        et_buf_free(&path);
        if (good < 0) {
            break;
        }
        if (good == 0) {
            places->missing(places->context, &companion);
        }
    }
    return good < 0 ? good : 0;
}

/* ---- addresses ---- */

static int names_here(struct et_reader *reader, const char *module, const uint64_t *addresses, size_t count,
                      void (*answer)(void *context, uint64_t address, const struct et_resolved *resolved),
                      void *context)
{
    for (size_t i = 0; i < count; i++) {
        struct et_resolved resolved = {0};
        et_resolve(reader->file, module, addresses[i], &resolved);
        answer(context, addresses[i], &resolved);
        et_resolved_free(&resolved);
    }
    return 0;
}

static int ask_names(const struct et_reader *reader, const char *module, const uint64_t *addresses, size_t count)
{
    struct et_question *question = et_alloc(1, sizeof *question);
    question->kind = ET_ASK_NAMES;
    question->count = (uint32_t)count;
    memcpy(question->addresses, addresses, count * sizeof *addresses);
    snprintf(question->module, sizeof question->module, "%s", module);
    int err = et_reader_send(reader->socket, question);
    free(question);
    return err;
}

int et_reader_names(struct et_reader *reader, const struct et_reader_places *places, const char *module,
                    const uint64_t *addresses, size_t count,
                    void (*answer)(void *context, uint64_t address, const struct et_resolved *resolved), void *context,
                    const atomic_bool *stopping)
{
    int err = reader->socket < 0 && !reader->file ? -EAGAIN : 0;
    if (reader->file) {
        complete(reader, places, addresses, count, stopping);
        return names_here(reader, module, addresses, count, answer, context);
    }
    for (size_t i = 0; i < count && !err; i++) {
        size_t batch = count - i < ET_ADDRESSES_MOST ? count - i : ET_ADDRESSES_MOST;
        if (i % ET_ADDRESSES_MOST == 0 && (err = complete(reader, places, addresses + i, batch, stopping)) != 0) {
            break;
        }
        const struct et_reader_waiting waiting = et_reader_wait(reader->socket, WAIT_SECONDS, stopping);
        struct et_resolved resolved = {0};
        err = i % ET_ADDRESSES_MOST == 0 ? ask_names(reader, module, addresses + i, batch) : 0;
        err = err ? err : receive_answer(&waiting, addresses[i], &resolved);
        if (!err) {
            reader->answered = true;
            answer(context, addresses[i], &resolved);
        }
        et_resolved_free(&resolved);
    }
    return err && err != -EAGAIN ? give_up(reader, err) : err;
}
