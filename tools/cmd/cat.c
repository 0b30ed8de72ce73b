/* edgeprof cat: prints a file of compact or pprof messages as text, or converts it. */
#include "tools/cmd/commands.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"
#include "tools/lib/progress.h"
#include "tools/serve/ingest/messages.h"
#include "tools/cmd/profile_file.h"
#include "tools/formats/compact.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct et_help et_help_cat = {
    .usage = "[options] FILE",
    .about =
        "Prints what is in a file: each message, each kind of a pprof. With an output it is `edgeprof export "
        "FILE`. " ET_FILE_FORMATS
        " Compact and pprof messages may each stand behind its length (4 bytes, little-endian), as a file:// endpoint "
        "writes them. The numbers of folded text are values of --kind.",
    .end = "exit codes: 0 done, 1 unreadable or malformed (valid messages are printed), 2 wrong usage, 3 no profile",
};

/* ---- as text ---- */

static void print_origin(const Edgeprof__V1__Origin *o)
{
    et_printf(
        "  origin format=%u service=%s host=%s boot_id=%s pid=%u executable=%s arch=%s agent=%s start=%" PRIu64 "\n",
        o->format, o->service, o->host, o->boot_id, o->pid, o->executable, o->arch, o->agent, o->process_start_ns);
    for (size_t i = 0; i < o->n_tags; i++) {
        et_printf("  tag %s=%s\n", o->tags[i]->key, o->tags[i]->value);
    }
}

static void print_module(const Edgeprof__V1__Module *m)
{
    et_printf("  module base=%#x size=%#x address=%#" PRIx64 " build_id=", m->start, m->size, m->address);
    for (size_t i = 0; i < m->build_id.len; i++) {
        et_printf("%02x", m->build_id.data[i]);
    }
    et_printf(" path=%s\n", m->path);
}

static void print_label(void *labels, const char *key, const char *value)
{
    (void)labels;
    et_printf(" %s=%s", key, value);
}

static void print_label_sets(const et_message *message, const struct et_segment *segment)
{
    for (size_t i = 1; i <= message->n_label_sets; i++) {
        const Edgeprof__V1__LabelSet *labels = message->label_sets[i - 1];
        struct et_buf lines = {0};
        et_message_label_set(message, segment, i, &lines);
        et_printf("  labels %zu span_id=%016" PRIx64 " trace_id=%016" PRIx64 "%016" PRIx64, i, labels->span_id,
                  labels->trace_high, labels->trace_low);
        et_labels_each(lines.data, print_label, NULL);
        et_printf("\n");
        et_buf_free(&lines);
    }
}

static void print_profile(const Edgeprof__V1__Profile *p)
{
    const struct et_kind *kind = et_kind_numbered((uint32_t)p->kind);
    uint64_t node = 0;
    et_printf("  profile kind=%d(%s) start=%" PRIu64 " duration=%" PRIu64 " period=%" PRIu64 " quantum=%" PRIu64
              " samples=%" PRIu64 " stacks=%zu\n",
              (int)p->kind, kind ? kind->name : "unknown", p->start_ns, p->duration_ns, p->period_ns, p->quantum,
              p->samples, p->n_node);
    for (size_t i = 0; i < p->n_node; i++) {
        node += p->node[i];
        et_printf("    node %" PRIu64 " value %" PRIu64, node, p->value[i] * p->quantum);
        if (p->n_count) {
            et_printf(" count %" PRIu32, p->count[i]);
        }
        if (p->n_label_set && p->label_set[i]) {
            et_printf(" labels %" PRIu32, p->label_set[i]);
        }
        et_printf("\n");
    }
}

static void print_stats(const Edgeprof__V1__Stats *s)
{
    et_printf("  stats samples=%" PRIu64 " exact=%" PRIu64 " gap=%" PRIu64 " cut=%" PRIu64 " rule_hits=%" PRIu64
              " rule_misses=%" PRIu64 " threads=%" PRIu64 "\n",
              s->samples, s->exact, s->gap, s->cut, s->rule_hits, s->rule_misses, s->threads);
    for (size_t i = 0; i < s->n_losses; i++) {
        et_printf("  loss reason=%u count=%" PRIu64 " weight=%" PRIu64 "\n", s->losses[i]->reason, s->losses[i]->count,
                  s->losses[i]->weight_ns);
        for (size_t k = 0; k < s->losses[i]->n_threads; k++) {
            et_printf("    thread %s\n", s->losses[i]->threads[k]);
        }
    }
}

/* Decoding nodes requires the segment's earlier messages. */
static bool print_nodes(const et_message *message, struct et_segment *segment, const char **why)
{
    size_t count = et_message_node_count(message), first = segment->node_count;
    struct et_wire_node *nodes = et_alloc(count, sizeof *nodes);
    bool ok = et_message_spans(message, segment, why) && et_message_nodes(message, segment, nodes, why);
    for (size_t i = 0; ok && i < count; i++) {
        char name[32];
        et_special_name(nodes[i].address, name);
        et_printf("  node %zu parent=%u ", first + i, nodes[i].parent);
        if (nodes[i].span) {
            et_printf("module=%#x address=%#" PRIx64 "\n", segment->spans[nodes[i].span - 1].base, nodes[i].address);
        } else {
            et_printf("%s\n", name);
        }
        et_segment_add_node(segment, nodes[i].depth, 0);
    }
    free(nodes);
    return ok;
}

static void print_thread(const Edgeprof__V1__CrashThread *t)
{
    et_printf("    thread tid=%u name=%s node=%u quality=%u\n", t->tid, t->name, t->node, t->quality);
}

static void print_crash(const Edgeprof__V1__Crash *c)
{
    et_printf("  crash cause=%d signal=%u code=%d address=%#" PRIx64 " pc=%#" PRIx64 " sp=%#" PRIx64 " fp=%#" PRIx64
              " lr=%#" PRIx64 " registers=%zu\n",
              (int)c->cause, c->signal, c->code, c->address, c->pc, c->sp, c->fp, c->lr, c->n_registers);
    et_printf("    pid=%u boot_id=%s executable=%s start=%" PRIu64 " time=%" PRIu64 " unix=%" PRIu64
              " faults=%u sender=%u missed=%u rebooted=%d\n",
              c->pid, c->boot_id, c->executable, c->start_ns, c->time_ns, c->unix_ns, c->faults, c->sender, c->missed,
              c->rebooted);
    for (size_t i = 0; i < c->n_threads; i++) {
        print_thread(c->threads[i]);
    }
    if (c->runtime.len) {
        et_printf("    runtime %.*s\n", (int)c->runtime.len, (const char *)c->runtime.data);
    }
}

static void print_timeline(const Edgeprof__V1__Timeline *t)
{
    et_printf("  timeline incident=%016" PRIx64 " part=%u cause=%d name=%s tid=%u time=%" PRIu64 " value=%" PRIu64
              " limit=%" PRIu64 " suppressed=%" PRIu64 " missing=%" PRIu64 " samples=%zu%s\n",
              t->incident, t->part, (int)t->cause, t->name, t->tid, t->time_ns, t->value, t->limit, t->suppressed,
              t->missing, t->n_after, t->more ? " more" : "");
    for (size_t i = 0; i < t->n_threads; i++) {
        et_printf("    thread %u %s\n", t->threads[i]->tid, t->threads[i]->name);
    }
}

static bool print_message(const et_message *message, size_t size, struct et_segment *segment, const char **why)
{
    et_printf("message segment=%016" PRIx64 " sequence=%u bytes=%zu unix_minus_uptime=%" PRIu64 "%s\n",
              message->segment, message->sequence, size, message->unix_minus_uptime_ns, message->last ? " last" : "");
    if (message->origin) {
        print_origin(message->origin);
        et_segment_free(segment);
        et_segment_init(segment);
    }
    for (size_t i = 0; i < message->n_modules; i++) {
        print_module(message->modules[i]);
    }
    if (!print_nodes(message, segment, why)) {
        return false;
    }
    if (!et_message_labels(message, segment, why)) {
        return false;
    }
    print_label_sets(message, segment);
    for (size_t i = 0; i < message->n_profiles; i++) {
        if (!et_message_profile(message, i, segment->node_count, why)) {
            return false;
        }
        print_profile(message->profiles[i]);
    }
    if (message->stats) {
        print_stats(message->stats);
    }
    if (message->crash) {
        print_crash(message->crash);
    }
    if (message->timeline) {
        print_timeline(message->timeline);
    }
    return true;
}

static bool print_kind(const et_pprof *pprof, const struct et_pprof_kind *kind, const char **why)
{
    struct et_profile *profile = et_pprof_profile(pprof, kind, why);
    if (!profile) {
        et_printf("  profile kind=%s unit=%s left out: %s\n", kind->name, kind->unit, *why);
    } else {
        et_printf("  profile kind=%s unit=%s total=%" PRIu64 " nodes=%zu\n", kind->name, kind->unit, profile->total,
                  profile->node_count ? profile->node_count - 1 : 0);
    }
    et_profile_free(profile);
    return profile != NULL;
}

/* False: nothing of it can be shown. */
static bool print_pprof(const uint8_t *bytes, size_t size, const char **why)
{
    struct et_buf inflated = {0};
    struct et_pprof_kind kinds[ET_PPROF_KINDS];
    et_pprof *pprof = et_messages_pprof(bytes, size, &inflated, why);
    bool ok = false;
    if (pprof) {
        et_printf("pprof bytes=%zu samples=%zu locations=%zu mappings=%zu time=%" PRId64 " duration=%" PRId64 "\n",
                  size, pprof->n_sample, pprof->n_location, pprof->n_mapping, pprof->time_nanos, pprof->duration_nanos);
        size_t count = et_pprof_kinds(pprof, et_pprof_hint(pprof), kinds);
        if (*why) {
            et_printf("  %s\n", *why);
        }
        for (size_t i = 0; i < count; i++) {
            ok |= print_kind(pprof, &kinds[i], why);
        }
        et_pprof_free(pprof);
    }
    et_buf_free(&inflated);
    return ok;
}

/* False: it is no folded text. */
static bool print_folded(const struct et_options *options, const struct et_buf *file)
{
    struct et_profile *profile = et_messages_folded(file, options->wanted.query.kind);
    if (profile) {
        et_printf("folded bytes=%zu stacks=%zu total=%" PRIu64 "\n", file->size, profile->entry_count, profile->total);
    }
    et_profile_free(profile);
    return profile != NULL;
}

static int print_all(const char *path, const struct et_buf *file)
{
    struct et_messages messages;
    const uint8_t *bytes;
    size_t size, number = 0;
    const char *why = NULL;
    struct et_segment segment;
    et_segment_init(&segment);
    et_messages_begin(&messages, file);
    while (!why && et_messages_next(&messages, &bytes, &size)) {
        et_message *message = et_is_pprof(bytes, size) ? NULL : et_message_decode(bytes, size, &why);
        if (et_is_pprof(bytes, size)) {
            const char *wrong = NULL;
            why = print_pprof(bytes, size, &wrong) ? NULL : wrong;
        } else if (message) {
            print_message(message, size, &segment, &why);
            et_message_free(message);
        }
        why = why ? et_messages_why(&messages, bytes, why) : NULL;
        number++;
    }
    et_segment_free(&segment);
    if (fflush(stdout) != 0 && errno != EPIPE) {
        et_error("standard output: %s", strerror(errno));
        return ET_FAILED;
    }
    if (why) {
        et_error("%s: message %zu: %s", path, number, why);
    } else if (messages.torn) {
        et_error("%s: truncated within message %zu", path, number + 1);
    } else if (number == 0) {
        et_error("%s: no messages", path);
    }
    return why || messages.torn ? ET_FAILED : number ? ET_OK : ET_NO_DATA;
}

static int print_file(const struct et_options *options, const char *path)
{
    struct et_buf file = {0};
    et_progress("reading %s", path);
    int code = et_messages_read(path, &file);
    et_progress_end();
    if (code == ET_OK && !print_folded(options, &file)) {
        code = print_all(path, &file);
    }
    et_buf_free(&file);
    return code;
}

int et_cmd_cat(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    if (options.first != argc - 1) {
        et_error("cat: expected one FILE; see `edgeprof cat --help`");
        et_options_free(&options);
        return ET_USAGE;
    }
    const char *path = argv[options.first];
    bool converts = options.pprof || options.folded || options.format || options.outputs.count;
    code = converts ? et_export(argv[0], &options, path) : print_file(&options, path);
    et_options_free(&options);
    return code;
}
