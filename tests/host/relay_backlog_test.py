"""A relayed backlog reaches servers that behave as the real ones whole and once, past bad profiles and limits too, and every answer has the right result.

The relay against receivers that behave as the real servers do (tests/linux/conformance/backends.py): a backlog arrives whole, each profile once, in few
requests that the server's rate allows, also when some profiles are old, odd or too large and some answers get lost.

--rounds: thousands of profiles of the backlog; 0: 2. An hour of 100 devices that send every ten seconds is 36."""
import json
import pathlib
import time

import pytest

import generate
from backends import Collector, Grpc, Parca, Pyroscope, quoted
from harness import wait_until
from proto import decode, encode
from relay_rules import check_otlp
from rules import inflated

pytestmark = pytest.mark.all

SECOND = 10**9
NODES = 40
PATH = "/opt/" + "a" * 120  # a name of each stack's own, so that a profile is some kilobytes


class Fleet:
    """Messages of 100 devices, each with a profile of one stack a node. sent: {(service, time): sum} of what a server would take."""

    def __init__(self, server):
        self.server, self.expected, self.lost, self.pprofs = server, {}, 0, 0
        self.base = int((time.time() - 3000) * SECOND)
        self.sequence = {}

    def profile(self, device, at, value, start=0):
        first = device not in self.sequence
        number = self.sequence[device] = self.sequence.get(device, -1) + 1
        body = generate.message(
            1 + device, number, origin=generate.origin(service=f"svc-{device}", host=f"h-{device}") if first else None,
            modules=[generate.module(4096, 65536, 0, b"\1" * 20, PATH)] if first else (),
            nodes=generate.nodes([0] + [1] * (NODES - 1), [4096 + i * 16 for i in range(NODES)]) if first else None,
            profiles=[generate.profile({node: value for node in range(1, NODES + 1)}, quantum=1, start=SECOND)],
            unix_minus_uptime=at - SECOND)
        assert self.server.push(body) == 200
        return value * NODES

    def good(self, device, round_):
        at = self.base + round_ * 10 * SECOND + device
        self.expected[at] = self.profile(device, at, 1 + (device * 7 + round_) % 1000)

    def one(self, segment, service):
        """A profile of a service that `expected` does not count."""
        body = generate.message(segment, 0, origin=generate.origin(service=service), modules=[generate.module(4096, 4096, 0, b"\1" * 20, "/bin/app")],
                                nodes=generate.nodes([0], [4100]), profiles=[generate.profile({1: 1}, start=SECOND)],
                                unix_minus_uptime=int((time.time() - 10) * SECOND))
        assert self.server.push(body) == 200

    def old(self, device):
        self.profile(device, int((time.time() - 7200) * SECOND), 1)
        self.lost += 1

    def pprof(self, body):
        """Each at a second of its own: Pyroscope keeps one of two with the same labels and time."""
        self.pprofs += 1
        second = self.base // SECOND + self.pprofs
        status, said = self.server.request("POST", f"/ingest?name=odd{{a=b}}&from={second}&until={second + 10}", body)
        assert status == 200, said


def pprof(at, value, samples=1, unit=b"B/s", name=b"f", size=0):
    """One with samples of stacks of their own, whose names have `size` bytes."""
    strings = [b"", b"odd", unit, *(name + str(i).encode() + b"x" * size for i in range(samples))]
    return encode("Profile", {"sample_type": [{"type": 1, "unit": 2}], "sample": [{"location_id": [1 + i], "value": [value]} for i in range(samples)],
                              "function": [{"id": 1 + i, "name": 3 + i} for i in range(samples)],
                              "location": [{"id": 1 + i, "line": [{"function_id": 1 + i}]} for i in range(samples)],
                              "string_table": strings, "time_nanos": at, "duration_nanos": SECOND, "period_type": {"type": 1, "unit": 2}, "period": 1})


@pytest.fixture
def thousands(rounds):
    return rounds or 2


@pytest.fixture
def backlog(start_server, shipped, thousands):
    """backlog(fill): (server without a relay, filled; function that starts it again with a destination)"""
    def start(fill):
        server = start_server(program=shipped)
        fleet = Fleet(server)
        fill(fleet, thousands * 1000)
        assert server.stop() == 0

        def relay(to, url, **more):
            return start_server(program=shipped, config=f"[relay up]\nto = {to}\nurl = {url}\nbackfill = yes\nrate = 100M\n" + "".join(f"{key} = {value}\n" for key, value in more.items()))
        return fleet, relay
    return start


@pytest.fixture
def relayed(start_server, receive):
    """relayed(...): (a Receiver with these arguments, a server that passes on to it, that server's Fleet)"""
    def start(*arguments, **options):
        receiver = receive(*arguments, **options)
        server = start_server(config=f"[relay up]\nto = pyroscope\nurl = {receiver.url}\nretry = 1s\nretry-max = 1s\n")
        return receiver, server, Fleet(server)
    return start


def state(server):
    return server.get("/api/relays")[1]["relays"][0]


def run(server, seconds):
    """Seconds until nothing waits."""
    started = time.monotonic()
    assert wait_until(lambda: state(server)["waiting"] == 0, seconds), f"a backlog gets through: {state(server)}"
    return time.monotonic() - started


def memory(server):
    lines = pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def only_good(fleet, count):
    for i in range(count):
        fleet.good(i % 100, i // 100)


@pytest.mark.parametrize("thousands", [2, pytest.param(36, marks=pytest.mark.long)])
def test_backlog(backlog, figure, thousands):
    fleet, relay = backlog(only_good)
    receiver = Pyroscope()
    server = relay("pyroscope", receiver.url)
    seconds = run(server, 900)
    arrived = {profile.time: profile.total for _, profile in receiver.stored}
    assert len(receiver.stored) == len(arrived), "each once, even before compaction"
    assert arrived == fleet.expected, "whole"
    assert sum(profile.nameless for _, profile in receiver.stored) == 0, "no stack without a name"
    requests = receiver.inflated / receiver.BURST * 1.2 + 2
    assert receiver.numbers <= requests, f"{receiver.numbers} requests for {receiver.inflated} bytes: each is nearly a burst"
    # This receiver reads profiles more slowly than a real server, so its own time counts as allowed where it is longer.
    allowed = max(max(0, receiver.inflated - receiver.BURST) / receiver.RATE, receiver.busy)
    if thousands > 2:  # the long form has the machine to itself
        assert seconds <= allowed * 1.2 + 2 * receiver.seconds + 2, f"{seconds:.1f} s; {allowed:.1f} s are allowed"
    assert receiver.refused == 0, "the relay knows the server's rate and limits"
    figure("relay_backlog_profiles_per_second", round(len(arrived) / seconds), "1/s")
    figure("relay_backlog_of_allowed_time", round(100 * seconds / max(allowed, 0.1)), "%")
    figure("relay_backlog_answering_time", round(100 * receiver.busy / seconds), "%")
    figure("relay_backlog_refused_requests", receiver.refused, "requests")
    figure("relay_memory_most", memory(server), "kB")
    figure("relay_bytes_per_profile_pyroscope", round(state(server)["bytes"] / len(arrived)), "bytes")
    receiver.close()


def test_backlog_of_bad_profiles(backlog):
    """1 in 50 is too old, 1 in 100 has an odd unit, 1 in 200 is too large, and 1 in 10 answers gets lost after the profiles are stored."""
    odd, large = [], []

    def fill(fleet, count):
        for i in range(count):
            fleet.good(i % 100, i // 100)
            if i % 50 == 0:
                fleet.old(i % 100)
            if i % 100 == 0:
                odd.append(i + 1)
                fleet.pprof(pprof(fleet.base + i, i + 1))
            if i % 200 == 0:
                large.append(i + 1)
                fleet.pprof(pprof(fleet.base + i, i + 1, samples=600, name=b"large", unit=b"count", size=5000))
    fleet, relay = backlog(fill)
    receiver = Pyroscope(lose=lambda number: number % 10 == 3)
    server = relay("pyroscope", receiver.url, retry="1s", **{"retry-max": "1s"})
    seconds = run(server, 1800)
    left = receiver.compacted()
    plain = {profile.time: profile.total for profile in left if profile.type_names()[-1][0] == "cpu"}
    assert plain == fleet.expected, "what is good arrives whole and counts once after compaction"
    assert sum(profile.nameless for profile in left) == 0
    values = [profile for profile in left if profile.type_names()[-1][0] != "cpu"]
    assert sum(profile.samples for profile in values) == len(odd) + 600 * len(large), "odd units are legal, large ones come in pieces"
    told = state(server)
    assert told["lost"] == fleet.lost, "what is too old is counted"
    assert told["refused"] == 0 and told["sent"] == len(fleet.expected) + len(odd) + len(large), f"{told}"
    print(f"relay backlog: {len(receiver.stored) - len(left)} profiles sent again in {seconds:.1f} s")
    receiver.close()


def test_slow_answers(backlog):
    """30 s an answer in steps of a tenth: the requests are large enough that few are needed."""
    fleet, relay = backlog(lambda fleet, count: only_good(fleet, 300))
    receiver = Pyroscope(seconds=3)
    server = relay("pyroscope", receiver.url)
    run(server, 500)
    assert {profile.time: profile.total for _, profile in receiver.stored} == fleet.expected
    assert receiver.numbers <= 4, f"{receiver.numbers} requests"
    receiver.close()


@pytest.mark.parametrize("seconds", [0, 0.5])
def test_collector(backlog, seconds):
    """20,000 samples go in pieces; each body obeys the rules of profcheck."""
    def fill(fleet, count):
        only_good(fleet, 200)
        fleet.pprof(pprof(fleet.base, 3, samples=20000, unit=b"count"))
    fleet, relay = backlog(fill)
    receiver = Collector(seconds=seconds)
    server = relay("otlp", receiver.url)
    run(server, 500)
    assert receiver.samples == 200 * NODES + 20000 and receiver.most <= 16000
    assert sum(total for _, total in receiver.profiles) == sum(fleet.expected.values()) + 60000
    assert receiver.largest <= 4 << 20
    for head, body in receiver.receiver.requests:
        assert check_otlp(head, body, time.time(), True) == []
    receiver.close()


@pytest.mark.parametrize("to, server", [("parca", Grpc), ("parca-writeraw", None)])
def test_parca(start_server, to, server):
    """Odd units become legal ones, labels of stacks arrive by OTLP, and amounts have no duration."""
    receiver = Parca(**({"server": server} if server else {}))
    serve = start_server(config=f"[relay up]\nto = {to}\nurl = {receiver.url}\n")
    contexts = [generate.context(1, span=7, thread="worker")]
    serve.push(generate.message(
        1, 0, origin=generate.origin(), modules=[generate.module(4096, 4096, 0, b"\1" * 20, "/bin/app")], nodes=generate.nodes([0, 1], [4100, 4200]),
        profiles=[generate.profile([(2, 1, 3, 5)], quantum=1, start=SECOND, kind=kind) for kind in (1, 4, 5)], contexts=contexts,
        tag_sets=[generate.tag_set(1, step="pricing")], unix_minus_uptime=int((time.time() - 10) * SECOND)))
    assert serve.request("POST", "/ingest?name=odd{a=b}", pprof(int((time.time() - 20) * SECOND), 9))[0] == 200
    assert wait_until(lambda: state(serve)["waiting"] == 0), f"{state(serve)}"
    assert not receiver.receiver.wrong
    types = receiver.types
    assert types.get("process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta") == 5, f"{types}"
    assert types.get("memory:alloc_space:bytes:space:bytes:delta") == 5, f"{types}"
    assert types.get("memory:inuse_space:bytes:space:bytes") == 5, f"{types}"
    assert not any(":samples:" in name for name in types), "Parca shows them times the period"
    assert any(name.split(":")[2] == "B_s" for name in types), f"{types}"
    if server:
        assert {("thread.name", "worker"), ("step", "pricing")} <= receiver.labels
    told = state(serve)
    assert (told["sent"], told["refused"], told["failing"]) == (4, 0, False)
    receiver.close()


def test_one_that_always_fails(relayed):
    """A server that says 500 for one profile holds up no other, and that profile is set aside once others passed."""
    poison = []

    def decide(head, body):
        poison.append(b"poison" in body)
        return "500 Oops" if poison[-1] else None
    receiver, server, fleet = relayed(decide=decide)
    for i in range(12):
        if i == 4:
            fleet.one(500, "poison")
        fleet.good(i, 0)
    assert wait_until(lambda: state(server)["waiting"] == 0), f"{state(server)}"
    told = state(server)
    assert (told["sent"], told["refused"], told["set_aside"]) == (12, 1, 1), f"{told}"
    assert not receiver.wrong
    assert "set aside" in server.stderr()


@pytest.mark.parametrize("partial", [True, False])
def test_refused_among_good(relayed, partial):
    """Of a refused request the good ones arrive once: by the ids in the answer, and by halving where a server takes all or nothing."""
    stored = []

    def decide(head, body):
        series = decode("PushRequest", body)["series"]
        bad = [index for index, one in enumerate(series) if {"name": b"service_name", "value": b"bad"} in one["labels"]]
        ids = [one["samples"][0]["ID"] for one in series]
        if not bad or partial:
            stored.extend(name for index, name in enumerate(ids) if index not in bad)
        if bad:
            text = "; ".join(f"push series with index {index} and id {ids[index].decode()} failed: no" for index in bad) if partial else "no"
            return "400 Bad Request\n\n" + text
        return None
    receiver, server, fleet = relayed(decide=decide)
    for i in range(30):
        if i % 10 == 5:
            fleet.one(500 + i, "bad")
        fleet.good(i, 0)
    assert wait_until(lambda: state(server)["waiting"] == 0), f"{state(server)}"
    told = state(server)
    assert (told["sent"], told["refused"], len(stored), len(set(stored))) == (30, 3, 30, 30), f"{told}"


def stored_twice(receiver):
    """How often a profile was stored again."""
    seen = [(labels, profile.time, tuple(profile.type_names())) for labels, profile in receiver.stored]
    return len(seen) - len(set(seen))


@pytest.mark.parametrize("reason", ["outside of ingestion window", "exceeds the samples count limit"])
def test_one_refusal_is_told(backlog, reason):
    """Pyroscope's answer is about one series, by its labels and time, and it has stored the others: none of them goes again."""
    by_age = "window" in reason

    def fill(fleet, count):
        for i in range(200):
            fleet.good(i % 20, i // 20)
            if i % 20 == 7 and by_age:
                fleet.old(i % 20)  # of a service with good ones, too
            if i % 20 == 3 and not by_age:
                fleet.pprof(pprof(fleet.base + i, 1, samples=70, unit=b"count"))
    fleet, relay = backlog(fill)
    receiver = Pyroscope()
    receiver.SAMPLES = 60
    server = relay("pyroscope", receiver.url, **{"max-age": "0"})
    run(server, 300)
    told = state(server)
    assert (told["sent"], told["refused"], told["lost"]) == (200, 10, 0), f"{told}"
    assert {profile.time: profile.total for _, profile in receiver.stored} == fleet.expected, "whole"
    assert stored_twice(receiver) == 0, f"each once, {stored_twice(receiver)} again"
    assert reason in server.stderr()
    receiver.close()


def test_refusal_after_trouble(relayed):
    """While the server fails, an answer about one series does not say that the others are stored."""
    stored, seen = [], []

    def decide(head, body):
        series = decode("PushRequest", body)["series"]
        labels = [{one["name"].decode(): one["value"].decode() for one in one["labels"]} for one in series]
        bad = [found for found in labels if found["service_name"] == "bad"]
        seen.append(len(series))
        if bad and len(series) > 1 and max(seen[:-1], default=1) == 1:
            return "503 Service Unavailable"
        if bad:  # and none of the others was stored: their writes failed
            text = ", ".join(f"{name}={quoted(value)}" for name, value in sorted(bad[0].items()))
            return "400 Bad Request\nContent-Type: application/json\n\n" + json.dumps({"code": "invalid_argument", "message": f"profile series '{{{text}}}' has 31 label names; limit 30"})
        stored.extend(one["samples"][0]["ID"] for one in series)
        return None
    receiver, server, fleet = relayed(answers=["429 Too Many\nRetry-After: 2"], decide=decide)  # so that the others gather
    fleet.good(0, 0)
    assert wait_until(lambda: receiver.requests)
    fleet.one(500, "bad")
    for i in range(1, 9):
        fleet.good(i, 0)
    assert wait_until(lambda: state(server)["waiting"] == 0), f"{state(server)}"
    told = state(server)
    assert (told["sent"], told["refused"], len(set(stored))) == (9, 1, 9), f"{told} {seen}"


def test_page_of_a_proxy(relayed):
    """A 200 with HTML is no acknowledgement: nothing is lost behind a login page."""
    pages = ["200 OK\nContent-Type: text/html; charset=utf-8\n\n<html>Log in</html>"] * 2 + ["200 OK\n\n  <html>".replace("  ", "")]
    receiver, server, fleet = relayed(pages)
    fleet.good(1, 0)
    assert wait_until(lambda: "not of a server of profiles" in state(server)["why"]), f"{state(server)}"
    assert wait_until(lambda: state(server)["sent"] == 1), f"{state(server)}"
    assert len(receiver.requests) == 4


def test_too_large_for_a_proxy(relayed):
    """413 halves requests, and cuts a single profile smaller; nothing is lost."""
    samples = []

    def decide(head, body):
        profiles = [decode("Profile", inflated(one["samples"][0]["raw_profile"])) for one in decode("PushRequest", body)["series"]]
        if sum(len(inflated(one["samples"][0]["raw_profile"])) for one in decode("PushRequest", body)["series"]) > 300000:
            return "413 Payload Too Large"
        samples.extend(len(profile["sample"]) for profile in profiles)
        return None
    receiver, server, fleet = relayed(decide=decide)
    fleet.pprof(pprof(fleet.base, 3, samples=400, unit=b"count", size=3000))
    for i in range(5):
        fleet.good(i, 0)
    assert wait_until(lambda: state(server)["waiting"] == 0), f"{state(server)}"
    assert state(server)["sent"] == 6 and state(server)["refused"] == 0, f"{state(server)}"
    assert sum(samples) == 400 + 5 * NODES


@pytest.mark.apart
@pytest.mark.parametrize("to", ["pyroscope", "parca", "parca-writeraw", "otlp", "datadog"])
def test_figures(backlog, figure, receive, to):
    """What the relay needs for a destination that takes everything at once; all of it arrives at each."""
    fleet, relay = backlog(only_good)
    receiver = Grpc() if to == "parca" else receive()
    server = relay(to, receiver.url)
    seconds, told = run(server, 500), state(server)
    assert (told["sent"], told["refused"]) == (len(fleet.expected), 0) and not receiver.wrong, f"{told} {receiver.wrong}"
    name = to.replace("-", "_")
    figure(f"relay_{name}_profiles_per_second", round(told["sent"] / seconds), "1/s")
    figure(f"relay_{name}_bytes_per_profile", round(sum(len(body) for _, body in receiver.requests) / told["sent"]), "bytes")
    figure(f"relay_{name}_memory_most", memory(server), "kB")
    if to == "parca":
        receiver.close()
