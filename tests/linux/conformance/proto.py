"""Protobuf messages of pprof, of Pyroscope's push API and of OTLP profiles, read and written by tables; nothing of edgeprof's own is used.

A message is a dict: field name -> value, or list of values for a repeated field; what is absent is not in it."""



class fixed64(int):
    """The kind of a number that stands in eight bytes."""


# field number: (name, kind, repeated); kind: int, fixed64, bytes, or another message's name
MESSAGES = {
    "Profile": {1: ("sample_type", "ValueType", True), 2: ("sample", "Sample", True), 3: ("mapping", "Mapping", True),
                4: ("location", "Location", True), 5: ("function", "Function", True), 6: ("string_table", bytes, True),
                7: ("drop_frames", int, False), 8: ("keep_frames", int, False), 9: ("time_nanos", int, False),
                10: ("duration_nanos", int, False), 11: ("period_type", "ValueType", False), 12: ("period", int, False),
                13: ("comment", int, True), 14: ("default_sample_type", int, False), 15: ("doc_url", int, False)},
    "ValueType": {1: ("type", int, False), 2: ("unit", int, False)},
    "Sample": {1: ("location_id", int, True), 2: ("value", int, True), 3: ("label", "Label", True)},
    "Label": {1: ("key", int, False), 2: ("str", int, False), 3: ("num", int, False), 4: ("num_unit", int, False)},
    "Mapping": {1: ("id", int, False), 2: ("memory_start", int, False), 3: ("memory_limit", int, False),
                4: ("file_offset", int, False), 5: ("filename", int, False), 6: ("build_id", int, False),
                7: ("has_functions", int, False), 8: ("has_filenames", int, False), 9: ("has_line_numbers", int, False),
                10: ("has_inline_frames", int, False)},
    "Location": {1: ("id", int, False), 2: ("mapping_id", int, False), 3: ("address", int, False), 4: ("line", "Line", True),
                 5: ("is_folded", int, False)},
    "Line": {1: ("function_id", int, False), 2: ("line", int, False), 3: ("column", int, False)},
    "Function": {1: ("id", int, False), 2: ("name", int, False), 3: ("system_name", int, False), 4: ("filename", int, False),
                 5: ("start_line", int, False)},
    "PushRequest": {1: ("series", "RawProfileSeries", True)},
    "RawProfileSeries": {1: ("labels", "LabelPair", True), 2: ("samples", "RawSample", True)},
    "LabelPair": {1: ("name", bytes, False), 2: ("value", bytes, False)},
    "RawSample": {1: ("raw_profile", bytes, False), 2: ("ID", bytes, False)},
    # opentelemetry-proto v1.11.0, profiles/v1development and what it needs; *_strindex of common.proto is left out on purpose.
    "Export": {1: ("resource_profiles", "OResourceProfiles", True), 2: ("dictionary", "ODictionary", False)},
    "ODictionary": {1: ("mapping_table", "OMapping", True), 2: ("location_table", "OLocation", True),
                    3: ("function_table", "OFunction", True), 4: ("link_table", "OLink", True), 5: ("string_table", bytes, True),
                    6: ("attribute_table", "OAttribute", True), 7: ("stack_table", "OStack", True)},
    "OResourceProfiles": {1: ("resource", "OResource", False), 2: ("scope_profiles", "OScopeProfiles", True), 3: ("schema_url", bytes, False)},
    "OScopeProfiles": {1: ("scope", "OScope", False), 2: ("profiles", "OProfile", True), 3: ("schema_url", bytes, False)},
    "OProfile": {1: ("sample_type", "OValueType", False), 2: ("samples", "OSample", True), 3: ("time_unix_nano", fixed64, False),
                 4: ("duration_nano", int, False), 5: ("period_type", "OValueType", False), 6: ("period", int, False),
                 7: ("profile_id", bytes, False), 11: ("attribute_indices", int, True)},
    "OValueType": {1: ("type_strindex", int, False), 2: ("unit_strindex", int, False)},
    "OSample": {1: ("stack_index", int, False), 2: ("attribute_indices", int, True), 3: ("link_index", int, False), 4: ("values", int, True)},
    "OMapping": {1: ("memory_start", int, False), 2: ("memory_limit", int, False), 3: ("file_offset", int, False),
                 4: ("filename_strindex", int, False), 5: ("attribute_indices", int, True)},
    "OStack": {1: ("location_indices", int, True)},
    "OLocation": {1: ("mapping_index", int, False), 2: ("address", int, False), 3: ("lines", "OLine", True), 4: ("attribute_indices", int, True)},
    "OLine": {1: ("function_index", int, False), 2: ("line", int, False), 3: ("column", int, False)},
    "OFunction": {1: ("name_strindex", int, False), 2: ("system_name_strindex", int, False), 3: ("filename_strindex", int, False),
                  4: ("start_line", int, False)},
    "OLink": {1: ("trace_id", bytes, False), 2: ("span_id", bytes, False)},
    "OAttribute": {1: ("key_strindex", int, False), 2: ("value", "OAny", False), 3: ("unit_strindex", int, False)},
    "OAny": {1: ("string_value", bytes, False), 2: ("bool_value", int, False), 3: ("int_value", int, False)},
    "OKeyValue": {1: ("key", bytes, False), 2: ("value", "OAny", False)},
    "OResource": {1: ("attributes", "OKeyValue", True), 2: ("dropped_attributes_count", int, False)},
    "OScope": {1: ("name", bytes, False), 2: ("version", bytes, False)},
}


class Malformed(Exception):
    pass


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("a number that does not end")
        value |= (data[at] & 0x7f) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def fields(data):
    """(number, wire type, value) of each field; a number, or bytes, of a fixed width as well."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        elif tag & 7 in (1, 5):
            size = 8 if tag & 7 == 1 else 4
            value, at = data[at:at + size], at + size
        else:
            raise Malformed(f"wire type {tag & 7}")
        if at > len(data):
            raise Malformed("bytes beyond the end")
        yield tag >> 3, tag & 7, value


def decode(kind, data):
    message, table = {}, MESSAGES[kind]
    for number, wire, value in fields(data):
        if number not in table:
            raise Malformed(f"{kind} has a field {number}, which the schema does not know")
        name, type_, repeated = table[number]
        fits = {0} if type_ is int and not repeated else {0, 2} if type_ is int else {1} if type_ is fixed64 else {2}
        if wire not in fits:
            raise Malformed(f"{kind}.{name}: wire type {wire}")
        if type_ is fixed64:
            values = [int.from_bytes(value, "little")]
        elif type_ is int and wire == 2:
            at, values = 0, []
            while at < len(value):
                one, at = varint(value, at)
                values.append(signed(one))
        else:
            values = [signed(value) if type_ is int else bytes(value) if type_ is bytes else decode(type_, value)]
        if repeated:
            message.setdefault(name, []).extend(values)
        else:
            message[name] = values[0]
    return message


def put_varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def put_bytes(number, data):
    return put_varint(number << 3 | 2) + put_varint(len(data)) + data


def encode(kind, message):
    out = b""
    for number, (name, type_, repeated) in MESSAGES[kind].items():
        if name not in message:
            continue
        values = message[name] if repeated else [message[name]]
        if type_ is int and repeated:
            out += put_bytes(number, b"".join(map(put_varint, values)))
        elif type_ is fixed64:
            out += b"".join(put_varint(number << 3 | 1) + value.to_bytes(8, "little") for value in values)
        elif type_ is int:
            out += put_varint(number << 3) + put_varint(values[0])
        else:
            out += b"".join(put_bytes(number, value if type_ is bytes else encode(type_, value)) for value in values)
    return out
