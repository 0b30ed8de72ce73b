"""Hostile and unlucky senders do no harm to a running server with sanitizers."""
import contextlib
import gzip
import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest

import generate
from generate import (context, data, function_of, message, module, mutations, nested, nodes, number, origin, pprof_profile, profile, push_request,
                      stats, tag_set, unsampled, varint)

NOW = 1_700_000_000
PUSH = "/push.v1.PusherService/Push"
PROTO = {"Content-Type": "application/proto"}
sys.setrecursionlimit(5000)  # trees are 1,000 calls deep


@pytest.fixture
def server(shared_server):
    yield shared_server
    assert shared_server.process.poll() is None, shared_server.stderr()


def first(segment, service="svc", tags=(), **extra):
    return message(segment, 0, origin(service, tags), [module(4096, 4096, 0, b"\1" * 20, "/nowhere/app")],
                   nodes([0, 1, 1], [4100, 4200, 4300]), [profile({2: 1, 3: 3})], **extra)


def later(segment, sequence, **extra):
    return message(segment, sequence, profiles=[profile({1: 2})], **extra)


def test_decoded_by_protoc():
    """The generator itself is checked by an independent decoder."""
    for body in (first(1), later(1, 1), message(3, 0, origin(tags=[("a", "b")]), stats=stats(5, 4, 1, 0, [(0, 1, 2)]), last=True),
                 message_of_kinds(4, 0, random.Random(1), {})):
        run = subprocess.run(["protoc", "--decode", "edgeprof.v1.Message", "core/proto/compact.proto"], input=body,
                             capture_output=True, check=False)
        assert run.returncode == 0 and b"segment:" in run.stdout, f"protoc: {run.stderr}"
        assert b"\n1:" not in run.stdout, "protoc knows every field"


def test_contract(server):
    assert server.request("GET", "/healthz") == (200, b"ok\n"), "healthz"
    assert server.push(later(8, 1)) == 409, "unknown segment"
    assert server.push(first(8, "contract")) == 200, "first message"
    assert server.push(first(8, "contract")) == 200, "first message again"
    assert server.total("contract") == 40_000_000, "counted once"
    assert server.push(later(8, 2)) == 409, "gap"
    assert server.push(later(8, 1)) == 200, "next message"
    assert server.push(later(8, 1)) == 200, "next message again"
    assert server.total("contract") == 60_000_000, "both counted once"
    assert server.push(first(8, service="another")) == 200, "same segment and sequence from elsewhere is a repetition"
    assert server.total("another") == 0, "and not kept"
    tree = server.get("/api/profile", service="contract")[1]["tree"]
    names = [child["name"] for child in tree["children"]]
    assert names == ["app+0x4"], "frames without symbols are module+address"


def test_written_example(server):
    """The two messages that core/FORMAT.md gives byte by byte."""
    blocks = re.findall(r"```hex\n(.*?)```", open("core/FORMAT.md").read(), re.S)
    bodies = [bytes.fromhex("".join(re.match(r"\s*((?:[0-9a-f]{2}(?: |$))*)", line)[1] for line in block.splitlines())) for block in blocks]
    assert len(bodies) == 2, "messages in core/FORMAT.md"
    for body in bodies:
        assert server.push(body) == 200, "a message of core/FORMAT.md"
    answer = server.get("/api/profile", service="sensor", tag="version=1.4.2")[1]
    assert answer["total"] == (3 + 1 + 2) * 52631578, "value of the example"
    stacks = [(row["name"], row["self"] // 52631578) for row in answer["top"]]
    assert stacks == [("sensor+0x1020", 3), ("sensor+0x1050", 3), ("sensor+0x1010", 0)], "stacks of the example"


def test_unsound(server):
    before = server.get("/api/services")[1]
    for what, body in generate.unsound():
        assert server.push(body) == 400, what
    assert server.get("/api/services")[1] == before, "nothing of an unsound message is kept"


def test_mutated(server):
    rng = random.Random(1)
    good = first(1000, "mutated", tags=[("k", "v")], stats=stats(5, 4, 1, 0, [(0, 1, 2)]))
    for size in range(len(good)):
        status = server.push(good[:size])
        assert status in (200, 400), f"cut to {size} bytes: {status}"
    for round_, body in enumerate(mutations(good, rng, 400, 5)):
        status = server.push(body)
        assert status in (200, 400, 409), f"mutation {round_}: {status}"
    for round_ in range(100):
        status = server.push(rng.randbytes(rng.randrange(1, 3000)))
        assert status == 400, f"random bytes {round_}"
    assert server.request("GET", "/healthz")[0] == 200, "alive after mutations"


def test_sizes(server):
    limit = 4 << 20
    assert server.push(b"\0" * (limit + 1)) == 413, "one byte too large"
    assert server.push(b"\x22\x00" * (limit // 2)) == 400, "two million empty modules"
    assert server.request("POST", "/edgeprof/v1/push", iter([b"x" * 65536] * 70), {"Transfer-Encoding": "chunked"})[0] == 413, "too large in chunks"
    try:
        endless = server.request("POST", "/edgeprof/v1/push", iter([b"x" * 65536] * 16000), {"Transfer-Encoding": "chunked"})[0]
    except OSError as error:
        endless = type(error).__name__
    assert endless in ("ConnectionResetError", "BrokenPipeError", 413), f"a gigabyte is not read to its end: {endless}"
    empty_samples = b"\x12\x00" * (15 << 20)
    assert server.request("POST", "/ingest?name=bomb", gzip.compress(empty_samples))[0] == 422, "15 million empty samples"
    assert server.request("POST", "/edgeprof/v1/push", b"", {"Content-Length": "0"})[0] == 400, "empty body"
    bomb = gzip.compress(b"\0" * (200 << 20), 9)
    assert len(bomb) < limit, "the bomb is small"
    assert server.request("POST", "/ingest?name=bomb", bomb)[0] == 413, "gzip bomb"
    assert server.request("POST", "/ingest?name=bomb", gzip.compress(bomb))[0] == 422, "gzip in gzip"
    assert server.request("POST", "/ingest?name=cut", gzip.compress(b"abc")[:-6])[0] == 400, "cut gzip"


def test_large_but_sound(server):
    """A wide and deep dictionary within all limits."""
    frames = [4096 + i % 4096 for i in range(20000)]
    back = [0 if i % 1000 == 0 else 1 for i in range(20000)]
    body = message(77, 0, origin("large"), [module(4096, 4096)], nodes(back, frames), [profile({i: 1 for i in range(1, 20001)})])
    assert server.push(body) == 200, "20,000 nodes, 1,000 deep"
    status, answer = server.get("/api/profile", service="large")
    assert answer["total"] == 20000 * 10_000_000, "all of it counts"

    def count(call):
        return 1 + sum(map(count, call.get("children", ())))
    assert count(answer["tree"]) == 8192, "calls that are shown"
    assert answer["pruned"] > 0, "and it says that some are not"


def test_wrong_requests(server):
    assert server.push(first(9)) == 200
    for method, path, wanted in (
            ("GET", "/nowhere", 404), ("POST", "/nowhere", 404), ("POST", "/", 404), ("GET", "/edgeprof/v1/push", 405),
            ("PUT", "/edgeprof/v1/push", 405), ("DELETE", "/", 405), ("GET", "/../../etc/passwd", 404),
            ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404), ("GET", "/page.js/../../store.c", 404), ("GET", "//etc/passwd", 404),
            ("GET", "/api/", 404), ("GET", "/index.html%00.js", 404), ("GET", "/api/profile?from=yesterday", 400),
            ("GET", "/api/profile?service=a%7Bb", 400), ("GET", "/api/profile?tag=novalue", 400),
            ("GET", "/api/stats?to=-1", 400), ("GET", "/api/pprof?from=", 400), ("GET", "/api/pprof?service=svc", 200), ("HEAD", "/", 200),
            ("POST", "/ingest", 400), ("POST", "/ingest?name=x%7B", 400), ("POST", "/ingest?name=x&format=jfr", 400),
            ("POST", "/ingest?name=x&from=abc", 400)):
        assert server.request(method, path, b"" if method in ("POST", "PUT") else None)[0] == wanted, f"{method} {path}"
    assert server.request("POST", "/ingest?name=x", b"x", {"Origin": "http://elsewhere"})[0] == 403, "a web page's post"
    for raw in (b"\0\0\0\0", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST /edgeprof/v1/push HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                b"POST /edgeprof/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nshort", b"A" * 100000):
        with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
            try:
                connection.sendall(raw)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(4096)
            except OSError:
                pass
    assert server.request("GET", "/healthz")[0] == 200, "alive after broken requests"
    server.request("GET", "/")
    policy = server.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy, f"policy: {policy}"
    assert server.headers["X-Content-Type-Options"] == "nosniff", "no sniffing"


def test_names(server):
    odd = "<script>alert(1)</script>'; DROP TABLE profile; --\x1b[31m\"\\ \u202e"
    shown = "<script>alert(1)</script>'; DROP TABLE profile; --?[31m\"\\ ???"
    body = message(55, 0, origin(odd, [("k<b>", odd)], host=odd, executable=odd), [module(4096, 4096, 0, b"\2" * 20, "/x/" + odd)],
                   nodes([0], [4100]), [profile({1: 1})])
    assert server.push(first(56, "plain")) == 200
    assert server.push(body) == 200, "odd names are taken"
    services = server.get("/api/services")[1]["services"]
    assert shown in [row["service"] for row in services], "odd names are shown as they are, without control characters"
    raw = server.request("GET", "/api/services")[1]
    assert b"<script>" not in raw and b"\x1b" not in raw, "JSON holds no markup"
    assert server.total("plain") == 40_000_000, "the other service is still there"


def test_pprof(server):
    strings = [b"", b"cpu", b"nanoseconds", b"Orders.Total(async)", b"main", b"samples", b"count"]
    locations = [nested(4, number(1, i) + nested(4, number(1, i) + number(2, 10 + i))) for i in (1, 2)]
    functions = [function_of(1, 3), function_of(2, 4)]
    sample = data(1, b"\1\2") + data(2, varint(3) + varint(700))
    good = pprof_profile(strings, [sample], ((5, 6), (1, 2)), locations, functions, number(9, NOW * 10**9) + number(10, 10**9))
    for body, what in ((good, "raw"), (gzip.compress(good), "gzip")):
        assert server.request("POST", f"/ingest?name=pp%7Bzone%3Da%7D&from={NOW}&until={NOW + 10}&format=pprof", body)[0] == 200, what
    answer = server.get("/api/profile", service="pp", tag="zone=a")[1]
    assert (answer["total"], answer["samples"]) == (1400, 6), "pprof is kept"
    assert [row["name"] for row in answer["top"]] == ["Orders.Total(async)", "main"], "with its names"
    assert (answer["from"], answer["to"]) == (NOW, NOW + 10), "and its times"
    unsound_ones = {
        "string 0": pprof_profile([b"x", *strings[1:]], []),
        "no strings": pprof_profile([], []),
        "no type": pprof_profile(strings, [], ()),
        "string beyond": pprof_profile(strings, [], ((1, 99),)),
        "negative string": pprof_profile(strings, [], ((1, 2**64 - 1),)),
        "no location": pprof_profile(strings, [data(1, b"\7") + data(2, b"\1")]),
        "no function": pprof_profile(strings, [], locations=locations),
        "same id twice": pprof_profile(strings, [], functions=[function_of(1, 3), function_of(1, 4)]),
        "id 0": pprof_profile(strings, [], functions=[function_of(0, 3)]),
        "values missing": pprof_profile(strings, [data(1, b"\1")], locations=locations, functions=functions),
        "negative value": pprof_profile(strings, [data(1, b"\1") + data(2, varint(2**64 - 1))], locations=locations, functions=functions),
        "sum overflow": pprof_profile(strings, [data(1, b"\1") + data(2, varint(2**63 - 1))] * 3, locations=locations, functions=functions),
        "time": pprof_profile(strings, [], extra=number(9, 2**64 - 5)),
    }
    for what, body in unsound_ones.items():
        assert server.request("POST", "/ingest?name=unsound", body)[0] == 422, f"pprof: {what}"
    for round_, body in enumerate(mutations(good, random.Random(2), 300, 3)):
        status = server.request("POST", "/ingest?name=mutated", body)[0]
        assert status in (200, 422), f"pprof mutation {round_}: {status}"
    deep = pprof_profile(strings, [data(1, b"\1" * 60000) + data(2, b"\5")], locations=locations, functions=functions)
    assert server.request("POST", "/ingest?name=deep", deep)[0] == 200, "60,000 frames deep"
    assert "[deeper frames]" in [row["name"] for row in server.get("/api/profile", service="deep")[1]["top"]], "are cut at the root"


def test_pyroscope(server):
    """push.v1.PusherService/Push: what is taken, and errors as Connect has them."""
    strings = [b"", b"cpu", b"nanoseconds", b"F"]
    pprof = pprof_profile(strings, [data(1, b"\1") + data(2, varint(500))], ((1, 2),), [nested(4, number(1, 1) + nested(4, number(1, 1)))],
                          [function_of(1, 3)], number(9, NOW * 10**9) + number(10, 10**9))
    labels = [("__name__", "process_cpu"), ("service_name", "pushed"), ("__delta__", "false"), ("spy_name", "x"), ("zone", "a=b,{c}")]
    good = push_request([labels], pprof)
    for body, what in ((good, "raw"), (gzip.compress(good), "gzip"), (push_request([labels], gzip.compress(pprof)), "gzip inside")):
        assert server.request("POST", PUSH, body, PROTO) == (200, b""), f"push: {what}"
    assert server.total("pushed", tag="zone=a=b,{c}") == 1500, "and kept, with its tag"
    assert server.request("POST", PUSH, push_request([labels, labels], pprof, pprof), PROTO)[0] == 200, "push: series and samples"
    assert server.total("pushed") == 3500, "all of them"
    assert server.request("POST", PUSH, push_request([[("__name__", "x")]], pprof), PROTO)[0] == 200, "push: no service"
    assert server.total("unknown_service") == 500, "it has Pyroscope's name for it"
    assert server.request("POST", PUSH, b"", PROTO)[0] == 200, "push: nothing"
    for body, what in ((b"\x0a\x7f", "cut"), (push_request([[("service_name", "x")]], pprof), "no name"), (push_request([labels], b"x"), "no pprof"),
                       (push_request([labels], gzip.compress(pprof)[:-6]), "cut gzip"), (gzip.compress(good)[:-6], "cut gzip outside"),
                       (push_request([[("__name__", "x"), ("service_name", "s"), ("", "v"), ("a", "b")]], pprof[:-1]), "cut pprof")):
        status, answer = server.request("POST", PUSH, body, PROTO)
        assert (status, json.loads(answer)["code"]) == (400, "invalid_argument"), f"push: {what}"
    assert server.request("POST", PUSH, gzip.compress(b"\0" * (64 << 20)), PROTO)[0] == 413, "push: gzip bomb"
    assert server.request("POST", PUSH, good, {"Content-Type": "text/plain"})[0] == 415, "push: text"
    assert server.request("GET", PUSH)[0] == 405, "push: GET"
    for round_, body in enumerate(mutations(good, random.Random(3), 300, 3)):
        status = server.request("POST", PUSH, body, PROTO)[0]
        assert status in (200, 400), f"push mutation {round_}: {status}"


def tags_of(server, service):
    rows = server.get("/api/services", **{"tags-of": service})[1]["services"]
    return next(row["tags"] for row in rows if row["service"] == service)


def test_labels_do_not_imitate_the_service(start_server):
    """A '=' in a key is stored as '_', so "service=name" is service_name. Pyroscope refuses such names, or takes them as another label."""
    server = start_server()
    strings = [b"", b"cpu", b"nanoseconds", b"F", b"service=name", b"bank", b"step", b"one"]
    sample = data(1, b"\1") + data(2, varint(500)) + nested(3, number(1, 4) + number(2, 5)) + nested(3, number(1, 6) + number(2, 7))
    pprof = pprof_profile(strings, [sample], ((1, 2),), [nested(4, number(1, 1) + nested(4, number(1, 1)))], [function_of(1, 3)],
                          number(9, NOW * 10**9) + number(10, 10**9))
    usual = [("__name__", "process_cpu"), ("service_name", "push")]
    for key in ("==type__", "__x", "spy=name"):
        assert server.request("POST", PUSH, push_request([[*usual, (key, "bank"), ("zone", "a")]], pprof), PROTO)[0] == 200, key
    assert tags_of(server, "push") == [{"zone": "a"}]
    assert server.request("POST", PUSH, push_request([[usual[0], ("service=name", "bank"), ("zone", "a")]], pprof), PROTO)[0] == 200
    assert tags_of(server, "unknown_service") == [{"zone": "a"}], "as without a service"
    for twice in ([("service=name", "bank")], [("a=b", "1"), ("a_b", "2")]):
        status, answer = server.request("POST", PUSH, push_request([[*usual, *twice]], pprof), PROTO)
        assert (status, b"a label twice" in answer) == (400, True), "the same label when stored"
    for name in ("named{zone=a,service_name=bank}", "named{zone=a,spy_name=bank}", "named{zone=a}"):
        assert server.request("POST", "/ingest?name=" + name, pprof)[0] == 200, name
    assert tags_of(server, "named") == [{"zone": "a"}]
    assert server.push(first(1, "compact", tags=[("service=name", "bank"), ("zone", "a")])) == 200
    assert tags_of(server, "compact") == [{"zone": "a"}]
    for service in ("push", "named"):
        query = urllib.parse.urlencode({"query": f'process_cpu:cpu:nanoseconds::{{service_name="{service}"}}', "from": 0, "until": "now", "groupBy": "step"})
        assert list(json.loads(server.request("GET", "/render?" + query)[1])["groups"]) == ["one"]
        answer = gzip.decompress(server.request("GET", "/api/pprof?service=" + service)[1])
        assert b"step" in answer and b"bank" not in answer, "stacks have none either"


def test_statistics(server):
    body = first(90, "stats", stats=stats(100, 90, 7, 3, [(0, 5, 50), (3, 1, 10), (99, 2, 0)], 60, 40, 4))
    assert server.push(body) == 200, "stats are taken"
    process = server.get("/api/stats", service="stats")[1]["processes"][0]
    assert [process["stats"][k] for k in ("samples", "exact", "gap", "cut", "threads")] == [100, 90, 7, 3, 4], "stats"
    assert [(loss["reason"], loss["count"]) for loss in process["stats"]["losses"]] == [("ring full", 5), ("tree full", 1), ("other", 2)], "losses by name"
    assert server.get("/api/stats", service="stats")[1]["unsampled"] == "", "all threads are sampled"
    told = (stats(100, 90, 7, 3) + unsampled(1, 40, ["worker-1", "worker-1", "worker-2"], 11, 10, 300, 1000) + unsampled(18, 1, ["\x1b[0m"], 0, 27))
    assert server.push(first(91, "unsampled", stats=told)) == 200, "threads that are not sampled are taken"
    assert server.get("/api/stats", service="unsampled")[1]["unsampled"] == (
        '41 threads were not sampled (worker-1, worker-2, ?[0m, ...), 30 % of the CPU time: of 40 the limit of pending signals '
        '(RLIMIT_SIGPENDING, 10) is reached; raise it with "ulimit -i"; of 1 they block edgeprof\'s signal (27) or have no '
        'room for its handler; remove it from their signal mask, or give them a larger alternate stack'), "and told in one line"
    assert server.push(first(92, "old agent", stats=stats(100, 90, 7, 3, [(1, 2, 0)]))) == 200, "an agent that does not say why"
    assert server.get("/api/stats", service="old agent")[1]["unsampled"] == (
        '2 threads were not sampled: the limit of pending signals (RLIMIT_SIGPENDING) is reached; raise it with "ulimit -i"'), "what is likely"


EVIL = "<b>\"x\"'\n;=&"
KINDS = {"cpu": 1, "wait": 2, "lock": 3, "alloc": 4, "live": 5, "exception": 6, "gc": 7, "thread": 8, "heap": 9, "write": 10, "sync": 11}
COUNTED = {"wait", "lock", "alloc", "live", "gc", "write", "sync"}
LEVELS = {"live", "heap"}


def message_of_kinds(segment, sequence, rng, truth, service="kinds"):
    """Every kind, with labels; truth[kind][label] += (count, value)."""
    profiles = []
    contexts = [context(1), context(2, 7, (8, 9)), context(0, thread="worker"), context(3)]
    names = ["step=a", "step=b", "", "odd"]
    for kind, ident in KINDS.items():
        rows = []
        for node in (1, 2, 3):
            for place in sorted(rng.sample(range(5), 2)):
                count, value = rng.randrange(1, 50), rng.randrange(1, 1000)
                rows.append((node, place, count if kind in COUNTED else 0, value))
        if kind in LEVELS:
            truth[kind] = {}
        for _, place, count, value in rows:
            sums = truth.setdefault(kind, {}).setdefault(names[place - 1] if place else "", [0, 0])
            sums[0] += count
            sums[1] += value * 3
        profiles.append(profile(rows, quantum=3, kind=ident, start=(1 + sequence) * 10**9, period=30))
    profiles.append(profile({1: 5}, kind=99))
    first_one = sequence == 0
    sets = [tag_set(1, step="a", zone="x"), tag_set(2, step="b"), tag_set(3, **{"odd": EVIL})] if first_one else []
    return message(segment, sequence, origin(service, [("version", "1")], pid=segment) if first_one else None,
                   [module(4096, 4096, 0, b"\1" * 20, "/nowhere/app")] if first_one else [],
                   nodes([0, 1, 1], [4100, 4200, 12]) if first_one else None, profiles, tag_sets=sets, contexts=contexts)


def test_all_kinds(folder, server):
    rng, truth = random.Random(7), {}
    for sequence in range(6):
        assert server.push(message_of_kinds(2000, sequence, rng, truth)) == 200, f"all kinds, message {sequence}"
    rows = {row["kind"]: row for row in server.get("/api/services")[1]["services"] if row["service"] == "kinds"}
    assert sorted(rows) == sorted([*KINDS, "wall"]), "kinds of the service"
    assert (rows["alloc"]["unit"], rows["alloc"]["counts"], rows["lock"]["unit"]) == ("bytes", "objects", "nanoseconds"), "their units"
    for selector, wanted in (('{step=~"a|b"}', ("step=a", "step=b")), ('{step!="a"}', None), ('{step=~"[ab]",step!="b"}', ("step=a",)),
                             ('{service_name=~"kin.*",step="b"}', ("step=b",))):
        some = truth["cpu"]
        value = sum(v for _, v in some.values()) - some["step=a"][1] if wanted is None else sum(some[key][1] for key in wanted)
        assert server.total("kinds" + selector, kind="cpu") == value, f"selector {selector}"
        if "service" in selector:
            assert server.total(selector, kind="cpu") == value, f"selector {selector} of the only service"
    assert server.get("/api/profile", service='kinds{step=~"("}')[0] == 400, "an expression that is none"
    for kind in KINDS:
        sums = truth[kind].values()
        assert server.total("kinds", kind=kind) == sum(value for _, value in sums), f"{kind}: value"
        if kind in COUNTED:
            assert server.total("kinds", kind=kind, value="count") == sum(count for count, _ in sums), f"{kind}: count"
        assert server.total("kinds", kind=kind, label="step=a") == truth[kind].get("step=a", [0, 0])[1], f"{kind}: a label"
        assert server.total("kinds", kind=kind, label="span_id=" + 15 * "0" + "7") == truth[kind].get("step=b", [0, 0])[1], f"{kind}: a span"
        assert server.total("kinds", kind=kind, label="trace_id=" + 15 * "0" + "8" + 15 * "0" + "9") == truth[kind].get("step=b", [0, 0])[1], f"{kind}: a trace"
        assert server.total("kinds", kind=kind, label="version=1") == sum(value for _, value in sums), f"{kind}: a process' tag"
    assert server.total("kinds", kind="wall") == server.total("kinds", kind="cpu") + server.total("kinds", kind="wait"), "wall time"
    answer = server.get("/api/profile", service="kinds", kind="alloc", group="step")[1]
    step_a, step_b = truth["alloc"]["step=a"][1], truth["alloc"]["step=b"][1]
    others = sum(v[1] for k, v in truth["alloc"].items() if not k.startswith("step"))
    split = {child["name"]: child["value"] for child in answer["tree"]["children"]}
    assert split == {"step=a": step_a, "step=b": step_b, "[no step]": others}, "split by a label"
    assert answer["labels"]["step"] == {key[5:]: value[1] for key, value in sorted(truth["alloc"].items()) if key.startswith("step")}, "sums of labels"
    assert list(answer["labels"]["odd"]) == [EVIL.replace("\n", "?")], "a label is text"
    raw = server.request("GET", "/api/profile?service=kinds&kind=alloc")[1]
    assert b"<b>" not in raw, "labels are no markup"
    process = server.get("/api/stats", service="kinds")[1]["processes"][0]
    assert process["unknown_kinds"] == 6, "profiles of unknown kinds are counted"
    again = {}
    assert server.push(message_of_kinds(2001, 0, random.Random(8), again)) == 200, "another process"
    for kind in LEVELS:
        assert server.total("kinds", kind=kind) == sum(v[1] for t in (truth, again) for v in t[kind].values()), f"{kind}: a level is the last of each process"
    path = os.path.join(folder, "kinds.pb.gz")
    for kind, index, unit in (("alloc", "alloc_objects", "count"), ("alloc", "alloc_space", "bytes"), ("live", "inuse_space", "bytes"),
                              ("lock", "delay", "nanoseconds"), ("exception", "exception", "count"), ("gc", "pause", "nanoseconds"),
                              ("heap", "heap_size", "bytes")):
        with open(path, "wb") as file:
            file.write(server.request("GET", f"/api/pprof?service=kinds&kind={kind}")[1])
        done = subprocess.run(["go", "tool", "pprof", "-raw", f"-sample_index={index}", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and f"{index}/{unit}" in done.stdout, f"go tool pprof {index}: {done.stdout[:200]} {done.stderr}"
    assert "step:[a]" in done.stdout and "span_id:[0000000000000007]" in done.stdout, "labels in pprof"


def test_several_types(server):
    """All sample types of a pprof, and their labels."""
    strings = [b"", b"cpu", b"nanoseconds", b"main", b"alloc_objects", b"count", b"alloc_space", b"bytes", b"contentions", b"delay",
               b"inuse_space", b"queue", b"step", b"pricing", b"size", b"span_id", b"00000000000000ff"]
    types = ((1, 2), (4, 5), (6, 7), (8, 5), (9, 2), (10, 7), (11, 5))
    labels = nested(3, number(1, 12) + number(2, 13)) + nested(3, number(1, 14) + number(3, 64) + number(4, 7)) + nested(3, number(1, 15) + number(2, 16))
    samples = [data(1, b"\1") + data(2, bytes([1, 2, 3, 4, 5, 6, 7])) + labels, data(1, b"\1") + data(2, bytes([10, 20, 30, 40, 50, 60, 70]))]
    body = pprof_profile(strings, samples, types, [nested(4, number(1, 1) + nested(4, number(1, 1)))], [function_of(1, 3)])
    for name, contended in (("types", "lock"), ("types-block", "wait"), ("types-name%7B__name__%3Dblock%7D", "wait")):
        service = name.split("%")[0]
        if service == "types-block":
            status = server.request("POST", PUSH, push_request([[("__name__", "block"), ("service_name", service)]], body), PROTO)[0]
        else:
            status = server.request("POST", f"/ingest?name={name}", body)[0]
        assert status == 200, name
        for kind, value, count in (("cpu", 11, None), ("alloc", 33, 22), (contended, 55, 44), ("live", 66, None), ("queue", 77, None)):
            assert server.total(service, kind=kind) == value, f"{name}: {kind}"
            assert server.total(service, kind=kind, label="step=pricing") == value // 11, f"{name}: {kind} with a label"
            assert server.total(service, kind=kind, label="size=64 bytes") == value // 11, f"{name}: {kind} with a number"
            assert server.total(service, kind=kind, label="span_id=00000000000000ff") == value // 11, f"{name}: {kind} of a span"
            if count:
                assert server.total(service, kind=kind, value="count") == count, f"{name}: {kind} as counts"


def test_at_once(server):
    """Many devices at a time, and somebody looking."""
    results = []

    def device(ident):
        for sequence in range(12):
            results.append(server.push(first(ident, "many") if sequence == 0 else later(ident, sequence)))

    def viewer():
        for _ in range(12):
            results.append(server.get("/api/profile", service="many")[0])
    threads = [threading.Thread(target=device, args=(5000 + i,)) for i in range(8)] + [threading.Thread(target=viewer)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(results) == {200}, "everybody is served"
    assert server.total("many") == 8 * (40_000_000 + 11 * 20_000_000), "and nothing is lost"


def test_waited(server):
    """What waited on a device without a clock is dated by its age, and marked when nobody knows that."""
    for segment, age, known in ((61, "7200000", True), (62, "unknown", False), (63, "-1", False), (64, "9" * 30, False)):
        body = first(segment, f"waited{segment}", unix_minus_uptime=0)
        for _ in range(2):  # the second is repeated
            status = server.request("POST", "/edgeprof/v1/push", body, {"X-Edgeprof-Age": age})[0]
            assert status == 200, f"age {age}"
        now = int(time.time())
        service = f"waited{segment}"
        hour_ago = server.total(service, **{"from": now - 9000, "to": now - 5000})
        assert (hour_ago if known else server.total(service, **{"from": now - 60, "to": now + 60})) == 40_000_000, f"age {age}: it is where it belongs, once"
        tags = server.total(service + '{undated="true"}', **{"from": now - 9000, "to": now + 60})
        assert bool(tags) == (not known), f"age {age}: marked when it cannot be dated"


def test_unread_answers_delay_nobody_else(start_server):
    """120 clients ask for large answers and do not read them: somebody else is served meanwhile."""
    server, count, now = start_server(), 6000, int(time.time())
    body = message(1, 0, origin("svc"), [module(4096, 1 << 24, 0, b"\7" * 20, "/x/app")], nodes([0] * count, [4096 + 50 * i for i in range(count)]),
                   [profile({i + 1: 1 for i in range(count)})], unix_minus_uptime=(now - 100) * 10**9)
    assert server.push(body) == 200
    begin = time.monotonic()
    assert len(server.request("GET", "/api/profile?service=svc&rows=100000")[1]) > 100_000
    one, clients = time.monotonic() - begin, []
    for _ in range(120):
        clients.append(socket.socket())
        clients[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        clients[-1].connect(("127.0.0.1", server.port))
        clients[-1].sendall(b"GET /api/profile?service=svc&rows=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    waits = []
    for _ in range(5):
        begin = time.monotonic()
        assert server.get("/api/services")[0] == 200
        waits.append(time.monotonic() - begin)
    assert waits[0] < max(4, 240 * one), f"one answer takes {one:.3f} s, the first waited for them to be made: {waits}"
    assert max(waits[1:]) < max(2, 40 * one), f"one answer takes {one:.3f} s, the others waited {waits}"
    for client in clients:
        client.close()


def test_ambiguous_requests(server):
    """Two ends of one request, as a proxy and the server may see them: refused, and nothing behind it is a request."""
    body, hidden = first(801, "smuggled"), b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for framing in (["Content-Length: 5", f"Content-Length: {len(body)}"], [f"Content-Length: {len(body)}", "Content-Length: 5"],
                    [f"Content-Length: {len(body)}"] * 2, [f"Content-Length: {len(body)}", "Transfer-Encoding: chunked"],
                    ["Transfer-Encoding: chunked", f"content-length: {len(body)}"], [f"Content-Length: {len(body)}", "Host: evil.example"],
                    [f"Content-Length: {len(body)}, {len(body)}"], [f"Content-Length: +{len(body)}"]):
        with socket.create_connection(("127.0.0.1", server.port), 20) as s:
            s.sendall("\r\n".join(["POST /edgeprof/v1/push HTTP/1.1", "Host: localhost", "Content-Type: application/x-edgeprof", *framing, "", ""]).encode() +
                      body + hidden)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while chunk := s.recv(65536):
                    answer += chunk
        assert set(re.findall(rb"HTTP/1.1 (\d+)", answer)) == {b"400"}, f"{framing}: {answer}"
    assert "smuggled" not in [row["service"] for row in server.get("/api/services")[1]["services"]]


def test_wrong_clocks(start_server):
    """The age dates what a wrong clock has dated, and nothing of it is refused; a right date is kept."""
    server = start_server(config="[limits]\nfuture = 10m\npast = 7d\n")
    now, hour = int(time.time()), 3600
    year = 365 * 24 * hour
    cases = [  # seconds of the sender's clock from now, its age, and where the profile belongs; None: undated
        (10 * year, "7200000", -2 * hour), (10 * year, "0", 0), (-10 * year, "7200000", -2 * hour), (-56 * year, "0", 0), (-20 * year, "0", 0),
        (5 * hour, "7200000", -2 * hour), (-2 * hour, "7200000", -2 * hour), (-2 * hour, str(10 * year * 1000), -2 * hour),
        (-2 * hour, "unknown", -2 * hour), (10 * year, "unknown", None), (-56 * year, "unknown", None)]
    for number_, (ahead, age, where) in enumerate(cases):
        body = first(700 + number_, f"clock{number_}", unix_minus_uptime=(now + ahead - 2) * 10**9)
        assert server.request("POST", "/edgeprof/v1/push", body, {"X-Edgeprof-Age": age})[0] == 200, cases[number_]
        begin = now + (where or 0) - 60
        service = f"clock{number_}" + ("" if where is not None else '{undated="true"}')
        assert server.total(service, **{"from": begin, "to": begin + 120}) == 40_000_000, cases[number_]
        assert server.total(f"clock{number_}", **{"from": 1, "to": now + 20 * year}) == 40_000_000, cases[number_]


def test_restarts(folder, start_server):
    db = os.path.join(folder, "restart.db")
    server = start_server(db=db)
    assert server.push(first(1)) == 200, "before the restart"
    for sequence, number_ in ((1, signal.SIGTERM), (2, signal.SIGKILL), (3, signal.SIGINT)):
        code = server.stop(number_)
        assert code == (-9 if number_ == signal.SIGKILL else 0), "exit code"
        server = start_server(db=db)
        assert server.push(later(1, sequence)) == 200, f"segment goes on after signal {number_}"
        assert server.push(later(1, sequence)) == 200, "repeated"
    assert server.total("svc") == 40_000_000 + 3 * 20_000_000, "everything is there once"


def test_diff_of_unequal_fleets(start_server):
    """Four devices before and one after, each with the same usage: no growth."""
    server = start_server()
    for device, version in enumerate("11112"):
        profiles = [profile({1: 1000}, start=10**9 * (1 + 600 * i), duration=600 * 10**9, kind=kind) for i in range(3) for kind in (1, 5)]
        assert server.push(message(device + 1, 0, origin("sizes", [("device", f"d{device}"), ("version", version)], pid=device), [module(4096, 4096)],
                                   nodes([0], [4100]), profiles)) == 200
    for kind in ("cpu", "live"):
        answer = server.get("/api/diff", service='sizes{version="2"}', base_service='sizes{version="1"}', kind=kind)[1]
        assert [side["processes"] for side in answer["sides"]] == [4, 1] and answer["sides"][0]["total"] == 4 * answer["sides"][1]["total"]
        assert abs(answer["growth"]) < 0.001 and answer["verdict"] == "same", (kind, answer["growth"], answer["verdict"])


@pytest.mark.all
def test_full_disk(folder, start_server):
    db = os.path.join(folder, "full.db")
    server = start_server(db=db, prefix=["prlimit", "--fsize=6000000"])
    sequence, refused = 0, 0
    while refused < 4 and sequence < 20000:  # what is refused once may fit when the log has been written back
        if sequence == 0:
            body = first(1)
        elif sequence < 40:
            body = message(1, sequence, nodes=nodes([1] * 20, [4100 + i for i in range(20)]), profiles=[profile({1: 1})])
        else:
            body = message(1, sequence, profiles=[profile({i: i for i in range(1, 500)})])
        status = server.push(body)
        assert status in (200, 503), f"taken or no room: {status}"
        sequence, refused = (sequence + 1, 0) if status == 200 else (sequence, refused + 1)
    assert status == 503, "no room"
    assert sequence > 50, f"some fitted: {sequence}"
    assert int(server.headers["Retry-After"]) > 0, "when to try again"
    kept = sequence - 1
    lines = server.stderr().splitlines()
    assert len(lines) % 2 == 1 and all(line.startswith(f"edgeprof: database {db}: ") for line in lines), f"one clear line each time: {lines}"
    assert all(("works again" in line) == (i % 2 == 1) for i, line in enumerate(lines)), f"it fails and works by turns: {lines}"
    sum_ = server.total("svc")
    assert server.stop() == 0, "exit code"
    server = start_server(db=db)
    assert server.total("svc") == sum_, "what was taken is there"
    assert server.push(later(1, kept)) == 200, "repeated message is known"
    assert server.total("svc") == sum_, "and not counted again"
    assert server.push(later(1, kept + 1)) == 200, "with room again the device goes on"


def test_start_up(cli, folder, start_server):
    """Exit code and one line for everything that can go wrong at the start."""
    db = os.path.join(folder, "start.db")
    server = start_server(db=db)
    text = os.path.join(folder, "text.db")
    with open(text, "w") as file:
        file.write("this is no database\n" * 100)
    for arguments, code, word in (
            (["--listen", f"127.0.0.1:{server.port}", "--db", db], 1, "in use"),
            (["--listen", "127.0.0.1:0", "--db", "/nowhere/at/all.db"], 1, "/nowhere/at/all.db"),
            (["--listen", "127.0.0.1:0", "--db", folder], 1, folder),
            (["--listen", "127.0.0.1:0", "--db", text], 1, "text.db"),
            (["--listen", "nonsense", "--db", db], 1, "host:port"),
            (["--listen", "127.0.0.1:99999", "--db", db], 1, "99999"),
            (["--listen", "no.such.host.invalid:1", "--db", db], 1, "no.such.host.invalid"),
            (["--bogus"], 2, "--bogus"), (["extra"], 2, "extra"), (["--db"], 2, "--db"), (["--db", ""], 2, "--db")):
        cli.fails(code, word, "serve", *arguments)


def test_queries_have_a_deadline(folder, start_server):
    """Expressions that need all the steps they have for each of 500 values, 100 times: half a minute and more."""
    server = start_server(config="[limits]\nquery-time = 1s\n")
    value = "a" * 40
    profile = pprof_profile([b"", b"cpu", b"nanoseconds"], [data(2, varint(7))])
    body = push_request([[("service_name", "svc"), ("x", value), ("n", str(i)), ("__name__", "process_cpu")] for i in range(500)], profile)
    assert server.request("POST", PUSH, body, PROTO)[0] == 200, "500 series"
    query = "/api/profile?service=svc" + "&tag=x!~(?:a%2B)%2B[bc]" * 100
    start = time.monotonic()
    status, text = server.request("GET", query)
    taken = time.monotonic() - start
    assert (status, "query-time in [limits]" in json.loads(text)["error"]) == (503, True), (status, text[:300], taken)
    assert server.request("GET", "/api/profile?service=svc&tag=x=" + value)[0] == 200, "the next query has its own time"
    with sqlite3.connect(server.db, timeout=60) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "nothing holds the log"


def select_series(server, group_by, **more):
    request = {"profileTypeID": "process_cpu:cpu:nanoseconds::", "labelSelector": '{service_name="svc"}', "start": 1, "end": 4_000_000_000_000,
               "step": 1e6, "groupBy": group_by, **more}
    status, text = server.request("POST", "/querier.v1.QuerierService/SelectSeries", json.dumps(request).encode(), {"Content-Type": "application/json"})
    return status, json.loads(text)


def test_all_reads_of_a_request_have_one_deadline(folder, start_server):
    """251 reads of about 100 ms each: each alone is in time, together they need half a minute."""
    server = start_server(config="[limits]\nquery-time = 5s\n")
    value = "a" * 40
    profile = pprof_profile([b"", b"cpu", b"nanoseconds"], [data(2, varint(7))])
    body = push_request([[("service_name", "svc"), ("x", value), ("n", str(i)), ("__name__", "process_cpu")] for i in range(250)], profile)
    assert server.request("POST", PUSH, body, PROTO)[0] == 200, "250 series"
    slow = '{service_name="svc"' + ', x!~"(?:a+)+[bc]"' * 2 + "}"
    assert select_series(server, ["n"], labelSelector=slow)[0] == 200, "one read is in time"
    status, answer = select_series(server, ["n", "x"], labelSelector=slow)
    assert status == 503 and "query-time in [limits]" in answer["message"], (status, str(answer)[:300])
    assert select_series(server, ["n", "x"])[0] == 200, "the next request has its own time"


def test_queries_have_a_memory_budget(folder, start_server):
    config = "[limits]\nquery-memory = 2M\n"
    servers = [start_server(db=os.path.join(folder, "usual.db")), start_server(config=config)]
    count = 20_000
    wide = message(1, 0, origin("svc", [("k", "v")]), [module(4096, 1 << 30, 0, b"\1" * 20, "/nowhere/app")],
                   nodes([0] * count, [4096 + 16 * i for i in range(count)]), [profile({i + 1: 1 for i in range(count)})])
    small = first(2, "small")
    paths = ("/api/profile?service={}", "/api/pprof?service={}", "/render?query=process_cpu:cpu:nanoseconds::%7Bservice_name%3D%22{}%22%7D&from=0&until=now")
    for server, expected in zip(servers, (200, 413)):
        assert server.push(wide) == 200 and server.push(small) == 200
        for path in paths:
            status, text = server.request("GET", path.format("svc"))
            assert status == expected, (path, status, text[:200])
            assert status == 200 or (b"query-memory in [limits]" in text and text.count(b"\n") <= 1), text
            assert server.request("GET", path.format("small"))[0] == 200, "small queries go on"


def test_exemplars_say_that_they_exceed_the_budget(folder, start_server):
    """The series needs little memory; the profile that is read for the value of its part needs too much."""
    config = "[limits]\nquery-memory = 2M\n"
    count = 20_000
    body = message(1, 0, origin("svc"), [module(4096, 1 << 30, 0, b"\1" * 20, "/nowhere/app")],
                   nodes([0] * count, [4096 + 16 * i for i in range(count)]), [profile([(i + 1, 1, 0, 1) for i in range(count)])],
                   tag_sets=[tag_set(1, step=b"a")], contexts=[context(1)],
                   unix_minus_uptime=(int(time.time()) - 60) * 10**9) # profiles of an hour ago may be merged at once, and have no exemplars
    wanted = {"labelSelector": '{service_name="svc", step="a"}', "exemplarType": "EXEMPLAR_TYPE_INDIVIDUAL"}
    for settings, expected in (None, 200), (config, 413):
        server = start_server(config=settings, db=os.path.join(folder, f"{expected}.db"))
        assert server.push(body) == 200
        assert select_series(server, ["step"], labelSelector=wanted["labelSelector"])[0] == 200
        status, answer = select_series(server, ["step"], **wanted)
        assert status == expected and (status == 413 or answer["series"][0]["points"][0]["exemplars"]), (status, str(answer)[:500])
        assert status == 200 or "query-memory in [limits]" in answer["message"], answer


def test_lists_count_their_answers(folder, start_server):
    """Lists of tag sets and processes are as large as the fleet: they count like what is read for them."""
    server = start_server(config="[limits]\nquery-memory = 2M\n")
    profile = pprof_profile([b"", b"cpu", b"nanoseconds"], [data(2, varint(7))])
    for number in range(10):
        body = push_request([[("service_name", f"svc{number}"), ("x", f"{i:04}" * 500), ("__name__", "process_cpu")] for i in range(200)], profile)
        assert server.request("POST", PUSH, body, PROTO)[0] == 200
    for path in ("/api/services", "/api/stats"):
        status, answer = server.request("GET", path)
        assert status == 413 and b"query-memory in [limits]" in answer, (path, status, len(answer))
    assert server.request("GET", "/api/services?tags-of=svc1")[0] == 200
    assert server.request("GET", "/api/stats?service=svc1")[0] == 200


def test_a_reply_counts(folder, start_server):
    """Each read is small, the reply grows with each."""
    server = start_server(config="[limits]\nquery-memory = 1M\n")
    profile = pprof_profile([b"", b"cpu", b"nanoseconds"], [data(2, varint(7))])
    body = push_request([[("service_name", "svc"), ("n", str(i)), ("m", str(i)), ("__name__", "process_cpu")] for i in range(100)], profile)
    assert server.request("POST", PUSH, body, PROTO)[0] == 200, "100 series"
    now = int(time.time() + 10) * 1000
    assert select_series(server, ["n", "m"], step=9e8)[0] == 200, "one point each"
    assert select_series(server, [], step=1, start=now - 9_000_000, end=now)[0] == 200, "9,000 steps once"
    status, answer = select_series(server, ["n", "m"], step=30, start=now - 90_000_000, end=now)
    assert status == 413 and "query-memory in [limits]" in answer["message"], (status, str(answer)[:300])


def test_answers_are_compressed_and_known(start_server):
    server = start_server()
    count = 2000
    wide = message(1, 0, origin("svc"), [module(4096, 1 << 30, 0, b"\1" * 20, "/nowhere/app")], nodes([0] * count, [4096 + 16 * i for i in range(count)]),
                   [profile({i + 1: 1 for i in range(count)})])
    assert server.push(wide) == 200
    select = json.dumps({"profileTypeID": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "labelSelector": "{}", "start": 1, "end": 4_000_000_000_000}).encode()
    query = "/querier.v1.QuerierService/SelectMergeStacktraces"
    past = f"&from={NOW - 3600}&to={NOW + 3600}"
    gets = ("/", "/page.js", "/api/profile?service=svc" + past, "/api/pprof?service=svc" + past,
            "/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D&from=0&until=now")
    for method, path, body, kind in (*(("GET", path, None, {}) for path in gets), ("POST", query, select, {"Content-Type": "application/json"})):
        status, plain = server.request(method, path, body, kind)
        assert status == 200 and "Content-Encoding" not in server.headers, (path, status)
        tag = server.headers["ETag"]
        for accept in ("gzip", "br;q=1.0, GZIP;q=0.5", "*"):
            status, packed = server.request(method, path, body, {**kind, "Accept-Encoding": accept})
            if "pprof" in path:
                assert packed == plain and "Content-Encoding" not in server.headers, "it is gzip as it is"
            else:
                assert server.headers["Content-Encoding"] == "gzip" and "Accept-Encoding" in server.headers["Vary"], path
                assert gzip.decompress(packed) == plain and len(packed) < len(plain) / 2, (path, len(packed), len(plain))
            assert server.headers["ETag"] == tag, "gzip or not"
        for accept in ("identity", "gzip;q=0", "br, gzip; q=0.000", "*;q=0"):
            assert server.request(method, path, body, {**kind, "Accept-Encoding": accept})[1] == plain and "Content-Encoding" not in server.headers, accept
        assert (tag is None) == (method == "POST"), path
        if method == "GET":
            assert server.request("GET", path, headers={"If-None-Match": f'"other", {tag}', "Accept-Encoding": "gzip"}) == (304, b"") and server.headers["ETag"] == tag
            assert server.request("GET", path, headers={"If-None-Match": '"other"'})[0] == 200
            assert server.request("HEAD", path, headers={"If-None-Match": tag})[0] == 304
    closed = gets[2]
    server.request("GET", closed)
    tag = server.headers["ETag"]
    assert server.push(later(1, 1)) == 200, "late, for the same range"
    assert server.request("GET", closed, headers={"If-None-Match": tag})[0] == 200 and server.headers["ETag"] != tag, "a late profile changes the answer"
    small = server.request("GET", "/healthz", headers={"Accept-Encoding": "gzip"})
    assert small == (200, b"ok\n") and "Content-Encoding" not in server.headers, "not worth it"
    assert server.request("GET", "/nowhere", headers={"If-None-Match": "*"})[0] == 404, "errors have no tag"


def test_tags_of_one_service(start_server):
    """The page asks every five seconds: the tags of other services and of each further kind would be most of the answer."""
    server = start_server()
    profiles = [profile({1: 1}, kind=kind) for kind in (1, 2, 3)]
    for i in range(40):
        service = "other" if i < 20 else "mine"
        body = message(i + 1, 0, origin(service, [("device", f"device-number-{i}")]), [module(4096, 4096)], nodes([0], [4100]), profiles)
        assert server.push(body) == 200
    everything, asked = server.get("/api/services")[1]["services"], server.get("/api/services", **{"tags-of": "mine"})[1]["services"]
    without = [{**row, "tags": []} for row in everything]
    assert [{**row, "tags": []} for row in asked] == without and len(asked) >= 6, "the same rows"
    mine = next(row["tags"] for row in everything if row["service"] == "mine")
    assert len(mine) == 20
    assert [row["tags"] for row in asked if row["tags"]] == [mine], "its tags, once"
    assert next(row for row in asked if row["service"] == "mine")["tags"] == mine, "in its first row"
    assert not any(row["tags"] for row in server.get("/api/services", **{"tags-of": "nobody"})[1]["services"])
    sizes = [len(server.request("GET", path)[1]) for path in ("/api/services", "/api/services?tags-of=mine")]
    assert sizes[1] * 3 < sizes[0], sizes


# ---- HTTP as other programs speak it ----

@pytest.mark.parametrize("coding", ("gzip", "GZIP", "Gzip", "x-gzip", "X-GZip", "identity", "Identity"))
def test_names_of_content_codings_have_no_case(server, coding):
    """RFC 9110, 8.4.1."""
    text, name = b"main;work 7\n", f"coded-{coding}"
    body = text if coding.lower() == "identity" else gzip.compress(text)
    assert server.request("POST", f"/ingest?name={name}&format=groups", body, {"Content-Encoding": coding})[0] == 200
    assert server.total(name) == 70_000_000
    sent = message(int.from_bytes(coding.encode()[:8]), 0, origin(f"compact-{coding}"), [module(4096, 4096)], nodes([0], [4100]), [profile({1: 7})])
    assert server.request("POST", "/edgeprof/v1/push", sent if coding.lower() == "identity" else gzip.compress(sent), {"Content-Encoding": coding})[0] == 200
    assert server.total(f"compact-{coding}") == 70_000_000, "a compact message, too"


def test_absolute_form_of_a_target(server):
    """RFC 9112, 3.2.2: as clients send it to a proxy."""
    assert server.request("GET", server.url + "/healthz") == server.request("GET", "/healthz")
    assert server.request("GET", server.url.replace("http", "HTTP") + "/api/services") == server.request("GET", "/api/services")
    assert server.request("POST", server.url + "/ingest?name=absolute&format=groups", b"main 7\n")[0] == 200
    assert server.total("absolute") == 70_000_000
    assert server.request("GET", server.url)[0] == server.request("GET", "/")[0]


@pytest.mark.parametrize("day", ("2026-02-30T12:00:00Z", "2026-02-31", "2025-02-29T00:00:00Z", "2026-04-31T00:00", "2026-13-01", "2026-00-10"))
def test_days_that_do_not_exist(server, day):
    assert server.get("/api/profile", service="svc", **{"from": day})[0] == 400
    assert server.get("/api/profile", service="svc", to=day)[0] == 400


@pytest.mark.parametrize("day", ("2024-02-29T00:00:00Z", "2026-01-31", "2026-12-31T23:59"))
def test_days_that_exist(server, day):
    server.request("POST", "/ingest?name=dated&format=groups", b"main 7\n")
    assert server.get("/api/profile", service="dated", **{"from": day})[0] == 200


def test_type_at_the_end_of_an_ingested_name(server):
    """As older agents send it, in each format."""
    assert server.request("POST", "/ingest?name=typed.cpu&format=groups", b"main 7\n")[0] == 200
    pprof = pprof_profile([b"", b"cpu", b"nanoseconds", b"main"], [data(1, b"\1") + data(2, varint(500))],
                          locations=[nested(4, number(1, 1) + nested(4, number(1, 1)))], functions=[function_of(1, 3)])
    assert server.request("POST", "/ingest?name=typed.cpu&format=pprof", pprof)[0] == 200
    assert server.total("typed") == 70_000_500


@pytest.mark.parametrize("kind", (5, 9), ids=("live", "heap"))
def test_levels_of_those_that_live(start_server, kind):
    """Of a service that was stopped, killed and started again, and has two devices, its last processes are added."""
    server, second, base = start_server(), 10**9, 1_699_999_980

    def push(segment, device, reports, ended=False):
        """reports: {second: value}, each of the ten seconds before"""
        for i, (at, value) in enumerate(reports.items()):
            last = ended and i + 1 == len(reports)
            start = dict(nodes=nodes([0], [4100]), modules=[module(4096, 4096)], origin=origin("level", [("device", device)], pid=segment)) if i == 0 else {}
            body = message(segment, i, profiles=[profile([(1, 0, 1, value)], 1, (at - 10) * second, 10 * second, 1, 1, kind)], last=last,
                           unix_minus_uptime=base * second, **start)
            assert server.push(body) == 200

    push(1, "a", {10 * i: 1000 for i in range(1, 7)}, ended=True)  # until 60
    push(2, "a", {71 + 10 * i: 200 for i in range(6)})             # from 61 on, killed at 125
    push(3, "a", {200 + 10 * i: 30 for i in range(10)})            # lives at 290
    push(4, "b", {14 + 10 * i: 4 for i in range(28)})              # the whole time, until 284
    name = {5: "live", 9: "heap"}[kind]
    assert server.total("level", kind=name, value="value") == 34, "at the end"
    for until, wanted in ((60, 1004), (75, 204), (121, 204), (250, 34), (291, 34)):
        assert server.total("level", kind=name, value="value", **{"from": base, "to": base + until}) == wanted, until
    series = server.get("/api/timeline", service="level", kind=name, value="value", **{"from": base, "to": base + 300}, buckets=5)[1]
    assert series["series"][0]["values"] == [1004, 204, 4, 34, 34], "each minute"
