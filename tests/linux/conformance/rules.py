"""What pprof's readers (google/pprof, Parca's normalizer, Pyroscope's validation) and Pyroscope's push API demand, as rules with a
name each. Every consumer's strictest word counts, so what passes here is taken by all of them.

check_push(head, body, now, named, relayed) -> [(rule, what is wrong)]"""
import gzip
import re
import zlib

from proto import Malformed, decode

HOUR, MINUTE = 3600, 60
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# What the server takes of one profile, as it comes out of the box (grafana/pyroscope pkg/validation/limits.go).
SAMPLES_MOST, BYTES_MOST, DEPTH_MOST, STRING_MOST, SAMPLE_LABELS_MOST = 16000, 2_000_000, 1000, 65535, 100
SERIES_LABELS_MOST, LABEL_NAME_MOST, LABEL_VALUE_MOST = 30, 1024, 2048
# __name__: sample types and period type that its users know; ids are __name__:type:unit:period type:period unit.
FAMILIES = {
    "process_cpu": (["samples/count", "cpu/nanoseconds"], "cpu/nanoseconds"),
    "memory": (["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"], "space/bytes"),
    "mutex": (["contentions/count", "delay/nanoseconds"], "contentions/count"),
    "block": (["contentions/count", "delay/nanoseconds"], "contentions/count"),
    "exception": (["exception/count"], "cpu/nanoseconds"),
    "gc": (["pauses/count", "pause/nanoseconds"], "pause/nanoseconds"),
    "goroutine": (["goroutine/count"], "goroutine/count"),
    "gc_heap": (["heap_size/bytes"], "space/bytes"),
    "write": (["writes/count", "written/bytes"], "space/bytes"),
    "sync": (["syncs/count", "sync_time/nanoseconds"], "sync_time/nanoseconds"),
}


# What comes over the relay besides, whose pprofs may have some of the types only.
RELAYED = {**FAMILIES, "wall": (["wall/nanoseconds"], "cpu/nanoseconds")}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def inflated(data):
    """Readers take pprof raw or as gzip."""
    try:
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise Malformed(f"gzip: {error}") from error


class Profile:
    """One pprof on its way through the rules."""

    def __init__(self, data, now, named, wrong):
        data = inflated(data)
        self.say, self.now, self.named, self.size = lambda rule, what: wrong.append((rule, what)), now, named, len(data)
        self.p = decode("Profile", data)
        self.strings = self.p.get("string_table", [])

    def rows(self, name):
        return self.p.get(name, [])

    def text(self, number):
        return self.strings[number].decode("utf-8", "replace") if 0 <= number < len(self.strings) else "beyond"

    def pair(self, value):
        return f"{self.text(value.get('type', 0))}/{self.text(value.get('unit', 0))}"

    def types(self):
        return [self.pair(value) for value in self.rows("sample_type")]

    # ---- tables ----

    def check_strings(self):
        if not self.strings or self.strings[0]:
            self.say("string-0", f"string_table[0] is {self.strings[:1]}")
        for string in self.strings:
            try:
                string.decode()
            except UnicodeDecodeError:
                self.say("utf-8", f"{string!r}")
            if len(string) > STRING_MOST:
                self.say("limit-string", f"{len(string)} bytes")
        beyond = [number for number in self.references() if not 0 <= number < len(self.strings)]
        if beyond:
            self.say("string-reference", f"{beyond[0]} of {len(self.strings)}")

    def references(self):
        for value in [*self.rows("sample_type"), self.p.get("period_type", {})]:
            yield from (value.get("type", 0), value.get("unit", 0))
        for sample in self.rows("sample"):
            for label in sample.get("label", []):
                yield from (label.get("key", 0), label.get("str", 0), label.get("num_unit", 0))
        for mapping in self.rows("mapping"):
            yield from (mapping.get("filename", 0), mapping.get("build_id", 0))
        for function in self.rows("function"):
            yield from (function.get("name", 0), function.get("system_name", 0), function.get("filename", 0))
        yield from (self.p.get("default_sample_type", 0), self.p.get("drop_frames", 0), self.p.get("keep_frames", 0))
        yield from self.rows("comment")

    def check_ids(self):
        for table in ("mapping", "location", "function"):
            ids = [row.get("id", 0) for row in self.rows(table)]
            if ids != list(range(1, len(ids) + 1)):
                self.say(f"{table}-ids", f"ids are not 1..{len(ids)} in table order")

    def check_types(self):
        types = self.types()
        if not types:
            self.say("sample-type", "there is none")
        for type_ in types:
            name, unit = type_.split("/", 1)
            if not LABEL.fullmatch(name):
                self.say("type-name", f"{name!r}")
            if not unit:
                self.say("type-unit", f"{name} has none")
        period = self.p.get("period_type")
        if period is None or not self.text(period.get("type", 0)) or not self.text(period.get("unit", 0)):
            self.say("period-type", "there is none")
        if self.p.get("period", 0) <= 0:
            self.say("period", f"{self.p.get('period', 0)}")
        default = self.text(self.p.get("default_sample_type", 0))
        if default and default not in [type_.split("/")[0] for type_ in types]:
            self.say("default-type", f"{default}")

    def check_mappings(self):
        for mapping in self.rows("mapping"):
            if any(mapping.get(field, 0) for field in ("memory_start", "memory_limit", "file_offset")):
                self.say("mapping-normalized", "addresses are ELF addresses, so a mapping is at 0")
            if mapping.get("build_id") and not re.fullmatch(r"(?:[0-9a-f]{2})+", self.text(mapping["build_id"])):
                self.say("build-id", self.text(mapping["build_id"]))

    def check_locations(self):
        mappings, functions = len(self.rows("mapping")), len(self.rows("function"))
        lined = {}
        for location in self.rows("location"):
            lines, mapping, address = location.get("line", []), location.get("mapping_id", 0), location.get("address", 0)
            if not 0 <= mapping <= mappings:
                self.say("mapping-reference", f"{mapping} of {mappings}")
            if not lines and not address:
                self.say("location-empty", "neither address nor line: every sample with it is dropped")
            if address and not mapping:
                self.say("location-mapping", "an address in no mapping")
            if self.named and not lines:
                self.say("named", f"address {address:#x} of mapping {mapping} has no line")
            for line in lines:
                if not 1 <= line.get("function_id", 0) <= functions:
                    self.say("function-reference", f"{line.get('function_id', 0)} of {functions}")
            if mapping:
                lined.setdefault(mapping, set()).add(bool(lines))
        if any(len(both) > 1 for both in lined.values()) and not self.named:
            self.say("mapping-mixed", "frames with and without names in one mapping")
        for mapping in self.rows("mapping"):
            if mapping.get("has_functions", 0) and lined.get(mapping.get("id", 0)) != {True}:
                self.say("has-functions", "the server would forget addresses that have no name")
        for function in self.rows("function"):
            if not self.text(function.get("name", 0)):
                self.say("function-name", f"function {function.get('id', 0)} has none")

    # ---- samples ----

    def check_samples(self):
        types, locations = len(self.rows("sample_type")), len(self.rows("location"))
        for sample in self.rows("sample"):
            values, stack = sample.get("value", []), sample.get("location_id", [])
            if len(values) != types:
                self.say("value-count", f"{len(values)} values of {types} types")
            if any(value < 0 for value in values):
                self.say("value-negative", f"{values}")
            if not any(values):
                self.say("value-zero", "a sample of nothing")
            if not stack:
                self.say("stack-empty", "a sample without a location")
            if any(not 1 <= number <= locations for number in stack):
                self.say("location-reference", f"{stack} of {locations}")
            if len(stack) > DEPTH_MOST:
                self.say("limit-depth", f"{len(stack)} frames")
            self.check_labels(sample.get("label", []))
        if len(self.rows("sample")) > SAMPLES_MOST:
            self.say("limit-samples", f"{len(self.rows('sample'))}")

    def check_labels(self, labels):
        keys = [self.text(label.get("key", 0)) for label in labels]
        for key, label in zip(keys, labels):
            if not LABEL.fullmatch(key) or key.startswith("pprof::"):
                self.say("label-key", f"{key!r}")
            if "num" in label or "num_unit" in label:
                self.say("label-number", f"{key} is a number, which servers drop")
            if not self.text(label.get("str", 0)):
                self.say("label-empty", key)
            wanted = {"span_id": 16, "trace_id": 32}.get(key)
            if wanted and not re.fullmatch(f"[0-9a-f]{{{wanted}}}", self.text(label.get("str", 0))):
                self.say("label-id", f"{key}={self.text(label.get('str', 0))}")
        if len(set(keys)) < len(keys):
            self.say("label-twice", f"{keys}")
        if len(labels) > SAMPLE_LABELS_MOST:
            self.say("limit-labels", f"{len(labels)}")

    def check_time(self):
        time = self.p.get("time_nanos", 0) / 1e9
        if time and not self.now - HOUR <= time <= self.now + 10 * MINUTE:
            self.say("time", f"{time - self.now:+.0f} s from now")
        if self.p.get("duration_nanos", 0) <= 0:
            self.say("duration", f"{self.p.get('duration_nanos', 0)}")
        if self.size > BYTES_MOST:
            self.say("limit-bytes", f"{self.size}")

    def check(self):
        for part in (self.check_strings, self.check_ids, self.check_types, self.check_mappings, self.check_locations,
                     self.check_samples, self.check_time):
            part()

    def label_keys(self):
        return {self.text(label.get("key", 0)) for sample in self.rows("sample") for label in sample.get("label", [])}


def check_pprof(data, now, named=False):
    wrong = []
    try:
        Profile(data, now, named, wrong).check()
    except Malformed as error:
        wrong.append(("pprof", str(error)))
    return wrong


def check_series_labels(series, say):
    labels = []
    for pair in series.get("labels", []):
        try:
            labels.append((pair.get("name", b"").decode(), pair.get("value", b"").decode()))
        except UnicodeDecodeError:
            say("label-utf-8", f"{pair}")
    names, values = [name for name, _ in labels], dict(labels)
    if len(values) < len(names):
        say("series-label-twice", f"{names}")
    for name, value in labels:
        if not LABEL.fullmatch(name):
            say("series-label-name", f"{name!r}")
        if len(name) > LABEL_NAME_MOST or len(value) > LABEL_VALUE_MOST:
            say("series-label-length", f"{len(name)} and {len(value)} characters")
    for name, wanted in (("service_name", r".+"), ("__delta__", "false"), ("spy_name", r".+")):
        if not re.fullmatch(wanted, values.get(name, "")):
            say("series-" + name.strip("_").replace("_", "-"), f"{values.get(name)!r}")
    return values


def types_fit(types, family, relayed):
    return types == family or (relayed and types == [type_ for type_ in family if type_ in types] and types)


def check_series(series, now, named, relayed, say, wrong):
    values = check_series_labels(series, say)
    family = (RELAYED if relayed else FAMILIES).get(values.get("__name__"))
    if not family:
        say("series-name", f"{values.get('__name__')!r} is none that the user interface knows")
    if len(series.get("samples", [])) != 1:
        say("series-samples", f"{len(series.get('samples', []))} profiles")
    for sample in series.get("samples", []):
        found = len(wrong)
        profile = Profile(sample.get("raw_profile", b""), now, named, wrong)
        profile.check()
        sound = not {rule for rule, _ in wrong[found:]} & ABOUT_TYPES
        if "ID" in sample and not UUID.fullmatch(sample["ID"].decode("ascii", "replace")):
            say("sample-id", f"{sample['ID']} is no UUID")
        if family and sound and not (types_fit(profile.types(), family[0], relayed) and profile.pair(profile.p["period_type"]) == family[1]):
            say("series-types", f"{values['__name__']} with {profile.types()}")
        keys = set(values) | profile.label_keys() - {"span_id", "trace_id"}
        if len(keys) > SERIES_LABELS_MOST:
            say("series-label-count", f"{len(keys)}")


# A profile that breaks one of these has no types to compare.
ABOUT_TYPES = {"sample-type", "type-name", "type-unit", "period-type", "string-0", "string-reference"}

HEAD = {"content-type": (re.compile(r"application/proto"), "http-type"), "user-agent": (re.compile(r"edgeprof/\S+"), "http-agent"),
        "host": (re.compile(r"\S+"), "http-host")}


def check_head(head, body, say):
    """The request's head: its first line and [(name, value)]."""
    line, headers = head
    if not re.fullmatch(r"POST (/\S*)?/push\.v1\.PusherService/Push HTTP/1\.1", line):
        say("http-line", line)
    names = [name.lower() for name, _ in headers]
    values = {name.lower(): value for name, value in headers}
    for name, (wanted, rule) in HEAD.items():
        if names.count(name) != 1 or not wanted.fullmatch(values[name]):
            say(rule, f"{name}: {values.get(name)}")
    if names.count("content-length") != 1 or values["content-length"] != str(len(body)):
        say("http-length", f"{values.get('content-length')} for {len(body)} bytes")
    if {"expect", "transfer-encoding", "content-encoding"} & set(names):
        say("http-plain", f"{names}")


def check_push(head, body, now, named=False, relayed=False):
    wrong = []

    def say(rule, what):
        wrong.append((rule, what))

    check_head(head, body, say)
    try:
        request = decode("PushRequest", body)
        if not request.get("series"):
            say("push-series", "there is none")
        for series in request.get("series", []):
            check_series(series, now, named, relayed, say, wrong)
    except Malformed as error:
        say("push", str(error))
    return wrong
