/*
 * See protojson.h. A message is a C structure; its descriptor has each field's type and offset. Both directions follow
 * the descriptor and recurse into nested messages.
 */
#include "tools/formats/protojson.h"
#include "tools/lib/json_write.h"
#include "tools/lib/json_read.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Size in bytes of a value of this type in its message. */
static size_t size_of_type(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

/* "profile_typeID" -> "profileTypeID" */
static void write_camel_case(const char *name, struct et_buf *out)
{
    for (; *name; name++) {
        if (*name == '_' && name[1]) {
            et_buf_char(out, (char)toupper((unsigned char)*++name));
        } else {
            et_buf_char(out, *name);
        }
    }
}

/* ---- writing ---- */

static void encode_bytes(const ProtobufCBinaryData *bytes, struct et_buf *out)
{
    et_buf_char(out, '"');
    et_base64_put(out, bytes->data, bytes->len);
    et_buf_char(out, '"');
}

static void encode_double(double value, struct et_buf *out)
{
    if (isfinite(value)) {
        et_buf_printf(out, "%.17g", value);
    } else {
        et_buf_text(out, isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    }
}

static void encode_enum(const ProtobufCEnumDescriptor *descriptor, int value, struct et_buf *out)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(descriptor, value);
    if (known) {
        et_buf_printf(out, "\"%s\"", known->name);
    } else {
        et_buf_printf(out, "%d", value);
    }
}

static void encode_value(const ProtobufCFieldDescriptor *field, const void *at, struct et_buf *out)
{
    const char *text;
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        et_buf_printf(out, "\"%lld\"", (long long)*(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        et_buf_printf(out, "\"%llu\"", (unsigned long long)*(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        et_buf_printf(out, "%d", *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        et_buf_printf(out, "%u", *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        encode_double((double)*(const float *)at, out);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        encode_double(*(const double *)at, out);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        et_buf_text(out, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        encode_enum(field->descriptor, *(const int *)at, out);
        break;
    case PROTOBUF_C_TYPE_STRING:
        text = *(char *const *)at;
        et_json_string(out, text ? text : "");
        break;
    case PROTOBUF_C_TYPE_BYTES:
        encode_bytes(at, out);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        et_protojson_encode(*(ProtobufCMessage *const *)at, out);
        break;
    }
}

/* Whether the field has its default value. */
static bool is_default(const ProtobufCFieldDescriptor *field, const void *at)
{
    static const uint8_t zero[8];
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return !*(char *const *)at || !**(char *const *)at;
    case PROTOBUF_C_TYPE_MESSAGE:
        return !*(ProtobufCMessage *const *)at;
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)at)->len == 0;
    default:
        return memcmp(at, zero, size_of_type(field->type)) == 0;
    }
}

/* Whether the field is one of a oneof's. */
static bool is_choice(const ProtobufCFieldDescriptor *field)
{
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static bool is_chosen(const ProtobufCFieldDescriptor *field, const uint8_t *message)
{
    return is_choice(field) && *(const uint32_t *)(const void *)(message + field->quantifier_offset) == field->id;
}

/* Returns whether it wrote the field. */
static bool encode_field(const ProtobufCFieldDescriptor *field, const uint8_t *message, const char *comma,
                         struct et_buf *out)
{
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED, chosen = is_chosen(field, message);
    const uint8_t *at = message + field->offset;
    size_t count = repeated ? *(const size_t *)(const void *)(message + field->quantifier_offset) : 1;
    if (count == 0 || (is_choice(field) ? !chosen : !repeated && is_default(field, at))) {
        return false;
    }
    et_buf_printf(out, "%s\"", comma);
    write_camel_case(field->name, out);
    et_buf_text(out, repeated ? "\":[" : "\":");
    at = repeated ? *(const uint8_t *const *)(const void *)at : at;
    for (size_t i = 0; i < count; i++) {
        et_buf_text(out, i ? "," : "");
        encode_value(field, at + i * size_of_type(field->type), out);
    }
    et_buf_text(out, repeated ? "]" : "");
    return true;
}

void et_protojson_encode(const ProtobufCMessage *message, struct et_buf *out)
{
    const char *comma = "";
    et_buf_char(out, '{');
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        if (encode_field(&message->descriptor->fields[i], (const uint8_t *)message, comma, out)) {
            comma = ",";
        }
    }
    et_buf_char(out, '}');
}

/* ---- reading ---- */

static ProtobufCMessage *decode_message(const ProtobufCMessageDescriptor *descriptor, const json_t *json);

static bool decode_bytes(const char *text, ProtobufCBinaryData *bytes)
{
    struct et_buf plain = {0};
    et_buf_text(&plain, "");
    bool ok = et_base64(text, strlen(text), &plain);
    *bytes = (ProtobufCBinaryData){.data = (uint8_t *)plain.data, .len = plain.size};
    return ok;
}

/* A number, or a number in quotes. */
static bool decode_integer(const json_t *json, bool is_signed, uint64_t *value)
{
    if (json_is_integer(json)) {
        *value = (uint64_t)json_integer_value(json);
        return is_signed || json_integer_value(json) >= 0;
    }
    if (json_is_real(json)) { /* 1e3 */
        double real = json_real_value(json);
        *value = fabs(real) < 9e15 ? (uint64_t)(int64_t)real : 0;
        return fabs(real) < 9e15 && floor(real) >= real && (is_signed || real >= 0);
    }
    const char *text = json_string_value(json);
    char *end = NULL;
    if (!text || !*text || text[strspn(text, "-0123456789")] || (!is_signed && *text == '-')) {
        return false;
    }
    errno = 0;
    *value = is_signed ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
    return !errno && !*end;
}

static bool decode_double(const json_t *json, double *value)
{
    const char *text = json_string_value(json);
    char *end = NULL;
    if (json_is_number(json)) {
        *value = json_number_value(json);
        return true;
    }
    *value = text ? strtod(text, &end) : 0;
    return text && *text && !*end;
}

static bool decode_enum(const ProtobufCEnumDescriptor *descriptor, const json_t *json, int *value)
{
    const ProtobufCEnumValue *known =
        json_is_string(json) ? protobuf_c_enum_descriptor_get_value_by_name(descriptor, json_string_value(json)) : NULL;
    *value = known ? known->value : (int)json_integer_value(json);
    return known || json_is_integer(json);
}

static bool decode_text(const json_t *json, char **value)
{
    const char *text = json_string_value(json);
    if (!text || strlen(text) != json_string_length(json)) {
        return false;
    }
    *value = et_strdup(text);
    return true;
}

static bool decode_number(const ProtobufCFieldDescriptor *field, const json_t *json, void *at)
{
    bool is_signed = field->type != PROTOBUF_C_TYPE_UINT64 && field->type != PROTOBUF_C_TYPE_FIXED64 &&
                     field->type != PROTOBUF_C_TYPE_UINT32 && field->type != PROTOBUF_C_TYPE_FIXED32;
    uint64_t value;
    if (!decode_integer(json, is_signed, &value)) {
        return false;
    }
    if (size_of_type(field->type) == sizeof value) {
        *(uint64_t *)at = value;
        return true;
    }
    *(uint32_t *)at = (uint32_t)value;
    return is_signed ? (int64_t)value == (int32_t)value : value <= UINT32_MAX;
}

static bool decode_value(const ProtobufCFieldDescriptor *field, const json_t *json, void *at)
{
    double number;
    switch (field->type) {
    case PROTOBUF_C_TYPE_FLOAT:
        if (!decode_double(json, &number)) {
            return false;
        }
        *(float *)at = (float)number;
        return true;
    case PROTOBUF_C_TYPE_DOUBLE:
        return decode_double(json, at);
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = json_is_true(json);
        return json_is_boolean(json);
    case PROTOBUF_C_TYPE_ENUM:
        return decode_enum(field->descriptor, json, at);
    case PROTOBUF_C_TYPE_STRING:
        return decode_text(json, at);
    case PROTOBUF_C_TYPE_BYTES:
        return json_is_string(json) && decode_bytes(json_string_value(json), at);
    case PROTOBUF_C_TYPE_MESSAGE:
        *(ProtobufCMessage **)at = decode_message(field->descriptor, json);
        return *(ProtobufCMessage **)at != NULL;
    default:
        return decode_number(field, json, at);
    }
}

/* Counts values one by one, so that a malformed message can be freed. */
static bool decode_repeated(const ProtobufCFieldDescriptor *field, const json_t *json, uint8_t *message)
{
    size_t size = size_of_type(field->type), *count = (size_t *)(void *)(message + field->quantifier_offset);
    if (!json_is_array(json) || *count) {
        return false;
    }
    uint8_t *items = et_alloc(json_array_size(json), size);
    *(uint8_t **)(void *)(message + field->offset) = items;
    for (size_t i = 0; i < json_array_size(json); i++) {
        bool ok = decode_value(field, json_array_get(json, i), items + i * size);
        *count = i + 1;
        if (!ok) {
            return false;
        }
    }
    return true;
}

static const json_t *find_member(const ProtobufCFieldDescriptor *field, const json_t *json)
{
    struct et_buf name = {0};
    write_camel_case(field->name, &name);
    const json_t *found = json_object_get(json, name.data);
    et_buf_free(&name);
    return found ? found : json_object_get(json, field->name);
}

static bool decode_field(const ProtobufCFieldDescriptor *field, const json_t *json, ProtobufCMessage *message)
{
    uint8_t *at = (uint8_t *)message;
    if (!json || json_is_null(json)) {
        return true;
    }
    if (is_choice(field)) {
        uint32_t *chosen = (uint32_t *)(void *)(at + field->quantifier_offset);
        if (*chosen) {
            return false; /* there can be only one */
        }
        *chosen = field->id;
    }
    return field->label == PROTOBUF_C_LABEL_REPEATED ? decode_repeated(field, json, at)
                                                     : decode_value(field, json, at + field->offset);
}

static _Thread_local char wrong[JSON_ERROR_TEXT_LENGTH + 64];

static ProtobufCMessage *decode_message(const ProtobufCMessageDescriptor *descriptor, const json_t *json)
{
    if (!json_is_object(json)) {
        return NULL;
    }
    ProtobufCMessage *message = et_alloc(1, descriptor->sizeof_message);
    descriptor->message_init(message);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (!decode_field(field, find_member(field, json), message)) {
            if (!wrong[0]) {
                snprintf(wrong, sizeof wrong, "field %s has an invalid value", field->name);
            }
            protobuf_c_message_free_unpacked(message, NULL);
            return NULL;
        }
    }
    return message;
}

ProtobufCMessage *et_protojson_decode(const ProtobufCMessageDescriptor *descriptor, const void *text, size_t size,
                                      const char **why)
{
    struct et_buf unread = {0};
    json_t *json = et_json_read(text, size, &unread);
    wrong[0] = '\0';
    ProtobufCMessage *message = decode_message(descriptor, json);
    if (!message && !wrong[0]) {
        snprintf(wrong, sizeof wrong, "%s", json ? "not a JSON object" : unread.data);
    }
    et_buf_free(&unread);
    *why = wrong;
    json_decref(json);
    return message;
}
