"""Hostile requests of every kind get a whole answer, and the server keeps its bounds.

Everything that `edgeprof serve` takes, by people who mean harm: twice, against the program with ASan and UBSan and,
with its system calls traced, against the one that is shipped.

Of each request: an answer that is whole and of its type, an error in one line, nobody else waits, the server lives.
At the end: no file outside the data folder was written or named by a sender's text, and the memory stayed within bounds."""
import concurrent.futures
import gzip
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import threading
import time
import urllib.parse

import pytest

from generate import context, data, gzip_of, message, module, nested, nodes, number, origin, pprof_profile, profile, varint
from harness import Server

pytestmark = pytest.mark.all

NOW = 1_700_000_000
MIB = 1 << 20
MEMORY_MIB = 256  # the most that the shipped program may ever have had
PUSH, PROTO = "/push.v1.PusherService/Push", {"Content-Type": "application/proto"}
REFUSED = {400, 403, 404, 405, 409, 411, 413, 414, 415, 422, 429, 431, 501, 503}

EVIL = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'; DROP TABLE profile; --", "' OR '1'='1", "a\nb\r\nX-Injected: 1", "a\0b",
        "\x1b]0;x\x07\x1b[31m", "\u202e\u2028\ufeff", "../../../../etc/passwd", "/etc/passwd", "%2e%2e%2fetc", "%n%s%d" * 8, "{a=\"b\"}", "${jndi:ldap://x}",
        "\\", "\"", "`id`", "a" * 4096, "{" * 500, "=,;" * 20, "NaN", "-1", "9" * 40, "1e309", "", " ", "\U0001f600" * 30]
EVIL_BYTES = [b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\x80" * 100]
REGEX_BOMBS = ["(a+)+$", "((a{1,255}){1,255}){1,255}", "(" * 5000 + ")" * 5000, "a{1,65535}{1,65535}", "(?R)", "(?:(?:a|a)*)*b", "[" * 1000, "\\", "(*LIMIT_MATCH=4294967295)(a+)+$",
               "(?<n>a(?&n)?)+", ".*" * 2000, "(.*)*\\1{99}x"]


# ---- requests ----

def sound(what, status, headers, body, allowed=None):
    """An answer that a program can rely on."""
    assert status == 200 or status in (allowed or REFUSED), f"{what}: status {status} {body[:200]!r}"
    kind = headers.get("Content-Type", "")
    assert "X-Injected" not in headers, f"{what}: a header of the sender's"
    if "json" in kind:
        try:
            json.loads(body)
        except (ValueError, RecursionError) as error:
            assert isinstance(error, RecursionError), f"{what}: no JSON: {error} {body[:200]!r}"
        assert b"<script" not in body and b"\x1b" not in body, f"{what}: markup or an escape in JSON"
    elif status != 200:
        assert len(body) < 9000 and body.count(b"\n") <= 1 and b"\x1b" not in body and b"<script" not in body, f"{what}: an error in one line: {body[:300]!r}"


def ask(server, method, path, body=None, headers=None, allowed=None):
    what = f"{method} {path[:120]}"
    try:
        status, answer = server.request(method, path, body, headers)
    except (OSError, http.client.HTTPException) as error:
        # A header or an address that is too large may end the connection while it is still being sent.
        assert isinstance(error, (ConnectionError, http.client.RemoteDisconnected)), f"{what}: {type(error).__name__} {error}"
        return 0, b""
    sound(what, status, server.headers, answer, allowed)
    return status, answer


class Bystander(threading.Thread):
    """Somebody who was there before, sends and looks all the time, and is always served."""

    def __init__(self, server, process):
        super().__init__()
        self.server, self.sent, self.failed, self.longest, self.ending = server, 0, [], 0, False
        self.process, self.helpers_mib = process, 0  # the most that the processes had which it started
        self.start()

    def ask(self, method, path, body=None):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            connection.request(method, path, body)
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            if answer.status != 200:
                self.failed.append((path, answer.status, text[:100]))
        except (OSError, http.client.HTTPException) as error:
            self.failed.append((path, repr(error)))

    def run(self):
        first = message(3, 0, origin("bystander"), [module(4096, 4096, 0, b"\3" * 20, "/nowhere/app")], nodes([0], [4100]), [profile({1: 1})])
        while not self.ending:
            begin = time.monotonic()
            later = message(3, self.sent, profiles=[profile({1: 1}, start=(1 + self.sent) * 10**9)])
            self.ask("POST", "/edgeprof/v1/push", later if self.sent else first)
            self.ask("GET", "/healthz")
            self.ask("GET", "/")
            self.sent += 1
            self.longest = max(self.longest, time.monotonic() - begin)
            self.helpers_mib = max(self.helpers_mib, helpers_mib(self.process))
            time.sleep(0.02)

    def attacked(self):
        assert self.failed[:3] == [], "somebody else was not served"
        longest, self.longest, self.failed = self.longest, 0, []
        return longest

    def end(self):
        self.ending = True
        self.join()
        if self.server.process.poll() is None:
            assert self.server.total("bystander") == self.sent * 10_000_000, "somebody else's profiles"


# ---- the two programs ----

def helpers_mib(pid):
    """Memory of the processes that it started, and of theirs."""
    total = 0
    try:
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            total += int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{child}/status").read_text())[1]) // 1024 + helpers_mib(int(child))
    except (OSError, TypeError):
        pass  # it has ended
    return total


def memory_mib(pid):
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) // 1024


WRITES = re.compile(r'^\d+ +(?:(open|openat)\([^"]*"((?:[^"\\]|\\.)*)"[^,]*, ([A-Z_|0-9]+)|(\w+)\([^"]*"((?:[^"\\]|\\.)*)")')
HARMLESS = {"access", "faccessat", "faccessat2", "stat", "lstat", "newfstatat", "statx", "readlink", "readlinkat", "getcwd", "execve", "statfs", "chdir"}


def touched(trace, folder):
    """Files that were opened, changed or run, against what a server has to do with."""
    for line in trace.read_text(errors="replace").splitlines():
        found = WRITES.match(line)
        if not found or " = -1 " in line:
            continue
        opened, path, flags, other, other_path = found.groups()
        if opened and re.search("O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", flags):
            assert path.startswith(str(folder / "data") + "/") or path == "/dev/null", f"opened for writing: {line[:200]}"
        elif opened and "O_PATH" not in flags:  # that opens nothing
            assert "/pipe" not in path and "/dev/" not in path and ".." not in path and "secret" not in path.rsplit("/", 1)[-1] or path in (str(folder / "secret"), "/dev/urandom"), \
                f"opened: {line[:200]}"
        elif other and other not in HARMLESS:
            assert other_path.startswith(str(folder / "data") + "/"), f"changed: {line[:200]}"


STRACE = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "5000", "-e", "trace=%file", "-o"]


@pytest.fixture(scope="module", params=["sanitized", "shipped"])
def target(request, edgeprof, shipped, figure, tmp_path_factory):
    """A server, and somebody beside it who means well. What it wrote, touched and needed is looked at when all attacks are over."""
    folder, traced = tmp_path_factory.mktemp("hostile").resolve(), request.param == "shipped"
    (folder / "data" / "store").mkdir(parents=True)
    server = Server(shipped if traced else edgeprof, str(folder / "data" / "hostile.db"), "--symbols-store", str(folder / "data" / "store"),
                    prefix=[*STRACE, str(folder / "trace")] if traced else ())
    child = server.process.pid
    if traced:
        child = int(pathlib.Path(f"/proc/{child}/task/{child}/children").read_text().split()[0])
    server.sanitized, server.folder, server.child, server.bystander = not traced, folder, child, Bystander(server, child)
    yield server
    server.bystander.end()
    peak = memory_mib(child) + server.bystander.helpers_mib
    lines = server.stderr().rstrip("\n").split("\n")
    os.kill(child, signal.SIGTERM)
    assert server.stop(0) == 0, "exit code"
    assert len(lines) < 300, "lines on standard error"
    assert all(line.startswith("edgeprof: ") and not re.search(r"[\x00-\x08\x0b-\x1f]", line) for line in lines), \
        f"standard error: {[x for x in lines if not x.startswith('edgeprof: ')][:3]}"
    if traced:
        figure("hostile_peak_memory_mib", peak, "MiB")
        assert peak < MEMORY_MIB, "memory"
        touched(folder / "trace", folder)


@pytest.fixture
def server(target, request):
    assert target.process.poll() is None, "it lives"
    begin = time.monotonic()
    yield target
    assert target.process.poll() is None, f"the server lives: {target.stderr()[-3000:]}"
    longest = target.bystander.attacked()
    print(f"{request.node.name}: {time.monotonic() - begin:.1f} s, others waited for {longest:.1f} s at most, {memory_mib(target.child)} MiB so far")


# ---- what senders can put into a profile ----

def small_pprof(name=b"main", labels=(), file=b"", build_id=b"", mapping_file=b""):
    strings = [b"", b"cpu", b"nanoseconds", name, file, build_id, mapping_file]
    pairs = b""
    for key, value in labels:
        pairs += nested(3, number(1, len(strings)) + number(2, len(strings) + 1))
        strings += [key, value]
    mapping = nested(3, number(1, 1) + number(2, 4096) + number(3, 8192) + number(5, 6) + number(6, 5))
    location = nested(4, number(1, 1) + number(2, 1) + number(3, 4100) + (nested(4, number(1, 1) + number(2, 7)) if name else b""))
    function = nested(5, number(1, 1) + number(2, 3) + number(4, 4))
    return pprof_profile(strings, [data(1, b"\1") + data(2, varint(500)) + pairs], ((1, 2),), [mapping, location], [function], number(9, NOW * 10**9) + number(10, 10**9))


def series(labels, *profiles):
    return nested(1, b"".join(nested(1, data(1, k) + data(2, v)) for k, v in labels) + b"".join(nested(2, nested(1, p)) for p in profiles))


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def test_texts(server):
    """Every text that a sender can choose, in every way in; then everything that can be asked for."""
    for i, text in enumerate([*EVIL, *EVIL_BYTES]):
        raw = as_bytes(text)
        body = message(1000 + i, 0, origin(raw or "x", [(raw or b"k", raw), (b"k", raw)], host=raw, boot_id=raw, executable=raw, arch=raw, agent=raw),
                       [module(4096, 4096, 0, raw[:64], raw)], nodes([0], [4100]), [profile([(1, 1, 0, 1)])],
                       tag_sets=[number(1, 1) + nested(2, data(1, raw or b"k") + data(2, raw))], contexts=[context(1, thread=raw)])
        ask(server, "POST", "/edgeprof/v1/push", body)
        own = small_pprof(raw or b"f", [(raw or b"k", raw)], raw, raw, raw)
        name = urllib.parse.quote(raw)
        ask(server, "POST", f"/ingest?name={name}&from={name}", own)
        for form in (f"{name}", f"evil%7Bk={name}%7D", f"evil%7B{name}=v%7D"):
            ask(server, "POST", f"/ingest?name={form}", own)
        ask(server, "POST", f"/ingest?name=folded&format=folded", raw + b";main " + b"7\n" + raw + b"\n")
        ask(server, "POST", PUSH, series([("__name__", "process_cpu"), ("service_name", raw), (raw, raw), (b"k", raw)], own), PROTO)
        ask(server, "POST", PUSH, json.dumps({"series": [{"labels": [{"name": raw.decode(errors="replace"), "value": raw.decode(errors="replace")}],
                                             "samples": [{"rawProfile": "AAAA", "ID": text if isinstance(text, str) else ""}]}]}).encode(), {"Content-Type": "application/json"})
    status, body = server.request("GET", "/api/services")
    assert status == 200, "services after hostile names"
    for row in json.loads(body)["services"]:
        assert not re.search(r"[\x00-\x1f]", row["service"]), f"a service's name without control characters: {row['service']!r}"
        for path in ("/api/profile", "/api/stats", "/api/pprof"):
            ask(server, "GET", f"{path}?" + urllib.parse.urlencode({"service": row["service"], "kind": row["kind"]}))


def test_large_texts(server):
    """A label, a name, an address and a header of a MiB."""
    large = b"L" * MIB
    ask(server, "POST", "/edgeprof/v1/push", message(2000, 0, origin("large", [("k", large)])))
    ask(server, "POST", "/edgeprof/v1/push", message(2000, 0, origin(large)))
    ask(server, "POST", "/ingest?name=large", small_pprof(b"f", [(b"k", large), (large, b"v")]))
    ask(server, "POST", "/ingest?name=large-name", small_pprof(large, (), large, large, large))
    for labels in ([("__name__", "process_cpu"), ("service_name", large)], [("__name__", "process_cpu"), ("service_name", "large"), ("k", large)], [(large, "x")]):
        ask(server, "POST", PUSH, series(labels, small_pprof()), PROTO)
    ask(server, "POST", "/ingest?name=" + "x" * MIB, small_pprof())
    ask(server, "GET", "/api/profile?service=" + "x" * 30000)
    ask(server, "GET", "/healthz", headers={"X-Large": "y" * MIB})
    ask(server, "POST", "/ingest?name=folded-large&format=folded", large + b" 5\n" + b";".join([b"f"] * 100000) + b" 1\n")
    status, body = ask(server, "GET", "/api/services")
    assert status == 200 and len(body) < 40 * MIB, f"services after large texts: {status}, {len(body)} bytes"


def test_many_values(server):
    """10,000 values of a label, at once and in one profile, and 3,000 services."""
    body = b"".join(series([("__name__", "process_cpu"), ("service_name", "many"), ("user", f"u{i}")], small_pprof()) for i in range(10_000))
    status, _ = ask(server, "POST", PUSH, gzip.compress(body, 1), PROTO)
    strings, samples = [b"", b"cpu", b"nanoseconds", b"main", b"user"], []
    for i in range(10_000):
        strings.append(b"v%d" % i)
        samples.append(data(1, b"\1") + data(2, varint(10)) + nested(3, number(1, 4) + number(2, 5 + i)))
    status, _ = ask(server, "POST", "/ingest?name=values",
                    pprof_profile(strings, samples, ((1, 2),), [nested(4, number(1, 1) + nested(4, number(1, 1)))], [nested(5, number(1, 1) + number(2, 3))]))
    if status == 200:
        assert server.total("values") == 100_000, "10,000 values of a label add up"
        ask(server, "GET", "/api/profile?service=values&group=user")
    ask(server, "POST", PUSH, gzip.compress(b"".join(series([("__name__", "process_cpu"), ("service_name", f"s{i}")], small_pprof()) for i in range(3000)), 1), PROTO)
    for path in ("/api/services", "/api/stats?service=many", "/api/profile?service=many", "/api/profile?service=many&group=user"):
        ask(server, "GET", path)


def test_paths(server):
    """Files of the server's machine, named by a sender: nothing is opened that is no file, and no secret is shown."""
    folder = server.folder
    secret, pipe, link = folder / "secret", folder / "pipe", folder / "link"
    if not pipe.exists():
        os.mkfifo(pipe)
        secret.write_text("the-secret-of-this-machine")
        link.symlink_to(secret)
    names = [str(pipe), str(secret), str(link), str(folder), "/dev/zero", "/dev/tty", "/dev/stdin", "/proc/self/mem", "/proc/self/environ", "/proc/self/fd/0", "/proc/kmsg",
             "../../../../etc/passwd", "/etc/shadow", "/" + "../" * 300 + "etc/passwd", "[vdso]", "", "/" + "x" * 4000]
    for i, name in enumerate(names):
        body = message(4000 + i, 0, origin(f"paths{i}"), [module(4096, 4096, 0, b"\4" * 20 if i % 2 else b"", name)], nodes([0], [4100]), [profile({1: 1})])
        ask(server, "POST", "/edgeprof/v1/push", body)
        status, body = ask(server, "GET", f"/api/profile?service=paths{i}")
        assert b"the-secret" not in body, f"a secret is shown: {name}"
    for i, ident in enumerate(("../../../../../../etc/passwd", str(secret), "ab/../../x", "aa\0bb", "%2e%2e%2f", "zz", "ab" * 3000)):
        ask(server, "POST", f"/ingest?name=ids{i}", small_pprof(b"", (), b"", ident.encode(), ident.encode()))
        ask(server, "GET", f"/api/profile?service=ids{i}")
    for path in ("/../secret", "/%2e%2e/secret", "/..%2fsecret", "/%2e%2e%2f%2e%2e%2fetc/passwd", "//etc/passwd", "/./", "/.", "/%", "/%zz","/api/../secret",
                 "/\\..\\secret", "/" + "a/" * 4000):
        status, body = ask(server, "GET", path)
        assert status in REFUSED | {0} and b"root:" not in body, f"GET {path[:60]}: {status}"


def test_uploads(server, shipped):
    """Symbol files that are none, of ids that are paths, and damaged ones; links that lie in the store already."""
    store, secret, ident = server.folder / "data/store", server.folder / "elsewhere", "ab" * 20
    elf = pathlib.Path(shipped).read_bytes()
    own = re.search(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0(.{20})", elf, re.S)[1].hex()
    secret.mkdir(exist_ok=True)
    (secret / "kept").write_text("the-secret-of-this-machine")
    if not (store / "cd").exists():
        (store / "cd").symlink_to(secret)
    for name in ("../../kept", "..%2f..%2fkept", "%2e%2e/%2e%2e/kept", "/etc/passwd", "%2fetc%2fpasswd", ident + "%00", ident + "/../../kept", "AB" * 20, "zz" * 20, "a", "", "ab" * 3000,
                 ident, "cd" * 20, "cd/kept"):
        for body in (b"", b"\x7fELF", elf[:4096], gzip.compress(elf[:4096]), b"#!/bin/sh\n"):
            status, _ = ask(server, "POST", f"/api/symbols/{name}", body)
            assert status != 201, f"taken as symbols of {name[:50]}: {body[:10]!r}"
        for path in (f"/buildid/{name}/debuginfo", f"/buildid/{name}/source/etc/passwd", f"/buildid/{name}/executable"):
            _, body = ask(server, "GET", path)
            assert b"the-secret" not in body and b"root:" not in body, f"GET {path[:80]}"
    status, _ = ask(server, "POST", f"/api/symbols/{own}", gzip.compress(elf, 1), allowed={201})
    assert status in (200, 201), f"a sound one: {status}"
    rng = random.Random(8)
    for _ in range(15):
        damaged = bytearray(elf)
        for _ in range(200):
            damaged[rng.choice((rng.randrange(4096), rng.randrange(len(elf)), len(elf) - 1 - rng.randrange(4096)))] = rng.randrange(256)
        ask(server, "POST", f"/api/symbols/{own}", gzip.compress(bytes(damaged), 1), allowed=REFUSED | {201})
    body = message(6000, 0, origin("uploads"), [module(4096, 1 << 20, 0, bytes.fromhex(own), "/nowhere/edgeprof")], nodes([0] * 50, [4096 + 5000 * i for i in range(50)]),
                   [profile({i: 1 for i in range(1, 51)})])
    ask(server, "POST", "/edgeprof/v1/push", body)
    ask(server, "GET", "/api/profile?service=uploads")
    ask(server, "GET", "/api/symbols")
    assert [path.name for path in secret.iterdir()] == ["kept"], "nothing was written through a link"


# ---- bombs ----

def test_bombs(server):
    zeros = gzip_of(b"\0" * (16 * MIB), 254)  # 4 GiB in 4 MiB
    assert 3.9 * MIB < len(zeros) <= 4 * MIB, f"the bomb has {len(zeros)} bytes"
    for body in (zeros, gzip.compress(zeros), gzip_of(b"\x12\0" * (8 * MIB), 250), gzip.compress(b"") * 100_000):
        for method, path, headers in (("POST", "/ingest?name=bomb", {}), ("POST", PUSH, PROTO), ("POST", "/ingest?name=bomb", {"Content-Encoding": "gzip"}),
                                      ("POST", "/edgeprof/v1/push", {"Content-Encoding": "gzip"})):
            status, _ = ask(server, method, path, body[:4 * MIB], headers)
            assert status in (400, 413, 415, 422, 429) or (status == 200 and body[-8:] == b"\0" * 8 and len(body) < 3 * MIB), f"a bomb at {path}: {status}"
    numbers = gzip.compress(b'{"series":[' + b"0," * (15 * MIB) + b"0]}", 1)
    for headers in ({"Content-Type": "application/json"}, {"Content-Type": "application/json", "Content-Encoding": "gzip"}):
        ask(server, "POST", PUSH, numbers, headers)
    padded = gzip.compress(small_pprof() + nested(99, b"\0" * (30 * MIB)), 1)
    inside = series([("__name__", "process_cpu"), ("service_name", "inside")], *[padded] * 8)
    begin = time.process_time()
    ask(server, "POST", PUSH, inside[:4 * MIB], PROTO)
    assert time.process_time() - begin < 60, "profiles of 30 MiB in one push"
    many = 20 if server.sanitized else 60
    with concurrent.futures.ThreadPoolExecutor(many) as pool:
        for done in [pool.submit(ask, server, "POST", "/ingest?name=bomb", gzip_of(b"\0" * MIB, 31)) for _ in range(many)]:
            done.result()


def test_huge(server):
    """100,000 deep, a million samples, a million lines at one place, ids that lead nowhere or back."""
    ask(server, "POST", "/edgeprof/v1/push", message(5000, 0, origin("deep"), [module(4096, 4096)], nodes([0] + [1] * 99_999, [4100] * 100_000), [profile({100_000: 1})]))
    main = [nested(4, number(1, 1) + nested(4, number(1, 1)))], [nested(5, number(1, 1) + number(2, 3))]
    strings = [b"", b"cpu", b"nanoseconds", b"main"]
    status, _ = ask(server, "POST", "/ingest?name=deep-pprof", gzip.compress(pprof_profile(strings, [data(1, b"\1" * 100_000) + data(2, b"\5")], ((1, 2),), *main), 1))
    million = gzip.compress(pprof_profile(strings, [], ((1, 2),), *main) + nested(2, data(1, b"\1") + data(2, b"\1")) * 1_000_000, 1)
    status, _ = ask(server, "POST", "/ingest?name=million", million)
    if status == 200:
        assert server.total("million") == 1_000_000, "a million samples add up"
    lines = [nested(4, number(1, 1) + nested(4, number(1, 1)) * 1_000_000)]
    ask(server, "POST", "/ingest?name=lines", gzip.compress(pprof_profile(strings, [data(1, b"\1") + data(2, b"\5")], ((1, 2),), lines, main[1]), 1))
    ask(server, "POST", "/ingest?name=folded-deep&format=folded", b";".join([b"f%d" % i for i in range(100_000)]) + b" 1\n")
    ask(server, "POST", "/ingest?name=folded-wide&format=folded", b"".join(b"f%d 1\n" % i for i in range(200_000)))
    wide = message(5001, 0, origin("wide"), [module(4096 * (i + 1), 4096, 0, struct.pack("<QQ", i, 1), f"/nowhere/{i}") for i in range(4000)],
                   nodes([0] * 4000, [4096 * (i + 1) for i in range(4000)]), [profile({i + 1: 1 for i in range(4000)})])
    ask(server, "POST", "/edgeprof/v1/push", wide)
    for service in ("deep", "deep-pprof", "lines", "folded-deep", "folded-wide", "wide"):
        for path in ("/api/profile", "/api/pprof"):
            ask(server, "GET", f"{path}?service={service}")


# ---- connections ----

def raw(server, blob, more=b"", wait=5.0):
    """What comes back, as far as it comes."""
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.settimeout(wait)
        try:
            connection.sendall(blob)
            if more is not None:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                answer += chunk
        except OSError:
            pass
    return answer


def test_connections(server):
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert raw(server, get * 50).count(b"HTTP/1.1 200") == 50, "fifty requests at once on one connection"
    chunked = b"POST /edgeprof/v1/push HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    both = b"POST /edgeprof/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    smuggled = raw(server, both + b"0\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200 OK\r\n" not in smuggled.split(b"\r\n\r\n")[0] + b"\r\n", f"two lengths of one body: {smuggled[:100]!r}"
    for blob in (chunked + b"zz\r\n", chunked + b"ffffffffffffffffff\r\nx", chunked + b"-1\r\n", chunked + b"5;" + b"x" * 100_000 + b"\r\n", chunked + b"0\r\n" + b"T: v\r\n" * 10_000,
                 chunked + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n", get[:-2] + b"X: y\r\n" * 10_000 + b"\r\n", get[:-2] + b"X" * 100_000 + b": y\r\n\r\n",
                 get[:-2] + b"X: y\r\n folded\r\n\r\n", get.replace(b"\r\n", b"\n"), b"GET /\0 HTTP/1.1\r\n\r\n", b"GET  /  HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3" * 20,
                 b"GET http://[::1:80/ HTTP/1.1\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                 b"POST /ingest HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4194305\r\n\r\n", b"A" * 10, b"\r\n" * 1000, b"GET /healthz HTTP/0.9\r\n\r\n",
                 b"GET /healthz?" + b"a&" * 8000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"X" * 3000 + b" / HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        answer = raw(server, blob, wait=2.0)
        assert not answer or answer.startswith(b"HTTP/1."), f"{blob[:60]!r}: {answer[:100]!r}"


def test_slow(server):
    """300 who send a byte now and then: others are served, and the slow ones are sent away in the end."""
    sockets = []
    for i in range(300):
        try:
            connection = socket.create_connection(("127.0.0.1", server.port), 5)
            connection.sendall((b"POST /ingest?name=slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", b"GET /healthz HTTP/1.1\r\nX-Slow: ", b"")[i % 3])
            sockets.append(connection)
        except OSError:
            pass
        time.sleep(0.01)  # places are held, which is not the same as many coming at one moment
    begin = time.monotonic()
    status, _ = server.request("GET", "/healthz")
    assert status == 200, "somebody is served beside 300 slow ones"
    assert time.monotonic() - begin < 45, f"who had to wait for {time.monotonic() - begin:.0f} s"
    for connection in sockets:
        connection.close()


# ---- queries ----

def routes():
    """(method, path, names of arguments), as the sources have them: what is added is tried as well."""
    found = []
    for file in sorted(pathlib.Path("tools").rglob("routes_*.c")):
        text = file.read_text()
        names = set(re.findall(r'et_argument\([^,]+, "([a-zA-Z_-]+)"\)', text)) | set(re.findall(r'strcmp\((?:key|name), "([a-zA-Z_-]+)"\) == 0', text))
        for method, path in re.findall(r'\.method = "([A-Z]+)",\s*\.path = "([^"]+)"', text) + re.findall(r'\{"([A-Z]+)", "([^"]+)"', text):
            found.append((method, path, sorted(names)))
    return found


SANE = {"service": "bystander", "query": "bystander.cpu", "from": "0", "until": "now", "to": "now", "kind": "cpu", "format": "json", "name": "x"}
VALUES = [*EVIL, *REGEX_BOMBS, "bystander", "svc.cpu{version=~\"(a+)+$\"}", "bystander{x=~\"((a{1,255}){1,255}){1,255}\"}", "{service_name=~\".*\"}", "process_cpu:cpu:nanoseconds:cpu:nanoseconds{}",
          "-9223372036854775808", "9223372036854775807", "18446744073709551615", "4294967296", "now-9999999999d", "now+9999d", "0.0000000001", "-0", "0x10", "1970-01-01T00:00:00Z",
          "9999-12-31T23:59:59Z", "a=b", "=", "k=" + "v" * 3000]


def test_queries(server):
    known = routes()
    assert len(known) >= 30 and any("Querier" in path for _, path, _ in known), f"addresses found in the sources: {known}"
    rng = random.Random(5)
    for method, path, names in known:
        if method != "GET":
            continue
        path = path.replace("*", rng.choice(("x", "%2e%2e%2fsecret", "a" * 64)))
        ask(server, "GET", path)
        wanted = [(name, value) for name in names for value in VALUES]
        for name, value in rng.sample(wanted, min(len(wanted), 25 if server.sanitized else 8)):
            arguments = {key: sane for key, sane in SANE.items() if key in names} | {name: value}
            _, body = ask(server, "GET", f"{path}?{urllib.parse.urlencode(arguments)}")
            assert b"the-secret" not in body, f"a secret is shown: {path} {name}={value[:60]}"
        for _ in range(8):
            ask(server, "GET", f"{path}?" + urllib.parse.urlencode([(rng.choice(names or ["x"]), rng.choice(VALUES)) for _ in range(rng.randrange(1, 12))]))


def deep_json(depth):
    return b'{"a":' * depth + b"1" + b"}" * depth


CALLS = ("ProfileTypes", "LabelNames", "LabelValues", "Series", "SelectMergeStacktraces", "SelectMergeSpanProfile", "SelectMergeProfile", "SelectSeries", "Diff")


def test_bodies(server):
    """What has a body: bytes that are none of its formats, JSON that is deep, wide, twice, of other types, never ends."""
    rng = random.Random(6)
    query = '{"start":-9223372036854775808,"end":9223372036854775807,"profileTypeID":"process_cpu:cpu:nanoseconds:cpu:nanoseconds","labelSelector":%s,"maxNodes":%s,"step":%s,"groupBy":%s}'
    hostile = [deep_json(100_000), b"[" * 100_000, b'{"start":1e999}', b'{"start":"\xff"}', b"{" + b'"a":1,' * 50_000 + b'"b":2}', b'"' + b"\\u0000" * 1000 + b'"', b'{"labelSelector":null}',
               b"\x0b" * 100_000, b"\x0a\xff\xff\xff\xff\x0f", b"", rng.randbytes(2000), b"\x08" + b"\xff" * 20]
    for selector, nodes_, step, group in (("{a=~\"(a+)+$\"}", -1, 1e-300, []), ("{service_name=\"bystander\"}", 2**63, 0, ["x"] * 1000), ("{" * 1000, "-9223372036854775808", -5, [""]),
                                          ("{}", "9" * 30, 1e300, ["'; DROP"]), ("{service_name=~\"((a{1,255}){1,255}){1,255}\"}", 2**31, "NaN", [[]])):
        hostile.append((query % (json.dumps(selector), json.dumps(nodes_), json.dumps(step), json.dumps(group))).encode())
    for method, path, _ in routes():
        if method != "POST":
            continue
        for place in sorted({path.replace("*", word) for word in ("x", "%2e%2e%2f%2e%2e%2fsecret", *(CALLS if path.startswith("/querier") else ()))}):
            for body in hostile:
                for headers in ({"Content-Type": "application/json"}, PROTO, {"Content-Type": rng.choice(["text/plain", "multipart/form-data; boundary=x", "a" * 500, "application/grpc"])}):
                    ask(server, "POST", place, body, headers)
