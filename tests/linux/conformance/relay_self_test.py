"""Every rule of relay_rules.py can fail: a sound message with one thing broken is reported by that rule, and by no other."""
import base64
import copy
import gzip
import json
import sys

from proto import encode
import relay_rules
import rules
from self_test import HEAD, NOW, STRINGS, Push, place, profile


def gz(data):
    return gzip.compress(data, mtime=0)


def put(path, value):
    return lambda message: place(message, path, value)


def append(path, value):
    def breaks(message):
        at = message
        for step in path:
            at = at[step]
        at.append(value)
    return breaks


# ---- Parca ----

def parca():
    labels = [{"name": "__name__", "value": "process_cpu"}, {"name": "service_name", "value": "s"}]
    return {"line": "POST /api/profiles/writeraw HTTP/1.1", "type": "application/json", "profile": profile(), "body": None,
            "json": {"series": [{"labels": {"labels": labels}, "samples": [{}]}], "normalized": True}}


def check_parca(message, named=False):
    request = message["json"]
    if request.get("series") and request["series"][0].get("samples") == [{}]:
        request["series"][0]["samples"] = [{"rawProfile": base64.b64encode(gz(encode("Profile", message["profile"]))).decode()}]
    body = message["body"] if message["body"] is not None else json.dumps(request).encode()
    return relay_rules.check_writeraw((message["line"], [("Content-Type", message["type"])]), body, NOW, named)


SERIES, LABELS = ("json", "series", 0), ("json", "series", 0, "labels", "labels")
PARCA = {
    "parca-line": [put(("line",), "POST /api/profiles/writearrow HTTP/1.1")],
    "parca-content-type": [put(("type",), "text/plain")],
    "parca-json": [put(("body",), b"{"), put(("body",), b"[]"), put(SERIES + ("samples",), [{"rawProfile": "a"}]),
                   put(SERIES + ("samples",), [{"rawProfile": base64.b64encode(b"\x1f\x8bx").decode()}])],
    "parca-normalized": [put(("json", "normalized"), False), put(("json", "normalized"), None)],
    "parca-request": [put(("json", "more"), 1), put(("json", "series"), [])],
    "parca-labels": [put(SERIES + ("labels",), None), put(SERIES + ("labels",), []), put(SERIES + ("labels", "labels"), None)],
    "parca-label-twice": [append(LABELS, {"name": "service_name", "value": "t"})],
    "parca-label": [append(LABELS, {"name": "a.b", "value": "t"}), append(LABELS, {"name": "b", "value": ""})],
    "parca-name": [lambda m: m["json"]["series"][0]["labels"]["labels"].pop(0)],
    "parca-samples": [put(SERIES + ("samples",), []), put(SERIES + ("samples",), [{"rawProfile": "", "executableInfo": []}])],
    "parca-delta": [put(("profile", "duration_nanos"), None), put(("profile", "string_table", 3), b"inuse_space")],
    "parca-time": [put(("profile", "time_nanos"), None)],
    "string-0": [put(("profile", "string_table", 0), b"x")],
    "location-ids": [put(("profile", "location", 2, "id"), 4)],
    "mapping-ids": [put(("profile", "mapping", 1, "id"), 3)],
    "function-ids": [put(("profile", "function", 0, "id"), 2)],
    "value-count": [put(("profile", "sample", 0, "value"), [1])],
    "type-name": [put(("profile", "sample_type", 0, "type"), 15)],
}


# ---- OTLP ----

def otlp():
    strings = [b"", b"cpu", b"nanoseconds", b"main", b"/bin/a", b"process.executable.build_id.gnu", b"step", b"main.c"]
    attributes = [{}, {"key_strindex": 5, "value": {"string_value": b"00ff"}}, {"key_strindex": 6, "value": {"string_value": b"one"}}]
    dictionary = {
        "mapping_table": [{}, {"filename_strindex": 4, "attribute_indices": [1]}],
        "location_table": [{}, {"mapping_index": 1, "address": 4096}, {"lines": [{"function_index": 1, "line": 5}]}],
        "function_table": [{}, {"name_strindex": 3, "system_name_strindex": 3, "filename_strindex": 7}],
        "link_table": [{}, {"trace_id": b"t" * 16, "span_id": b"s" * 8}], "string_table": strings, "attribute_table": attributes,
        "stack_table": [{}, {"location_indices": [1, 2]}, {"location_indices": [2]}]}
    one = {"sample_type": {"type_strindex": 1, "unit_strindex": 2}, "period_type": {"type_strindex": 1, "unit_strindex": 2}, "period": 10,
           "time_unix_nano": NOW * 10**9, "duration_nano": 10**9, "profile_id": b"i" * 16,
           "samples": [{"stack_index": 1, "attribute_indices": [2], "link_index": 1, "values": [5]}, {"stack_index": 2, "values": [7]}]}
    resource = {"resource": {"attributes": [{"key": b"service.name", "value": {"string_value": b"s"}}]},
                "scope_profiles": [{"scope": {"name": b"edgeprof"}, "profiles": [one]}]}
    return {"line": "POST /v1development/profiles HTTP/1.1", "type": "application/x-protobuf", "encoding": "gzip", "body": None,
            "request": {"resource_profiles": [resource], "dictionary": dictionary}}


def check_otlp(message, named=False):
    body = message["body"] if message["body"] is not None else gz(encode("Export", message["request"]))
    head = (message["line"], [("Content-Type", message["type"]), ("Content-Encoding", message["encoding"])])
    return relay_rules.check_otlp(head, body, NOW, named)


RESOURCE = ("request", "resource_profiles", 0)
SCOPE = RESOURCE + ("scope_profiles", 0)
PROFILE = SCOPE + ("profiles", 0)
TABLE = ("request", "dictionary")


def table(name, *path):
    return TABLE + (name + "_table",) + path


OTLP = {
    "otlp-line": [put(("line",), "POST /v1/profiles HTTP/1.1")],
    "otlp-content-type": [put(("type",), "application/proto")],
    "otlp-encoding": [lambda m: m.update(encoding="zstd", body=encode("Export", m["request"]))],
    "otlp-decode": [put(("body",), b"x"), put(("body",), gz(b"\x0a\x7f")), put(("body",), gz(b"\x1a\x00"))],
    "otlp-service-name": [put(RESOURCE + ("resource", "attributes", 0, "key"), b"name")],
    "otlp-resource-key": [append(RESOURCE + ("resource", "attributes"), {"key": b"service.name", "value": {"string_value": b"t"}}),
                          append(RESOURCE + ("resource", "attributes"), {"value": {"string_value": b"t"}})],
    "otlp-value": [append(RESOURCE + ("resource", "attributes"), {"key": b"pid", "value": {"int_value": 5}}),
                   put(table("attribute", 2, "value"), {"int_value": 7})],
    "otlp-utf-8": [put(RESOURCE + ("resource", "attributes", 0, "value"), {"string_value": b"\xff"}), put(table("string", 3), b"ma\xc3")],
    "otlp-scope": [put(SCOPE + ("scope",), None), put(SCOPE + ("scope",), {"version": b"1"})],
    "otlp-profiles": [append(RESOURCE + ("scope_profiles",), {"scope": {"name": b"n"}, "profiles": []})],
    "otlp-sample-type": [put(PROFILE + ("sample_type",), None), put(PROFILE + ("sample_type", "unit_strindex"), None)],
    "otlp-period-type": [put(PROFILE + ("period_type",), None), put(PROFILE + ("period_type", "type_strindex"), None)],
    "otlp-period": [put(PROFILE + ("period",), None)],
    "otlp-time": [put(PROFILE + ("time_unix_nano",), None), put(PROFILE + ("duration_nano",), None)],
    "otlp-profile-id": [put(PROFILE + ("profile_id",), None), put(PROFILE + ("profile_id",), b"1")],
    "otlp-samples": [append(SCOPE + ("profiles",), {**otlp()["request"]["resource_profiles"][0]["scope_profiles"][0]["profiles"][0], "samples": []})],
    "otlp-values": [put(PROFILE + ("samples", 0, "values"), []), put(PROFILE + ("samples", 0, "values"), [1, 2]),
                    put(PROFILE + ("samples", 0, "values"), [0]), put(PROFILE + ("samples", 0, "values"), [-1])],
    "otlp-stack": [append(PROFILE + ("samples",), {"values": [3]})],
    "otlp-location": [put(table("stack", 1, "location_indices"), [1, 0, 2])],
    "otlp-location-empty": [put(table("location", 1), {"mapping_index": 1})],
    "otlp-location-mapping": [lambda m: m["request"]["dictionary"]["location_table"].append({"address": 5}) or
                              m["request"]["dictionary"]["stack_table"][1]["location_indices"].append(3)],
    "otlp-line-function": [append(table("location", 2, "lines"), {"line": 5})],
    "otlp-function-name": [put(table("function", 1), {"system_name_strindex": 3, "filename_strindex": 7})],
    "otlp-mapping": [put(table("mapping", 1, "memory_start"), 5), put(table("mapping", 1, "memory_limit"), 5), put(table("mapping", 1, "file_offset"), 5)],
    "otlp-build-id": [put(table("attribute", 1, "value"), {"string_value": b"GNU"}), put(table("string", 5), b"build_id")],
    "otlp-link": [put(table("link", 1, "trace_id"), b"t" * 15), put(table("link", 1, "span_id"), b"")],
    "otlp-attribute-key": [put(table("attribute", 2, "key_strindex"), None)],
    "otlp-attribute-twice": [lambda m: m["request"]["dictionary"]["attribute_table"].append({"key_strindex": 6, "value": {"string_value": b"two"}}) or
                             m["request"]["resource_profiles"][0]["scope_profiles"][0]["profiles"][0]["samples"][0]["attribute_indices"].append(3)],
    **{f"otlp-zero-{name}": [] for name in relay_rules.TABLES},
    **{f"otlp-orphan-{name}": [] for name in relay_rules.TABLES},
    **{f"otlp-twice-{name}": [] for name in relay_rules.TABLES},
    "otlp-reference-stack": [append(PROFILE + ("samples",), {"stack_index": 9, "values": [3]})],
    "otlp-reference-link": [put(PROFILE + ("samples", 1, "link_index"), 9)],
    "otlp-reference-attribute": [append(PROFILE + ("samples", 0, "attribute_indices"), 9)],
    "otlp-reference-location": [append(table("stack", 1, "location_indices"), 9)],
    "otlp-reference-function": [append(table("location", 2, "lines"), {"function_index": 9})],
    "otlp-reference-mapping": [append(table("location"), {"mapping_index": 9, "address": 8})],
    "otlp-reference-string": [put(table("function", 1, "system_name_strindex"), 99)],
}
# What breaks with these breaks something else, too: reported it has to be all the same.
TOGETHER = {
    "otlp-resource": [put(("request", "resource_profiles"), []), put(RESOURCE + ("resource",), None), put(RESOURCE + ("scope_profiles",), [])],
    "otlp-reference-location": OTLP.pop("otlp-reference-location"), "otlp-reference-attribute": OTLP.pop("otlp-reference-attribute"),
    "otlp-reference-stack": OTLP.pop("otlp-reference-stack"), "otlp-reference-mapping": OTLP.pop("otlp-reference-mapping"),
    "otlp-attribute-key": OTLP.pop("otlp-attribute-key"),
}
NEW = {"mapping": {"filename_strindex": 4, "attribute_indices": [1], "memory_start": 0}, "location": {"mapping_index": 1, "address": 9},
       "function": {"name_strindex": 3}, "link": {"trace_id": b"u" * 16, "span_id": b"v" * 8}, "string": b"nobody's",
       "attribute": {"key_strindex": 6, "value": {"string_value": b"nobody's"}}, "stack": {"location_indices": [1]}}
for name in relay_rules.TABLES:
    TOGETHER[f"otlp-zero-{name}"] = [put(table(name, 0), copy.deepcopy(NEW[name]))]
    OTLP.pop(f"otlp-zero-{name}")
    OTLP[f"otlp-orphan-{name}"] = [append(table(name), copy.deepcopy(NEW[name]))]
    TOGETHER[f"otlp-twice-{name}"] = [lambda m, rows=name + "_table": m["request"]["dictionary"][rows].append(m["request"]["dictionary"][rows][1])]
    OTLP.pop(f"otlp-twice-{name}")
# A mapping that is new has to have a build id of its own.
OTLP["otlp-orphan-mapping"] = [append(table("mapping"), {"filename_strindex": 3, "attribute_indices": [1]})]


# ---- Datadog ----

def datadog_profile():
    p = profile()
    p["string_table"] += [b"cpu-samples", b"RealTime", b"Nanoseconds", b"span id", b"thread name"]
    first = len(STRINGS)
    p.update(sample_type=[{"type": first, "unit": 2}, {"type": 3, "unit": 4}], period_type={"type": first + 1, "unit": first + 2}, default_sample_type=0)
    p["sample"][0]["label"] = [{"key": first + 3, "num": 77}, {"key": first + 4, "str": 9}]
    return p


def datadog():
    event = {"attachments": ["profile.pprof"], "tags_profiler": "service:s,language:dotnet,profiler_version:1", "start": "2026-01-01T00:00:00.000000000Z",
             "end": "2026-01-01T00:00:10.000000001Z", "family": "dotnet", "version": "4"}
    return {"line": "POST /profiling/v1/input HTTP/1.1", "type": "multipart/form-data; boundary=bb", "profile": datadog_profile(), "event": event,
            "names": ["event", "profile.pprof"], "files": ["event.json", "profile.pprof"], "packed": True, "end": b"\r\n--bb--\r\n", "extra": []}


def check_datadog(message, named=False):
    raw = encode("Profile", message["profile"])
    contents = [json.dumps(message["event"]).encode(), gz(raw) if message["packed"] else raw, *message["extra"]]
    types = ["application/json", "application/octet-stream", "text/plain"]
    parts = [b'--bb\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\nContent-Type: %s\r\n\r\n%s' % (name.encode(), file.encode(), type_.encode(), content)
             for name, file, type_, content in zip(message["names"], message["files"], types, contents)]
    return relay_rules.check_datadog((message["line"], [("Content-Type", message["type"])]), b"\r\n".join(parts) + message["end"], NOW, named)


DATADOG = {
    "datadog-line": [put(("line",), "POST /v1/input HTTP/1.1")],
    "datadog-content-type": [put(("type",), "multipart/mixed; boundary=bb")],
    "datadog-shape": [put(("end",), b""), put(("end",), b"\r\n--bb\r\n")],
    "datadog-event": [put(("names", 0), "events"), put(("files", 0), "event")],
    "datadog-version": [put(("event", "version"), "3"), put(("event", "family"), "")],
    "datadog-attachments": [put(("event", "attachments"), ["auto.pprof"]), put(("event", "attachments"), None)],
    "datadog-time": [put(("event", "start"), "2026-01-01T00:00:00Z"), put(("event", "end"), "2025-01-01T00:00:00.000000000Z")],
    "datadog-tags": [put(("event", "tags_profiler"), "service:s,language:x"), put(("event", "tags_profiler"), "service:s,language:dotnet,profiler_version:1,x")],
    "datadog-compressed": [put(("packed",), False)],
    "datadog-type": [put(("profile", "string_table", len(STRINGS)), b"samples_")],
    "datadog-period": [put(("profile", "period_type", "unit"), 4), put(("profile", "period_type"), None)],
    "datadog-label": [put(("profile", "sample", 0, "label", 1), {"key": 0, "str": 9}),
                      append(("profile", "sample", 0, "label"), {"key": len(STRINGS) + 4, "str": 8})],
    "datadog-span": [put(("profile", "sample", 0, "label", 0), {"key": len(STRINGS) + 3, "str": 9}),
                     put(("profile", "sample", 0, "label", 1), {"key": len(STRINGS) + 4, "num": 9})],
    "location-ids": [put(("profile", "location", 2, "id"), 4)],
    "value-zero": [put(("profile", "sample", 0, "value"), [0, 0])],
}


def rules_of(check, message):
    return {rule for rule, _ in check(message)}


def try_all(what, make, check, breaks, alone, failed):
    count = 0
    if check(make()):
        failed.append(f"{what}: a sound message is not: {check(make())}")
    for rule, ways in breaks.items():
        for number, broken in enumerate(ways):
            message = make()
            broken(message)
            found = rules_of(check, message)
            count += 1
            if found != {rule} if alone else rule not in found:
                failed.append(f"{what}: {rule}, way {number}: reported are {sorted(found) or 'no rules'}")
    return count


def relayed_push(failed):
    """What differs in a push that comes over the relay."""
    push = Push()
    push.p["sample_type"], push.p["default_sample_type"] = push.p["sample_type"][1:], 3
    for sample in push.p["sample"]:
        sample["value"] = sample["value"][1:]

    def check(sample_id=b"01234567-89ab-8def-8123-456789abcdef", relayed=True):
        series = {"labels": [{"name": name, "value": value} for name, value in push.labels],
                  "samples": [{"raw_profile": gz(encode("Profile", push.p)), "ID": sample_id}]}
        body = encode("PushRequest", {"series": [series]})
        return {rule for rule, _ in rules.check_push((HEAD[0], HEAD[1] + [("Content-Length", str(len(body)))]), body, NOW, relayed=relayed)}
    for found, wanted in ((check(), set()), (check(relayed=False), {"series-types"}), (check(sample_id=b"1"), {"sample-id"}),
                          (check(sample_id=b"01234567-89ab-9def-8123-456789abcdeg"), {"sample-id"})):
        if found != wanted:
            failed.append(f"relayed push: {found} instead of {wanted}")
    return 4


def main():
    failed, count = [], relayed_push([])
    relayed_push(failed)
    count += try_all("parca", parca, check_parca, PARCA, True, failed)
    count += try_all("otlp", otlp, check_otlp, OTLP, True, failed)
    count += try_all("otlp", otlp, check_otlp, TOGETHER, False, failed)
    count += try_all("datadog", datadog, check_datadog, DATADOG, True, failed)
    for check, make in ((check_otlp, otlp), (check_parca, parca), (check_datadog, datadog)):
        if {rule for rule, _ in check(make(), named=True)} != {"otlp-named" if check is check_otlp else "named"}:
            failed.append(f"{make.__name__}: named: {check(make(), named=True)}")
    for line in failed:
        print(f"relay_self_test: {line}", file=sys.stderr)
    known = set(PARCA) | set(OTLP) | set(TOGETHER) | set(DATADOG)
    print(f"relay_self_test: {len(known) + 3} rules, {count + 3} broken messages, {len(failed)} not reported as they should be")
    return 1 if failed else 0


sys.exit(main())
