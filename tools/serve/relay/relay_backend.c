/* See relay_backend.h: common parts of the backends. */
#include "tools/serve/relay/relay_backend.h"
#include "tools/lib/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_MOST = 2048 };

const struct et_relay_backend *et_relay_backend(const char *name)
{
    static const struct et_relay_backend *const all[] = {&et_relay_pyroscope, &et_relay_parca, &et_relay_parca_raw,
                                                         &et_relay_otlp, &et_relay_datadog};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    return NULL;
}

const struct et_relay_name *et_relay_name(const struct et_relay_backend *backend, const char *kind)
{
    for (const struct et_relay_name *table = backend->names; table->kind; table++) {
        if (strcmp(table->kind, kind) == 0) {
            return table;
        }
    }
    return NULL;
}

void et_relay_legal(const char *text, char out[128])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t size = 0;
    if (*text >= '0' && *text <= '9') {
        out[size++] = '_';
    }
    for (; *text && size < 127; text++) {
        bool legal = strchr(letters, *text) != NULL;
        if (((unsigned char)*text & 0xc0) != 0x80) { /* one character per UTF-8 sequence */
            out[size++] = legal ? *text : '_';
        }
    }
    out[size] = '\0';
}

void et_relay_own(const struct et_profile *profile, struct et_relay_own *own)
{
    char *const parts[] = {own->family, own->type, own->unit, own->period, own->period_unit};
    const char *kind = et_text(&profile->strings, profile->kind), *from[6] = {kind};
    size_t count = 1;
    for (const char *colon = kind; count < 6 && (colon = strchr(colon, ':'));) {
        from[count++] = ++colon;
    }
    for (size_t i = 0; i < 5; i++) {
        char *text = count == 5 ? et_clean(from[i], strcspn(from[i], ":")) : et_strdup(kind);
        et_relay_legal(text, parts[i]);
        free(text);
    }
    if (count != 5) {
        et_relay_legal(et_text(&profile->strings, profile->value_unit), own->unit);
        memcpy(own->period_unit, own->unit, sizeof own->unit);
    }
}

/* ---- series ---- */

const char *et_relay_labels_value(const struct et_relay_labels *series, const char *name)
{
    for (size_t i = 0; i < series->count; i++) {
        if (strcmp(series->labels[i].name, name) == 0) {
            return series->labels[i].value;
        }
    }
    return NULL;
}

void et_relay_labels_add(struct et_relay_labels *series, const char *name, const char *value)
{
    char legal[128];
    et_relay_legal(name, legal);
    if (!*legal || !*value || et_relay_labels_value(series, legal)) {
        return;
    }
    size_t size = strlen(value);
    if (size > VALUE_MOST) {
        for (size = VALUE_MOST; ((unsigned char)value[size] & 0xc0) == 0x80; size--) {
        }
    }
    series->labels = et_reserve(series->labels, &series->capacity, series->count + 1, sizeof *series->labels);
    series->labels[series->count++] = (struct et_relay_label){.name = et_strdup(legal), .value = et_clean(value, size)};
}

struct label_adder {
    struct et_relay_labels *series;
    size_t most;
};

/* Names that begin with "__" are reserved for the server. */
static void add_tag_label(void *context, const char *key, const char *value)
{
    struct label_adder *adding = context;
    if (strncmp(key, "__", 2) != 0 && adding->series->count < adding->most) {
        et_relay_labels_add(adding->series, key, value);
    }
}

/* Adds service_name, tags and host, up to `most` labels. */
static void add_origin_labels(struct et_relay_labels *series, const struct et_origin *origin, size_t most)
{
    struct label_adder adding = {.series = series, .most = most};
    et_relay_labels_add(series, "service_name", origin->service);
    et_labels_each(origin->tags, add_tag_label, &adding);
    add_tag_label(&adding, "host", origin->host);
}

void et_relay_labels_free(struct et_relay_labels *series)
{
    for (size_t i = 0; i < series->count; i++) {
        free(series->labels[i].name);
        free(series->labels[i].value);
    }
    free(series->labels);
    *series = (struct et_relay_labels){0};
}

/* ---- pieces ---- */

struct piece_encoder {
    const struct et_relay_backend *backend;
    size_t limit;
    et_relay_encode *encode;
    et_relay_piece *piece;
    void *context;
    unsigned number;
};

static void encode_pieces(struct piece_encoder *s, size_t first, size_t entries)
{
    struct et_relay_part part = {.number = s->number, .first = first, .entries = entries};
    part.samples = s->encode(s->context, s->number, first, entries, &part.bytes);
    part.inflated = part.bytes.size;
    bool large = part.inflated > s->limit || (s->backend->samples && part.samples > s->backend->samples);
    if (large && entries > 1) {
        et_buf_free(&part.bytes);
        encode_pieces(s, first, entries / 2);
        encode_pieces(s, first + entries / 2, entries - entries / 2);
        return;
    }
    if (part.samples) {
        s->number++;
        s->piece(s->context, &part);
    }
    et_buf_free(&part.bytes);
}

void et_relay_pieces(const struct et_relay_backend *backend, size_t limit, size_t entries, et_relay_encode *encode,
                     et_relay_piece *piece, void *context)
{
    struct piece_encoder s = {.backend = backend, .encode = encode, .piece = piece, .context = context};
    s.limit = limit && limit < backend->limit ? limit : backend->limit;
    encode_pieces(&s, 0, entries);
}

static size_t encode_pprof(void *context, unsigned number, size_t first, size_t entries, struct et_buf *out)
{
    struct et_relay_pprof *in = context;
    struct et_pprof_form form = *in->pprof;
    form.shift_ns = number;
    form.first = first;
    form.entries = entries;
    return et_pprof_encode_form(in->row->profile, &form, out);
}

void et_relay_pprof_pieces(struct et_relay_pprof *in)
{
    et_relay_pieces(in->backend, in->form->limit, in->row->profile->entry_count, encode_pprof, in->piece, in);
}

/* Keys of stack labels, which become labels of the series at the receiver. */
struct key_set {
    struct et_strings kept; /* valid names */
    size_t most;
};

/* Keeps the first `most` keys, and span and trace ids. */
static bool keep_label(void *context, const char *key, const char *value, struct et_pprof_label *out)
{
    struct key_set *keys = context;
    et_relay_legal(key, out->key);
    if (!*out->key || !*value || strncmp(out->key, "__", 2) == 0) {
        return false;
    }
    if (strcmp(key, ET_SPAN_ID) == 0 || strcmp(key, ET_TRACE_ID) == 0) {
        return true;
    }
    size_t before = keys->kept.count;
    uint32_t number = et_intern(&keys->kept, out->key);
    return number < before || number <= keys->most; /* number 0 is "" */
}

void et_relay_series(struct et_relay_pprof *in)
{
    const struct et_profile *p = in->row->profile;
    const struct et_relay_name *name = et_relay_name(in->backend, et_text(&p->strings, p->kind));
    struct et_relay_own own;
    et_relay_own(p, &own);
    et_relay_labels_add(&in->series, "__name__", name ? name->family : own.family);
    add_origin_labels(&in->series, &in->row->origin, in->backend->series_labels);
    struct key_set keys = {.most = in->backend->labels - in->series.count};
    struct et_pprof_form form = {
        .count = name && p->counts ? name->count : "",
        .value = name ? name->value : own.type,
        .unit = own.unit,
        .period = name ? name->period : own.period,
        .period_unit = name ? name->period_unit : own.period_unit,
        .level = name && name->level,
        .bare = in->form->bare,
        .root = in->form->bare && in->backend->drops_nameless ? in->row->origin.service : NULL,
        .depth = in->backend->depth,
        .label = keep_label,
        .context = &keys,
    };
    in->pprof = &form;
    et_relay_pprof_pieces(in);
    in->pprof = NULL;
    et_strings_free(&keys.kept);
}

/* ---- ids ---- */

/* FNV-1a with a seed, for two different hashes of one text. */
static uint64_t hash_text(const struct et_buf *text, uint64_t seed)
{
    uint64_t hash = 1469598103934665603u ^ seed;
    for (size_t i = 0; i < text->size; i++) {
        hash = (hash ^ (uint8_t)text->data[i]) * 1099511628211u;
    }
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

void et_relay_id(const struct et_arrival *row, unsigned piece, uint8_t id[16])
{
    const struct et_profile *p = row->profile;
    struct et_buf text = {0};
    et_buf_printf(&text, "%lld %s\n%s%s\n%s\n%u %llu %s %lld %lld %u", (long long)row->id, row->origin.service,
                  row->origin.tags, row->origin.host, row->origin.boot_id, row->origin.pid,
                  (unsigned long long)row->origin.process_start_ns, et_text(&p->strings, p->kind),
                  (long long)p->start_ns, (long long)p->end_ns, piece);
    uint64_t halves[2] = {hash_text(&text, 0), hash_text(&text, 0x5bd1e9955bd1e995u)};
    et_buf_free(&text);
    for (unsigned i = 0; i < 16; i++) {
        id[i] = (uint8_t)(halves[i / 8] >> (i % 8 * 8));
    }
    id[6] = (uint8_t)((id[6] & 0x0f) | 0x80); /* UUID version 8: custom format */
    id[8] = (uint8_t)((id[8] & 0x3f) | 0x80);
}

void et_relay_id_text(const uint8_t id[16], char text[37])
{
    for (unsigned i = 0, at = 0; i < 16; i++) {
        at += (unsigned)snprintf(text + at, 37 - at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", id[i]);
    }
}
