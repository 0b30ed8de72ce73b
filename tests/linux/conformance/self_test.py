"""Every rule can fail: a sound push with one thing broken is reported by that rule, and by no other."""
import copy
import sys

from proto import encode
import rules

NOW = 1_700_000_000
STRINGS = [b"", b"samples", b"count", b"cpu", b"nanoseconds", b"main", b"/bin/a", b"00ff", b"step", b"one", b"thread", b"span_id", b"0" * 16,
           b"trace_id", b"1" * 32, b"a-b", b"pprof::x", b"/lib/b"]
HEAD = ("POST /x/push.v1.PusherService/Push HTTP/1.1", [("Host", "h:1"), ("User-Agent", "edgeprof/0.1.0"), ("Content-Type", "application/proto")])


def profile():
    return {
        "sample_type": [{"type": 1, "unit": 2}, {"type": 3, "unit": 4}],
        "sample": [{"location_id": [1, 2], "value": [1, 10], "label": [{"key": 8, "str": 9}, {"key": 11, "str": 12}, {"key": 13, "str": 14}]},
                   {"location_id": [2, 3], "value": [0, 5]}],
        "mapping": [{"id": 1, "filename": 6, "build_id": 7}, {"id": 2, "filename": 17}],
        "location": [{"id": 1, "mapping_id": 1, "address": 4096}, {"id": 2, "mapping_id": 1, "address": 4100}, {"id": 3, "line": [{"function_id": 1}]}],
        "function": [{"id": 1, "name": 5, "system_name": 5}],
        "string_table": list(STRINGS),
        "time_nanos": NOW * 10**9, "duration_nanos": 10**9, "period_type": {"type": 3, "unit": 4}, "period": 100, "default_sample_type": 3,
    }


def labels():
    return [[b"__name__", b"process_cpu"], [b"service_name", b"s"], [b"__delta__", b"false"], [b"spy_name", b"e"], [b"zone", b"a"]]


class Push:
    """A push, to be broken in one place."""

    def __init__(self):
        self.p, self.labels, self.head, self.series, self.raw, self.body, self.length = profile(), labels(), copy.deepcopy(HEAD), None, None, None, None

    def check(self, named=False):
        raw = self.raw if self.raw is not None else encode("Profile", self.p)
        series = {"labels": [{"name": name, "value": value} for name, value in self.labels], "samples": [{"raw_profile": raw}]}
        series.update(self.series or {})
        body = self.body if self.body is not None else encode("PushRequest", {"series": [series]})
        line, headers = self.head
        length = [("Content-Length", self.length or str(len(body)))]
        return {rule for rule, _ in rules.check_push((line, headers + length), body, NOW, named)}


def named(push):
    for location in push.p["location"][:2]:
        location["line"] = [{"function_id": 1}]


def deep(push):
    push.p["sample"][0]["location_id"] = [1] * 1001


def many_samples(push):
    push.p["sample"] = [push.p["sample"][1]] * 16001


def large(push):
    push.p["string_table"] += [b"x" * 60000] * 40


def many_labels(push):
    push.p["string_table"] += [b"k%d" % i for i in range(101)]
    push.p["sample"][0]["label"] = [{"key": len(STRINGS) + i, "str": 9} for i in range(101)]
    push.labels = labels()


def no_header(name):
    def breaks(push):
        push.head = (push.head[0], [header for header in push.head[1] if header[0] != name])
    return breaks


def label(name, value):
    def breaks(push):
        push.labels = [pair for pair in push.labels if pair[0] != name] + ([[name, value]] if value is not None else [])
    return breaks


def place(at, path, value):
    """Sets at[path[0]][path[1]]...; None removes it."""
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value


def put(path, value):
    """In the profile."""
    return lambda push: place(push.p, path, value)


def attribute(name, value):
    return lambda push: setattr(push, name, value)


# rule -> ways to break it, and nothing else
BREAKS = {
    "http-line": [attribute("head", ("POST /ingest HTTP/1.1", HEAD[1])), attribute("head", ("PUT /push.v1.PusherService/Push HTTP/1.1", HEAD[1]))],
    "http-type": [no_header("Content-Type"), lambda p: p.head[1].append(("Content-Type", "application/proto"))],
    "http-agent": [no_header("User-Agent")],
    "http-host": [no_header("Host")],
    "http-length": [attribute("length", "7")],
    "http-plain": [lambda p: p.head[1].append(("Expect", "100-continue")), lambda p: p.head[1].append(("Transfer-Encoding", "chunked"))],
    "push": [attribute("body", b"\x0a\x7f"), attribute("body", b"\x12\x00"), attribute("raw", b"\x0a"), attribute("raw", b"\x82\x01\x00")],
    "push-series": [attribute("body", b"")],
    "series-name": [label(b"__name__", None), label(b"__name__", b"delay")],
    "series-types": [label(b"__name__", b"memory"), put(("period_type",), {"type": 1, "unit": 2})],
    "series-service-name": [label(b"service_name", None), label(b"service_name", b"")],
    "series-delta": [label(b"__delta__", None), label(b"__delta__", b"true")],
    "series-spy-name": [label(b"spy_name", None)],
    "series-label-twice": [lambda p: p.labels.append([b"zone", b"b"])],
    "series-label-name": [label(b"9zone", b"a"), label(b"a.b", b"a"), label(b"", b"a")],
    "series-label-length": [label(b"zone", b"x" * 2049), label(b"z" * 1025, b"x")],
    "series-label-count": [lambda p: p.labels.extend([b"l%d" % i, b"v"] for i in range(25))],
    "series-samples": [attribute("series", {"samples": []}),
                       attribute("series", {"samples": [{"raw_profile": encode("Profile", profile())}] * 2})],
    "label-utf-8": [label(b"zone", b"\xff")],
    "string-0": [put(("string_table", 0), b"x"), lambda p: p.p["string_table"].__setitem__(0, b" ")],
    "utf-8": [put(("string_table", 5), b"ma\xc3"), put(("string_table", 17), b"\xed\xa0\x80")],
    "string-reference": [put(("mapping", 0, "filename"), 99), put(("sample", 0, "label", 0, "str"), -1), put(("function", 0, "system_name"), 18)],
    "mapping-ids": [put(("mapping", 1, "id"), 3), put(("mapping", 1, "id"), 1)],
    "location-ids": [put(("location", 2, "id"), 4), put(("location", 0, "id"), 2)],
    "function-ids": [put(("function", 0, "id"), 2)],
    "type-name": [put(("sample_type", 0, "type"), 15)],
    "type-unit": [put(("sample_type", 0, "unit"), 0)],
    "period-type": [put(("period_type",), None)],
    "period": [put(("period",), None), put(("period",), -1)],
    "default-type": [put(("default_sample_type",), 5)],
    "mapping-normalized": [put(("mapping", 0, "memory_start"), 4096), put(("mapping", 0, "memory_limit"), 8192), put(("mapping", 1, "file_offset"), 1)],
    "build-id": [put(("mapping", 0, "build_id"), 6), put(("mapping", 0, "build_id"), 2)],
    "has-functions": [put(("mapping", 0, "has_functions"), 1)],
    "mapping-reference": [put(("location", 0, "mapping_id"), 3)],
    "location-empty": [put(("location", 0, "address"), None), put(("location", 2, "line"), [])],
    "location-mapping": [put(("location", 0, "mapping_id"), None)],
    "mapping-mixed": [put(("location", 0, "line"), [{"function_id": 1}])],
    "function-reference": [put(("location", 2, "line"), [{"function_id": 2}]), put(("location", 2, "line"), [{}])],
    "function-name": [put(("function", 0, "name"), 0)],
    "value-count": [put(("sample", 0, "value"), [1]), put(("sample", 0, "value"), [1, 2, 3])],
    "value-negative": [put(("sample", 0, "value"), [1, -1])],
    "value-zero": [put(("sample", 0, "value"), [0, 0])],
    "stack-empty": [put(("sample", 0, "location_id"), [])],
    "location-reference": [put(("sample", 0, "location_id"), [1, 4]), put(("sample", 0, "location_id"), [0])],
    "label-key": [put(("sample", 0, "label", 0, "key"), 15), put(("sample", 0, "label", 0, "key"), 16), put(("sample", 0, "label", 0, "key"), 0)],
    "label-number": [put(("sample", 0, "label", 0, "num"), 7)],
    "label-empty": [put(("sample", 0, "label", 0, "str"), 0)],
    "label-id": [put(("sample", 0, "label", 1, "str"), 14), put(("sample", 0, "label", 2, "str"), 5)],
    "label-twice": [put(("sample", 0, "label", 1), {"key": 8, "str": 10})],
    "time": [put(("time_nanos",), (NOW - 3700) * 10**9), put(("time_nanos",), (NOW + 700) * 10**9), put(("time_nanos",), 1)],
    "duration": [put(("duration_nanos",), None)],
    "limit-string": [lambda p: p.p["string_table"].append(b"x" * 65536)],
    "limit-samples": [many_samples],
    "limit-depth": [deep],
    "limit-bytes": [large],
}


def main():
    failed, count = [], 0
    if Push().check():
        failed.append(f"a sound push is not: {Push().check()}")
    for rule, breaks in BREAKS.items():
        for number, broken in enumerate(breaks):
            push = Push()
            broken(push)
            found = push.check()
            count += 1
            if found != {rule}:
                failed.append(f"{rule}, way {number}: reported are {sorted(found) or 'no rules'}")
    push = Push()
    many_labels(push)
    if "limit-labels" not in push.check():
        failed.append("limit-labels")
    push = Push()
    push.p["sample_type"] = []
    if "sample-type" not in push.check():
        failed.append("sample-type")
    push = Push()
    if push.check(named=True) != {"named"}:
        failed.append("named: a location without a line")
    named(push)
    if push.check(named=True):
        failed.append(f"names are no fault: {push.check(named=True)}")
    for line in failed:
        print(f"self_test: {line}", file=sys.stderr)
    print(f"self_test: {len(BREAKS) + 3} rules, {count + 3} broken pushes, {len(failed)} not reported as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
