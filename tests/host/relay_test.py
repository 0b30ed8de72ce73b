"""The relay delivers every acknowledged profile in order to receivers that are down, slow or gone.

The relay against receivers that are down, slow, rude or gone, and itself killed in the middle: what a server has acknowledged arrives,
in order; twice at most by what was under way."""
import collections
import gzip
import os
import signal
import socket
import ssl
import subprocess
import time

import pytest

import generate
from harness import wait_until
from proto import decode

pytestmark = pytest.mark.all

SECOND = 10**9
PATIENCE = 60


class Device:
    """A segment of its own; each message has one profile of one stack, whose value tells which it is."""
    count = 0

    def __init__(self, service="svc", **origin):
        Device.count += 1
        self.segment, self.sequence, self.origin, self.sent = 1000 + Device.count, 0, generate.origin(service=service, **origin), []

    def message(self, value, age=5, **more):
        first = self.sequence == 0
        self.sequence += 1
        return generate.message(self.segment, self.sequence - 1, origin=self.origin if first else None,
                                modules=[generate.module(4096, 4096, 0, b"\1" * 20, "/bin/app")] if first else (),
                                nodes=generate.nodes([0, 1], [4100, 4200]) if first else None,
                                profiles=more.pop("profiles", [generate.profile({2: value}, quantum=1, start=SECOND)]),
                                unix_minus_uptime=int((time.time() - age) * SECOND) - SECOND, **more)

    def push(self, server, value, **more):
        status = server.push(self.message(value, **more))
        if status == 200:
            self.sent.append(value)
        return status


@pytest.fixture
def serve(start_server, tmp_path):
    """serve((name, to, url, settings), ...): a server that passes on to these."""
    def start(*destinations):
        text = "".join(f"[relay {label}]\nto = {to}\nurl = {url}\n" + "".join(f"{key} = {value}\n" for key, value in more.items())
                       for label, to, url, more in destinations)
        return start_server(config=text)
    return start


def pushed(requests):
    """[(id, service, time, sum of values)] in the order in which they came"""
    found = []
    for _, body in requests:
        for series in decode("PushRequest", body)["series"]:
            labels = {pair["name"]: pair["value"] for pair in series["labels"]}
            sample = series["samples"][0]
            profile = decode("Profile", gzip.decompress(sample["raw_profile"]))
            found.append((sample["ID"], labels[b"service_name"].decode(), profile["time_nanos"],
                          sum(row["value"][-1] for row in profile["sample"])))
    return found


def once(requests):
    """The same, each id once."""
    return list({row[0]: row for row in pushed(requests)}.values())


def values(requests, service="svc"):
    return [row[3] for row in once(requests) if row[1] == service]


def state(server, name="up"):
    return next(one for one in server.get("/api/relays")[1]["relays"] if one["name"] == name)


def test_round_trip(folder, start_server, serve):
    other = start_server(db=os.path.join(folder, "other.db"))
    server = serve(("up", "pyroscope", other.url, {}))
    device = Device(tags=[("version", "1.2"), ("a.b", "c")])
    kinds = {1: "cpu", 2: "wait", 3: "lock", 4: "alloc", 5: "live", 6: "exception", 7: "gc", 8: "thread", 9: "heap", 10: "write", 11: "sync"}
    rows = [(1, 0, 0, 3), (2, 1, 5, 7)]
    profiles = [generate.profile([(node, context, count if kind not in (1, 6, 8, 9) else 0, value + kind) for node, context, count, value in rows],
                                 start=SECOND, kind=kind, quantum=1000) for kind in kinds]
    contexts = [generate.context(1, span=0xabcdef, trace=(1, 2), thread="worker")]
    device.push(server, 0, profiles=profiles, tag_sets=[generate.tag_set(1, step="pricing")], contexts=contexts)
    assert wait_until(lambda: state(server)["sent"] == len(kinds)), f"all kinds are passed on: {state(server)}"
    for kind in kinds.values():
        for label in ("", "step=pricing", "span_id=0000000000abcdef", "trace_id=00000000000000010000000000000002"):
            query = dict(service="svc", kind=kind, **({"label": label} if label else {}))
            here, there = server.get("/api/profile", **query)[1], other.get("/api/profile", **query)[1]
            for field in ("total", "count", "unit", "tree", "period"):
                assert there.get(field) == here.get(field), f"{kind} {label}: {field} of the other server"
            assert here.get("total"), f"{kind} {label}: there is something to compare"
    tags = other.get("/api/services")[1]["services"][0]["tags"]
    assert tags == [{"a_b": "c", "host": "host", "version": "1.2"}], "tags and the host are labels"


def stacks(requests):
    """Names of the frames of each sample, the root last; an address as a number."""
    found = []
    for _, body in requests:
        for series in decode("PushRequest", body)["series"]:
            profile = decode("Profile", gzip.decompress(series["samples"][0]["raw_profile"]))
            functions = {one["id"]: profile["string_table"][one["name"]].decode() for one in profile.get("function", ())}
            locations = {one["id"]: [functions[line["function_id"]] for line in one.get("line", ())] or [one["address"]] for one in profile["location"]}
            found += [[name for number in sample["location_id"] for name in locations[number]] for sample in profile["sample"]]
    return found


@pytest.mark.parametrize("settings, root", [({}, []), ({"symbolize": "fallback"}, []), ({"symbolize": "yes"}, []), ({"symbolize": "no"}, ["svc"])])
def test_names_of_a_c_program(serve, receive, known, settings, root):
    """What the device did not name is named by this server; or nothing is, but a root, without which Pyroscope loses the stacks."""
    receiver = receive()
    server = serve(("up", "pyroscope", receiver.url, settings))
    body = generate.message(8, 0, generate.origin("svc"), [known.module()], generate.nodes([0, 1], [known.frame, known.frame + 1]), [generate.profile({1: 3, 2: 4}, start=SECOND)],
                            unix_minus_uptime=int((time.time() - 5) * SECOND) - SECOND)
    assert server.push(body) == 200
    assert wait_until(lambda: state(server)["sent"] == 1), state(server)
    found = sorted(stacks(receiver.taken), key=len)
    assert found == ([[known.hot, "svc"], [known.hot + 1, known.hot, "svc"]] if root else [["hot"], ["hot", "hot"]])


def test_faults(serve, receive):
    """Each of the ways to fail once, then a profile that is refused whenever it comes."""
    def decide(head, body):
        return "400 Bad Request" if any(row[1] == "poison" for row in pushed([(head, body)])) else None
    receiver = receive(["close", "500 Oops", "429 Too Many\nRetry-After: 2", "502 Bad Gateway", "401 Unauthorized", "408 Timeout"], decide)
    server = serve(("up", "pyroscope", receiver.url, {"retry": "1s", "retry-max": "1s"}))
    device, poison = Device(), Device("poison")
    for value in range(1, 11):
        assert device.push(server, value) == 200, "a push is taken while the receiver fails"
        if value == 5:
            poison.push(server, 1000)
    assert wait_until(lambda: state(server)["waiting"] == 0), f"all is passed on: {state(server)}"
    told = state(server)
    assert (told["sent"], told["refused"], told["lost"], told["failing"]) == (10, 1, 0, False), "counted"
    assert values(receiver.taken) == device.sent, "what was acknowledged arrives in order, but what is refused"
    bodies = [body for _, body in receiver.requests]
    assert len(set(bodies[:6])) == 1, "the same request is sent until it is taken or refused"
    gap = receiver.times[3] - receiver.times[2]
    assert gap >= 2, f"Retry-After is kept: {gap:.2f} s"
    assert not receiver.wrong, f"requests are sound HTTP: {receiver.wrong}"
    assert server.stop() == 0
    lines = server.stderr().splitlines()
    assert len([line for line in lines if "profiles stay queued" in line]) == 1, f"one line when it begins to fail: {lines}"
    assert len([line for line in lines if "works again" in line]) == 1, "one line when it works again"
    assert len([line for line in lines if "refused a profile: 400" in line]) == 1, "one line for what is refused"


def test_down_and_old(serve, receive):
    with socket.socket() as taken:  # and does not listen: who connects is refused
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        server = serve(("up", "pyroscope", f"http://127.0.0.1:{port}", {"retry": "1s", "retry-max": "1s"}))
        device = Device()
        device.push(server, 3, age=7200)  # Pyroscope takes nothing that is older than an hour
        device.push(server, 4)
        assert wait_until(lambda: state(server)["failing"]), "nobody listens"
        assert state(server)["why"] != "" and state(server)["next_try"] > time.time() - 60, f"and why: {state(server)}"
        receiver = receive(port=port)
    assert wait_until(lambda: state(server)["sent"] == 1), f"it arrives when somebody does: {state(server)}"
    assert values(receiver.taken) == [4], "what is too old is skipped"
    assert state(server)["lost"] == 1, "and counted"


def test_killed(serve, receive):
    """A receiver that takes its time, and kill -9 three times while it does."""
    receiver = receive(decide=lambda head, body: time.sleep(0.15))
    options = ("up", "pyroscope", receiver.url, {"batch": "3", "retry": "1s", "retry-max": "1s"})
    device, value = Device(), 0
    for life in range(4):
        server = serve(options)
        for _ in range(15):
            value += 1
            device.push(server, value)
        if life < 3:
            time.sleep(0.25 * life)
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    assert wait_until(lambda: state(server)["waiting"] == 0), f"all is passed on: {state(server)}"
    assert server.stop() == 0
    arrived = values(receiver.taken)
    assert sorted(arrived) == device.sent, "all that was acknowledged has arrived"
    assert arrived == sorted(arrived), "in order"
    assert len(receiver.requests) < value, f"several profiles are in a request: {len(receiver.requests)} requests"
    twice = [one for one, count in collections.Counter(row[0] for row in pushed(receiver.requests)).items() if count > 1]
    assert len(twice) <= 3 * 3, f"sent again is only what was under way: {len(twice)}"
    print(f"relay: {value} profiles over 3 kills, {len(twice)} sent twice")


def test_one_is_slow(serve, receive):
    stuck = receive(decide=lambda head, body: time.sleep(PATIENCE))
    receiver = receive()
    server = serve(("slow", "pyroscope", stuck.url, {"timeout": "2s", "retry": "1s"}), ("up", "pyroscope", receiver.url, {}))
    device = Device()
    for value in range(1, 6):
        started = time.monotonic()
        device.push(server, value)
        assert wait_until(lambda: len(values(receiver.taken)) == value), "the other one gets it"
        assert time.monotonic() - started < 20, "at once"
    assert wait_until(lambda: state(server, "slow")["failing"]), "the slow one fails in the end"
    assert state(server, "slow")["sent"] == 0, "nothing is taken as sent"
    assert server.stop() == 0, "stops although a request is under way"


def test_bounded_rate(start_server, serve, receive):
    """What has gathered is passed on, but no faster than the rate; and from the beginning only if that is asked for."""
    server = start_server()
    device, nodes = Device(), 200
    stacks = generate.nodes([0] + [1] * (nodes - 1), [4096 + i * 7 for i in range(nodes)])
    server.push(generate.message(device.segment, 0, origin=device.origin, modules=[generate.module(4096, 4096, 0, b"\1" * 20, "/bin/app")], nodes=stacks,
                                 unix_minus_uptime=int(time.time() * SECOND) - 20 * SECOND))
    for i in range(7):
        server.push(generate.message(device.segment, 1 + i, profiles=[generate.profile({node: node + i for node in range(1, nodes)}, start=SECOND)],
                                     unix_minus_uptime=int(time.time() * SECOND) - 20 * SECOND))
    assert server.stop() == 0
    receiver, late = receive(), receive()
    rate = 4096
    server = serve(("up", "pyroscope", receiver.url, {"backfill": "yes", "rate": rate, "batch": "2"}), ("late", "pyroscope", late.url, {}))
    assert wait_until(lambda: state(server)["waiting"] == 0), f"what was there is passed on: {state(server)}"
    assert len(once(receiver.taken)) == 7, "all of it"
    bytes_, seconds = sum(len(body) for _, body in receiver.requests[:-1]), receiver.times[-1] - receiver.times[0]
    assert bytes_ <= rate * seconds * 1.1, f"{bytes_} bytes in {seconds:.1f} s, {rate} a second are allowed"
    assert late.requests == [], "without backfill only what comes from then on"


def test_secrets(tmp_path, serve, receive):
    (tmp_path / "token").write_text("s3cret-token\n")
    (tmp_path / "password").write_text("pa ss")
    (tmp_path / "key").write_text("dd-key\n")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=relay",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "tls.key", "-out", tmp_path / "tls.crt"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    token, basic, datadog, untrusted = receive(context=context), receive(["401 Unauthorized"]), receive(), receive(context=context)
    server = serve(("token", "pyroscope", token.url + "/base/", {"token-file": tmp_path / "token", "org-id": "7", "ca": tmp_path / "tls.crt", "header": "X-More: a b"}),
                   ("basic", "parca-writeraw", basic.url, {"user": "u", "password-file": tmp_path / "password", "retry": "1s"}),
                   ("datadog", "datadog", datadog.url, {"api-key-file": tmp_path / "key"}),
                   ("untrusted", "otlp", untrusted.url, {"retry": "1s"}))
    Device().push(server, 1)
    assert wait_until(lambda: token.taken and basic.taken and datadog.taken and state(server, "untrusted")["failing"]), "all three are served"
    heads = [(receiver.taken[0][0][0], dict((name.lower(), value) for name, value in receiver.taken[0][0][1])) for receiver in (token, basic, datadog)]
    assert heads[0][0] == "POST /base/push.v1.PusherService/Push HTTP/1.1", "behind the address' own path"
    assert [heads[0][1].get(name) for name in ("authorization", "x-scope-orgid", "x-more")] == ["Bearer s3cret-token", "7", "a b"], "token and headers"
    assert heads[1][1].get("authorization") == "Basic dTpwYSBzcw==", "basic authentication"
    assert (heads[2][0], heads[2][1].get("dd-api-key")) == ("POST /api/v2/profile HTTP/1.1", "dd-key"), "Datadog's intake with a key"
    assert untrusted.requests == [], "a server that nobody vouches for gets nothing"
    told = server.request("GET", "/api/relays")[1].decode()
    assert server.stop() == 0
    for secret in ("s3cret-token", "pa ss", "dd-key", "dTpwYSBzcw"):
        assert secret not in told and secret not in server.stderr(), f"{secret} is in no answer and no message"


@pytest.mark.parametrize("text, said", [
    ("[relay]\nto = parca\nurl = http://h\n", "[relay NAME]"), ("[relay a]\nurl = http://h\n", "pyroscope, parca"),
    ("[relay a]\nto = zipkin\nurl = http://h\n", "pyroscope, parca"), ("[relay a]\nto = parca\n", "http://HOST"),
    ("[relay a]\nto = parca\nurl = ftp://h\n", "http://HOST"), ("[relay a]\nto = parca\nurl = http://u:p@h\n", "password-file"),
    ("[relay a]\nto = parca\nurl = http://h/?key=1\n", "may not have parameters"), ("[relay a]\nto = parca\nurl = http://h\nspeed = 1\n", "speed"),
    ("[relay a]\nto = parca\nurl = http://h\nsymbolize = maybe\n", "fallback"),
    ("[relay a]\nto = parca\nurl = http://h\nuser = x\n", "require each other"), ("[relay a]\nto = parca\nurl = http://h\nca = /nowhere\n", "cannot be read"),
    ("[relay a]\nto = parca\nurl = http://h\nheader = Authorization: x\n", "files"), ("[relay a]\nto = parca\nurl = http://h\nbatch = 0\n", "at least 1"),
    ("[relay a]\nto = parca\nurl = http://h\n[relay a]\nto = parca\nurl = http://h\n", "duplicate"), ("[rely a]\n", "rely")])
def test_wrong_config(cli, tmp_path, text, said):
    (tmp_path / "wrong.conf").write_text(text)
    done = cli.fails(1, said, "serve", "--listen", "127.0.0.1:0", "--db", tmp_path / "wrong.db", "--config", tmp_path / "wrong.conf")
    assert "wrong.conf:" in done.err


def test_secret_that_is_not_there(cli, tmp_path):
    (tmp_path / "wrong.conf").write_text(f"[relay a]\nto = parca\nurl = http://h\ntoken-file = {tmp_path}/nothing\n")
    done = cli.fails(1, "relay a", "serve", "--listen", "127.0.0.1:0", "--db", tmp_path / "wrong.db", "--config", tmp_path / "wrong.conf")
    assert "nothing" in done.err
