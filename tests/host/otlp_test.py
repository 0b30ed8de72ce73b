"""The server accepts OTLP profiles of collectors and agents, and refuses what breaks profcheck's rules with one line."""
import base64
import gzip
import json
import pathlib
import random
import time

import pytest

import generate
import proto
from generate import mutations
from harness import wait_until

SECOND = 10**9
NOW = int(time.time() - 100) * SECOND
PATH = "/v1development/profiles"
PROTO, JSON = {"Content-Type": "application/x-protobuf"}, {"Content-Type": "application/json"}
TRACE, SPAN = bytes(range(16)), b"\xab\xcd\xef" + bytes(4) + b"\x01"
# What senders use and ours do not.
proto.MESSAGES["OSample"][5] = ("timestamps_unix_nano", proto.fixed64, True)
proto.MESSAGES["OAny"][8] = ("string_value_strindex", int, False)
proto.MESSAGES["OKeyValue"][3] = ("key_strindex", int, False)
proto.MESSAGES["OScope"][3] = ("attributes", "OKeyValue", True)
WIDE = {"values", "time_unix_nano", "duration_nano", "period", "address", "memory_start", "memory_limit", "file_offset", "line", "column",
        "start_line", "timestamps_unix_nano", "int_value"}


def text(key, value):
    return {"key": key.encode(), "value": {"string_value": value.encode()}}


def strings(*more):
    return [b"", b"cpu", b"nanoseconds", b"main", b"work", b"/bin/app", b"process.executable.build_id.gnu", b"thread.name", b"worker",
            b"samples", b"count", b"thread.id", b"step", b"ms", *more]


def types(sample=(1, 2), period=(1, 2)):
    return {"sample_type": {"type_strindex": sample[0], "unit_strindex": sample[1]},
            **({"period_type": {"type_strindex": period[0], "unit_strindex": period[1]}} if period else {})}


def profile(*samples, sample=(1, 2), period=(1, 2), **more):
    return {**types(sample, period), "samples": list(samples), "time_unix_nano": NOW, "duration_nano": SECOND, "period": 10_000_000, **more}


def request(*profiles, resource=None, scope=None, **tables):
    """main;work is stack 1, main;app+0x1010 stack 2, with a link and attributes for samples to use."""
    dictionary = {
        "mapping_table": [{}, {"memory_start": 0x400000, "memory_limit": 0x500000, "file_offset": 0x1000, "filename_strindex": 5, "attribute_indices": [1]}],
        "location_table": [{}, {"lines": [{"function_index": 1, "line": 7}]}, {"lines": [{"function_index": 2}]}, {"mapping_index": 1, "address": 0x400010}],
        "function_table": [{}, {"name_strindex": 3}, {"name_strindex": 4, "filename_strindex": 5}],
        "link_table": [{}, {"trace_id": TRACE, "span_id": SPAN}], "string_table": strings(),
        "attribute_table": [{}, {"key_strindex": 6, "value": {"string_value": b"00ff"}}, {"key_strindex": 7, "value": {"string_value": b"worker"}},
                            {"key_strindex": 11, "value": {"int_value": 42}}, {"key_strindex": 12, "value": {"int_value": 5}, "unit_strindex": 13}],
        "stack_table": [{}, {"location_indices": [2, 1]}, {"location_indices": [3, 1]}], **tables}
    return {"resource_profiles": [{"resource": {"attributes": [text("service.name", "svc")] if resource is None else resource},
                                   "scope_profiles": [{"scope": scope or {"name": b"test"}, "profiles": list(profiles)}]}], "dictionary": dictionary}


def one(value=500, **more):
    return profile({"stack_index": 1, "values": [value]}, **more)


def as_json(message, hex_ids=True):
    """protobuf's JSON mapping, with OTLP's hexadecimal ids or base64."""
    def put(name, value):
        if isinstance(value, dict):
            return members(value)
        if isinstance(value, list):
            return [put(name, item) for item in value]
        if isinstance(value, bytes) and name in ("trace_id", "span_id", "profile_id"):
            return value.hex() if hex_ids else base64.b64encode(value).decode()
        return value.decode() if isinstance(value, bytes) else str(value) if name in WIDE else bool(value) if name == "bool_value" else value

    def members(value):
        words = {name: name.split("_") for name in value}
        return {words[name][0] + "".join(word.title() for word in words[name][1:]): put(name, item) for name, item in value.items()}
    return json.dumps(members(message)).encode()


def binary(message):
    return proto.encode("Export", message)


@pytest.fixture
def server(shared_server):
    yield shared_server
    assert shared_server.process.poll() is None, shared_server.stderr()


def send(server, message):
    status, answer = server.request("POST", PATH, binary(message), PROTO)
    assert (status, answer) == (200, b""), answer


def named(name, *profiles, **more):
    return request(*profiles, resource=[text("service.name", name)], **more)


def test_attributes_do_not_imitate_the_service(server):
    """A '=' in a key is stored as '_'. The same for resources and stacks."""
    attributes = [text(key, "bank") for key in ("service=name", "service_name", "spy_name", "_=type__")]
    send(server, request(one(), resource=[text("service.name", "imitated"), *attributes, text("zone", "a")]))
    row = next(row for row in server.get("/api/services", **{"tags-of": "imitated"})[1]["services"] if row["service"] == "imitated")
    assert row["tags"] == [{"zone": "a"}]


def tree(answer, path=()):
    """{names from the root: value} of the leaves."""
    found = {}

    def walk(node, path):
        for child in node.get("children", []):
            walk(child, (*path, child["name"]))
        if node["self"]:
            found[path] = node["self"]
    walk(answer["tree"], path)
    return found


def test_every_form(server):
    """Protobuf and JSON, with both forms of ids, raw and gzip: the same profile."""
    sample = {"stack_index": 1, "values": [30], "link_index": 1, "attribute_indices": [2, 3, 4]}
    message = request(profile(sample, {"stack_index": 2, "values": [12]}), resource=[text("service.name", "forms"), text("zone", "a"), text("__own__", "x")],
                      scope={"name": b"n", "attributes": [{"key": b"level", "value": {"bool_value": 1}}]})
    sent = 0
    for body, headers, empty in ((binary(message), PROTO, b""), (binary(message), {"Content-Type": "application/protobuf"}, b""),
                                 (as_json(message), JSON, b"{}"), (as_json(message, hex_ids=False), JSON, b"{}")):
        for form, more in ((body, {}), (gzip.compress(body), {"Content-Encoding": "gzip"})):
            assert server.request("POST", PATH, form, {**headers, **more}) == (200, empty), f"{headers} {more}"
            sent += 1
            assert server.total("forms") == 42 * sent
    for label, wanted in (("span_id=" + SPAN.hex(), 30), ("trace_id=" + TRACE.hex(), 30), ("thread=worker", 30), ("thread.id=42", 30), ("step=5 ms", 30),
                          ("zone=a", 42), ("level=true", 42), ("zone=b", 0)):
        assert server.total("forms", label=label) == wanted * sent, label
    answer = server.get("/api/profile", service="forms")[1]
    assert (answer["from"], answer["to"], answer["period"]) == (NOW / SECOND, NOW / SECOND + 1, 10_000_000)
    assert tree(answer) == {("main", "work"): 30 * sent, ("main", "app+0x1010"): 12 * sent}, "the ELF address: from the mapping's range"


def test_types(server):
    """Profiles of one interval with a type each are one profile again; types are known by Pyroscope's names for OTLP, and others stay."""
    table = {"string_table": strings(b"contentions", b"delay", b"block", b"mutex", b"alloc_objects", b"alloc_space", b"bytes", b"space", b"off_cpu", b"odd")}
    send(server, named("types", one(70, sample=(1, 2)), one(7, sample=(9, 10)), **table))
    assert (server.total("types"), server.total("types", value="count")) == (70, 7), "CPU time and its samples, not twice the time"
    send(server, named("sampled", one(7, sample=(9, 10)), **table))
    assert server.total("sampled") == 70_000_000, "samples alone are worth their period"
    send(server, named("waits", one(3, sample=(14, 10), period=(16, 10)), one(30, sample=(15, 2), period=(16, 10)),
                       one(5, sample=(14, 10), period=(17, 10)), one(50, sample=(15, 2), period=(17, 10)),
                       one(9, sample=(18, 10), period=(21, 20)), one(900, sample=(19, 20), period=(21, 20)), **table))
    for kind, value, count in (("wait", 30, 3), ("lock", 50, 5), ("alloc", 900, 9)):
        assert (server.total("waits", kind=kind), server.total("waits", kind=kind, value="count")) == (value, count), kind
    several = {"timestamps_unix_nano": [NOW, NOW + 5, NOW + SECOND]}
    send(server, named("events", profile({"stack_index": 1, **several}, sample=(9, 10)), **table))
    assert server.total("events") == 30_000_000, "each timestamp is an event"
    send(server, named("off", profile({"stack_index": 1, "values": [1, 2, 4], **several}, sample=(22, 2), period=None, period_=0), **table))
    assert server.total("off", kind="off_cpu") == 7, "values of several events add up"
    send(server, named("twice", one(1), one(2), profile(*[{"stack_index": 1, "values": [4]}] * 3)))
    assert server.total("twice") == 15, "equal types and equal samples"
    send(server, named("none", profile(), one(0)))
    assert server.total("none") in (None, 0), "nothing is no error"


def test_services(server):
    """service.name of a sample is its service; without any, the executable names it, as Pyroscope does."""
    table = {"string_table": strings(b"service.name", b"mine", b"zone", b"b"),
             "attribute_table": [{}, {"key_strindex": 14, "value": {"string_value_strindex": 15}}]}
    samples = [{"stack_index": 1, "values": [3]}, {"stack_index": 1, "values": [4], "attribute_indices": [1]}]
    send(server, request(profile(*samples), resource=[text("service.name", "theirs"), {"key_strindex": 16, "value": {"string_value_strindex": 17}}], **table))
    assert (server.total("theirs"), server.total("mine"), server.total("mine", tag="zone=b")) == (3, 4, 4), "keys and values by index as well"
    send(server, request(one(5), resource=[text("process.executable.name", "exe")]))
    assert server.total("unknown_service:exe") == 5
    send(server, request(one(6), resource=[]))
    assert server.total("unknown_service") >= 6
    many = {"string_table": strings(b"service.name", *(f"many-{i}".encode() for i in range(150))),
            "attribute_table": [{}, *({"key_strindex": 14, "value": {"string_value_strindex": 15 + i}} for i in range(150))]}
    send(server, request(profile(*({"stack_index": 1, "values": [1 + i], "attribute_indices": [1 + i]} for i in [*range(150), *range(150)])), **many))
    assert [server.total(f"many-{i}") for i in (0, 77, 149)] == [2, 156, 300], "more services than are converted at once"


def shifted(message):
    """The same without the element "none" at the begin of each table but that of texts, which index 0 then does not mean."""
    def down(value, name=""):
        if isinstance(value, dict):
            return {key: down(item, key) for key, item in value.items()}
        if isinstance(value, list):
            value = value[1:] if name.endswith("_table") and name != "string_table" else value
            return [down(item, name) for item in value]
        return value - 1 if name in ("mapping_index", "function_index", "stack_index", "link_index", "location_indices", "attribute_indices") else value
    return down(message)


def test_real_elements_at_index_0(server):
    """The schema wants "none" there; agents in the field put a stack, a mapping, an attribute there."""
    samples = [{"stack_index": 1, "values": [30], "link_index": 1, "attribute_indices": [1, 2]},
               {"stack_index": 2, "values": [12], "link_index": 1, "attribute_indices": [2]}]
    message = request(profile(*samples), resource=[text("service.name", "real")],
                      attribute_table=[{}, {"key_strindex": 7, "value": {"string_value": b"worker"}}, {"key_strindex": 6, "value": {"string_value": b"00ff"}}],
                      location_table=[{}, {"mapping_index": 1, "lines": [{"function_index": 1, "line": 7}]}, {"mapping_index": 1, "lines": [{"function_index": 2}]},
                                      {"mapping_index": 1, "address": 0x400010}])
    trees = []
    for name, sent in (("usual", message), ("real", shifted(message))):
        sent["resource_profiles"][0]["resource"]["attributes"] = [text("service.name", name)]
        send(server, sent)
        trees.append(tree(server.get("/api/profile", service=name)[1]))
        for label, wanted in (("span_id=" + SPAN.hex(), 42), ("thread=worker", 30)):
            assert server.total(name, label=label) == wanted, (name, label)
    assert trees[0] == trees[1] == {("main", "work"): 30, ("main", "app+0x1010"): 12}


@pytest.mark.parametrize("start", (NOW, NOW + 3 * SECOND, 2_300_000_000, 315_532_800 * SECOND, 0), ids=("now", "later", "1970", "1980", "none"))
def test_times_of_samples_and_of_their_profile_differ(server, start):
    """The profile grows by what is outside; if its clock was not set, it has the samples' times. 1970, 1980."""
    name = f"outside-{start}"
    stamps = [NOW - 30_000_000, NOW + SECOND + 30_000_000]
    send(server, named(name, profile({"stack_index": 1, "values": [3, 4], "timestamps_unix_nano": stamps}, time_unix_nano=start)))
    answer = server.get("/api/profile", service=name)[1]
    assert answer["total"] == 7
    assert answer["from"] == pytest.approx(NOW / SECOND - 0.03, abs=0.001)
    assert answer["to"] == pytest.approx(max(NOW / SECOND + 1.03, NOW / SECOND + 4 if start > NOW else 0), abs=0.001)


@pytest.mark.parametrize("start", (0, 2_300_000_000, 315_532_800 * SECOND, NOW + 20 * 365 * 86400 * SECOND), ids=("none", "1970", "1980", "2046"))
def test_a_date_of_no_clock_is_that_of_the_arrival(server, start):
    """1970, 1980, and twenty years from now."""
    name = f"arrived-{start}"
    send(server, named(name, one(5, time_unix_nano=start)))
    assert abs(server.get("/api/profile", service=name)[1]["to"] - time.time()) < 3600


def test_a_duration_that_ends_in_the_future_is_none(server):
    send(server, named("long", one(5, duration_nano=20 * 365 * 86400 * SECOND)))
    answer = server.get("/api/profile", service="long")[1]
    assert (answer["total"], answer["from"]) == (5, NOW / SECOND) and answer["to"] <= time.time()


def bare(**changes):
    """A sample that uses element 1 of each table."""
    sample = {"stack_index": 1, "link_index": 1, "attribute_indices": [1], "values": [500]}
    return named("refused", profile(sample), **{"stack_table": [{}, {"location_indices": [3, 2, 1]}], **changes})


def sampled(**changes):
    return named("refused", profile({"stack_index": 1, "values": [5], **changes}))


RULES = {
    "dictionary is missing": {"resource_profiles": request(one())["resource_profiles"]},
    "resource_profiles is empty": {"dictionary": request(one())["dictionary"]},
    "string_table[0]: element 0 must be the empty string": bare(string_table=strings()[1:]),
    "string_table[0]: element 0": bare(string_table=[]),
    "mapping_table[1]: filename_strindex 99 is not in string_table, which has 14": bare(mapping_table=[{}, {"filename_strindex": 99}]),
    "mapping_table[1]: memory_start must be below": bare(mapping_table=[{}, {"memory_start": 5, "memory_limit": 5}]),
    "mapping_table[1]: attribute_indices 9 is not in attribute_table": bare(mapping_table=[{}, {"attribute_indices": [9]}]),
    "location_table[1]: mapping_index 4 is not in mapping_table": bare(location_table=[{}, {"mapping_index": 4}, {}, {}]),
    "location_table[1]: function_index -1 is not in function_table": bare(location_table=[{}, {"lines": [{"function_index": -1}]}, {}, {}]),
    "location_table[1]: line and column must not": bare(location_table=[{}, {"lines": [{"function_index": 1, "line": -1}]}, {}, {}]),
    "function_table[1]: name_strindex": bare(function_table=[{}, {"name_strindex": 14}, {}]),
    "function_table[2]: system_name_strindex": bare(function_table=[{}, {}, {"system_name_strindex": 14}]),
    "function_table[2]: filename_strindex": bare(function_table=[{}, {}, {"filename_strindex": 14}]),
    "function_table[1]: start_line": bare(function_table=[{}, {"start_line": -1}, {}]),
    "link_table[1]: trace_id must have 16 bytes": bare(link_table=[{}, {"trace_id": b"x" * 15, "span_id": SPAN}]),
    "link_table[1]: span_id must have 8 bytes": bare(link_table=[{}, {"trace_id": TRACE}]),
    "attribute_table[1]: key_strindex": bare(attribute_table=[{}, {"key_strindex": 77}, {}, {}, {}]),
    "attribute_table[1]: unit_strindex": bare(attribute_table=[{}, {"unit_strindex": 77}, {}, {}, {}]),
    "attribute_table[1]: string_value_strindex": bare(attribute_table=[{}, {"value": {"string_value_strindex": 77}}, {}, {}, {}]),
    "stack_table[1]: location_indices 4 is not in location_table": bare(stack_table=[{}, {"location_indices": [4]}, {}]),
    "stack_table[1]: location_indices need": bare(location_table=[]),
    "profiles[0]: sample_type is missing": named("refused", {"samples": [{"values": [1]}]}),
    "profiles[0]: type_strindex": named("refused", one(sample=(88, 2))),
    "profiles[0]: unit_strindex": named("refused", one(period=(1, 88))),
    "profiles[0]: attribute_indices": named("refused", one(attribute_indices=[8])),
    "profiles[0]: time_unix_nano or duration_nano is out of range": named("refused", one(time_unix_nano=1 << 63)),
    "samples[0]: stack_index 3 is not in stack_table": sampled(stack_index=3),
    "samples[0]: stack_index -1": sampled(stack_index=-1),
    "samples[0]: link_index 2": sampled(link_index=2),
    "samples[0]: attribute_indices 5": sampled(attribute_indices=[5]),
    "samples[0]: a sample without timestamps must have one value": sampled(values=[1, 2]),
    "samples[0]: a sample without timestamps must": sampled(values=[]),
    "samples[0]: values must not be negative": sampled(values=[-1]),
    "samples[0]: values and timestamps_unix_nano must have the same length": sampled(values=[1, 2], timestamps_unix_nano=[NOW]),
    "resource.attributes[0]: key_strindex": request(one(), resource=[{"key_strindex": 99}]),
    "scope.attributes[0]: string_value_strindex": request(one(), scope={"attributes": [{"key": b"a", "value": {"string_value_strindex": -5}}]}),
    "values are too large": named("refused", profile(*[{"stack_index": 1, "values": [1 << 62]}] * 2)),
}


def refused(server, body, headers, status=400):
    got, answer = server.request("POST", PATH, body, headers)
    assert got == status, answer
    assert answer.count(b"\n") == 1 and answer.endswith(b"\n"), f"one line: {answer}"
    return answer.decode()


@pytest.mark.parametrize("rule", RULES)
def test_rules(server, rule):
    """What breaks one is refused, with one line that names it, in both encodings."""
    for body, headers in ((binary(RULES[rule]), PROTO), (as_json(RULES[rule], hex_ids=False), JSON)):
        assert rule in refused(server, body, headers)
    assert server.total("refused") in (0, None)


def test_other_refusals(server):
    good = request(one(), resource=[text("service.name", "refused")])
    assert "OTLP" in refused(server, b"", PROTO), "nothing"
    assert "ExportProfilesServiceRequest" in refused(server, b"\x0a\xff", PROTO)
    for body in (b"", b"[]", b"{", b"\xff", as_json(good)[:-2], as_json(good).replace(b'"500"', b"[]", 1), as_json(good).replace(b'"500"', b'"5x"', 1),
                 as_json(good).replace(b'"stringValue"', b'"intValue": 5, "stringValue"', 1), b'{"resourceProfiles":' * 100):
        assert refused(server, body, JSON), body
    assert "gzip" in refused(server, gzip.compress(binary(good))[:-9], {**PROTO, "Content-Encoding": "gzip"})
    assert refused(server, binary(good), {**PROTO, "Content-Encoding": "br"}, 415)
    for type_ in ("application/grpc", "text/plain"):
        assert "application/x-protobuf or application/json" in refused(server, binary(good), {"Content-Type": type_}, 415)
    assert refused(server, gzip.compress(bytes(40 << 20)), {**PROTO, "Content-Encoding": "gzip"}, 413)
    deep = request(*[one()], stack_table=[{}, {"location_indices": [1] * 60000}], resource=[text("service.name", "refused")])
    deep["resource_profiles"][0]["scope_profiles"][0]["profiles"] = [
        profile(*({"stack_index": 1, "values": [1], "attribute_indices": [i % 4] * (i // 4)} for i in range(2000)))]
    assert "as pprof" in refused(server, binary(deep), PROTO, 413), "a small request of large stacks"
    assert server.total("refused") in (0, None)


def test_hostile(server):
    """Changed bytes are taken or refused, and the server lives."""
    sample = {"stack_index": 1, "values": [30], "link_index": 1, "attribute_indices": [2, 3, 4]}
    message = request(profile(sample, {"stack_index": 2, "values": [12]}, {"stack_index": 2, "timestamps_unix_nano": [NOW]}))
    for body, headers in ((binary(message), PROTO), (as_json(message), JSON)):
        for changed in mutations(body, random.Random(7), 300, 3):
            status, answer = server.request("POST", PATH, changed, headers)
            assert status in (200, 400, 413, 429), answer
        for size in range(0, len(body), 11):
            assert server.request("POST", PATH, body[:size], headers)[0] in (200, 400)
    nest = b""
    while len(nest) < 1 << 18:
        nest = proto.put_bytes(5, proto.put_bytes(1, nest))
    attribute = proto.put_bytes(1, b"deep") + proto.put_bytes(2, nest)
    body = proto.put_bytes(1, proto.put_bytes(1, proto.put_bytes(1, attribute))) + proto.put_bytes(2, proto.put_bytes(5, b""))
    assert server.request("POST", PATH, body, PROTO) == (200, b""), "a value of lists in lists is left out"


def test_token(start_server, tmp_path):
    (tmp_path / "tokens").write_text("write token-to-write-0123456789\nread token-to-read-0123456789\n")
    server = start_server("--token-file", str(tmp_path / "tokens"))
    for token, wanted in ((None, 401), ("wrong", 401), ("token-to-read-0123456789", 403), ("token-to-write-0123456789", 200)):
        headers = {**PROTO, **({"Authorization": f"Bearer {token}"} if token else {})}
        assert server.request("POST", PATH, binary(request(one())), headers)[0] == wanted, token


def test_relayed(start_server, edgeprof, tmp_path):
    """A server that passes on by OTLP to another: that one has the same kinds, figures, stacks, threads, spans and tags."""
    to = start_server(db=str(tmp_path / "to.db"))
    (tmp_path / "relay.conf").write_text(f"[relay up]\nto = otlp\nurl = {to.url}\n")
    server = start_server("--config", str(tmp_path / "relay.conf"), db=str(tmp_path / "from.db"))
    kinds = {1: "cpu", 2: "wait", 3: "lock", 4: "alloc", 5: "live", 6: "exception", 7: "gc", 8: "thread", 9: "heap", 10: "write", 11: "sync"}
    for kind in kinds:
        assert server.push(generate.message(
            kind, 0, origin=generate.origin(service="device"), modules=[generate.module(4096, 4096, 0, b"\1" * 20, "/bin/app")],
            nodes=generate.nodes([0, 1], [4100, 4200]), profiles=[generate.profile([(1, 0, 12, 1), (2, 1, 30, 5)], quantum=1, start=SECOND, kind=kind)],
            contexts=[generate.context(1, span=7, thread="worker")], tag_sets=[generate.tag_set(1, step="pricing")],
            unix_minus_uptime=int((time.time() - 10) * SECOND))) == 200
    assert wait_until(lambda: server.get("/api/relays")[1]["relays"][0]["waiting"] == 0), server.stderr()
    for number_, kind in kinds.items():
        for query in ({}, {"value": "count"}, {"label": "thread=worker"}, {"label": "step=pricing"}, {"label": "span_id=0000000000000007"}):
            wanted = server.total("device", kind=kind, **query)
            assert wanted and to.total("device", kind=kind, **query) == wanted, f"{kind} {query}"
        assert tree(to.get("/api/profile", service="device", kind=kind)[1]) == tree(server.get("/api/profile", service="device", kind=kind)[1]), kind
    services = {row["kind"] for row in to.get("/api/services")[1]["services"]}
    assert services == {row["kind"] for row in server.get("/api/services")[1]["services"]}


def test_recorded(server):
    """The canary's two requests, as sent."""
    recorded = json.loads((pathlib.Path(__file__).parent / "recorded/pyroscope-canary.json").read_text())["requests"]
    uploads = [one_ for one_ in recorded if one_["path"] == PATH]
    assert len(uploads) == 2
    for upload in uploads:
        assert server.request("POST", PATH, base64.b64decode(upload["body_b64"]), upload["headers"])[0] == 200
    kind = next(row["kind"] for row in server.get("/api/services")[1]["services"] if row["service"] == "pyroscope-canary-exporter")
    answer = server.get("/api/profile", service="pyroscope-canary-exporter", kind=kind)[1]
    assert tree(answer) == {("func1",): 40, ("func1", "func2"): 20}


# ---- earlier layouts ----

SAMPLE_1_9 = {1: ("stack_index", int, False), 2: ("values", int, True), 3: ("attribute_indices", int, True), 4: ("link_index", int, False),
              5: ("timestamps_unix_nano", proto.fixed64, True)}
PROFILE_1_8 = {1: ("sample_type", "OValueType", False), 2: ("samples", "OSample", True), 3: ("time_unix_nano", proto.fixed64, False),
               4: ("duration_nano", int, False), 5: ("period_type", "OValueType", False), 6: ("period", int, False), 7: ("comment_strindices", int, True),
               8: ("profile_id", bytes, False), 9: ("dropped_attributes_count", int, False), 12: ("attribute_indices", int, True)}
PROFILE_1_7 = {1: ("sample_type", "OValueType", True), 2: ("samples", "OSample", True), 3: ("location_indices", int, True), 4: ("time_nanos", int, False),
               5: ("duration_nanos", int, False), 6: ("period_type", "OValueType", False), 7: ("period", int, False)}
LAYOUTS = {"1.8": {"OSample": SAMPLE_1_9, "OProfile": PROFILE_1_8}, "1.9": {"OSample": SAMPLE_1_9}, "1.10": {}, "1.11": {}}
OLD_SAMPLES = ({"values": [52631578]}, {"values": [52631578], "attribute_indices": [2]}, {"values": [4], "link_index": 1},
               {"values": [3, 4], "attribute_indices": [2, 3], "timestamps_unix_nano": [NOW, NOW + 5]},
               {"values": [1], "attribute_indices": [2], "timestamps_unix_nano": [NOW + 5]}, {"values": [700], "timestamps_unix_nano": [NOW + 5]})


@pytest.mark.parametrize("version", LAYOUTS)
@pytest.mark.parametrize("sample", OLD_SAMPLES, ids=lambda sample: "+".join(sample))
def test_layouts(server, monkeypatch, version, sample):
    """The same profile in the layout of each version that is read; nothing is invented."""
    for name, table in LAYOUTS[version].items():
        monkeypatch.setitem(proto.MESSAGES, name, table)
    service = f"layout {version} {OLD_SAMPLES.index(sample)}"
    more = {"profile_id": bytes(16), "attribute_indices": [3]} if version == "1.8" else {"attribute_indices": [3]}
    send(server, named(service, profile({"stack_index": 1, **sample}, **more)))
    answer = server.get("/api/profile", service=service)[1]
    wanted = {"thread.id": {"42": sum(sample["values"])}}
    if "attribute_indices" in sample:
        wanted["thread"] = {"worker": sum(sample["values"])}
    if "link_index" in sample:
        assert server.total(service, label="span_id=" + SPAN.hex()) == server.total(service, label="trace_id=" + TRACE.hex()) == 4
    assert answer["total"] == sum(sample["values"]) and tree(answer) == {("main", "work"): sum(sample["values"])}
    assert answer["labels"] == wanted


def test_layouts_that_are_not_read(server, monkeypatch):
    """One line names the layout that it is, or that it may be."""
    refused_ = named("refused", profile({"stack_index": 1, "attribute_indices": [1], "timestamps_unix_nano": [NOW]}))
    assert "1.8 and 1.9" in refused(server, binary(refused_), PROTO), "an attribute and a time, or a value and a time"
    send(server, named("events-1.10", profile({"stack_index": 1, "attribute_indices": [2, 3], "timestamps_unix_nano": [NOW]}, sample=(9, 10))))
    assert server.total("events-1.10") == 10_000_000, "two attributes and a time"
    send(server, named("mixed-1.10", profile({"stack_index": 1, "attribute_indices": [2], "timestamps_unix_nano": [NOW]},
                                             {"stack_index": 1, "values": [5]}, sample=(9, 10))))
    assert server.total("mixed-1.10") == 60_000_000, "another sample tells"
    monkeypatch.setitem(proto.MESSAGES, "OProfile", PROFILE_1_7)
    old = {"sample_type": [{"type_strindex": 1, "unit_strindex": 2}], "samples": [{"stack_index": 0}], "location_indices": [1, 2], "time_nanos": NOW,
           "duration_nanos": SECOND, "period_type": {"type_strindex": 1, "unit_strindex": 2}, "period": 1}
    assert "1.7 or earlier" in refused(server, binary(named("refused", old)), PROTO)
    text_ = b'{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"sampleType":[{}],"sample":[{"locationsStartIndex":1,"locationsLength":2,"value":["5"]}]}]}]}]}'
    assert "1.7 or earlier" in refused(server, text_, JSON)
    assert server.total("refused") in (0, None)


def test_names_of_1_8_in_json(server):
    message = named("names-1.8", one(77))
    body = as_json(message).replace(b'"samples"', b'"sample"').replace(b'"lines"', b'"line"')
    assert server.request("POST", PATH, body, JSON) == (200, b"{}")
    assert tree(server.get("/api/profile", service="names-1.8")[1]) == {("main", "work"): 77}


# ---- partial success ----

def partly(server, message):
    """The answers in both encodings, which say the same: (rejected profiles, error message)."""
    status, answer = server.request("POST", PATH, binary(message), PROTO)
    assert status == 200, answer
    inner = {number: value for number, _, value in proto.fields(next(value for _, _, value in proto.fields(answer)))}
    status, answer = server.request("POST", PATH, as_json(message, hex_ids=False), JSON)
    assert status == 200, answer
    said = json.loads(answer)["partialSuccess"]
    assert (int(said["rejectedProfiles"]), said["errorMessage"]) == (inner.get(1, 0), inner[2].decode())
    return inner.get(1, 0), inner[2].decode()


def test_good_profiles_are_kept(server):
    """A bad profile, sample or element of a table costs what refers to it, and nothing else."""
    good = {"stack_index": 1, "values": [7]}
    message = named("partly-a", profile(good), profile({"stack_index": 99, "values": [1]}), profile(good, {"stack_index": 1, "values": [-5]}, sample=(9, 10)),
                    profile(good, {"stack_index": 2, "values": [1, 2]}, time_unix_nano=NOW - SECOND), {"samples": [good]})
    message["resource_profiles"] += named("partly-b", one(30))["resource_profiles"]
    refused_, why = partly(server, message)
    assert refused_ == 3 and "stack_index 99" in why and "3 profiles and 1 samples of others are left out" in why
    assert (server.total("partly-a"), server.total("partly-b")) == (2 * 14, 2 * 30), "both times"
    refused_, why = partly(server, named("partly-c", one(5), profile({"stack_index": 2, "values": [6]}), mapping_table=[{}, {"filename_strindex": 99}]))
    assert refused_ == 1 and "mapping_table[1]: filename_strindex 99" in why and server.total("partly-c") == 10
    refused_, why = partly(server, named("partly-d", one(5), link_table=[{}, {"trace_id": b"x"}]))
    assert refused_ == 0 and "link_table[1]" in why and server.total("partly-d") == 10, "an element that nothing uses is a warning"
    refused_, why = partly(server, named("partly-e", one(5), profile(*[{"stack_index": 1, "values": [1 << 62]}] * 2, time_unix_nano=NOW - SECOND)))
    assert refused_ == 1 and "too large" in why and server.total("partly-e") == 10
    bad = request(one(5), resource=[{"key_strindex": 99}])
    bad["resource_profiles"] += named("partly-f", one(8))["resource_profiles"]
    refused_, why = partly(server, bad)
    assert refused_ == 1 and "resource.attributes[0]" in why and server.total("partly-f") == 16


def test_differences(server):
    """alloc_* is kept, inuse_* with values below zero is not, and the line says why."""
    table = {"string_table": strings(b"alloc_space", b"inuse_space", b"bytes", b"space")}
    refused_, why = partly(server, named("delta", one(900, sample=(14, 16), period=(17, 16)), profile(
        {"stack_index": 1, "values": [5]}, {"stack_index": 2, "values": [-40]}, sample=(15, 16), period=(17, 16)), **table))
    assert refused_ == 1 and "must not be negative, as those of a difference are" in why
    assert (server.total("delta", kind="alloc"), server.total("delta", kind="live")) == (1800, 0)


def test_bounds_are_partial_success(start_server, tmp_path):
    (tmp_path / "limits.conf").write_text("[limits]\nservices = 1\n")
    server = start_server("--config", str(tmp_path / "limits.conf"))
    message = named("first", one(3))
    message["resource_profiles"] += named("second", one(4))["resource_profiles"]
    refused_, why = partly(server, message)
    assert refused_ == 1 and "services in [limits]" in why and server.total("first") == 6
