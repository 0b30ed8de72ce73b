"""No hostile request of 16 MiB costs more than two seconds of CPU time; a table says what each costs.

What hostile requests cost the server: its CPU time (threads, and children that read symbols) and its memory, a row for each. Bodies are
as large as the server takes them. No request costs more than two seconds of CPU time, the bound of the last column."""
import gzip
import json
import os
import random
import subprocess
import time
import urllib.parse
import zlib

import pytest

from generate import data, function_of, gzip_of, message, module, nested, nodes, number, origin, pprof_profile, profile, varint
from harness import Server
from hostile_test import MIB, PROTO, PUSH, REGEX_BOMBS, memory_mib, series, small_pprof

pytestmark = pytest.mark.long

SECONDS = 2
BODY = 16 * MIB
JSON = {"Content-Type": "application/json"}
TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:15])) / TICK


@pytest.fixture(scope="module")
def server(shipped, shared_folder):
    store = os.path.join(shared_folder, "store")
    os.mkdir(store)
    with Server(shipped, os.path.join(shared_folder, "costs.db"), "--symbols-store", store) as found:
        yield found


class Table:
    def __init__(self, server, show):
        self.server, self.show, self.rows = server, show, []

    def cost(self, what, method, path, body=None, headers=None):
        """Sends it. What goes on after the answer counts until it ends."""
        pid, begin = self.server.process.pid, time.monotonic()
        before = cpu_seconds(pid)
        try:
            status, answer = self.server.request(method, path, body, headers)
        except OSError as error:
            status, answer = type(error).__name__, b""
        wall, spent, quiet = time.monotonic() - begin, cpu_seconds(pid), 0
        while quiet < 5:
            time.sleep(0.05)
            now = cpu_seconds(pid)
            quiet, spent = (quiet + 1, spent) if now == spent else (0, now)
        row = (what, len(body) if isinstance(body, bytes) else 0, status, spent - before, wall)
        self.rows.append(row)
        self.show(f"{what:<58} {row[1] / MIB:6.2f} MiB  {status!s:>5}  {row[3]:6.2f} s CPU  {wall:6.2f} s  {memory_mib(pid):5} MiB at most")
        assert self.server.process.poll() is None, f"{what}: the server lives"
        return status, answer


@pytest.fixture
def table(server, request):
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def show(line):
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", end="", flush=True)
    found = Table(server, show)
    yield found
    assert [f"{what}: {cpu:.2f} s" for what, _, _, cpu, _ in found.rows if cpu > SECONDS] == []


def fill(unit, most=BODY):
    """As many units as fit; each a text, or made from its number."""
    if isinstance(unit, bytes):
        return unit * (most // len(unit))
    parts, size, i = [], 0, 0
    while size < most:
        parts.append(unit(i))
        size += len(parts[-1])
        i += 1
    return b"".join(parts[:-1])


def ingest(service):
    return f"/ingest?name={service}&format=pprof"


STRINGS = [b"", b"cpu", b"nanoseconds", b"main"]
MAIN = [nested(4, number(1, 1) + nested(4, number(1, 1)))], [function_of(1, 3)]


def whole(samples=b"", strings=STRINGS, locations=MAIN[0], functions=MAIN[1]):
    return pprof_profile(strings, [], ((1, 2),), locations, functions, samples)


# ---- hash ----

def chosen(i):
    """A number that hashes to i << 32 by the function that the server's tables had in its first version."""
    x, mask = i << 32, (1 << 64) - 1
    x ^= x >> 31 ^ x >> 62
    x = x * 0x319642b2d24d8ec3 & mask
    x ^= x >> 27 ^ x >> 54
    x = x * 0x96de1b173f119089 & mask
    return x ^ x >> 30 ^ x >> 60


def test_hash(table):
    for name, ident in (("chosen ids", chosen), ("ids of one bucket", lambda i: i << 40), ("ids in order", lambda i: i)):
        locations = fill(lambda i, ident=ident: nested(4, number(1, ident(i + 1) or 1) + nested(4, number(1, 1))), BODY - 1000)
        table.cost(f"hash: locations, {name}", "POST", ingest("hash"), whole(locations=[locations]))
        functions = fill(lambda i, ident=ident: function_of(ident(i + 2) or 2, 3), BODY - 1000)
        table.cost(f"hash: functions, {name}", "POST", ingest("hash"), whole(functions=[*MAIN[1], functions]))
    strings = [*STRINGS, *(b"%x" % chosen(i) for i in range(900_000))]
    table.cost("hash: strings", "POST", ingest("hash"), whole(strings=strings)[:BODY])


# ---- pprof ----

def test_pprof(table):
    sample = nested(2, data(1, b"\1") + data(2, b"\1"))
    table.cost("pprof: samples", "POST", ingest("samples"), whole(fill(sample, BODY - 1000)))
    table.cost("pprof: one stack of 16 million frames", "POST", ingest("deep"), whole(nested(2, data(1, b"\1" * (BODY - 1000)) + data(2, b"\1"))))
    table.cost("pprof: 64 deep stacks", "POST", ingest("deep"), whole(nested(2, data(1, b"\1" * (BODY // 65)) + data(2, b"\1")) * 64))
    table.cost("pprof: empty strings", "POST", ingest("strings"), whole(fill(b"\x32\0", BODY - 1000)))
    table.cost("pprof: empty samples", "POST", ingest("empty"), whole(fill(b"\x12\0", BODY - 1000)))
    table.cost("pprof: empty mappings", "POST", ingest("empty"), whole(fill(b"\x1a\0", BODY - 1000)))
    table.cost("pprof: empty lines of one location", "POST", ingest("lines"), whole(locations=[nested(4, number(1, 1) + fill(b"\x22\0", BODY - 1000))]))
    table.cost("pprof: mappings", "POST", ingest("mappings"), whole(fill(lambda i: nested(3, number(1, i + 1) + number(2, 4096 * (i + 1)) + number(3, 4096 * (i + 2))), BODY - 1000)))
    labelled = fill(lambda i: nested(2, data(1, b"\1") + data(2, b"\1") + nested(3, number(1, 4) + number(4, i + 1))), BODY - 1000)
    table.cost("pprof: a label set a sample", "POST", ingest("labels"), whole(labelled, [*STRINGS, b"n"]))
    distinct = fill(lambda i: nested(4, number(1, i + 2) + number(3, 4096 + 16 * i)) + nested(2, data(1, varint(i + 2)) + data(2, b"\1")), BODY - 1000)
    table.cost("pprof: a new address a sample", "POST", ingest("addresses"), whole(distinct))
    for service in ("samples", "labels", "addresses"):
        for path in ("/api/profile", "/api/pprof"):
            table.cost(f"  then GET {path} of {service}", "GET", f"{path}?service={service}")


# ---- the other formats ----

def test_compact(table):
    most = 4 * MIB - 4000
    count = most // 3
    body = message(11, 0, origin("compact"), [module(4096, 1 << 24)], nodes([0] + [1] * (count - 1), [4096] * count), last=True)
    table.cost("compact: one stack as deep as the message is long", "POST", "/edgeprof/v1/push", body[:4 * MIB])
    frames = [4096 + 16 * i for i in range(900_000)]
    body = message(12, 0, origin("compact"), [module(4096, 1 << 24)], nodes([0] * len(frames), frames), [profile(dict.fromkeys(range(1, 300_001), 1), start=1)], last=True)
    table.cost("compact: 900,000 nodes", "POST", "/edgeprof/v1/push", body)
    modules = [module(4096 * (i + 1), 4096, 0, b"%020d" % i, f"/m/{i}") for i in range(4096)]
    frames = [4096 * (1 + i * 2654435761 % 4096) + 16 * (i % 255) for i in range(600_000)]
    body = message(13, 0, origin("compact"), modules, nodes([0] * len(frames), frames), last=True)
    table.cost("compact: 600,000 nodes in 4,096 modules", "POST", "/edgeprof/v1/push", body)


def test_push(table):
    table.cost("push: empty series", "POST", PUSH, fill(b"\x0a\0"), PROTO)
    table.cost("push: labels of one series", "POST", PUSH, nested(1, fill(b"\x0a\0", BODY - 100)), PROTO)
    labels = [("__name__", "process_cpu"), ("service_name", "push")]
    table.cost("push: profiles", "POST", PUSH, fill(series(labels, small_pprof())), PROTO)
    table.cost("push: a tag set a series", "POST", PUSH, fill(lambda i: series([*labels, ("n", str(i))], small_pprof())), PROTO)
    table.cost("push: JSON, numbers", "POST", PUSH, b'{"series":[' + b"0," * (BODY // 2 - 10) + b"0]}", JSON)
    table.cost("push: JSON, deep", "POST", PUSH, b'{"series":' + b"[" * (BODY - 20), JSON)
    table.cost("push: JSON, escapes", "POST", PUSH, b'{"series":[{"labels":[{"name":"' + b"\\u0041" * (BODY // 6 - 20) + b'"}]}]}', JSON)
    table.cost("push: JSON, members", "POST", PUSH, b"{" + fill(lambda i: b'"%x":1,' % chosen(i), BODY - 20) + b'"a":1}', JSON)
    table.cost("push: JSON, base64", "POST", PUSH, b'{"series":[{"labels":[{"name":"service_name","value":"x"}],"samples":[{"rawProfile":"' + b"A" * (BODY - 200) + b'"}]}]}', JSON)


def test_text(table):
    path = "/ingest?name=folded&format=groups"
    table.cost("folded: lines", "POST", path, fill(b"a 1\n"))
    table.cost("folded: a new function a line", "POST", path, fill(lambda i: b"f%d 1\n" % i))
    table.cost("folded: one line of 8 million frames", "POST", path, fill(b"a;", BODY - 10) + b"b 1\n")
    table.cost("folded: deep lines", "POST", path, fill(b"a;" * 1000 + b"b 1\n"))
    table.cost("folded: one name", "POST", path, b"a" * (BODY - 10) + b" 1\n")
    table.cost("folded: nothing but line ends", "POST", path, b"\n" * BODY)
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    table.cost("multipart: parts", "POST", ingest("form"), fill(b"--x\r\n\r\n\r\n", BODY - 10) + b"--x--\r\n", form)
    table.cost("multipart: nearly boundaries", "POST", ingest("form"), b"--x\r\n\r\n" + fill(b"\r\n-", BODY - 50) + b"\r\n--x--\r\n", form)
    table.cost("multipart: headers", "POST", ingest("form"), b"--x\r\n" + fill(b"a:b\r\n", BODY - 50) + b"\r\n--x--\r\n", form)


def test_otlp(table):
    path = "/v1development/profiles"
    for name, body in (("empty resources", fill(b"\x0a\0")), ("empty tables", fill(b"\x12\0")), ("stacks", nested(2, fill(b"\x3a\0", BODY - 100))),
                       ("strings", nested(2, fill(b"\x2a\0", BODY - 100))), ("empty profiles", nested(1, nested(2, fill(b"\x12\0", BODY - 100))))):
        table.cost(f"OTLP: {name}", "POST", path, body, {"Content-Type": "application/x-protobuf"})
    table.cost("OTLP: JSON, empty objects", "POST", path, b'{"resourceProfiles":[' + b"{}," * (BODY // 3 - 20) + b"{}]}", JSON)


# ---- zip ----

def test_zip(table):
    zeros = gzip_of(b"\0" * (16 * MIB), 1020)
    for name, body in (("16 GiB of zeros", zeros), ("a bomb in a bomb", gzip.compress(zeros)), ("empty members", fill(gzip.compress(b""))),
                       ("32 MiB of empty samples", gzip.compress(whole(fill(b"\x12\0", 31 * MIB)), 1)),
                       ("32 MiB of samples", gzip.compress(whole(fill(nested(2, data(1, b"\1") + data(2, b"\1")), 31 * MIB)), 1)),
                       ("random bytes", gzip.compress(random.Random(1).randbytes(BODY - 10_000), 0))):
        table.cost(f"zip: {name}, /ingest", "POST", ingest("zip"), body[:BODY])
        table.cost(f"zip: {name}, Push", "POST", PUSH, body[:BODY], {**PROTO, "Content-Encoding": "gzip"})
    padded = gzip.compress(small_pprof() + nested(99, b"\0" * (30 * MIB)), 1)
    table.cost("zip: profiles of 30 MiB in one push", "POST", PUSH, fill(series([("__name__", "process_cpu"), ("service_name", "inside")], padded)), PROTO)
    deflate = zlib.compress(b"\0" * (64 * MIB))
    table.cost("zip: symbols", "POST", f"/api/symbols/{'ab' * 20}", gzip_of(b"\0" * (16 * MIB), 600)[:BODY])
    table.cost("zip: deflate that is no gzip", "POST", ingest("zip"), deflate)


# ---- regular expressions ----

def test_regex(table):
    """Over a thousand tag sets with a value of 2 KB each."""
    body = b"".join(series([("__name__", "process_cpu"), ("service_name", "regex"), ("x", "a" * 2000 + f"!{i}")], small_pprof()) for i in range(1000))
    assert table.cost("regex: a thousand values of 2 KB", "POST", PUSH, body, PROTO)[0] == 200
    for pattern in REGEX_BOMBS:
        selector = urllib.parse.quote("regex{x=~" + json.dumps(pattern) + "}")
        table.cost(f"regex: {pattern[:40]}", "GET", f"/api/profile?service={selector}")
    bad = "(" + "|".join(f"a{{{i}}}" for i in range(1, 200)) + ")*c"
    table.cost("regex: alternatives, Querier", "POST", "/querier.v1.QuerierService/Series",
               json.dumps({"matchers": ["{x=~" + json.dumps(bad) + "}"], "start": "0", "end": str(int(time.time() * 1000))}).encode(), JSON)


def test_querier(table):
    sites = nested(7, fill(b"\x0a\0", MIB - 100))
    for method, body in (("SelectMergeStacktraces", sites), ("Series", fill(b"\x0a\0", MIB)), ("Series", fill(b"\x12\0", MIB)), ("SelectMergeProfile", fill(b"\x0a\0", MIB)),
                         ("LabelNames", fill(b"\x0a\2{}", MIB))):
        table.cost(f"querier: {method}, {body[:1].hex()}", "POST", f"/querier.v1.QuerierService/{method}", body, PROTO)


# ---- DWARF ----


def unit(size):
    """The head of the one unit of .debug_info, and its code."""
    return f""".section .debug_info
.long 2f-1f
1: .short 4
.long 0
.byte 8
.uleb128 1
.quad 0x1000,{size:#x}
"""


SHARED_RANGES = """.section .debug_abbrev
.uleb128 1,0x11
.byte 1
.uleb128 0x11,1,0x12,7,0,0
.uleb128 2,0x2e
.byte 0
.uleb128 0x55,0x17,0,0
.byte 0
""" + unit(0x10000000) + """.rept %d
.uleb128 2
.long 0
.endr
.byte 0
2:
.section .debug_ranges
.set i,0x1000
.rept %d
.quad i,i+1
.set i,i+2
.endr
.quad 0,0
"""
DEEP = """.section .debug_abbrev
.uleb128 1,0x11
.byte 1
.uleb128 0x11,1,0x12,7,0,0
.uleb128 2,0x0b
.byte 1
.uleb128 0x11,1,0x12,7,0,0
.byte 0
""" + unit(0x100000) + """.rept %d
.uleb128 2
.quad 0x1000,0x100000
.endr
.fill %d,1,0
2:
"""
LINES = """.section .debug_abbrev
.uleb128 1,0x11
.byte 0
.uleb128 0x11,1,0x12,7,0x10,0x17,0,0
.byte 0
""" + unit(0x10000000) + """.long 0
2:
.section .debug_line
.long 4f-3f
3: .short 4
.long 6f-5f
5: .byte 1,1,1
.byte -1,2,2
.byte 0,0
.asciz "a"
.byte 0,0,0,0
6:
.rept %d
.byte 1
.endr
.byte 0,1,1
4:
"""
CODE = ".text\n.fill 65536,1,0x90\n"


def assembled(folder, ident, text):
    """A symbol file with this debugging information."""
    source, linked = os.path.join(folder, "bomb.s"), os.path.join(folder, "bomb")
    with open(source, "w") as file:
        file.write(CODE + text)
    subprocess.run(["as", "-o", source + ".o", source], check=True)
    subprocess.run(["ld", "-e", "0", "-Ttext=0x1000", f"--build-id=0x{ident}", "-o", linked, source + ".o"], check=True)
    with open(linked, "rb") as file:
        return file.read()


def test_dwarf(table, folder):
    """Symbol files are uploaded, then somebody asks for names in them."""
    for i, (name, text) in enumerate((("1,000 functions share a list of 15 MiB of ranges", SHARED_RANGES % (1000, 980_000)),
                                      ("100,000 functions share a list of 1 MiB of ranges", SHARED_RANGES % (100_000, 65_000)),
                                      ("900,000 nested blocks", DEEP % (900_000, 900_000)), ("15 million rows of lines", LINES % 15_000_000)), 0xa0):
        ident = f"{i:02x}" * 20
        elf = assembled(folder, ident, text)
        status, _ = table.cost(f"DWARF: {name}", "POST", f"/api/symbols/{ident}", gzip.compress(elf, 1))
        assert status == 201, "a symbol file that the server keeps"
        body = message(900 + i, 0, origin(f"dwarf{i}"), [module(4096, 65536, 4096, bytes.fromhex(ident), "/nowhere/bomb")], nodes([0] * 50, [4100 + 16 * k for k in range(50)]),
                       [profile(dict.fromkeys(range(1, 51), 1))], last=True)
        assert table.server.push(body) == 200
        for again in range(2):
            table.cost(f"  then its names{', again' if again else ''}", "GET", f"/api/profile?service=dwarf{i}")


# ---- HTTP ----

def test_http(table):
    table.cost("HTTP: an address of 1 MiB", "GET", "/api/profile?service=" + "x" * MIB)
    table.cost("HTTP: headers of 1 MiB", "GET", "/healthz", headers={f"x-{i}": "y" * 100 for i in range(90)} | {"X-Large": "y" * MIB})
    table.cost("HTTP: a parameter many times", "GET", "/api/profile?" + "tag=a=b&" * 3000)
    chunks = {"Transfer-Encoding": "chunked"}
    table.cost("HTTP: chunks of a byte", "POST", ingest("chunks"), iter([b"x"] * 200_000), chunks)
