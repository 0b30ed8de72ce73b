"""Every command that shows a profile reads files of edgeprof and of other profilers, and says in one line what is wrong with a damaged one."""
import gzip
import json
import os
import re
import socket
import struct
import subprocess

import pytest

from cli import folded, message_of
from harness import REPOSITORY, clean_environment

RECORDED = REPOSITORY / "tests/host/recorded"
PERF, CPU, HEAP = (str(RECORDED / name) for name in ("perf-script.txt.gz", "gperftools.cpu", "gperftools.heap"))
SCHEMA = "https://www.speedscope.app/file-format-schema.json"
STACKS = {"main;a": 5, "main;b;a": 7, "main;b": 2}
# The evented example of speedscope's own tests, in its shape.
EVENTS = [("O", 0, 0), ("O", 1, 0), ("O", 2, 0), ("C", 2, 2), ("O", 3, 2), ("C", 3, 6), ("O", 2, 6), ("C", 2, 9), ("C", 1, 14), ("C", 0, 14)]


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def rows(text):
    """{function: (flat%, cum%)}"""
    return {name: (float(flat), float(cum)) for flat, cum, name in re.findall(r"^ *([\d.]+)% +\S+ +([\d.]+)% +\S+  (.*)$", text, re.M)}


def speedscope(*profiles):
    return json.dumps({"$schema": SCHEMA, "shared": {"frames": [{"name": name, "file": "f.c", "line": i + 1} for i, name in enumerate("abcd")]},
                       "profiles": profiles})


def evented(events=EVENTS, unit="milliseconds"):
    return {"type": "evented", "name": "one", "unit": unit, "startValue": 0, "endValue": 14,
            "events": [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]}


def sampled(samples, weights, name="two", unit="milliseconds"):
    return {"type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": sum(weights), "samples": samples, "weights": weights}


@pytest.fixture
def as_folded(folder):
    return write(folder, "own.folded", "".join(f"{stack} {value}000000\n" for stack, value in STACKS.items()))


# ---- formats ----

def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def fields(data):
    """[(field number, bytes of the whole field)] of a protobuf message"""
    found, at = [], 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value
    while at < len(data):
        start = at
        tag = number()
        size = number()
        at += size if tag & 7 == 2 else 0
        found.append((tag >> 3, data[start:at]))
    return found


def test_own_formats(cli, folder, as_folded):
    """The same functions from each form that `export` writes, and of pprof with its fields in any order."""
    paths = [os.path.join(folder, name) for name in ("x.pb.gz", "x.speedscope.json", "x.folded")]
    assert cli.run("export", *(word for path in paths for word in ("-o", path)), as_folded).returncode == 0
    plain = gzip.open(paths[0]).read()
    parts = fields(plain)
    assert b"".join(part for _, part in parts) == plain
    for first in (2, 5, 9, 11, 13, 14):
        mixed = b"".join(part for number, part in sorted(parts, key=lambda part: (part[0] != first, part[0])))
        paths.append(write(folder, f"first-{first}.pb", mixed))
    paths += [write(folder, f"{i}.gz", gzip.compress(open(path, "rb").read())) for i, path in enumerate(paths[1:])]
    for path in paths:
        done = cli.run("top", path)
        assert done.returncode == 0 and "cpu: 14.00ms" in done.out, path
        assert rows(done.out) == {"a": (85.71, 85.71), "b": (14.29, 64.29), "main": (0, 100)}, path


def test_perf_script(cli, folder):
    done = cli.run("top", PERF)
    assert done.out.startswith("cpu: 44.00ms in 22 samples"), done.out
    assert {name: rows(done.out)[name][0] for name in ("hot", "warm", "main")} == {"hot": 50, "warm": 45.45, "main": 0}
    assert "thread=prog" in cli.run("top", "--group-by", "thread", PERF).out
    assert cli.run("top", "--label", "thread=prog", PERF).out.startswith("cpu: 44.00ms")
    text = gzip.open(PERF, "rt").read()
    assert rows(cli.run("top", write(folder, "windows.txt", text.replace("\n", "\r\n"))).out) == rows(done.out)
    assert " prog.c:6" in cli.run("top", "--lines", PERF).out


@pytest.mark.parametrize("text, kind, wanted", [
    ("prog 7 [001] 1.5: cycles:u: \n\t 11 a+0x1 (/x)\n\t 12 main+0x2 (/x)\n\nprog 7/8 1.6: cycles:u: \n\t 11 b (/x)\n", "cycles", {"main;a": 1, "b": 1}),
    ("a b c 7 1.5: 300 instructions:ppp: \n\t 11 f(int, char (*)(long))+0x1 (/x (deleted))\n", "instructions", {"f(int, char (*)(long))": 300}),
    ("  p 7 1.5: 10 cpu-clock:  11 a+0x1 (/x)\n    q 7 1.5: 20 cpu-clock:  11 [unknown] (/y/libz.so)\n", "cpu", {"a": 10, "[libz.so]": 20}),
    ("p 7 cpu-clock: \n\t 11 a (k)\n\np 7 cpu-clock: \n\t 11 a (k)\n", "cpu-clock", {"a": 2}),
    ("p 7 [3] 1.5: sched:sched_switch: prev_comm=x (y)\n\tff a+0x1 ([k])\n", "sched:sched_switch", {"a": 1})])
def test_forms_of_perf_script(cli, folder, text, kind, wanted):
    """With and without a CPU, a thread, a period, a time, names with blanks, and a frame in the header's line."""
    path = write(folder, "perf.txt", text)
    assert folded(cli.run("cat", "--folded", path).out) == wanted
    assert f"kind={kind} " in cli.run("cat", path).out


def test_several_events_of_perf(cli, folder):
    path = write(folder, "two.txt", "".join(f"p 7 1.{i}: {100 * i} {event}: \n\t 11 a{i}+0x1 (/x)\n\n" for i, event in ((1, "cycles"), (2, "cycles"), (3, "cpu-clock"))))
    assert folded(cli.run("cat", "--folded", "--kind", "cycles", path).out) == {"a1": 100, "a2": 200}
    assert cli.run("top", path).out.startswith("cpu: 300ns in 1 sample,"), "the samples of other events do not count"


def test_speedscope(cli, folder):
    path = write(folder, "x.json", speedscope(evented(), sampled([[0, 1], [0]], [3, 0.5])))
    assert folded(cli.run("cat", "--folded", path).out) == {"a;b;c": 5000000, "a;b;d": 4000000, "a;b": 8000000, "a": 500000}
    assert folded(cli.run("cat", "--folded", "--label", "thread=two", path).out) == {"a;b": 3000000, "a": 500000}
    assert " f.c:3" in cli.run("top", "--lines", path).out
    assert "bytes: 3.00KiB" in cli.run("top", write(folder, "bytes.json", speedscope(sampled([[0]], [3072], unit="bytes")))).out


def test_gperftools_cpu(cli):
    """Sums of the file's own records: 68 samples of 2 ms."""
    done = cli.run("top", CPU)
    assert done.out.startswith("cpu: 136.00ms in 68 samples"), done.out
    assert {"prog+0x118a", "prog+0x11b0"} <= set(rows(done.out)), "addresses of the file, not of the process"


@pytest.mark.parametrize("form", ["<Q", ">Q", "<I", ">I"])
def test_gperftools_cpu_of_any_machine(cli, folder, form):
    words = [0, 3, 0, 5000, 0, 4, 3, 0x5010, 0x5010, 0x5021, 1, 1, 0x9000, 0, 1, 0]
    data = b"".join(struct.pack(form, word) for word in words) + b"5000-6000 r-xp 00001000 08:01 7   /nowhere/my prog\n"
    stacks = folded(cli.run("cat", "--folded", write(folder, "cpu", data)).out)
    assert stacks == {"my prog+0x1020;my prog+0x1010": 20000000, "[unknown]": 5000000}, "return addresses are behind their calls"


def test_gperftools_names_of_this_machine(cli, folder):
    """As the file has no build ids, the program at its path counts, unless it is younger."""
    source = write(folder, "p.c", "int main(void) { return 0; }\nint hot(int n) { return n + 1; }\n")
    program = os.path.join(folder, "p")
    subprocess.run(["gcc", "-g", "-O0", "-no-pie", "-Wl,--build-id", source, "-o", program], check=True)
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = int(re.search(r"^(\w+) T hot$", listed, re.M)[1], 16)
    words = [0, 3, 0, 10000, 0, 1, 1, address + 4, 0, 1, 0]
    data = struct.pack("<11Q", *words) + f"{0x400000:x}-{0x405000:x} r-xp 00000000 08:01 7   {program}\n".encode()
    path = write(folder, "named.cpu", data)
    done = cli.run("list", "hot", path)
    assert done.returncode == 0 and "return n + 1" in done.out and "has no build ids" in done.err
    os.utime(path, (1, 1))
    assert "p+0x" in cli.run("top", path).out, "a file older than the program says nothing of it"


def test_gperftools_heap(cli, folder):
    """The sums of the file's lines; a sampled one is scaled as pprof does it."""
    allocated = sum(int(size) for size in re.findall(r"\[ *\d+: +(\d+)\] @ 0x", open(HEAP).read()))
    in_use = sum(int(size) for size in re.findall(r"^ +\d+: +(\d+) \[", open(HEAP).read(), re.M))
    assert f"kind=live unit=bytes total={in_use} " in cli.run("cat", HEAP).out
    assert f"kind=alloc unit=bytes total={allocated} " in cli.run("cat", HEAP).out
    sampled_heap = write(folder, "heap", "heap profile: 1: 1024 [ 1: 1024] @ heap_v2/1024\n 1: 1024 [ 2: 2048] @ 0x11 0x22\n")
    assert sum(folded(cli.run("cat", "--folded", "--kind", "live", sampled_heap).out).values()) == 1620, "1024 / (1 - 1/e)"


# ---- damaged files ----

@pytest.mark.parametrize("word, data", [
    ("line 2", "p 7 1.5: 1 cycles: \nnonsense\nmore\n"), pytest.param("last record", open(CPU, "rb").read()[:400], id="cut CPU profile"), ("frames", struct.pack("<8Q", 0, 3, 0, 1, 0, 1, 9999, 0)),
    ("line 2", "heap profile: 1: 1 [1: 1] @ heapprofile\nnonsense\n"), ("heap_v2/RATE", "heap profile: 1: 1 [1: 1] @ strange\n"),
    ("profile 1", speedscope(evented(EVENTS[1:]))), ("shared.frames", speedscope(sampled([[9]], [1]))), ("equally many", speedscope(sampled([[0]], []))),
    ("unknown unit", speedscope(sampled([[0]], [1], unit="lightyears"))), ("no profiles", speedscope()), ("speedscope", speedscope(evented())[:-20]),
    ("no samples", speedscope(evented([]))), ("unknown format", '{"traceEvents":[]}'), ("unknown format", b"\x7fELF" + bytes(100)),
    ("unknown format", b"\xff" * 100)])
def test_damaged(cli, folder, word, data):
    path = write(folder, "damaged", data)
    cli.fails(1, word, "top", path)
    cli.fails(1, path, "flame", "-o", os.path.join(folder, "x.svg"), path)


# ---- commands ----

@pytest.mark.parametrize("arguments, word", [
    (("top",), "hot"), (("list", "hot"), "called by"), (("cat",), "kind=cpu"), (("cat", "--folded"), "main;hot"), (("query", "profile"), "hot"),
    (("export", "--folded"), "main;hot"), (("export", "--format", "speedscope"), '"hot"'), (("flame", "-o", "x.svg"), ""), (("cat", "-o", "x.html"), ""),
    (("diff", PERF), "total per second: +0.0 %")])
def test_command_takes_a_file(cli, folder, arguments, word):
    done = cli.run(*arguments, PERF, cwd=folder)
    assert done.returncode == 0 and word in done.out and done.err == "", done.err


def test_file_or_source(cli, folder, as_folded):
    """EDGEPROF_URL gives way to a file; an option does not."""
    assert cli.run("flame", "-o", "x.svg", as_folded, cwd=folder, env=clean_environment(EDGEPROF_URL="http://127.0.0.1:9")).returncode == 0
    for command in (("flame", "-o", "x.svg"), ("export", "--folded"), ("list", "a"), ("top",)):
        cli.fails(2, "cannot be combined", *command, as_folded, "--db", "x.db")
        cli.fails(2, "unexpected argument two", *command, as_folded, "two")


def test_compact_file(cli, folder):
    path = write(folder, "x.edgeprof", message_of(7, "svc", {2: 5, 3: 30}))
    assert cli.run("export", "--folded", path).out == cli.run("cat", "--folded", path).out != ""


def test_one_number_of_samples(cli, folder, start_server):
    """A server, the pprof of it and the compact file have the same one, also when a sample stands for several periods."""
    body, server = message_of(7, "svc", {2: 5, 3: 30}, samples=12), start_server()
    assert server.push(body) == 200
    out, path = os.path.join(folder, "x.pb.gz"), write(folder, "x.edgeprof", body)
    assert cli.run("export", "--url", server.url, "-o", out).returncode == 0
    for source in (("--url", server.url), (out,), (path,)):
        assert " in 12 samples," in cli.run("top", *source).out, source
    assert cli.run("diff", out, path).out.count(" 12 samples,") == 2


# ---- top and list ----

def test_top_sorts(cli, as_folded):
    order = [list(rows(cli.run("top", "--sort", column, as_folded).out)) for column in ("self", "total", "flat", "cum")]
    assert order == [["a", "b", "main"], ["main", "a", "b"], ["a", "b", "main"], ["main", "a", "b"]]
    cli.fails(2, "--sort size", "top", "--sort", "size", as_folded)
    names = [row["name"] for row in json.loads(cli.run("top", "--json", "--sort", "total", as_folded).out)["top"]]
    assert names == ["main", "a", "b"]


@pytest.mark.parametrize("options, kept, wanted", [
    (("--focus", "^b$"), "9.00ms, 64.29%", {"a": (50, 50), "b": (14.29, 64.29), "main": (0, 64.29)}),
    (("--ignore", "^b$"), "5.00ms, 35.71%", {"a": (35.71, 35.71), "main": (0, 35.71)}),
    (("--focus", "^a$", "--ignore", "^b$"), "5.00ms, 35.71%", {"a": (35.71, 35.71), "main": (0, 35.71)})])
def test_top_filters(cli, as_folded, options, kept, wanted):
    """The shares are of all."""
    done = cli.run("top", *options, as_folded)
    assert rows(done.out) == wanted and f": {kept} of all\n" in done.out
    assert f'"total":14000000' in cli.run("top", "--json", *options, as_folded).out


def test_top_filters_wrongly(cli, as_folded):
    cli.fails(3, "no data", "top", "--focus", "nobody", as_folded)
    cli.fails(2, "--focus (", "top", "--focus", "(", as_folded)
    cli.fails(2, "--json", "top", "--tree", "--json", as_folded)


def test_tree(cli, as_folded):
    lines = cli.run("top", "--tree", as_folded).out.splitlines()
    assert lines[0] == "cpu: 14.00ms, 4 calls"
    assert [line.split(None, 3)[0] + "|" + line[32:] for line in lines[2:]] == ["100.00%|main", "64.29%|  b", "50.00%|    a", "35.71%|  a"]
    short = cli.run("top", "--tree", "-n", "2", as_folded).out.splitlines()
    assert len(short) == 5 and short[-1].startswith("2 more calls")
    assert "  b" not in cli.run("top", "--tree", "--ignore", "^b$", as_folded).out


def test_list(cli, folder):
    """Callers, callees, lines; with the source its text. Shares are of all."""
    done = cli.run("list", "warm", PERF)
    assert "warm: cum 20.00ms, 45.45%; flat 20.00ms, 45.45%" in done.out and re.search(r"called by\n +45.45% +20.00ms  main\n", done.out)
    assert re.search(r"^ +45.45% +20.00ms +20.00ms +7  $", done.out, re.M) and "--source DIR" in done.out
    os.makedirs(os.path.join(folder, "deep/src"))
    write(folder, "prog.c", "".join(f"line {i}\n" for i in range(1, 30)))
    found = cli.run("list", "^warm$", PERF, "--source", folder).out
    assert "  line 7\n" in found and "  line 12\n" in found and "  line 13\n" not in found
    cli.fails(3, "did you mean warm?", "list", "wram", PERF)
    cli.fails(2, "FUNCTION", "list")


def test_default_address(cli, folder, filled_server):
    """Without a database here, commands ask the server of `edgeprof serve`; the error names both."""
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 4040)) != 0:  # nobody else's server
            cli.fails(1, "http://127.0.0.1:4040", "list", "x", cwd=empty)
    assert cli.run("top", cwd=empty, env=clean_environment(EDGEPROF_URL=filled_server.url)).returncode == 0


@pytest.fixture
def filled_server(start_server):
    server = start_server()
    assert server.push(message_of(1, "one", {2: 5, 3: 30})) == 200
    return server


# ---- colours ----

def on_a_terminal(program, *arguments, **environment):
    line = " ".join([program, *arguments])
    return subprocess.run(["script", "-qec", line, "/dev/null"], capture_output=True, text=True, timeout=300, check=True,
                          env=clean_environment(**environment)).stdout


def test_colours(cli, as_folded):
    """Only on a terminal that has them, and not against NO_COLOR. A name brings none of its own."""
    plain = cli.run("top", as_folded).out
    assert "\033" not in plain
    colored = on_a_terminal(cli.program, "top", as_folded, TERM="xterm")
    assert "\033[31m" in colored and re.sub(r"\033\[\d*m", "", colored).replace("\r", "") == plain
    for environment in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert on_a_terminal(cli.program, "top", as_folded, **environment).replace("\r", "") == plain
