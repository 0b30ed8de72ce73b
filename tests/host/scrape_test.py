"""The server scrapes a Go service and the pull endpoint, and hostile targets do no harm."""
import gzip
import http.server
import random
import subprocess
import threading
import time
import urllib.request

import pytest

from harness import clean_environment, wait_until
from pprof import encode

pytestmark = pytest.mark.all

TOKEN = "a-token-that-is-long-enough"


def pprof(types, stacks, duration=0):
    """types: [(type, unit)]; stacks: {(name, ...) root first: [value of each type]}."""
    return encode(types, [(stack, values, {}) for stack, values in stacks.items()], duration_ns=duration)


MEMORY = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
CONTENTION = [("contentions", "count"), ("delay", "nanoseconds")]


class Fake:
    """A target whose answers are functions of the request."""

    def __init__(self, answer):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                fake.seen.append((self.path, self.headers.get("Authorization")))
                status, body = answer(self.path.rpartition("/")[2].partition("?")[0], self)
                if body is not None:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    try:
                        self.wfile.write(body)
                    except OSError:
                        pass

            def log_message(self, *arguments):
                pass

        self.seen = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def serve(start_server, folder):
    """serve(TEXT): a server with this configuration."""
    def start(config):
        return start_server(config=config)
    return start


def status_of(server, url, profile):
    targets = {target["url"]: target for target in server.get("/api/targets")[1]["targets"]}
    return {row["name"]: row for row in targets[url]["profiles"]}[profile]


def test_deltas(serve):
    """Counts since the start become what has come since, also through a restart; levels stay levels."""
    counts = {"a": 1000, "b": 500, "level": 70}
    pause, rounds = threading.Lock(), []

    def answer(name, _):
        with pause:
            if name == "allocs":
                rounds.append(dict(counts))
                values = pprof(MEMORY, {("main", "a"): [counts["a"], counts["a"] * 10, 1, 1], ("main", "b"): [counts["b"], counts["b"] * 10, 1, 1]})
                counts["a"] += 100
                counts["b"] += 7
                return 200, gzip.compress(values)
            if name == "heap":
                return 200, pprof(MEMORY, {("main", "a"): [5, 50, 2, counts["level"]]})
            if name in ("mutex", "block"):
                return 200, pprof(CONTENTION, {("main", name): [len(rounds), len(rounds) * 1000]})
            if name == "goroutine":
                return 200, pprof([("goroutine", "count")], {("main", "worker"): [4]})
            return 200, pprof([("samples", "count"), ("cpu", "nanoseconds")], {("main", "hot"): [3, 3 * 10**7]}, duration=10**9)

    fake = Fake(answer)
    server = serve(f"[scrape app]\nurl = {fake.url}/\ninterval = 1s\ntags = zone=a, device=\"pi-7\"\n")
    assert wait_until(lambda: status_of(server, fake.url, "goroutine")["taken"] >= 5), "five rounds"
    with pause:
        before = dict(counts)
        counts.update(a=30, b=20)  # the process has been started anew
    assert wait_until(lambda: status_of(server, fake.url, "allocs")["restarts"] == 1), "a restart is seen"
    assert wait_until(lambda: status_of(server, fake.url, "cpu")["taken"] >= 8), "another round"
    with pause:
        asked = [dict(counts) for counts in rounds]
    assert wait_until(lambda: status_of(server, fake.url, "allocs")["taken"] >= len(asked)), "what was asked for is kept"
    with pause:
        asked = [dict(counts) for counts in rounds]
        want = sum((now[key] - then[key] if now["a"] >= then["a"] else now[key]) for then, now in zip(asked, asked[1:]) for key in ("a", "b"))
        assert wait_until(lambda: server.total("app", kind="alloc", value="count") == want), "all is kept"
        assert server.total("app", kind="alloc", value="count") == want, "objects since the first time"
        assert server.total("app", kind="alloc") == want * 10, "bytes since the first time"
        assert before["a"] > 1400, "there was something before the restart"
        assert server.total("app", kind="live") == 70, "what is in use is a level"
        assert status_of(server, fake.url, "mutex")["restarts"] == 0, "what only grows has not begun anew"
        assert server.total("app", kind="lock", value="count") * 1000 == server.total("app", kind="lock"), "contentions and their delay"
        assert server.total("app", kind="wait") > 0 and server.total("app", kind="thread") % 4 == 0, "the other kinds"
        assert server.total("app", kind="cpu") % (3 * 10**7) == 0, "CPU profiles are as they are"
        assert server.total('app{zone="a",device="pi-7"}', kind="alloc") == want * 10, "tags"
        assert server.total('app{instance="%s"}' % fake.url[7:], kind="alloc") == want * 10, "and the instance"
    paths = {path for path, _ in fake.seen}
    assert paths == {"/debug/pprof/" + name for name in ("allocs", "heap", "mutex", "block", "goroutine", "profile?seconds=1")}, "what is asked for"


def test_hostile(serve):
    """Each kind of bad target harms itself alone, and is said once."""
    slow = threading.Event()
    bomb = gzip.compress(b"\0" * (64 << 20), 9)
    state = {"rubbish": True}

    def forever(_, handler):
        handler.send_response(200)
        handler.end_headers()
        try:
            while not slow.is_set():
                handler.wfile.write(b"x")
                slow.wait(0.2)
        except OSError:
            pass
        return 0, None

    def endless(_, handler):
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"\0" * (1 << 20))
        except OSError:
            pass
        return 0, None

    def recovers(name, _):
        return (200, b"rubbish\n") if state["rubbish"] else (200, pprof([("goroutine", "count")], {("main", "worker"): [1]}))

    bad = {"bomb": (Fake(lambda *_: (200, bomb)), "too large when inflated"), "endless": (Fake(endless), "too large"), "slow": (Fake(forever), "imed out"),
           "silent": (Fake(lambda *_: (slow.wait(30), (0, None))[1]), "imed out"), "missing": (Fake(lambda *_: (404, b"<b>no\nsuch</b>")), "status 404: <b>no"),
           "elsewhere": (Fake(lambda _, handler: (302, b"")), "status 302"), "other": (Fake(lambda *_: (200, pprof([("x", "y")], {("m",): [1]}))), "no sample type"),
           "empty": (Fake(lambda *_: (200, b"")), "not a pprof"), "recovers": (Fake(recovers), "pprof")}
    good = Fake(lambda *_: (200, pprof([("goroutine", "count")], {("main", "worker"): [1]})))
    urls = {"down": ("http://127.0.0.1:1", "onnect"), "name": ("http://no.such.host.invalid", "esolve"), **{key: (fake.url, word) for key, (fake, word) in bad.items()}}
    config = "[limits]\nbody = 2M\ninflated = 4M\n" + "".join(
        f"[scrape {key}]\nurl = {url}\nprofiles = goroutine\ninterval = 1s\ntimeout = 2s\n" for key, (url, _) in {**urls, "good": (good.url, "")}.items())
    server = serve(config)
    for key, (url, word) in urls.items():
        assert wait_until(lambda url=url: status_of(server, url, "goroutine")["failed"] >= 2), key
        row = status_of(server, url, "goroutine")
        assert row["state"] == "down", f"{key} is down"
        assert word in row["error"], key
    taken = status_of(server, good.url, "goroutine")
    assert (taken["state"], taken["failed"]) == ("up", 0), "the good one is up"
    assert wait_until(lambda: status_of(server, good.url, "goroutine")["taken"] > taken["taken"] + 2), "and goes on"
    state["rubbish"] = False
    assert wait_until(lambda: status_of(server, urls["recovers"][0], "goroutine")["state"] == "up"), "one recovers"
    assert server.total("recovers", kind="thread") > 0, "and is taken"
    raw = server.request("GET", "/api/targets")[1]
    assert b"<b>" not in raw, "no markup of theirs in JSON"
    slow.set()
    said = server.stderr()
    for key, (url, _) in urls.items():
        assert said.count(f"scrape {url}: goroutine: ") == (2 if key == "recovers" else 1), f"{key}: a line when it changes"
    assert "works again" in said, "also when it works again"
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        threads = [line for line in file if line.startswith("Threads:")]
    assert int(threads[0].split()[1]) < 40, f"threads: {threads}"
    began = time.monotonic()
    assert server.stop() == 0, "ends"
    assert time.monotonic() - began < 30, "soon"


def test_tokens(folder, serve):
    with open(folder + "/target-token", "w", encoding="utf-8") as file:
        file.write(TOKEN + "\n")
    fake = Fake(lambda _, handler: (200, pprof([("goroutine", "count")], {("m",): [1]})) if handler.headers.get("Authorization") == "Bearer " + TOKEN
                else (401, b"no\n"))
    config = f"[scrape open]\nurl = {fake.url}\nprofiles = goroutine\ninterval = 1s\n[scrape closed]\nurl = {fake.url}/x\nprofiles = goroutine\ninterval = 1s\n"
    server = serve(config + f"token-file = {folder}/target-token\n")
    assert wait_until(lambda: status_of(server, fake.url + "/x", "goroutine")["taken"]), "with its token"
    assert wait_until(lambda: "status 401" in status_of(server, fake.url, "goroutine")["error"]), "without"
    assert TOKEN not in server.stderr() + server.request("GET", "/api/targets")[1].decode(), "the token is not told"


@pytest.mark.parametrize("text, word", [
    ("[scrape a]\n", ":1: [scrape]: url: required"), ("[scrape]\nurl = http://x\n", ":1: [scrape]: service"),
    ("[scrape a]\nurl = ftp://x\n", ":2: url = ftp://x: expected http"), ("[scrape a]\nurl = http://u:p@x\n", "token-file"),
    ("[scrape a]\nurl = http://x\nprofiles = cpu, heaps\n", ":3: [scrape]: profiles: must be some of cpu"),
    ("[scrape a]\nurl = http://x\ntags = a\n", ":3: [scrape]: tags"), ("[scrape a]\nurl = http://x\ninterval = 5s\nseconds = 6s\n", ":4: [scrape]: seconds"),
    ("[scrape a]\nurl = http://x\ntoken-file = /none\n", ":3: [scrape]: token-file: No such file"),
    ("[scrape a]\nurl = http://x\nca = /none\n", ":3: [scrape]: ca"), ("[scrape a]\nurl = http://x\ninterval = soon\n", ":3: interval = soon"),
    ("[scrape a]\nurl = http://x\nservice = a\nservice = b\n", ":4: duplicate service")])
def test_mistake(cli, tmp_path, text, word):
    (tmp_path / "wrong.conf").write_text(text)
    cli.fails(1, word, "serve", "--db", ":memory:", "--listen", "127.0.0.1:0", "--config", tmp_path / "wrong.conf")


@pytest.fixture
def launch():
    """launch(COMMAND...): a process that is there until the test ends."""
    processes = []

    def start(*command, **options):
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_go_service(launch, build, serve):
    """What a real Go program says of itself."""
    process = launch(build / "tests/tools/target-go")
    url = f"http://127.0.0.1:{int(process.stdout.readline())}"

    def allocated():
        with urllib.request.urlopen(url + "/allocated", timeout=60) as answer:
            return int(answer.read())

    before = allocated()
    server = serve(f"[scrape go]\nurl = {url}\ninterval = 3s\nseconds = 2s\n")
    assert wait_until(lambda: status_of(server, url, "allocs")["taken"]), "a first round"
    assert wait_until(lambda: status_of(server, url, "cpu")["taken"] >= 3), "more rounds"
    kept = server.total("go", kind="alloc", label="bytes=65536")
    after = allocated()
    for name in ("allocs", "heap", "mutex", "block", "goroutine", "cpu"):
        row = status_of(server, url, name)
        assert (row["state"], row["failed"], row["restarts"]) == ("up", 0, 0), f"go: {name}: {row['error']}"
    assert 0 < kept <= after - before, f"go: allocated {kept} of {after - before}, not what it had before {before}"
    for kind, function in (("cpu", "main.spin"), ("alloc", "main.allocate"), ("live", "main.main"), ("lock", "main.contend"), ("thread", "main.main.func")):
        names = [row["name"] for row in server.get("/api/profile", service="go", kind=kind)[1]["top"]]
        assert any(name.startswith(function) for name in names), f"go: {kind} has {function}: {names[:5]}"
    live = server.total("go", kind="live")
    assert (1 << 21) <= live < (1 << 25), f"go: 2 MiB are held: {live}"


def test_own_endpoint(launch, build, folder, serve):
    """edgeprof's own pull endpoint, with a token."""
    where = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.{random.randint(1, 254)}:4041"  # it takes no port 0; nobody else is there
    environment = clean_environment(EDGEPROF_PULL=where, EDGEPROF_PULL_TOKEN=TOKEN, EDGEPROF_LEVEL="medium")
    process = launch(build / "tests/linux/pull/program", "300", env=environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline().strip() == "ready", "the program is there"
    with open(folder + "/pull-token", "w", encoding="utf-8") as file:
        file.write(TOKEN)
    url = "http://" + where
    server = serve(f"[scrape own]\nurl = {url}\ninterval = 2s\nseconds = 1s\ntoken-file = {folder}/pull-token\nprofiles = cpu, mutex, goroutine\n")
    assert wait_until(lambda: status_of(server, url, "cpu")["taken"] >= 3), "rounds"
    for name in ("cpu", "mutex", "goroutine"):
        row = status_of(server, url, name)
        assert (row["state"], row["restarts"]) == ("up", 0), f"own: {name}: {row['error']}"
    assert server.total("own", kind="cpu") > 0 and server.total("own", kind="lock") > 0 and server.total("own", kind="thread") > 0, "own: all have arrived"
