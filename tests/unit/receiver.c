/* See receiver.h. Field numbers are those of core/proto/compact.proto and of pprof's profile.proto. */
#include "receiver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gunzip.h"
#include <edgeprof/port.h>
#include "wire.h"

#define DICTIONARIES 8
#define NODES        70000
#define FIRST_LINEAR 256u

struct node {
    uint32_t parent, frame;
};

struct dictionary {
    uint64_t segment; /* 0: unused */
    uint32_t next_sequence;
    unsigned nodes, modules;
    uint32_t module_end; /* the linear space of declared modules is checked */
    uint32_t module_start[1024], module_size[1024];
    bool last;
    unsigned used;     /* time of last use, by `dates` */
    unsigned contexts; /* of the current message */
    struct receiver_context context[4096];
    char tag_set[RECEIVER_SETS][RECEIVER_TEXT];
    struct node node[NODES];
};

struct receiver receiver;
static struct dictionary dictionaries[DICTIONARIES];
static unsigned dates;

void receiver_forget(void)
{
    for (unsigned i = 0; i < DICTIONARIES; i++)
        dictionaries[i].segment = 0;
}

void receiver_reset(void)
{
    receiver = (struct receiver){0};
    receiver_forget();
}

static void broken(const char *rule)
{
    if (!receiver.broken)
        receiver.broken = rule;
}

static struct dictionary *find(uint64_t segment)
{
    for (unsigned i = 0; i < DICTIONARIES; i++)
        if (dictionaries[i].segment == segment)
            return &dictionaries[i];
    return NULL;
}

static struct dictionary *create(uint64_t segment)
{
    struct dictionary *d = &dictionaries[0];

    for (unsigned i = 1; i < DICTIONARIES; i++)
        if (dictionaries[i].used < d->used)
            d = &dictionaries[i];
    d->segment = segment;
    d->next_sequence = 0;
    d->nodes = 1;
    d->modules = 0;
    d->last = false;
    memset(d->tag_set, 0, sizeof d->tag_set);
    receiver.segments++;
    return d;
}

static void take_module(struct dictionary *d, struct wire bytes)
{
    struct wire_field f;
    uint64_t value[6] = {0};

    while (wire_next(&bytes, &f))
        if (f.tag < 6)
            value[f.tag] = f.number;
    if (bytes.bad || value[1] < FIRST_LINEAR || value[2] == 0 || value[1] + value[2] > UINT32_MAX)
        broken("module");
    for (unsigned i = 0; i < d->modules; i++)
        if (value[1] < (uint64_t)d->module_start[i] + d->module_size[i] && d->module_start[i] < value[1] + value[2])
            broken("modules overlap or are told twice");
    d->module_start[d->modules] = (uint32_t)value[1];
    d->module_size[d->modules++] = (uint32_t)value[2];
    receiver.modules = d->modules;
}

static bool frame_known(const struct dictionary *d, uint32_t frame)
{
    if (frame < FIRST_LINEAR)
        return frame > 0 && frame < RECEIVER_SPECIALS;
    for (unsigned i = 0; i < d->modules; i++)
        if (frame - d->module_start[i] < d->module_size[i])
            return true;
    return false;
}

static void take_nodes(struct dictionary *d, struct wire bytes)
{
    struct wire_field f;
    struct wire back = {0}, frames = {0};
    uint64_t distance, difference;
    int64_t frame = 0;

    while (wire_next(&bytes, &f)) {
        if (f.tag == 1)
            back = f.bytes;
        else if (f.tag == 2)
            frames = f.bytes;
    }
    while (wire_varint(&back, &distance)) {
        if (!wire_varint(&frames, &difference)) {
            broken("fewer frames than nodes");
            return;
        }
        frame += wire_zigzag(difference);
        if (distance >= d->nodes && distance != 0)
            broken("a node's parent does not come before it");
        if (frame <= 0 || frame > UINT32_MAX || !frame_known(d, (uint32_t)frame))
            broken("a frame of no module");
        if (d->nodes == NODES) {
            broken("too many nodes");
            return;
        }
        d->node[d->nodes] = (struct node){distance ? d->nodes - (uint32_t)distance : 0, (uint32_t)frame};
        d->nodes++;
    }
    if (frames.at != frames.end || bytes.bad || back.bad || frames.bad)
        broken("nodes");
}

static void take_stack(const struct dictionary *d, unsigned node, uint64_t ns)
{
    uint32_t frames[RECEIVER_DEPTH];
    unsigned depth = 0;

    for (unsigned at = node; at && depth < RECEIVER_DEPTH; at = d->node[at].parent)
        frames[depth++] = d->node[at].frame;
    uint32_t leaf = depth ? frames[0] : 0, root = depth ? frames[depth - 1] : 0;
    if (leaf && leaf < RECEIVER_SPECIALS)
        receiver.special_ns[leaf] += ns;
    else if (root && root < RECEIVER_SPECIALS)
        receiver.special_ns[root] += ns;
    if (receiver.on_stack)
        receiver.on_stack(frames, depth, ns);
}

/* Reports frames, leaf first, and the context's texts to the callbacks. */
static void take_context(struct dictionary *d, struct receiver_stack *stack)
{
    if (!receiver.on_entry)
        return;
    for (unsigned at = stack->node; at && stack->depth < RECEIVER_DEPTH; at = d->node[at].parent)
        stack->frame[stack->depth++] = d->node[at].frame;
    stack->with = stack->context ? d->context[stack->context] : (struct receiver_context){0};
    receiver.on_entry(stack);
}

static void put_text(char *to, struct wire bytes)
{
    size_t size = (size_t)(bytes.end - bytes.at);

    if (size >= RECEIVER_TEXT)
        broken("a long text");
    else
        memcpy(to, bytes.at, size);
}

/* "key=value;" for each tag, in the message's order. */
static void take_tag_set(struct dictionary *d, struct wire bytes)
{
    struct wire_field f, g;
    unsigned id = 0;
    char text[RECEIVER_TEXT] = "";

    while (wire_next(&bytes, &f)) {
        char pair[3][RECEIVER_TEXT] = {"", "", ""};
        id = f.tag == 1 ? (unsigned)f.number : id;
        if (f.tag != 2)
            continue;
        while (wire_next(&f.bytes, &g))
            put_text(pair[g.tag < 3 ? g.tag : 0], g.bytes);
        size_t used = strlen(text);
        if (snprintf(text + used, sizeof text - used, "%s=%s;", pair[1], pair[2]) >= (int)(sizeof text - used))
            broken("many tags");
    }
    if (bytes.bad || id == 0 || id >= RECEIVER_SETS || d->tag_set[id][0] || !text[0])
        broken("tag set");
    else
        memcpy(d->tag_set[id], text, sizeof text);
}

static void take_message_context(struct dictionary *d, struct wire bytes)
{
    struct wire_field f;
    uint64_t number[5] = {0};
    struct receiver_context *context = &d->context[++d->contexts];

    *context = (struct receiver_context){0};
    while (wire_next(&bytes, &f)) {
        if (f.tag < 5)
            number[f.tag] = f.number;
        else if (f.tag == 5)
            put_text(context->thread, f.bytes);
    }
    if (bytes.bad || number[1] >= RECEIVER_SETS || (number[1] && !d->tag_set[number[1]][0]))
        broken("context");
    else
        memcpy(context->tags, d->tag_set[number[1]], RECEIVER_TEXT);
    context->span_id = number[2];
    context->trace_high = number[3];
    context->trace_low = number[4];
}

/* A profile's columns and numbers, by field number. */
struct profile {
    uint64_t number[7];
    struct wire column[11];
};

static struct profile open_profile(struct wire bytes)
{
    struct profile p = {0};
    struct wire_field f;

    while (wire_next(&bytes, &f)) {
        if (f.tag < 7)
            p.number[f.tag] = f.number;
        else if (f.tag < 11)
            p.column[f.tag] = f.bytes;
    }
    if (bytes.bad || p.number[1] == 0 || p.number[1] >= EP_KINDS || p.number[2] == 0 || p.number[4] == 0 ||
        p.number[5] == 0)
        broken("profile");
    return p;
}

static bool has(struct wire column)
{
    return column.at != column.end;
}

/* Reads the next entry; false at the end. */
static bool next_stack(const struct dictionary *d, struct profile *p, struct receiver_stack *stack)
{
    uint64_t step, value = 0, count = 0, context = 0;
    bool counts = has(p->column[9]), contexts = has(p->column[10]);

    if (!wire_varint(&p->column[7], &step))
        return false;
    if (!wire_varint(&p->column[8], &value) || (counts && !wire_varint(&p->column[9], &count)) ||
        (contexts && !wire_varint(&p->column[10], &context)) || (step == 0 && !contexts) || value + count == 0 ||
        stack->node + step >= d->nodes || (stack->node == 0 && step == 0) || context > d->contexts)
        broken("columns of a profile");
    *stack = (struct receiver_stack){.kind = (unsigned)p->number[1],
                                     .node = stack->node + (unsigned)step,
                                     .context = (unsigned)context,
                                     .count = count,
                                     .value = value * p->number[5]};
    return !receiver.broken;
}

/* Returns its CPU time. */
static uint64_t take_profile(struct dictionary *d, struct wire bytes)
{
    struct profile p = open_profile(bytes);
    struct receiver_stack stack = {0};
    uint64_t total = 0;

    receiver.samples += p.number[1] == EP_KIND_CPU ? p.number[6] : 0;
    if (p.number[1] < EP_KINDS)
        receiver.period_ns[p.number[1]] = p.number[4];
    while (next_stack(d, &p, &stack)) {
        receiver.kind_count[stack.kind] += stack.count;
        receiver.kind_value[stack.kind] += stack.value;
        if (stack.kind == EP_KIND_CPU) {
            take_stack(d, stack.node, stack.value);
            total += stack.value;
        }
        take_context(d, &stack);
    }
    for (unsigned i = 7; i < 11; i++)
        if (p.column[i].at != p.column[i].end || p.column[i].bad)
            broken("columns of a profile");
    return total;
}

static void take_loss(struct wire bytes)
{
    uint64_t number[7] = {0};
    char thread[16] = "";
    unsigned threads = 0;
    struct wire_field f;

    while (wire_next(&bytes, &f)) {
        if (f.tag == 4 && f.bytes.end - f.bytes.at < 16)
            (void)snprintf(thread, sizeof thread, "%.*s", (int)(f.bytes.end - f.bytes.at), (const char *)f.bytes.at);
        threads += f.tag == 4;
        if (f.tag < 7)
            number[f.tag] = f.number;
    }
    if (bytes.bad || number[1] >= EP_LOSS_REASONS) {
        broken("a loss");
        return;
    }
    memcpy(receiver.loss[number[1]].number, number, sizeof number);
    memcpy(receiver.loss[number[1]].thread, thread, sizeof thread);
    receiver.loss[number[1]].threads = threads;
}

static void take_stats(struct wire bytes)
{
    struct wire_field f;

    memset(receiver.told, 0, sizeof receiver.told);
    while (wire_next(&bytes, &f)) {
        if (f.tag == 1)
            take_loss(f.bytes);
        if (f.tag < sizeof receiver.told / sizeof *receiver.told)
            receiver.told[f.tag] = f.number;
        receiver.spool_told += f.tag >= 11 && f.tag <= 13;
    }
    receiver.spool_most = receiver.told[11] > receiver.spool_most ? receiver.told[11] : receiver.spool_most;
    if (bytes.bad)
        broken("stats");
}

/* Reads the fields of a message in any order: dictionary first, then profiles. */
static uint64_t take_parts(struct dictionary *d, struct wire bytes)
{
    struct wire_field f;
    struct wire again = bytes;
    uint64_t total = 0;
    bool origin = false, profiles = false, more = false;

    while (wire_next(&bytes, &f)) {
        profiles |= f.tag == 6;
        more |= f.tag == 12;
        if (f.tag == 3)
            origin = true;
        else if (f.tag == 4)
            take_module(d, f.bytes);
        else if (f.tag == 7)
            take_stats(f.bytes);
        else if (f.tag == 8)
            d->last = f.number != 0;
    }
    if (bytes.bad)
        broken("message");
    receiver.dictionaries += more && !profiles;
    if (origin != (d->next_sequence == 0))
        broken("origin is in sequence 0 and only there");
    for (struct wire w = again; wire_next(&w, &f);)
        if (f.tag == 5)
            take_nodes(d, f.bytes);
    d->contexts = 0;
    for (struct wire w = again; wire_next(&w, &f);)
        if (f.tag == 10)
            take_tag_set(d, f.bytes);
    for (struct wire w = again; wire_next(&w, &f);)
        if (f.tag == 11)
            take_message_context(d, f.bytes);
    for (struct wire w = again; wire_next(&w, &f);)
        if (f.tag == 6)
            total += take_profile(d, f.bytes);
    return total;
}

/* Weight of a compact message, without learning from it. */
static uint64_t weigh(struct wire bytes)
{
    struct wire_field f, g;
    uint64_t quantum = 0, value, total = 0;

    while (wire_next(&bytes, &f)) {
        struct wire values = {0};
        uint64_t kind = 0;
        if (f.tag != 6)
            continue;
        while (wire_next(&f.bytes, &g)) {
            kind = g.tag == 1 ? g.number : kind;
            quantum = g.tag == 5 ? g.number : quantum;
            values = g.tag == 8 ? g.bytes : values;
        }
        while (kind == EP_KIND_CPU && wire_varint(&values, &value))
            total += value * quantum;
    }
    return total;
}

/* Weight of a compact message; -ESTALE when its segment is unknown or a message is missing. */
static int take_compact(const struct ep_message *message, bool refused, uint64_t *ns)
{
    struct wire bytes = wire_open(message->data, message->size);
    struct wire_field f;
    uint64_t segment = 0, sequence = 0;

    for (struct wire w = bytes; wire_next(&w, &f);) {
        if (f.tag == 1)
            segment = f.number;
        else if (f.tag == 2)
            sequence = f.number;
    }
    if (segment == 0 || segment != message->segment || sequence != message->sequence)
        broken("segment and sequence");
    if (refused) {
        *ns = weigh(bytes);
        return 0;
    }
    struct dictionary *d = find(segment);
    if (!d && sequence != 0)
        return -ESTALE;
    if (!d)
        d = create(segment);
    d->used = ++dates;
    if (d->last)
        broken("a message after the last one");
    if (sequence != d->next_sequence && receiver.refusals)
        return -ESTALE;
    if (sequence != d->next_sequence)
        broken("sequence");
    *ns = take_parts(d, bytes);
    d->next_sequence++;
    receiver.lasts += d->last;
    return 0;
}

/* Totals of a pprof message: the second values of its samples. */
static void take_pprof(const struct ep_message *message, uint64_t *ns, uint64_t *samples)
{
    static uint8_t text[4 << 20];
    size_t size = gunzip(message->data, message->size, text, sizeof text);
    struct wire bytes = wire_open(text, size == SIZE_MAX ? 0 : size);
    struct wire_field f, g;

    *ns = *samples = 0;
    if (size == SIZE_MAX)
        broken("gzip");
    if (!message->family || strcmp(message->family, "process_cpu") != 0)
        return;
    while (wire_next(&bytes, &f)) {
        if (f.tag != 2)
            continue;
        while (wire_next(&f.bytes, &g)) {
            uint64_t count, value;
            if (g.tag != 2)
                continue;
            if (!wire_varint(&g.bytes, &count) || !wire_varint(&g.bytes, &value))
                broken("values of a sample");
            *samples += count;
            *ns += value;
        }
    }
    if (bytes.bad)
        broken("pprof message");
}

static int open_(void *state, const struct ep_target *target)
{
    (void)state;
    (void)target;
    int error = receiver.fails ? receiver.fails("open") : 0;
    receiver.opened += error == 0;
    return error;
}

static int answer_of(unsigned number)
{
    int error = receiver.fails ? receiver.fails("send") : 0;

    return error ? error : number < receiver.answer_count ? receiver.answers[number] : receiver.always;
}

static int send_(void *state, const struct ep_message *message, const struct ep_deadline *deadline, uint64_t *retry_ns)
{
    unsigned number = receiver.sends++;
    uint64_t ns = 0, samples = 0;
    int answer = answer_of(number);
    bool refused = answer == -EBADMSG || answer == -EMSGSIZE;

    (void)state;
    if (number < 256)
        receiver.send_at_ns[number] = ep_port_uptime_ns();
    if (receiver.on_send)
        receiver.on_send(message, deadline);
    if (answer && receiver.retry_ns)
        *retry_ns = receiver.retry_ns;
    if (answer && !refused)
        return answer;
    if (message->format == EP_FORMAT_PPROF) {
        take_pprof(message, &ns, &samples);
        receiver.samples += refused ? 0 : samples;
    } else if (take_compact(message, refused, &ns) != 0) {
        return -ESTALE;
    }
    if (refused) {
        receiver.refused_ns += ns;
        receiver.refusals++;
        return answer;
    }
    receiver.accepted++;
    receiver.bytes += message->size;
    receiver.ns += ns;
    return 0;
}

static void close_(void *state)
{
    (void)state;
    receiver.closed++;
}

const struct ep_transport receiver_transport = {
    .name = "receiver", .state_size = 16, .open = open_, .send = send_, .close = close_};
