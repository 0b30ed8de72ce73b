"""What those demand that the relay sends to, besides Pyroscope (rules.py): Parca's WriteRaw, OTLP profiles (the rules of OpenTelemetry's
profcheck, of Parca's and of Pyroscope's receivers, each one's strictest), and the shape of what Datadog's library sends.

check_writeraw, check_otlp, check_datadog (head, body, now, named) -> [(rule, what is wrong)]"""
import base64
import binascii
import collections
import gzip
import json
import re
import zlib

from proto import Malformed, decode
from rules import LABEL, Profile, inflated

LEVELS = ("inuse_objects", "inuse_space", "heap_size", "goroutine")


def checked(check):
    """check(say, ...) as a function that returns what it said."""
    def checks(*arguments, **more):
        wrong = []
        check(lambda rule, what: wrong.append((rule, what)), wrong, *arguments, **more)
        return wrong
    return checks


def headers_of(head, say, line, type_, prefix):
    if not re.fullmatch(line, head[0]):
        say(f"{prefix}-line", head[0])
    values = {name.lower(): value for name, value in head[1]}
    if not re.fullmatch(type_, values.get("content-type", "")):
        say(f"{prefix}-content-type", f"{values.get('content-type')}")
    return values


# ---- Parca ----

class ParcaProfile(Profile):
    """A profile whose type is `:delta` when it has a duration."""

    def check_time(self):
        level = any(type_.split("/")[0] in LEVELS for type_ in self.types())
        if bool(self.p.get("duration_nanos", 0)) == level:
            self.say("parca-delta", f"{self.types()} lasts {self.p.get('duration_nanos', 0)} ns")
        if self.p.get("time_nanos", 0) <= 0:
            self.say("parca-time", "there is none")


def parca_labels(series, say):
    labels = series.get("labels")
    if not isinstance(labels, dict) or not isinstance(labels.get("labels"), list):
        say("parca-labels", f"{labels!r}: the server dereferences them")
        return
    names = [label.get("name") for label in labels["labels"]]
    if len(set(names)) < len(names):
        say("parca-label-twice", f"{names}")
    for label in labels["labels"]:
        if not LABEL.fullmatch(label.get("name", "")) or not label.get("value"):
            say("parca-label", f"{label}")
    name = dict((label.get("name"), label.get("value")) for label in labels["labels"]).get("__name__", "")
    if not LABEL.fullmatch(name):
        say("parca-name", f"{name!r}")


@checked
def check_writeraw(say, wrong, head, body, now, named=False):
    headers_of(head, say, r"POST /(\S+/)?api/profiles/writeraw HTTP/1\.1", "application/json", "parca")
    try:
        request = json.loads(body)
        series = request["series"]
        if request.get("normalized") is not True:
            say("parca-normalized", "addresses are ELF addresses")
        if not series or set(request) - {"series", "normalized"}:
            say("parca-request", f"{set(request)}")
        for one in series:
            parca_labels(one, say)
            if len(one.get("samples", [])) != 1 or set(one["samples"][0]) != {"rawProfile"}:
                say("parca-samples", f"{[set(sample) for sample in one.get('samples', [])]}")
                continue
            ParcaProfile(base64.b64decode(one["samples"][0]["rawProfile"], validate=True), now, named, wrong).check()
    except (ValueError, KeyError, TypeError, binascii.Error, Malformed) as error:
        say("parca-json", repr(error))


# ---- OTLP ----

TABLES = ("mapping", "location", "function", "link", "string", "attribute", "stack")
BUILD_ID = b"process.executable.build_id.gnu"


class Otlp:
    """A request on its way through the rules."""

    def __init__(self, request, named, say):
        self.request, self.named, self.say = request, named, say
        self.tables = {name: request.get("dictionary", {}).get(f"{name}_table", []) for name in TABLES}
        self.used = {name: {0} for name in TABLES}

    def at(self, table, index, of):
        """The element, {} where there is none."""
        self.used[table].add(index)
        if not 0 <= index < len(self.tables[table]):
            self.say(f"otlp-reference-{table}", f"{index} of {len(self.tables[table])}, in {of}")
            return b"" if table == "string" else {}
        return self.tables[table][index]

    def check(self):
        for name in TABLES:
            if not self.tables[name] or self.tables[name][0]:
                self.say(f"otlp-zero-{name}", f"{self.tables[name][:1]}")
        if not self.request.get("resource_profiles"):
            self.say("otlp-resource", "there is none")
        for resource in self.request.get("resource_profiles", []):
            self.check_resource(resource)
        self.check_tables()
        for name in TABLES:
            unused = set(range(len(self.tables[name]))) - self.used[name]
            if unused:
                self.say(f"otlp-orphan-{name}", f"{sorted(unused)[:5]}")
            rows = [json.dumps(row, sort_keys=True, default=repr) for row in self.tables[name]]
            double = [row for row, count in collections.Counter(rows).items() if count > 1]
            if double:
                self.say(f"otlp-twice-{name}", f"{double[0]}")

    def check_resource(self, resource):
        if "resource" not in resource or not resource.get("scope_profiles"):
            self.say("otlp-resource", f"{set(resource)}: a receiver dereferences it")
        names = [pair.get("key", b"") for pair in resource.get("resource", {}).get("attributes", [])]
        if b"service.name" not in names:
            self.say("otlp-service-name", f"{names}")
        if len(set(names)) < len(names) or b"" in names:
            self.say("otlp-resource-key", f"{names}")
        for pair in resource.get("resource", {}).get("attributes", []):
            self.check_value(pair.get("value", {}))
        for scope in resource.get("scope_profiles", []):
            if not scope.get("scope", {}).get("name"):
                self.say("otlp-scope", "Parca calls the metric by its name")
            if not scope.get("profiles"):
                self.say("otlp-profiles", "there is none")
            for profile in scope.get("profiles", []):
                self.check_profile(profile)

    def timeless(self, profile):
        """True: it may have no duration."""
        return False

    def check_value(self, value):
        if set(value) != {"string_value"}:
            self.say("otlp-value", f"{value} is no string")
        self.check_utf8(value.get("string_value", b""))

    def check_utf8(self, text):
        try:
            text.decode()
        except UnicodeDecodeError:
            self.say("otlp-utf-8", f"{text!r}")

    def check_type(self, profile, field):
        value = profile.get(field, {})
        texts = [self.at("string", value.get(f"{part}_strindex", 0), field) for part in ("type", "unit")]
        if not all(texts):
            self.say(f"otlp-{field.replace('_', '-')}", f"{texts}")

    def check_attributes(self, indices, of):
        keys = [self.at("string", self.at("attribute", index, of).get("key_strindex", 0), of) for index in indices]
        if len(set(keys)) < len(keys):
            self.say("otlp-attribute-twice", f"{keys}")
        return keys

    def check_profile(self, profile):
        self.check_type(profile, "sample_type")
        self.check_type(profile, "period_type")
        if profile.get("period", 0) <= 0:
            self.say("otlp-period", f"{profile.get('period')}: Pyroscope names the series by it")
        if not profile.get("time_unix_nano") or (profile.get("duration_nano", 0) > 0) == self.timeless(profile):
            self.say("otlp-time", f"{profile.get('time_unix_nano')} for {profile.get('duration_nano')} ns")
        if len(profile.get("profile_id", b"")) != 16:
            self.say("otlp-profile-id", f"{profile.get('profile_id')}")
        if not profile.get("samples"):
            self.say("otlp-samples", "there is none")
        self.check_attributes(profile.get("attribute_indices", []), "profile")
        for sample in profile.get("samples", []):
            if len(sample.get("values", [])) != 1 or sample["values"][0] <= 0:
                self.say("otlp-values", f"{sample.get('values')}: one, and of something")
            if not self.at("stack", sample.get("stack_index", 0), "sample").get("location_indices"):
                self.say("otlp-stack", "a sample without a stack")
            self.at("link", sample.get("link_index", 0), "sample")
            self.check_attributes(sample.get("attribute_indices", []), "sample")

    def check_tables(self):
        for stack in self.tables["stack"]:
            for index in stack.get("location_indices", []):
                if not index or not self.at("location", index, "stack"):
                    self.say("otlp-location", "a stack with location 0")
        for location in self.tables["location"][1:]:
            self.check_location(location)
        for function in self.tables["function"][1:]:
            texts = [self.at("string", function.get(f"{part}_strindex", 0), "function") for part in ("name", "system_name", "filename")]
            if not texts[0]:
                self.say("otlp-function-name", "there is none")
        for mapping in self.tables["mapping"][1:]:
            self.check_mapping(mapping)
        for link in self.tables["link"][1:]:
            if len(link.get("trace_id", b"")) != 16 or len(link.get("span_id", b"")) != 8:
                self.say("otlp-link", f"{link}")
        for attribute in self.tables["attribute"][1:]:
            if not self.at("string", attribute.get("key_strindex", 0), "attribute"):
                self.say("otlp-attribute-key", f"{attribute}")
            self.check_value(attribute.get("value", {}))
        for text in self.tables["string"]:
            self.check_utf8(text)

    def check_location(self, location):
        mapping, address, lines = location.get("mapping_index", 0), location.get("address", 0), location.get("lines", [])
        self.at("mapping", mapping, "location")
        if not lines and not address:
            self.say("otlp-location-empty", "neither address nor line")
        if address and not mapping:
            self.say("otlp-location-mapping", f"{address:#x} in no mapping")
        if self.named and not lines:
            self.say("otlp-named", f"{address:#x} has no line")
        for line in lines:
            if not line.get("function_index", 0):
                self.say("otlp-line-function", "a line of no function")
            self.at("function", line.get("function_index", 0), "line")

    def check_mapping(self, mapping):
        if any(mapping.get(field, 0) for field in ("memory_start", "memory_limit", "file_offset")):
            self.say("otlp-mapping", "addresses are ELF addresses")
        self.at("string", mapping.get("filename_strindex", 0), "mapping")
        keys = self.check_attributes(mapping.get("attribute_indices", []), "mapping")
        values = [self.at("attribute", index, "mapping").get("value", {}).get("string_value", b"")
                  for index, key in zip(mapping.get("attribute_indices", []), keys) if key == BUILD_ID]
        if len(values) != 1 or not re.fullmatch(rb"(?:[0-9a-f]{2})+", values[0]):
            self.say("otlp-build-id", f"{keys} {values}")


@checked
def check_otlp(say, wrong, head, body, now, named=False):
    values = headers_of(head, say, r"POST /(\S+/)?v1development/profiles HTTP/1\.1", "application/x-protobuf", "otlp")
    try:
        if values.get("content-encoding", "identity") not in ("gzip", "identity"):
            say("otlp-encoding", values["content-encoding"])
        Otlp(decode("Export", gzip.decompress(body) if values.get("content-encoding") == "gzip" else body), named, say).check()
    except (Malformed, OSError, EOFError, zlib.error) as error:
        say("otlp-decode", repr(error))


class ParcaOtlp(Otlp):
    """A type with a duration is `:delta`, so an amount has none."""

    def timeless(self, profile):
        return self.tables["string"][profile["sample_type"]["type_strindex"]].decode() in LEVELS


@checked
def check_export(say, wrong, head, body, now, named=False):
    """OTLP by gRPC, as Parca takes it; body: the message."""
    headers_of(head, say, r"POST /(\S+/)?opentelemetry\.proto\.collector\.profiles\.v1development\.ProfilesService/Export HTTP/2", "application/grpc", "otlp")
    try:
        ParcaOtlp(decode("Export", body), named, say).check()
    except (Malformed, KeyError, IndexError) as error:
        say("otlp-decode", repr(error))


# ---- Datadog ----

DATADOG = {"cpu-samples/count", "cpu/nanoseconds", "wall/nanoseconds", "off-cpu-samples/count", "off-cpu-time/nanoseconds", "lock-count/count",
           "lock-time/nanoseconds", "alloc-samples/count", "alloc-size/bytes", "inuse-objects/count", "inuse-space/bytes", "exception/count"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")
TAG = re.compile(r"[^:,]+:[^,]+")


class DatadogProfile(Profile):
    """A pprof with names of its own, whose ids of spans are numbers."""

    def check_types(self):
        for type_ in self.types():
            if type_ not in DATADOG:
                self.say("datadog-type", type_)
        if self.pair(self.p.get("period_type", {})) != "RealTime/Nanoseconds":
            self.say("datadog-period", f"{self.p.get('period_type')}")

    def check_labels(self, labels):
        keys = [self.text(label.get("key", 0)) for label in labels]
        if len(set(keys)) < len(keys) or "" in keys:
            self.say("datadog-label", f"{keys}")
        for key, label in zip(keys, labels):
            if (key in ("span id", "local root span id")) == bool(label.get("str", 0)):
                self.say("datadog-span", f"{key} is {'text' if label.get('str', 0) else 'a number'}")

    def check_time(self):
        pass


def parts_of(body, boundary):
    """[(name, file name, type, content)] of a multipart body, read strictly."""
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary)
    if pieces[0] or pieces[-1] != b"--\r\n":
        raise Malformed(f"multipart: {pieces[0][:20]!r} {pieces[-1][:20]!r}")
    parts = []
    for piece in pieces[1:-1]:
        head, _, content = piece.partition(b"\r\n\r\n")
        found = re.fullmatch(rb'\r\nContent-Disposition: form-data; name="([^"]+)"; filename="([^"]+)"\r\nContent-Type: (\S+)', head)
        if not found:
            raise Malformed(f"part: {head!r}")
        parts.append((found[1].decode(), found[2].decode(), found[3].decode(), content))
    return parts


def datadog_event(event, parts, say):
    if event.get("version") != "4" or not event.get("family"):
        say("datadog-version", f"{event.get('version')} of {event.get('family')}")
    if event.get("attachments") != [name for name, _, _, _ in parts[1:]] or not event.get("attachments"):
        say("datadog-attachments", f"{event.get('attachments')}")
    if not TIME.fullmatch(event.get("start", "")) or not TIME.fullmatch(event.get("end", "")) or event["start"] >= event["end"]:
        say("datadog-time", f"{event.get('start')} {event.get('end')}")
    tags = event.get("tags_profiler", "").split(",")
    keys = {tag.split(":")[0] for tag in tags}
    if not all(TAG.fullmatch(tag) for tag in tags) or not {"service", "language", "profiler_version"} <= keys:
        say("datadog-tags", f"{tags}")


@checked
def check_datadog(say, wrong, head, body, now, named=False):
    line = r"POST /(\S+/)?(profiling/v1/input|api/v2/profile) HTTP/1\.1"
    values = headers_of(head, say, line, r"multipart/form-data; boundary=\S+", "datadog")
    try:
        parts = parts_of(body, values.get("content-type", "").partition("boundary=")[2].encode())
        if not parts or parts[0][:3] != ("event", "event.json", "application/json"):
            say("datadog-event", f"{parts[0][:3] if parts else 'nothing'}")
        datadog_event(json.loads(parts[0][3]), parts, say)
        for _, _, _, content in parts[1:]:
            if content[:2] != b"\x1f\x8b":
                say("datadog-compressed", f"{content[:4]!r}")
            DatadogProfile(inflated(content), now, named, wrong).check()
    except (Malformed, ValueError, IndexError) as error:
        say("datadog-shape", repr(error))
