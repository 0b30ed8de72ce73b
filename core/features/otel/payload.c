/*
 * The bytes of a process context: protobuf message opentelemetry.proto.processcontext.v1development.ProcessContext.
 */
#include "core/features/otel/context.h"
#include <edgeprof/transport.h>

#include <errno.h>
#include <string.h>

/* Tags of fields, all length-delimited unless they say otherwise. */
#define CONTEXT_RESOURCE   0x0a
#define CONTEXT_ATTRIBUTES 0x12
#define RESOURCE_ATTRIBUTE 0x0a
#define PAIR_KEY           0x0a
#define PAIR_VALUE         0x12
#define VALUE_STRING       0x0a
#define VALUE_INT          0x18 /* varint */
#define VALUE_ARRAY        0x2a
#define ARRAY_ELEMENT      0x0a

#define SCHEMA "tlsdesc_v1_dev" /* what readers accept today */

#define OTEL_ATTRIBUTES "OTEL_RESOURCE_ATTRIBUTES"

/* ---- protobuf ---- */

static size_t varint_size(uint64_t value)
{
    size_t size = 1;

    while (value >>= 7)
        size++;
    return size;
}

static void byte_put(struct ep_bytes *bytes, unsigned byte)
{
    if (bytes->size < bytes->room)
        bytes->at[bytes->size++] = (uint8_t)byte;
    else
        bytes->full = true;
}

static void varint_put(struct ep_bytes *bytes, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        byte_put(bytes, 0x80 | (value & 0x7f));
    byte_put(bytes, (unsigned)value);
}

static size_t field_size(size_t content)
{
    return 1 + varint_size(content) + content;
}

static void field_put(struct ep_bytes *bytes, unsigned tag, size_t content)
{
    byte_put(bytes, tag);
    varint_put(bytes, content);
}

static void text_put(struct ep_bytes *bytes, unsigned tag, const char *text, size_t size)
{
    field_put(bytes, tag, size);
    for (size_t i = 0; i < size; i++)
        byte_put(bytes, (uint8_t)text[i]);
}

/* Begins a pair whose AnyValue takes `value` bytes, which follow. */
static void pair_begin(struct ep_bytes *bytes, unsigned tag, const char *key, size_t key_size, size_t value)
{
    field_put(bytes, tag, field_size(key_size) + field_size(value));
    text_put(bytes, PAIR_KEY, key, key_size);
    field_put(bytes, PAIR_VALUE, value);
}

/* ---- resource attributes ---- */

struct piece {
    const char *text;
    size_t size;
};

static struct piece piece_of(const char *text)
{
    return (struct piece){text, strlen(text)};
}

/* Dots and the like in OpenTelemetry's keys are '_' in edgeprof's: service.version and service_version are one. */
static bool keys_equal(struct piece a, struct piece b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++) {
        const char x = a.text[i] == '.' || a.text[i] == '-' ? '_' : a.text[i];
        const char y = b.text[i] == '.' || b.text[i] == '-' ? '_' : b.text[i];
        if (x != y)
            return false;
    }
    return true;
}

/* Reads the length at *at, which this file has written. */
static size_t length_at(const struct ep_bytes *bytes, size_t *at)
{
    size_t value = 0;

    for (unsigned shift = 0;; shift += 7) {
        const uint8_t byte = bytes->at[(*at)++];
        value |= (size_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

/* True if one of the pairs that have been written has that key. */
static bool is_known(const struct ep_bytes *bytes, struct piece key)
{
    for (size_t at = 0; at < bytes->size;) {
        at++; /* the tag */
        const size_t pair = length_at(bytes, &at);
        size_t inner = at + 1;
        const size_t size = length_at(bytes, &inner);
        if (keys_equal(key, (struct piece){(const char *)bytes->at + inner, size}))
            return true;
        at += pair;
    }
    return false;
}

/* Left out, if it is not UTF-8. After one that does not fit, bytes->full stays set. */
static void attribute_put(struct ep_bytes *bytes, struct piece key, struct piece value)
{
    const size_t before = bytes->size;

    if (key.size == 0 || is_known(bytes, key) || ep_utf8_run(key.text, key.size) != key.size ||
        ep_utf8_run(value.text, value.size) != value.size)
        return;
    pair_begin(bytes, RESOURCE_ATTRIBUTE, key.text, key.size, field_size(value.size));
    text_put(bytes, VALUE_STRING, value.text, value.size);
    if (bytes->full)
        bytes->size = before;
}

static void number_put(struct ep_bytes *bytes, const char *key, uint64_t value)
{
    const size_t before = bytes->size;

    if (is_known(bytes, piece_of(key)))
        return;
    pair_begin(bytes, RESOURCE_ATTRIBUTE, key, strlen(key), 1 + varint_size(value));
    byte_put(bytes, VALUE_INT);
    varint_put(bytes, value);
    if (bytes->full)
        bytes->size = before;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decodes %-sequences into `text`. Returns the size, SIZE_MAX: malformed or too long. */
static size_t decode(struct piece from, char *text, size_t room)
{
    size_t size = 0;

    for (size_t i = 0; i < from.size; i++) {
        int byte = (uint8_t)from.text[i];
        if (byte == '%') {
            const int high = i + 2 < from.size ? hex_digit(from.text[i + 1]) : -1;
            const int low = high < 0 ? -1 : hex_digit(from.text[i + 2]);
            byte = low < 0 ? -1 : high * 16 + low;
            i += 2;
        }
        if (byte < 0 || size == room)
            return SIZE_MAX;
        text[size++] = (char)byte;
    }
    return size;
}

static struct piece trimmed(struct piece piece)
{
    for (; piece.size && (*piece.text == ' ' || *piece.text == '\t'); piece.text++)
        piece.size--;
    while (piece.size && (piece.text[piece.size - 1] == ' ' || piece.text[piece.size - 1] == '\t'))
        piece.size--;
    return piece;
}

/* "key=value,key=value", %-encoded as in OTEL_RESOURCE_ATTRIBUTES. */
static int list_put(struct ep_bytes *bytes, const char *name, const char *list)
{
    char key[128], value[512];

    for (const char *at = list; at && *at;) {
        const struct piece pair = {at, strcspn(at, ",")};
        const char *equals = memchr(at, '=', pair.size);
        at += pair.size + (at[pair.size] == ',');
        if (trimmed(pair).size == 0)
            continue;
        const size_t before = equals ? (size_t)(equals - pair.text) : 0;
        const size_t key_size = decode(trimmed((struct piece){pair.text, before}), key, sizeof key);
        const size_t value_size =
            equals ? decode(trimmed((struct piece){equals + 1, pair.size - before - 1}), value, sizeof value)
                   : SIZE_MAX;
        if (key_size == 0 || key_size == SIZE_MAX || value_size == SIZE_MAX)
            return ep_complain(-EINVAL, name, ": must be key=value,key=value, %-encoded, not ", pair.text);
        attribute_put(bytes, (struct piece){key, key_size}, (struct piece){value, value_size});
    }
    return 0;
}

static void tags_put(struct ep_bytes *bytes, const char *tags)
{
    struct ep_tag tag;
    bool error = false;

    for (const char *at = tags; at && (at = ep_tag_next(at, &tag, &error)) != NULL;) {
        const struct piece key = {tag.key, tag.key_size};
        attribute_put(bytes, keys_equal(key, piece_of("version")) ? piece_of("service.version") : key,
                      (struct piece){tag.value, tag.value_size});
    }
}

static void name_put(struct ep_bytes *bytes, const char *key, const char *value)
{
    if (value)
        attribute_put(bytes, piece_of(key), piece_of(value));
}

/* What edgeprof knows. A reader in the specification's repository fails if one of seven keys is missing, so two are
 * there without a value. */
static void own_put(struct ep_bytes *bytes, const char *instance)
{
    struct ep_identity identity;

    memset(&identity, 0, sizeof identity);
    ep_port_identity(&identity);
    name_put(bytes, "service.name", identity.executable[0] ? identity.executable : "unknown_service");
    name_put(bytes, "service.instance.id", instance);
    name_put(bytes, "service.version", "");
    name_put(bytes, "deployment.environment.name", "");
    name_put(bytes, "telemetry.sdk.name", "edgeprof");
    name_put(bytes, "telemetry.sdk.language", "cpp");
    name_put(bytes, "telemetry.sdk.version", EP_VERSION);
    name_put(bytes, "host.name", identity.host);
    number_put(bytes, "process.pid", identity.pid);
    name_put(bytes, "process.executable.name", identity.executable);
}

int ep_context_resource(struct ep_bytes *bytes, const struct ep_resource *resource)
{
    const size_t head = 1 + varint_size(bytes->room); /* room for the tag and the longest length */
    struct ep_bytes pairs = {.at = bytes->at + head, .room = bytes->room - head};
    int error = list_put(&pairs, "attributes", resource->attributes);

    if (!error)
        name_put(&pairs, "service.name", resource->config ? resource->config->service : NULL);
    if (!error) {
        name_put(&pairs, "service.name", ep_env_text("OTEL_SERVICE_NAME"));
        error = list_put(&pairs, OTEL_ATTRIBUTES, ep_env_text(OTEL_ATTRIBUTES));
    }
    if (error)
        return error;
    tags_put(&pairs, resource->config ? resource->config->tags : NULL);
    own_put(&pairs, resource->instance);
    if (pairs.full)
        return ep_refuse(-EINVAL, "the process context's attributes are too long");
    field_put(bytes, CONTEXT_RESOURCE, pairs.size);
    memmove(bytes->at + bytes->size, pairs.at, pairs.size);
    bytes->size += pairs.size;
    return 0;
}

void ep_context_schema(struct ep_bytes *bytes, const char *name, unsigned count)
{
    static const char schema[] = "threadlocal.schema_version", map[] = "threadlocal.attribute_key_map";
    size_t elements = 0;

    pair_begin(bytes, CONTEXT_ATTRIBUTES, schema, sizeof schema - 1, field_size(sizeof SCHEMA - 1));
    text_put(bytes, VALUE_STRING, SCHEMA, sizeof SCHEMA - 1);
    const char *at = name;
    for (unsigned i = 0; i < count; i++, at += strlen(at) + 1)
        elements += field_size(field_size(strlen(at)));
    pair_begin(bytes, CONTEXT_ATTRIBUTES, map, sizeof map - 1, field_size(elements));
    field_put(bytes, VALUE_ARRAY, elements);
    at = name;
    for (unsigned i = 0; i < count; i++, at += strlen(at) + 1) {
        field_put(bytes, ARRAY_ELEMENT, field_size(strlen(at)));
        text_put(bytes, VALUE_STRING, at, strlen(at));
    }
}
