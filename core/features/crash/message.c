/*
 * The message about a crash: a segment of its own with the modules and nodes of its stacks.
 */
#include <edgeprof/transport.h>

#include "core/features/crash/crash.h"
#include "core/encode/write.h"

#include <compact.pb.h>
#include <string.h>

#define TAG(message, field) edgeprof_v1_##message##_##field##_tag

/* What the writers write. They get an index in their source. */
static struct {
    const struct ep_crash_view *view;
    const struct ep_crash_run *missed;
    unsigned stacks; /* of view->stacks: as many as fit */
    bool text;
    bool rebooted;
    uint64_t segment;
} now;

static uint64_t pc_of(unsigned stack, unsigned i)
{
    uint64_t pc;

    memcpy(&pc, now.view->stack[stack].pcs + i * sizeof pc, sizeof pc);
    return pc;
}

static uint32_t linear_of(uint64_t pc)
{
    for (unsigned i = 0; i < now.view->modules; i++) {
        const struct ep_crash_module *module = &now.view->module[i].module;
        if (pc - module->start < module->end - module->start)
            return now.view->module[i].base + (uint32_t)(pc - module->start);
    }
    return EP_FRAME_UNKNOWN;
}

/* A stack's nodes from the root on: a special frame if its root is missing, then its frames. */
static unsigned nodes_of(unsigned stack)
{
    const struct ep_crash_stack *head = &now.view->stack[stack].head;

    return head->depth + (head->depth && head->end != EP_FRAME_NONE ? 1u : 0u);
}

static uint32_t frame_of(unsigned stack, unsigned node)
{
    const struct ep_crash_stack *head = &now.view->stack[stack].head;

    if (head->end != EP_FRAME_NONE && node-- == 0)
        return head->end;
    return linear_of(pc_of(stack, head->depth - 1u - node));
}

static bool write_module(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_crash_module *module = &now.view->module[source->index].module;

    return ep_put_number(s, TAG(Module, base), now.view->module[source->index].base) &&
           ep_put_number(s, TAG(Module, size), module->end - module->start) &&
           ep_put_number(s, TAG(Module, address), module->start - module->bias) &&
           ep_put_bytes(s, TAG(Module, build_id), module->build_id, module->build_id_size) &&
           ep_put_text(s, TAG(Module, path), module->path);
}

static bool write_modules(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;

    for (one.index = 0; one.index < now.view->modules; one.index++)
        if (!ep_put_nested(s, TAG(Message, modules), write_module, &one))
            return false;
    return true;
}

static bool write_back(pb_ostream_t *s, const struct ep_source *source)
{
    (void)source;
    for (unsigned stack = 0; stack < now.stacks; stack++)
        for (unsigned node = 0; node < nodes_of(stack); node++)
            if (!pb_encode_varint(s, node > 0))
                return false;
    return true;
}

static bool write_frame(pb_ostream_t *s, const struct ep_source *source)
{
    int64_t before = 0;

    (void)source;
    for (unsigned stack = 0; stack < now.stacks; stack++)
        for (unsigned node = 0; node < nodes_of(stack); node++) {
            int64_t frame = frame_of(stack, node);
            if (!pb_encode_svarint(s, frame - before))
                return false;
            before = frame;
        }
    return true;
}

static bool write_nodes(pb_ostream_t *s, const struct ep_source *source)
{
    return ep_put_nested(s, TAG(Nodes, back), write_back, source) &&
           ep_put_nested(s, TAG(Nodes, frame), write_frame, source);
}

/* source->node: the nodes of the stacks before it. */
static bool write_thread(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_crash_stack *head = &now.view->stack[source->index].head;
    size_t sound = ep_utf8_run(head->name, strlen(head->name));

    return ep_put_number(s, TAG(CrashThread, tid), head->tid) &&
           ep_put_bytes(s, TAG(CrashThread, name), head->name, sound) &&
           ep_put_number(s, TAG(CrashThread, node), head->depth ? source->node + nodes_of(source->index) : 0) &&
           ep_put_number(s, TAG(CrashThread, quality), head->quality);
}

static bool write_threads(pb_ostream_t *s, const struct ep_source *source)
{
    struct ep_source one = *source;

    one.node = 0;
    for (one.index = 0; one.index < now.stacks; one.index++) {
        if (!ep_put_nested(s, TAG(Crash, threads), write_thread, &one))
            return false;
        one.node += nodes_of(one.index);
    }
    return true;
}

static bool write_registers(pb_ostream_t *s, const struct ep_source *source)
{
    uint64_t value;

    (void)source;
    for (unsigned i = 0; i < now.view->register_count; i++) {
        memcpy(&value, now.view->registers + i * sizeof value, sizeof value);
        if (!pb_encode_varint(s, value))
            return false;
    }
    return true;
}

static bool write_run(pb_ostream_t *s, const struct ep_crash_run *run)
{
    return ep_put_number(s, TAG(Crash, pid), run->pid) && ep_put_text(s, TAG(Crash, boot_id), run->boot_id) &&
           ep_put_text(s, TAG(Crash, executable), run->executable) &&
           ep_put_number(s, TAG(Crash, start_ns), run->start_ns);
}

static bool write_missed(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_crash_run *run = now.missed;

    (void)source;
    return ep_put_number(s, TAG(Crash, cause), edgeprof_v1_CrashCause_CRASH_UNCLEAN) &&
           ep_put_number(s, TAG(Crash, signal), run->signal) && write_run(s, run) &&
           ep_put_fixed64(s, TAG(Crash, unix_ns), run->unix_ns) && ep_put_number(s, TAG(Crash, missed), run->count) &&
           ep_put_number(s, TAG(Crash, rebooted), now.rebooted);
}

static bool write_crash(pb_ostream_t *s, const struct ep_source *source)
{
    const struct ep_crash_fault *fault = &now.view->fault;
    const uint64_t code = (uint64_t)fault->code << 1 ^ (fault->code < 0 ? UINT64_MAX : 0); /* zigzag */

    return ep_put_number(s, TAG(Crash, cause), edgeprof_v1_CrashCause_CRASH_SIGNAL) &&
           ep_put_number(s, TAG(Crash, signal), (uint32_t)fault->signal) && ep_put_number(s, TAG(Crash, code), code) &&
           ep_put_number(s, TAG(Crash, address), fault->address) && ep_put_number(s, TAG(Crash, pc), fault->pc) &&
           ep_put_number(s, TAG(Crash, sp), fault->sp) && ep_put_number(s, TAG(Crash, fp), fault->fp) &&
           ep_put_number(s, TAG(Crash, lr), fault->lr) &&
           (!now.view->registers || ep_put_nested(s, TAG(Crash, registers), write_registers, source)) &&
           write_run(s, &now.view->run) && ep_put_number(s, TAG(Crash, time_ns), fault->time_ns) &&
           ep_put_fixed64(s, TAG(Crash, unix_ns), fault->unix_ns) && write_threads(s, source) &&
           (!now.text || ep_put_bytes(s, TAG(Crash, runtime), now.view->text, now.view->text_size)) &&
           ep_put_number(s, TAG(Crash, faults), now.view->faults) &&
           ep_put_number(s, TAG(Crash, sender), fault->sender);
}

static bool write_message(pb_ostream_t *s, const struct ep_source *source)
{
    const uint64_t unix_ns = ep_port_unix_ns(), uptime_ns = ep_port_uptime_ns();

    return ep_put_fixed64(s, TAG(Message, segment), now.segment) &&
           ep_put_nested(s, TAG(Message, origin), ep_write_origin, source) &&
           (!now.view || (write_modules(s, source) && ep_put_nested(s, TAG(Message, nodes), write_nodes, source))) &&
           ep_put_number(s, TAG(Message, last), 1) &&
           ep_put_fixed64(s, TAG(Message, unix_minus_uptime_ns), unix_ns ? unix_ns - uptime_ns : 0) &&
           ep_put_nested(s, TAG(Message, crash), now.view ? write_crash : write_missed, source);
}

/* FNV-1a: the same for the same bytes, so a receiver knows a message that it gets twice. */
static uint64_t hash_on(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t segment_of(const struct ep_crash_run *run, uint64_t time_ns)
{
    uint64_t hash = hash_on(0xcbf29ce484222325u, run, sizeof *run);

    hash = hash_on(hash, &time_ns, sizeof time_ns);
    return hash ? hash : 1;
}

/* With fewer and fewer of what matters least until it fits. */
uint32_t ep_crash_message(struct ep *ep, const struct ep_crash_view *view, const struct ep_crash_run *missed,
                          uint8_t *bytes, uint32_t size, uint64_t *segment)
{
    const struct ep_source source = {.ep = ep};

    now.view = view;
    now.missed = missed;
    now.stacks = view ? view->stacks : 0;
    now.text = view && view->text;
    now.rebooted = missed && strcmp(missed->boot_id, ep->identity.boot_id) != 0;
    *segment = now.segment = view ? segment_of(&view->run, view->fault.time_ns) : segment_of(missed, 0);
    for (;;) {
        pb_ostream_t stream = pb_ostream_from_buffer(bytes, size);
        if (write_message(&stream, &source))
            return (uint32_t)stream.bytes_written;
        if (now.stacks > 1)
            now.stacks = 1;
        else if (now.text)
            now.text = false;
        else
            return 0;
    }
}
