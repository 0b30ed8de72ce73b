"""The server accepts every form that Pyroscope's clients send, and refuses the rest with a reason."""
import base64
import gzip
import json
import os
import random
import time
import urllib.parse

import pytest

from generate import mutations, push_request
from pprof import encode

NOW = int(time.time()) - 100
PUSH = "/push.v1.PusherService/Push"
PROTO, JSON = {"Content-Type": "application/proto"}, {"Content-Type": "application/json"}


def pprof(value=500, labels=(), at=NOW):
    """One stack main;work of CPU time; each label is a sample of its own."""
    return encode([("cpu", "nanoseconds")], [(("main", "work"), [value], {"user": label} if label else {}) for label in labels or ("",)],
                  start_ns=at * 10**9, duration_ns=10**9)


def series(service, *profiles, **tags):
    return {"__name__": "process_cpu", "service_name": service, **tags}, profiles


def binary(*all_series):
    return b"".join(push_request([labels.items()], *profiles) for labels, profiles in all_series)


def as_json(*all_series):
    return json.dumps({"series": [{"labels": [{"name": k, "value": v} for k, v in labels.items()],
                                   "samples": [{"rawProfile": base64.b64encode(p).decode(), "ID": "x"} for p in profiles]}
                                  for labels, profiles in all_series]}).encode()


def folded_names(server, service, **query):
    return sorted(row["name"] for row in server.get("/api/profile", service=service, **query)[1]["top"])


@pytest.fixture
def server(shared_server):
    yield shared_server
    assert shared_server.process.poll() is None, shared_server.stderr()


def test_pushed(server):
    """The same series in every form give the same profile."""
    rng = random.Random(1)
    for form, encode, headers in (("binary", binary, PROTO), ("json", as_json, JSON)):
        values = [rng.randrange(1, 10**6) for _ in range(6)]
        body = encode(series(form, pprof(values[0]), gzip.compress(pprof(values[1])), zone="a"),
                      series(form, pprof(values[2]), zone="b<\"\n"), series(form + "-other", pprof(values[3]), **{"__x": "y"}))
        for more, sent in (({}, body), ({"Content-Encoding": "gzip"}, gzip.compress(body)),
                           ({"Content-Encoding": "identity"}, body)):
            status, answer = server.request("POST", PUSH, sent, {**headers, **more})
            assert (status, answer) == (200, b"" if form == "binary" else b"{}"), f"{form}, {more}"
        assert server.total(form) == 3 * sum(values[:3]), f"{form}: all series"
        assert server.total(form, tag="zone=a") == 3 * sum(values[:2]), f"{form}: one of them"
        assert server.total(form + "-other") == 3 * values[3], f"{form}: the other service"
    assert server.request("POST", PUSH, b"{}", {"Content-Type": "application/json; charset=utf-8"})[0] == 200, "JSON with a charset"
    assert server.request("POST", PUSH, b"{}", {"Content-Type": "application/grpc"})[0] == 415, "gRPC"
    assert server.request("POST", PUSH, binary(series("br", pprof())), {**PROTO, "Content-Encoding": "br"})[0] == 415, "brotli"
    assert server.request("POST", PUSH, binary(({"__name__": "process_cpu"}, [pprof(9)])), PROTO)[0] == 200, "no service"
    assert server.total("unknown_service") == 9, "it has Pyroscope's name for it"


def test_refused_series(server):
    """A series that is refused is named, and the others are kept."""
    good = series("partly", pprof(7))
    for what, bad, word in (("no pprof", series("bad", b"nonsense"), "series 2 of bad: "), ("no name", ({"service_name": "bad"}, [pprof()]), "__name__"),
                            ("a name that is none", ({"__name__": "a-b", "service_name": "bad"}, [pprof()]), "metric"),
                            ("an empty label", series("bad", pprof(), **{"": "x"}), "without a name"),
                            ("broken gzip", series("bad", gzip.compress(pprof())[:-9]), "gzip"),
                            ("a bomb", series("bad", gzip.compress(b"\0" * (40 << 20))), "too large when inflated")):
        before = server.total("partly") or 0
        for encode, headers in ((binary, PROTO), (as_json, JSON)):
            status, answer = server.request("POST", PUSH, encode(good, bad, good), headers)
            answer = json.loads(answer)
            assert (status, answer["code"]) == (400, "invalid_argument"), what
            assert word in answer["message"], f"{what}: {answer['message']!r} has {word!r}"
        assert server.total("partly") == before + 28, f"{what}: the others are kept"
    assert server.total("bad") in (None, 0), "nothing of what was refused is kept"
    many = binary(*[series("bad", b"x")] * 50)
    assert "and 42 more" in json.loads(server.request("POST", PUSH, many, PROTO)[1])["message"], "many errors are not all told"
    bombs = binary(*[series("bad", gzip.compress(b"\0" * (20 << 20)))] * 20)
    assert server.request("POST", PUSH, bombs, PROTO)[0] == 400, "many small bombs share one limit"


def test_hostile_json(server):
    good = as_json(series("json-cut", pprof()))
    for body, what in ((b"[" * 100000, "deep"), (b'{"series":' * 100 + b"1" + b"}" * 100, "nested"), (b"[" + b"[]," * 400000 + b"1]", "wide"),
                       (b'{"series":[{"labels":[{"name":"a","value":1e400}]}]}', "huge number"), (b'{"series":"x"}', "a string"),
                       (b'{"series":[{"samples":[{"rawProfile":"!!"}]}]}', "no base64"), (b"\xff\xfe{}", "UTF-16"), (b"", "nothing"),
                       (b'{"series":[{"labels":[{"name":"a\\u0000b"}]}]}', "a NUL")):
        status, answer = server.request("POST", PUSH, body, JSON)
        assert (status, json.loads(answer)["code"]) == (400, "invalid_argument"), f"JSON: {what}"
    for size in range(0, len(good), 7):
        assert server.request("POST", PUSH, good[:size], JSON)[0] == 400, f"JSON cut to {size}"
    for round_, body in enumerate(mutations(good, random.Random(4), 200, 3)):
        assert server.request("POST", PUSH, body, JSON)[0] in (200, 400), f"JSON mutation {round_}"
    assert server.total("json-cut{zone=never}") == 0, "alive"


def ingest(server, name, body, headers=None, **query):
    return server.request("POST", query.pop("path", "/ingest") + "?" + urllib.parse.urlencode({"name": name, **query}), body, headers)


def form(**fields):
    """A multipart/form-data body as Go's and requests' writers make it."""
    body = b"".join(b'--XyZ\r\nContent-Disposition: form-data; name="%s"; filename="%s.bin"\r\nContent-Type: application/octet-stream\r\n\r\n%s\r\n'
                    % (name.encode(), name.encode(), field) for name, field in fields.items()) + b"--XyZ--\r\n"
    return body, {"Content-Type": "multipart/form-data; boundary=XyZ"}


def test_pprof_ingested(server):
    config = json.dumps({"cpu": {"units": "samples", "display-name": "x", "sampled": True}}).encode()
    sent = 0
    for path in ("/ingest", "/pyroscope/ingest"):
        for body in (pprof(11), gzip.compress(pprof(11))):
            assert ingest(server, "one{zone=a}", body, format="pprof", path=path)[0] == 200, f"{path}: pprof"
            assert ingest(server, "one", body, path=path)[0] == 200, f"{path}: pprof that does not say so"
            for fields in ({"profile": body}, {"profile": body, "sample_type_config": config}, {"sample_type_config": config, "profile": body}):
                assert ingest(server, "one", *form(**fields), path=path)[0] == 200, f"{path}: form of {list(fields)}"
            sent += 5
    assert server.total("one") == sent * 11, "all of it"
    assert server.total("one", tag="zone=a") == 4 * 11, "what has the tag"
    for what, body, headers in (("no profile", *form(other=b"x")), ("a previous one", *form(profile=pprof(), prev_profile=pprof())),
                                ("a configuration that is none", *form(profile=pprof(), sample_type_config=b"{")),
                                ("a configuration that is no object", *form(profile=pprof(), sample_type_config=b"[1]")),
                                ("no boundary", form(profile=pprof())[0], {"Content-Type": "multipart/form-data"}),
                                ("another boundary", form(profile=pprof())[0], {"Content-Type": "multipart/form-data; boundary=other"}),
                                ("cut", form(profile=pprof())[0][:-30], form()[1]), ("no pprof", *form(profile=b"x"))):
        status, answer = ingest(server, "refused", body, headers)
        assert status == 422, f"form: {what}"
        assert answer.count(b"\n") == 1 and len(answer) > 10, f"form: {what}: one line: {answer}"
    old = pprof(13, at=1000)
    assert ingest(server, "old", old, format="pprof")[0] == 200, "a profile of 1970"
    answer = server.get("/api/profile", service="old")[1]
    assert answer["from"] > NOW, "a clock that was not set is not believed"
    assert ingest(server, "dated", pprof(13), format="pprof", **{"from": NOW - 50, "until": NOW - 40})[0] == 200, "with times"
    answer = server.get("/api/profile", service="dated")[1]
    assert (answer["from"], answer["to"]) == (NOW - 50, NOW - 40), "which count"


def test_folded(server):
    text = b"main;work one;leaf 3\nmain;other 4\r\n"
    assert ingest(server, "plain", text)[0] == 200, "folded text"
    assert (server.total("plain"), folded_names(server, "plain")) == (70_000_000, ["leaf", "main", "other", "work one"]), "at 100 Hz"
    assert ingest(server, "app.cpu{zone=a}", text, sampleRate=10, format="groups", spyName="x", aggregationType="sum", units="samples",
                       **{"from": NOW, "until": NOW + 10})[0] == 200, "as old agents send it"
    answer = server.get("/api/profile", service="app", tag="zone=a")[1]
    assert (answer["total"], answer["samples"], answer["from"], answer["to"], answer["period"]) == (700_000_000, 7, NOW, NOW + 10, 10**8), "its figures"
    assert ingest(server, "lines", b"a;b\na;b\na;c\n", format="lines", sampleRate=1000)[0] == 200, "lines"
    assert ingest(server, "lines", b"a;b 2\n", format="folded", sampleRate=1000)[0] == 200, "groups by their older name"
    assert server.total("lines") == 5_000_000, "one each, and two"
    for name, service, kind, query, wanted in (("m.alloc_space", "m", "alloc", {}, 7), ("m.alloc_objects", "m", "alloc", {"value": "count"}, 7),
                                               ("m.inuse_space", "m", "live", {}, 7), ("m.mutex_duration", "m", "lock", {}, 7),
                                               ("m.block_count", "m", "wait", {"value": "count"}, 7), ("m.goroutines", "m", "thread", {}, 7)):
        assert ingest(server, name, text)[0] == 200, name
        assert server.total(service, kind=kind, **query) == wanted, f"{name} is {kind}"
    assert ingest(server, "bytes", text, units="bytes", aggregationType="average")[0] == 200, "units alone"
    assert server.total("bytes", kind="live") == 7, "a level"
    assert ingest(server, "zip.cpu", gzip.compress(text), {"Content-Encoding": "gzip"})[0] == 200, "gzip"
    assert ingest(server, "empty", b"")[0] == 200, "nothing at all"
    for what, query, body, wanted in (("a line without a number", {}, b"a;b 1\nc", 422), ("units that are none", {"units": "m"}, text, 422),
                                      ("a rate that is none", {"sampleRate": "x"}, text, 400),
                                      ("a large rate", {"sampleRate": 10**12}, text, 400),
                                      ("a sum beyond 63 bits", {"sampleRate": 1}, b"a 9223372036\nb 9223372036", 422),
                                      ("a format of the future", {"format": "x"}, text, 400), ("a bad time", {"from": "x"}, text, 400)):
        status, answer = ingest(server, "refused" if "units" in query else "refused.cpu", body, **query)
        assert status == wanted, what
        assert answer.count(b"\n") == 1, f"{what}: one line"
    for name in ("jfr", "trie", "tree", "speedscope"):
        status, answer = ingest(server, "refused", b"x", format=name)
        assert (status, answer.count(b"\n")) == (400, 1), name
        assert b"pprof, groups (folded) and lines" in answer and name.encode() in answer, f"{name}: the line says what is taken"
    assert ingest(server, "refused", b"x", {"Content-Type": "binary/octet-stream+trie"})[0] == 400, "a trie by its type"
    assert server.total("refused") in (0, None), "nothing of what was refused is kept"


def test_bounded(folder, start_server):
    """Limits of a config file, each said once and counted. They are final: no later try passes."""
    config = os.path.join(folder, "limits.conf")
    with open(config, "w", encoding="utf-8") as file:
        file.write("[limits]\nbody = 64k\ninflated = 128k\nservices = 3\nseries = 4\nlabel-values = 5\nlabels = 6\n"
                   "label-name = 20\nlabel-value = 30\nfuture = 1h\npast = 10d\n")
    server = start_server("--config", config)

    def one(wanted, what, word, *items):
        got, answer = server.request("POST", PUSH, binary(*items), PROTO)
        assert got == wanted, what
        if word:
            assert word in json.loads(answer)["message"], f"{what}: {answer} has {word}"

    assert ingest(server, "big", b"x" * 70000)[0] == 413, "body"
    assert ingest(server, "big", gzip.compress(b"x" * 140000), {"Content-Encoding": "gzip"})[0] == 413, "inflated"
    one(200, "tags", None, *[series("tags", pprof(1), device=str(i)) for i in range(4)])
    one(400, "one set of tags too many", "series in [limits]", series("tags", pprof(1), device="4"))
    one(400, "one of two", "series in [limits]", series("tags", pprof(1), device="5"), series("tags", pprof(1), device="1"))
    one(200, "what is known is taken", None, series("tags", pprof(1), device="0"))
    assert server.total("tags") == 6, "what is in bounds counts"
    one(200, "labels of stacks", None, series("labels", pprof(1, [f"u{i}" for i in range(5)])))
    one(400, "one value too many", "label-values in [limits]", series("labels", pprof(1, ["u5"])))
    one(200, "known values", None, series("labels", pprof(1, ["u2", "u1"])))
    one(400, "many tags", "labels in [limits]", series("labels", pprof(1), **{f"k{i}": "x" for i in range(7)}))
    one(400, "a long name", "label-name in [limits]", series("labels", pprof(1), **{"k" * 21: "x"}))
    one(400, "a long value", "label-value in [limits]", series("labels", pprof(1), k="v" * 31))
    one(400, "a long value of a stack", "label-value in [limits]", series("labels", pprof(1, ["v" * 31])))
    one(400, "a long service", "label-value in [limits]", series("s" * 31, pprof(1)))
    one(400, "the future", "clock", series("labels", pprof(1, at=NOW + 7200)))
    one(400, "the past", "past in [limits]", series("labels", pprof(1, at=NOW - 11 * 86400)))
    one(200, "within the window", None, series("labels", pprof(1, at=NOW - 9 * 86400)))
    one(200, "a third service", None, series("third", pprof(1)))
    for i in range(20):
        one(400, "a fourth service", "services in [limits]", series(f"more{i}", pprof(1)))
    said = server.stderr()
    assert 1 <= said.count("refused: ") <= 4, f"a line a reason, not one a refusal: {said}"
    assert server.stop() == 0, "ends"
    server = start_server("--config", config)
    one(400, "a fourth service after a restart", "services in [limits]", series("fourth", pprof(1)))
    one(400, "a set of tags after a restart", "series in [limits]", series("tags", pprof(1), device="9"))
    one(400, "a value after a restart", "label-values in [limits]", series("labels", pprof(1, ["u6"])))
    one(200, "known ones after a restart", None, series("tags", pprof(1), device="2"), series("labels", pprof(1, ["u4"])))


def test_many_values(start_server):
    """10,000 values of a label, a megabyte of one: refused in one line, and the rest goes on."""
    server = start_server()
    status, answer = server.request("POST", PUSH, binary(series("many", pprof(1, [f"v{i}" for i in range(10000)]))), PROTO)
    assert status == 400, "10,000 values"
    assert b"label-values in [limits]" in answer, f"the line says which limit: {answer}"
    for what, body in (("of a series", binary(series("long", pprof(1), k="x" * (1 << 20)))), ("of a stack", binary(series("long", pprof(1, ["x" * (1 << 20)]))))):
        status, answer = server.request("POST", PUSH, body, PROTO)
        assert status == 400, f"a label of a megabyte {what}"
        assert len(answer) < 1000, "is not repeated in the answer"
    assert server.request("POST", PUSH, binary(series("many", pprof(5))), PROTO)[0] == 200, "others are taken"
    assert server.total("many") == 5, "and nothing of what was refused"
    assert len(server.stderr()) < 2000, "lines on stderr are short"


GO_TYPES = {"process_cpu:cpu:nanoseconds:cpu:nanoseconds", "process_cpu:samples:count:cpu:nanoseconds",
            "memory:alloc_objects:count:space:bytes", "memory:alloc_space:bytes:space:bytes", "memory:inuse_objects:count:space:bytes",
            "memory:inuse_space:bytes:space:bytes", "mutex:contentions:count:contentions:count", "mutex:delay:nanoseconds:contentions:count",
            "block:contentions:count:contentions:count", "block:delay:nanoseconds:contentions:count",
            "goroutines:goroutine:count:goroutine:count"}


def asked(server, method, **body):
    status, answer = server.request("POST", "/querier.v1.QuerierService/" + method, json.dumps(body).encode(), JSON)
    assert status == 200, answer
    return json.loads(answer)


def types_of(server):
    return {item["ID"] for item in asked(server, "ProfileTypes", start=1, end=2**42).get("profileTypes", [])}


def value_of(server, profile_type, selector="{}"):
    found = asked(server, "SelectMergeStacktraces", profile_typeID=profile_type, label_selector=selector, start=1000, end=2**42)
    return int(found["flamegraph"].get("total", 0))


def test_recorded_go(start_server):
    """The uploads of pyroscope-go 1.4.3, as they were sent: all are taken, with the types that Pyroscope has after them."""
    server = start_server()
    with open(os.path.join(os.path.dirname(__file__), "recorded", "pyroscope-go.json"), encoding="utf-8") as file:
        uploads = json.load(file)["requests"]
    answers = [server.request("POST", upload["path"], base64.b64decode(upload["body_b64"]), upload["headers"]) for upload in uploads]
    assert len(uploads) == 24 and [status for status, _ in answers] == [200] * 24, answers
    assert types_of(server) == GO_TYPES, "ids are those that Pyroscope has"
    for profile_type in GO_TYPES:
        assert value_of(server, profile_type) > 0, f"{profile_type} has values"
    text = server.request("GET", "/api/services")[1].decode()
    assert '"goroutines:goroutine:count:goroutine:count"' in text and "go.service" in text, text
    names = asked(server, "LabelNames", start=1, end=2**42)["names"]
    assert "__service_name__" in names and "host" not in names, f"Pyroscope's second name of the service, and nothing that nobody sent: {names}"
    assert asked(server, "LabelValues", name="__service_name__", start=1, end=2**42)["names"] == ["go.service"], "has its values"


def test_own_types(start_server):
    """A sender's id is the one to ask for, also where a kind of ours has the same sample type. Its title is words."""
    server = start_server()
    for family, sample_type, unit, period, period_unit in (
            ("deadmans_switch", "made_up", "profilos", "made_up", "profilos"), ("goroutines", "goroutine", "count", "goroutine", "count"),
            ("process_cpu", "cpu", "nanoseconds", "cpu", "nanoseconds")):
        body = encode([(sample_type, unit)], [(("main",), [7], {})], (period, period_unit), NOW * 10**9, 10**9)
        labels = {"__name__": family, "service_name": "own"}
        before = types_of(server)
        assert server.request("POST", PUSH, binary((labels, [body])), PROTO)[0] == 200, family
        profile_type = ":".join((family, sample_type, unit, period, period_unit))
        assert types_of(server) - before - {"process_cpu:samples:count:cpu:nanoseconds"} == {profile_type}, profile_type
        assert value_of(server, profile_type, '{service_name="own"}') == 7, f"{profile_type}: and nothing else"


    titles = {row["title"] for row in server.get("/api/services")[1]["services"]}
    assert titles == {"Made up (deadmans switch)", "Goroutine (goroutines)", "CPU time"}
    assert server.get("/api/profile", service="own", kind="deadmans_switch:made_up:profilos:made_up:profilos")[1]["title"] == "Made up (deadmans switch)"


def test_node(start_server):
    """Pyroscope's Node SDK sends CPU and wall time as wall:...:wall:nanoseconds. They are our kinds, and its ids are ones to ask for."""
    server = start_server()
    body = encode([("samples", "count"), ("wall", "nanoseconds"), ("cpu", "nanoseconds")], [(("main",), [3, 30, 7], {})], ("wall", "nanoseconds"), NOW * 10**9, 10**9)
    assert server.request("POST", PUSH, binary(({"__name__": "wall", "service_name": "node"}, [body])), PROTO)[0] == 200
    assert ingest(server, "node", body, format="pprof")[0] == 200
    assert {row["kind"] for row in server.get("/api/services")[1]["services"]} == {"cpu", "wall"}
    assert (server.total("node", kind="cpu"), server.total("node", kind="wall"), server.total("node", kind="cpu", value="count")) == (14, 60, 6)
    for sender, ours, value in (("wall:cpu:nanoseconds:wall:nanoseconds", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", 14),
                                ("wall:wall:nanoseconds:wall:nanoseconds", "wall:wall:nanoseconds:cpu:nanoseconds", 60)):
        assert value_of(server, sender) == value_of(server, ours) == value, sender


def test_ready(server):
    """profilecli asks it."""
    assert server.request("GET", "/ready") == (200, b"ready\n")


def test_java_refused(server):
    status, answer = ingest(server, "java", b"FLR\0\0\2\0\0", format="jfr")
    assert (status, answer.count(b"\n")) == (400, 1) and b"jfr" in answer and b"Java" in answer, answer


def numbers(value):
    """All numbers of an answer in JSON, also those that it writes as text."""
    if isinstance(value, dict):
        return [number for one in value.values() for number in numbers(one)]
    if isinstance(value, list):
        return [number for one in value for number in numbers(one)]
    if isinstance(value, str):
        return [int(value)] if value.lstrip("-").isdigit() else []
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def test_sums_that_reach_the_end(server, cli):
    """Three profiles of 2^62 each: what does not fit below 2^63 is left out and said; no figure is negative or wraps."""
    for number in range(3):
        assert server.request("POST", "/ingest?name=huge", pprof(2**62, at=NOW + number))[0] == 200
    assert server.request("POST", "/ingest?name=huge", pprof(2**63 - 1, at=NOW + 4))[0] == 200
    assert server.request("POST", "/ingest?name=huge", encode([("cpu", "nanoseconds")], [(("main",), [2**62], {}), (("other",), [2**62], {})], start_ns=NOW * 10**9))[0] == 422
    during = {"from": NOW - 10, "to": NOW + 10}
    answer = server.get("/api/profile", service="huge", kind="cpu", **during)[1]
    assert (answer["total"], answer["damaged_profiles"]) == (2**62, 3), "2^62 twice is 2^63"
    range_ = {"profile_typeID": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "label_selector": '{service_name="huge"}', "start": (NOW - 10) * 1000, "end": (NOW + 10) * 1000}
    answers = [answer, server.get("/api/timeline", service="huge", kind="cpu", **during)[1], server.get("/api/timeline", service="huge", kind="cpu", **{"group-by": "user"}, **during)[1]]
    for path, more in (("SelectMergeStacktraces", {}), ("SelectSeries", {"step": 60}), ("SelectHeatmap", {"step": 60, "query_type": 1}), ("SelectMergeProfile", {})):
        status, text = server.request("POST", f"/querier.v1.QuerierService/{path}", json.dumps({**range_, **more}), {"Content-Type": "application/json"})
        assert status == 200, (path, text)
        answers.append(json.loads(text))
    for found in answers:
        assert min(numbers(found), default=0) >= 0, found
        assert max(numbers(found), default=0) <= 2**64 - 1 and 2**63 not in numbers(found), found
    for line in server.request("GET", "/metrics")[1].decode().splitlines():
        assert line.startswith("#") or float(line.rsplit(" ", 1)[1]) >= 0, line
    done = cli.run("top", "--db", server.db, "--service", "huge")
    assert "-" not in done.out.split("function\n")[1], done.out
    assert "is left out" in server.stderr() and "2^63" in server.stderr()
