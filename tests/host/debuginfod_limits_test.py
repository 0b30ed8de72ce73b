"""No debuginfod server gets past the limits of size and time, and a slow one holds up one request alone."""
import gzip
import http.server
import itertools
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from generate import message, module, nodes, origin, profile
from harness import clean_environment, wait_until

pytestmark = pytest.mark.all


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Known:
    """The sample program: its build id, the address of a function, its debug file."""

    def __init__(self, sample):
        self.build_id = re.search(r"Build ID: (\w+)", output("readelf", "-n", sample))[1]
        self.hot = next(int(line.split()[0], 16) for line in output("nm", sample).splitlines() if line.endswith(" hot"))
        with open(os.path.join(os.path.dirname(sample), "debug", "sample.dbg"), "rb") as file:
            self.debug = file.read()


@pytest.fixture(scope="session")
def known(sample):
    return Known(sample)


class Strange(http.server.ThreadingHTTPServer):
    """Answers as `answer(handler)` does."""

    daemon_threads = True

    def __init__(self):
        outer = self
        self.asked, self.seen, self.answer = threading.Event(), 0, None

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.seen += 1
                outer.asked.set()
                outer.answer(self)

            def log_message(self, *arguments):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Clients go away in the middle: that is what is tested."""


@pytest.fixture
def strange():
    server = Strange()
    yield server
    server.shutdown()
    server.server_close()


def send(handler, body, **headers):
    handler.send_response(200)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def ask(cli, folder, known, url, **variables):
    return cli.run("symbolize", "--debuginfod", url, f"{known.build_id}+{known.hot:x}",
                   env=clean_environment(EDGEPROF_CACHE=os.path.join(folder, "cache"), **variables))


def left(folder):
    """All that is in the cache, folders too."""
    return [name for _, folders, names in os.walk(os.path.join(folder, "cache")) for name in (*folders, *names)]


def refused(done, folder, url, words):
    lines = [line for line in done.err.splitlines() if "debuginfod:" in line]
    assert done.returncode == 3 and len(lines) == 1 and url in lines[0] and words in lines[0], done.err
    assert left(folder) == []


def test_packed_file(cli, folder, known, strange):
    strange.answer = lambda handler: send(handler, gzip.compress(known.debug), Content_Encoding="gzip")
    assert "\thot\t" in ask(cli, folder, known, strange.url).out + "\t"
    assert left(folder) == [known.build_id[:2], known.build_id[2:] + ".debug"]


def test_size_that_is_not_announced(cli, folder, known, strange):
    """Bytes count as they are on the disk: the packed one is a hundredth of the limit."""
    for body, headers in ((bytes(20_000_000), {}), (gzip.compress(bytes(20_000_000)), {"Content_Encoding": "gzip"})):
        strange.answer = lambda handler: send(handler, body, **headers)
        refused(ask(cli, folder, known, strange.url, DEBUGINFOD_MAXSIZE="2000000"), folder, strange.url, "too large")


def test_size_that_is_announced(cli, folder, known, strange):
    strange.answer = lambda handler: send(handler, b"", Content_Length=str(1 << 40))
    refused(ask(cli, folder, known, strange.url, DEBUGINFOD_MAXTIME="60"), folder, strange.url, "")


@pytest.mark.parametrize("begins", [False, True], ids=["silent", "trickling"])
def test_time(cli, folder, known, strange, begins):
    """A server that does not answer, and one that never ends."""
    over = threading.Event()

    def answer(handler):
        if begins:
            send(handler, b"")
        while not over.wait(0.1):
            handler.wfile.write(b"x" if begins else b"")

    strange.answer = answer
    refused(ask(cli, folder, known, strange.url, DEBUGINFOD_MAXTIME="1"), folder, strange.url, "timeout")
    over.set()


def test_no_connection(cli, folder, known):
    """A machine that does not say no: its queue is full. The limit is that of connecting, not that of the file."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        for _ in range(4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        refused(ask(cli, folder, known, url), folder, url, "Connection timed out")
        for one in waiting:
            one.close()


def test_redirects(cli, folder, known, strange):
    """Four are followed."""
    def answer(handler):
        if strange.seen == most:
            send(handler, known.debug)
        else:
            handler.send_response(302)
            handler.send_header("Location", f"/{strange.seen}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

    strange.answer = answer
    most = 100
    refused(ask(cli, folder, known, strange.url), folder, strange.url, "more than 4 redirects")
    assert strange.seen < 50
    strange.seen, most = 0, 5
    assert "hot" in ask(cli, folder, known, strange.url).out


def test_endless_headers(cli, folder, known, strange):
    def answer(handler):
        handler.send_response(200)
        handler.flush_headers()
        while True:
            handler.wfile.write(b"X-Debuginfod-Size: " + b"1" * 60_000 + b"\r\n")

    strange.answer = answer
    refused(ask(cli, folder, known, strange.url, DEBUGINFOD_MAXTIME="10"), folder, strange.url, "")


def names(server):
    status, document = server.get("/api/profile", service="svc", **{"from": "0"})
    assert status == 200
    return [function["name"] for function in document["top"]]


def push_hot(server, known):
    app = module(4096, 1 << 20, known.hot & ~0xfff, bytes.fromhex(known.build_id), "/device/app")
    body = message(8, 0, origin("svc"), [app], nodes([0], [4096 + (known.hot & 0xfff)]), [profile({1: 3})],
                   unix_minus_uptime=(int(time.time()) - 60) * 10**9)
    assert server.push(body) == 200


@pytest.fixture
def slow(strange, known, folder, monkeypatch):
    """Answers when the event is set; servers that are started now have a cache of their own."""
    answers = threading.Event()

    def answer(handler):
        answers.wait()
        send(handler, known.debug)

    strange.answer = answer
    monkeypatch.setenv("EDGEPROF_CACHE", os.path.join(folder, "cache"))
    yield answers
    answers.set()


def test_slow_server_holds_up_one(start_server, known, strange, slow):
    """Who asks first waits. Others get at once what is known here, and all have the names afterwards."""
    server = start_server("--debuginfod", strange.url)
    push_hot(server, known)
    first = []
    waiting = threading.Thread(target=lambda: first.append(names(server)))
    waiting.start()
    assert strange.asked.wait(60)
    assert names(server) == [f"app+0x{known.hot:x}"]
    assert waiting.is_alive() and strange.seen == 1
    slow.set()
    waiting.join(60)
    assert first == [["hot"]] and names(server) == ["hot"]


def test_relays_wait_for_names(start_server, known, strange, slow, folder):
    """What is passed on cannot be corrected, so all destinations wait for one answer."""
    receivers = [start_server(db=os.path.join(folder, f"{name}.db")) for name in "abcd"]
    server = start_server("--debuginfod", strange.url, config="".join(
        f"[relay to{i}]\nto = pyroscope\nurl = {receiver.url}\nsymbolize = yes\n" for i, receiver in enumerate(receivers)))
    push_hot(server, known)
    assert strange.asked.wait(60)
    assert names(server) == [f"app+0x{known.hot:x}"]
    slow.set()
    assert wait_until(lambda: all(relay["sent"] for relay in server.get("/api/relays")[1]["relays"]))
    assert [names(receiver) for receiver in receivers] == [["hot"]] * 4 and strange.seen == 1


USUAL = "[limits]\n"  # leaves the time for names as it is


def test_answer_comes_without_names(start_server, known, strange, slow):
    """A server that hangs holds up nobody for long: each answer is here before it has said a word."""
    server = start_server("--debuginfod", strange.url, config=USUAL)
    push_hot(server, known)
    for _ in range(3):
        assert names(server) == [f"app+0x{known.hot:x}"]
    assert strange.asked.wait(60) and not slow.is_set()
    slow.set()
    assert wait_until(lambda: names(server) == ["hot"]) and strange.seen == 1


def test_stop_while_a_server_hangs(start_server, known, strange, slow):
    server = start_server("--debuginfod", strange.url, config=USUAL)
    push_hot(server, known)
    assert names(server) == [f"app+0x{known.hot:x}"]
    assert strange.asked.wait(60)
    assert server.stop() == 0 and not slow.is_set()
    assert "symbols:" not in server.stderr() and "debuginfod:" not in server.stderr(), "what was stopped has not failed"


def test_file_that_is_cut(start_server, known, folder):
    """Somebody overwrites a symbol file in place while the server uses it."""
    symbols = os.path.join(folder, "symbols")
    os.mkdir(symbols)
    path = os.path.join(symbols, "app.dbg")
    with open(path, "wb") as file:
        file.write(known.debug)
    server = start_server("--symbols", symbols)
    push_hot(server, known)
    assert names(server) == ["hot"]
    with open(path, "r+b") as file:
        file.truncate(64)
    app = module(4096, 1 << 20, known.hot & ~0xfff, bytes.fromhex(known.build_id), "/device/app")
    others = [4096 + (known.hot & 0xfff) + i for i in range(1, 400)]
    assert server.push(message(9, 0, origin("more"), [app], nodes([0] * len(others), others), [profile({1 + i: 1 for i in range(len(others))})],
                               unix_minus_uptime=int(time.time()) * 10**9)) == 200
    assert "hot" in [function["name"] for function in server.get("/api/profile", service="more", **{"from": 0})[1]["top"]]


def processes(process):
    with open(f"/proc/{process}/task/{process}/children") as file:
        found = [int(child) for child in file.read().split()]
    return found + [inner for child in found for inner in processes(child)]


def end_readers(server):
    """Ends the processes that have symbol files; returns how many there were."""
    ended = 0
    for process in processes(server.process.pid):
        with open(f"/proc/{process}/comm") as file:
            if file.read() == "edgeprof-reader\n":
                os.kill(process, signal.SIGKILL)
                ended += 1
    return ended


def test_servers_are_asked_after_a_process_has_ended(start_server, known, strange, folder, monkeypatch):
    """A file without DWARF is opened anew while the question for a better one waits for its turn. Meanwhile it has names."""
    answers, symbols, segments = threading.Event(), os.path.join(folder, "symbols"), itertools.count(8)

    def answer(handler):
        answers.wait()
        handler.send_error(404)

    def top(service, build_id, address):
        app = module(4096, 1 << 20, address & ~0xfff, build_id, f"/device/{service}")
        assert server.push(message(next(segments), 0, origin(service), [app], nodes([0], [4096 + (address & 0xfff)]), [profile({1: 3})],
                                   unix_minus_uptime=(int(time.time()) - 60) * 10**9)) == 200
        return lambda: [function["name"] for function in server.get("/api/profile", service=service, **{"from": "0"})[1]["top"]]

    strange.answer = answer
    monkeypatch.setenv("EDGEPROF_CACHE", os.path.join(folder, "cache"))
    os.mkdir(symbols)
    with open(os.path.join(folder, "whole"), "wb") as file:
        file.write(known.debug)
    subprocess.run(["strip", "-g", "-o", os.path.join(symbols, "app.dbg"), os.path.join(folder, "whole")], check=True)
    server = start_server("--debuginfod", strange.url, "--symbols", symbols, config=USUAL)
    for i in range(2): # as many as are asked for at once
        top(f"other{i}", bytes([i + 1]) * 20, known.hot)()
    assert wait_until(lambda: strange.seen == 2)
    one = top("one", bytes.fromhex(known.build_id), known.hot)
    assert wait_until(lambda: one() == ["hot"])
    assert end_readers(server) > 0
    two = top("two", bytes.fromhex(known.build_id), known.hot + 1)
    assert wait_until(lambda: two() == ["hot"])
    answers.set()
    assert wait_until(lambda: strange.seen == 3), strange.seen


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def test_spellings_of_a_path(start_server, known, folder):
    """Senders may call one file by any name: it is read once."""
    with open(os.path.join(folder, "app.dbg"), "wb") as file:
        file.write(known.debug)
    server = start_server("--symbols", folder)
    push_hot(server, known)
    assert names(server) == ["hot"]
    before = descriptors(server)
    modules = [module((1 + i) << 20, 65536, 0, bytes.fromhex(known.build_id), f"/place/{i}/app") for i in range(400)]
    at = nodes([0] * 400, [((1 + i) << 20) + known.hot for i in range(400)])
    assert server.push(message(9, 0, origin("many"), modules, at, profiles=[profile({1 + i: 1 for i in range(400)})],
                               unix_minus_uptime=int(time.time()) * 10**9)) == 200
    frames = server.get("/api/profile", service="many", **{"from": 0})[1]
    assert "hot" in str(frames) and "app+0x" not in str(frames)
    assert descriptors(server) < before + 20


def make_old(path, hours):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb"):
        pass
    os.utime(path, (time.time() - hours * 3600,) * 2)


def test_notes_do_not_add_up(cli, folder, known, strange):
    """Senders name build ids. What nobody had more than an hour ago is not noted any more."""
    strange.answer = lambda handler: handler.send_error(404)
    inner = os.path.join(folder, "cache", known.build_id[:2])
    for i in range(10):
        make_old(os.path.join(inner, f"{i:038x}.missing"), hours=2)
        make_old(os.path.join(inner, f"{i:037x}f.missing"), hours=0.5)
    make_old(os.path.join(inner, "notes.txt"), hours=2)
    assert ask(cli, folder, known, strange.url).returncode == 3
    assert sorted(left(folder)) == sorted([known.build_id[:2], known.build_id[2:] + ".missing", "notes.txt"]
                                          + [f"{i:037x}f.missing" for i in range(10)])


def test_what_an_ended_process_has_left(cli, folder, known, strange):
    """A fetch that a power cut ended has left up to 512 MiB. One of another process may still go on."""
    strange.answer = lambda handler: send(handler, known.debug)
    for name, hours in (("abcdef", 1), ("ghijkl", 0)):
        path = os.path.join(folder, "cache", f".asking-{name}")
        make_old(os.path.join(path, "ab", "debuginfo"), hours)
        os.utime(path, (time.time() - hours * 3600,) * 2)
    assert "hot" in ask(cli, folder, known, strange.url).out
    assert sorted(left(folder)) == sorted([".asking-ghijkl", "ab", "debuginfo", known.build_id[:2], known.build_id[2:] + ".debug"])


def test_headers_do_not_follow_a_redirect(cli, folder, known, strange):
    """Headers may hold a token: only the server that was named gets them."""
    got = []

    def elsewhere(handler):
        got.append(dict(handler.headers))
        send(handler, known.debug)

    def redirect(handler):
        assert handler.headers["X-Secret"] == "s3cret"
        handler.send_response(302)
        handler.send_header("Location", f"{other.url}{handler.path}")
        handler.end_headers()

    path = os.path.join(folder, "headers")
    with open(path, "w") as file:
        file.write("X-Secret: s3cret\nX-More: 1\n")
    other = Strange()
    try:
        other.answer, strange.answer = elsewhere, redirect
        refused(ask(cli, folder, known, strange.url, DEBUGINFOD_HEADERS_FILE=path), folder, strange.url, "it redirects")
        assert got == [] and strange.seen == 1
        strange.answer = lambda handler: send(handler, known.debug) if handler.headers["X-Secret"] == "s3cret" else None
        assert "\thot\t" in ask(cli, folder, known, strange.url, DEBUGINFOD_HEADERS_FILE=path).out + "\t", "without a redirect it is used"
    finally:
        other.shutdown()
        other.server_close()
