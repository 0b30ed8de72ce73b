"""TSan finds no data race in a server that takes, answers, passes on and deletes profiles at once.

A server with TSan that does all it can at once: takes profiles of every kind, answers queries of every kind, passes
profiles on, scrapes, deletes what is too much, and reads its settings again. The first report ends it.

What a library does inside itself TSan sees only by the C library's functions that it wraps."""
import http.client
import itertools
import json
import os
import random
import signal
import threading
import time

import pytest

import generate
from harness import Server, wait_until
from otlp_test import PROTO, binary, named, one
from receiver import Receiver
from scrape_test import MEMORY, Fake, pprof
from senders import Compact, Ingest, Push, Sender

pytestmark = pytest.mark.all

SECOND, HOUR = 10**9, 3600
# Each sender's rounds, and of queries. The time that they take depends on the machine, what they do does not.
ROUNDS = 12
QUERY_ROUNDS = 3
ENVIRONMENT = ["env", "TSAN_OPTIONS=halt_on_error=1 exitcode=66 second_deadlock_stack=1 detect_deadlocks=1"]


@pytest.fixture
def program(build):
    return str(build / "tests/tools-tsan/edgeprof")


class Client(threading.Thread):
    """Calls each of its requests in turn, on a connection of its own. Keeps what was answered."""

    def __init__(self, port, requests, rounds=ROUNDS):
        super().__init__()
        self.port, self.requests, self.rounds, self.statuses, self.failed = port, requests, rounds, [], None

    def run(self):
        try:
            for round_ in range(self.rounds):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
                for method, path, body, headers in self.requests(round_):
                    connection.request(method, path, body, headers)
                    answer = connection.getresponse()
                    answer.read()
                    self.statuses.append((path.split("?")[0], answer.status))
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            self.failed = error


def get(path):
    return "GET", path, None, {}


def post(path, body, headers):
    return "POST", path, body, headers


def queries(service):
    """Of the page, of Pyroscope's clients, of Prometheus."""
    def requests(_):
        now = int(time.time() * 1000)
        between = {"profileTypeID": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "labelSelector": f'{{service_name="{service}"}}',
                   "start": str(now - HOUR * 1000), "end": str(now)}
        for path in ("/api/services", "/api/stats", f"/api/profile?service={service}", f"/api/pprof?service={service}",
                     f"/api/timeline?service={service}&group-by=version", f"/api/callers?service={service}&function=main", "/api/devices",
                     f"/api/diff?service={service}&baseline_from=0", "/api/targets", "/api/refused", "/api/relays", "/api/symbols", "/metrics", "/healthz", "/",
                     f"/render?query={service}.cpu&from=now-1h", f"/render-diff?leftQuery={service}.cpu&rightQuery={service}.cpu&leftFrom=now-2h&leftUntil=now-1h&rightFrom=now-1h&rightUntil=now"):
            yield get(path)
        for method, more in (("ProfileTypes", {}), ("LabelNames", {}), ("LabelValues", {"name": "service_name"}), ("Series", {}), ("SelectMergeStacktraces", {}),
                             ("SelectSeries", {"step": 60}), ("SelectMergeProfile", {}), ("GetProfileStats", {})):
            yield post(f"/querier.v1.QuerierService/{method}", json.dumps({**between, **more}), {"Content-Type": "application/json"})
    return requests


def otlp(number):
    def requests(round_):
        for i in range(4):
            yield post("/v1development/profiles", binary(named(f"otlp-{number}", one(1 + round_ * 4 + i))), PROTO)
    return requests


def bulky(number):
    """Profiles of hours ago with names that fill the database, so that --max-size has something to delete."""
    count = 1500

    def requests(round_):
        start = int(time.time()) - (40 - round_) * HOUR
        body = generate.message(5000 + number * 100 + round_, 0, generate.origin(f"bulk-{number}", [("version", str(round_))]),
                                [generate.module(4096, 1 << 24, 0, b"\1" * 20, "/nowhere/app")],
                                generate.nodes([0] * count, [4096 + 16 * (round_ * count + k) for k in range(count)]), last=True,
                                profiles=[generate.profile(dict.fromkeys(range(1, count + 1), 1), start=SECOND, duration=10 * SECOND)],
                                unix_minus_uptime=start * SECOND)
        yield post("/edgeprof/v1/push", body, {})
    return requests


def settings(folder, relays, target):
    path = os.path.join(folder, "config")
    text = "".join(f"[relay {name}]\nto = {to}\nurl = {url}\nretry = 1s\nretry-max = 2s\n" for name, to, url in relays)
    with open(path, "w") as file:
        file.write(text + f"[scrape one]\nurl = {target}\ninterval = 1s\nprofiles = heap, allocs\n")
    return path


def senders(port):
    made = []
    for kind, number in itertools.product((Compact, Ingest, Push), range(2)):
        sender = Sender(f"{kind.__name__.lower()}-{number}", kind(f"{kind.__name__.lower()}-{number}"))
        sender.port = port
        made.append(sender)
    return made


def race(server):
    """All at once, and signals between; gives the clients and the senders."""
    clients = [Client(server.port, queries(name), QUERY_ROUNDS) for name in ("compact-0", "ingest-1", "otlp-0", "bulk-0")]
    clients += [Client(server.port, kind(number)) for kind in (otlp, bulky) for number in range(2)]
    pushing = senders(server.port)
    for thread in (*pushing, *clients):
        thread.start()
    for client in clients:
        while client.is_alive():
            client.join(0.5)
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGHUP)
    for sender in pushing:
        sender.enough.set()
        sender.join()
    return clients, pushing


def passes_on(server, taking):
    """Whether relays have sent something; what is new comes with each look."""
    last = itertools.count(9000)

    def look():
        server.push(generate.message(next(last), 0, generate.origin("last"), [generate.module(4096, 4096)], generate.nodes([0], [4100]), [generate.profile({1: 1})],
                                     last=True, unix_minus_uptime=(int(time.time()) - 60) * SECOND))
        return taking.taken and sum(relay["sent"] for relay in server.get("/api/relays")[1]["relays"]) > 0
    return look


def ended(server):
    """Exit code, without the harness' own look at what the server wrote."""
    if server.process.poll() is None:
        server.process.terminate()
    return server.process.wait(300)


def test_all_at_once(program, folder):
    refusing = Receiver(decide=lambda *_: random.choice(["200 OK", "200 OK", "503 Service Unavailable", "close"]))
    taking = Receiver()
    counts = itertools.count(1)
    target = Fake(lambda *_: (200, pprof(MEMORY, {("main", "grow"): [next(counts), 1000, 1, 100]})))
    config = settings(folder, [("up", "pyroscope", refusing.url), ("other", "pyroscope", taking.url)], target.url)
    db = os.path.join(folder, "tsan.db")
    server = Server(program, db, "--config", config, "--max-size", "1M", prefix=ENVIRONMENT)
    sent = wait_until(passes_on(server, taking))  # while there is room: --max-size deletes also what waits for a relay
    clients, pushing = race(server)
    alive = server.process.poll() is None
    kept = alive and wait_until(lambda: "--max-size: " in server.stderr())
    code = ended(server)
    report = server.stderr()
    assert "ThreadSanitizer" not in report and code == 0, report[:8000]
    assert [client.failed for client in clients if client.failed] == []
    answers = [status for client in clients for _, status in client.statuses]
    assert answers.count(200) > len(answers) * 0.8, sorted({pair for client in clients for pair in client.statuses if pair[1] != 200})
    assert all("kept" in sender.state.fate.values() for sender in pushing)
    assert kept, "the keeper had something to delete"
    assert sent, "relays had something to send"
    for receiver in (refusing, taking):
        receiver.close()
