/*
 * Any bytes as the body of a crash record with a right checksum, as another version of the library may have left it:
 * core/features/crash/read.c, core/features/crash/message.c, and what the server reads of the message. The first two
 * bytes are the room for the message.
 *
 * Checked: a record is read or refused; what a view points to is in the body; a message fits into its room, is the same
 * for the same record, and is accepted by the server's reader with the record's signal, stacks and registers; CPU time
 * is bounded.
 */
#include "spend.h"
#include "core/features/crash/crash.h"
#include "tools/formats/crash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM_MOST = 65536 };

static struct ep ep = {.config.service = "fuzz"};
static uint32_t body_size;

/* A file without a name. */
static void begin(void)
{
    static bool begun;
    char dir[] = "/tmp/fuzz-record-XXXXXX", path[64];

    if (begun)
        return;
    begun = true;
    REQUIRE(mkdtemp(dir) && ep_port_crash_open(dir, EP_CRASH_FILE_SIZE) == 0);
    (void)snprintf(path, sizeof path, "%s/edgeprof-crash", dir);
    REQUIRE(unlink(path) == 0 && rmdir(dir) == 0);
    ep_port_identity(&ep.identity);
}

static void record_write(const uint8_t *body, size_t size)
{
    struct ep_crash_head head = {.magic = {'E', 'P', 'C', '1'}, .version = EP_CRASH_VERSION};

    body_size = size < EP_CRASH_BODY_MOST ? (uint32_t)size : EP_CRASH_BODY_MOST;
    head.size = body_size;
    head.crc = ep_crash_crc(&head.version, sizeof head.version + sizeof head.size);
    head.crc = ep_crash_crc_on(head.crc, body, body_size);
    REQUIRE(ep_port_crash_write(EP_CRASH_BODY_AT, body, body_size) == 0);
    REQUIRE(ep_port_crash_write(EP_CRASH_HEAD_AT, &head, sizeof head) == 0);
}

static bool is_in_body(const uint8_t *at, size_t size)
{
    return at >= ep_crash_body && size <= body_size && at <= ep_crash_body + body_size - size;
}

static void sound_view(const struct ep_crash_view *view)
{
    REQUIRE(view->stacks <= EP_CRASH_THREADS + 1 && view->modules <= EP_CRASH_MODULES_MOST && view->fault.signal);
    REQUIRE(!view->text || is_in_body(view->text, view->text_size));
    REQUIRE(!view->registers || is_in_body(view->registers, view->register_count * sizeof(uint64_t)));
    REQUIRE(memchr(view->run.boot_id, 0, sizeof view->run.boot_id));
    REQUIRE(memchr(view->run.executable, 0, sizeof view->run.executable));
    for (unsigned i = 0; i < view->stacks; i++) {
        REQUIRE(is_in_body(view->stack[i].pcs, view->stack[i].head.depth * sizeof(uint64_t)));
        REQUIRE(memchr(view->stack[i].head.name, 0, sizeof view->stack[i].head.name));
    }
    for (unsigned i = 0; i < view->modules; i++)
        REQUIRE(memchr(view->module[i].module.path, 0, sizeof view->module[i].module.path));
}

/* The server's reader has what the view has. */
static void accepted(const struct ep_crash_view *view, const uint8_t *bytes, size_t size)
{
    struct et_crashes crashes = {0};
    const char *why = "no crash";
    et_message *message = et_message_decode(bytes, size, &why);

    if (!message || !message->crash || !et_crashes_add(&crashes, message, 0, &why)) {
        fprintf(stderr, "the server refuses the message: %s\n", why);
        abort();
    }
    const Edgeprof__V1__Crash *crash = message->crash;
    REQUIRE(crash->cause == EDGEPROF__V1__CRASH_CAUSE__CRASH_SIGNAL && crash->signal == (uint32_t)view->fault.signal);
    REQUIRE(crash->code == view->fault.code && crash->n_registers == view->register_count);
    REQUIRE(crash->n_threads == view->stacks || crash->n_threads == 1);
    for (size_t i = 0; i < crash->n_threads; i++) {
        const struct ep_crash_stack *head = &view->stack[i].head;
        REQUIRE(crash->threads[i]->tid == head->tid);
        REQUIRE(crashes.items[0].depths[i] == head->depth + (head->depth && head->end != EP_FRAME_NONE ? 1u : 0u));
    }
    et_crashes_free(&crashes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t message[ROOM_MOST], other[ROOM_MOST];
    const struct ep_crash_view *view;
    uint64_t segment, again;

    if (size < 2)
        return 0;
    begin();
    long long began = fuzz_cpu_ns();
    const uint32_t room = data[0] | (uint32_t)data[1] << 8;
    record_write(data + 2, size - 2);
    const int error = ep_crash_read(&view);
    REQUIRE(error == 0 || error == -EBADMSG);
    if (error == 0) {
        sound_view(view);
        const uint32_t used = ep_crash_message(&ep, view, NULL, message, room, &segment);
        REQUIRE(used <= room && segment != 0);
        if (used)
            accepted(view, message, used);
        REQUIRE(ep_crash_read(&view) == 0);
        REQUIRE((ep_crash_message(&ep, view, NULL, other, room, &again) > 0) == (used > 0));
        REQUIRE(again == segment);
    }
    fuzz_spent(began, size);
    return 0;
}
