#!/usr/bin/python3
"""The pull endpoint from outside: other people's clients read what is true, bad ones disturb nobody.

usage: pull.py PROGRAM EDGEPROF WORK
truth      `go tool pprof` of a CPU profile agrees with the program's shares; mutex with its stopwatch; goroutine with its
           threads; two at once; all of it while profiles are pushed as well, from which nothing is missing afterwards
metrics    Prometheus' text format by its rules, and counters only grow
refusals   what is off, or not allowed, is one line, also in `go tool pprof`
bad        clients that are slow, hang up, say too much or never read, twenty at once: memory and file descriptors stay as
           they are, the endpoint answers, the program's profile is complete"""
import concurrent.futures
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
sys.dont_write_bytecode = True
from proto import decode  # noqa: E402
from rules import check_pprof, inflated  # noqa: E402

program, tool, work = (os.path.abspath(a) for a in sys.argv[1:4])
os.makedirs(work, exist_ok=True)
TOKEN = "a-token-that-is-long-enough"
THREADS = 6
PATHS = ("profile?seconds=1", "mutex", "mutex?seconds=1", "block", "goroutine", "allocs", "heap", "exception", "gc", "gc_heap")


def fail(text):
    sys.exit(f"pull.py: {text}")


def expect(good, what, got=""):
    if not good:
        fail(f"{what}: {got}")
    print(f"ok   {what} {got}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Program:
    def __init__(self, everywhere=False, **more):
        self.port = free_port()
        where = f"0.0.0.0:{self.port}" if everywhere else str(self.port)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
        env.update({"EDGEPROF_PULL": where, **more})
        self.log = os.path.join(work, "program.log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([program, "300"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log, text=True)
        self.ready = self.process.stdout.readline().strip() == "ready"

    def stop(self):
        out = self.process.communicate(timeout=60)[0]
        return json.loads(out.strip().splitlines()[-1])

    def url(self, path, user=""):
        return f"http://{user}127.0.0.1:{self.port}{path}"

    def get(self, path, **headers):
        request = urllib.request.Request(self.url(path), headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers

    def said(self):
        return open(self.log, encoding="utf-8").read()

    def file(self, name):
        return open(f"/proc/{self.process.pid}/{name}", encoding="utf-8").read()

    def rss(self):
        return int(re.search(r"VmRSS:\s+(\d+)", self.file("status")).group(1))

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads_cpu(self, name):
        """CPU seconds of the threads of that name; of all: ''."""
        total = 0
        for tid in os.listdir(f"/proc/{self.process.pid}/task"):
            fields = self.file(f"task/{tid}/stat").rpartition(")")
            if fields[0].split("(", 1)[1].startswith(name):
                total += sum(map(int, fields[2].split()[11:13]))
        return total / os.sysconf("SC_CLK_TCK")


def pprof(source, *options):
    env = {**os.environ, "PPROF_TMPDIR": work, "HOME": work}
    run = subprocess.run(["go", "tool", "pprof", *options, source], env=env, capture_output=True, text=True, timeout=90)
    return run.stdout, run.stderr, run.returncode


UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "mins": 60.0, "hrs": 3600.0, "": 1.0}


def amount(text):
    number, unit = re.match(r"([\d.]+)(\w*)$", text).groups()
    return float(number) * UNITS[unit]


def top(source, *options):
    """The profile's total, and the cumulative value of each function."""
    out, err, code = pprof(source, "-top", "-nodefraction=0", *options)
    found = re.search(r"% of (\S+) total", out)
    if code or not found:
        fail(f"go tool pprof {source}: {out}{err}")
    rows = re.findall(r"^\s*\S+\s+[\d.]+%\s+[\d.]+%\s+(\S+)\s+[\d.]+%\s+(.+)$", out, re.M)
    return amount(found.group(1)), {name: amount(value) for value, name in rows}


# ---- truth ----

def check_shares(source, what, period=0.004):
    """Within four standard errors of as many samples as there were CPU seconds for, and what little the program strays."""
    total, functions = top(source)
    for name, part in (("burn_heavy", 0.6), ("burn_medium", 0.3), ("burn_light", 0.1)):
        share, slack = functions.get(name, 0) / total, 0.04 + 4 * (part * (1 - part) * period / total) ** 0.5
        expect(abs(share - part) < slack, f"{what}: {name}",
               f"{100 * share:.1f} %, is {100 * part:.0f} % +- {100 * slack:.0f}")


def check_times(path, body):
    """Of the next seconds: with a duration. Since the start, or of now: at the time of the answer, without one, as Go's endpoint."""
    profile = decode("Profile", inflated(body))
    age, lasts = time.time() - profile["time_nanos"] / 1e9, profile.get("duration_nanos", 0)
    if "seconds=" in path:
        expect(lasts > 0, f"{path}: lasts", lasts)
    else:
        expect(lasts == 0 and -1 < age < 60, f"{path}: now, without a duration", f"{age:.1f} s ago, {lasts} ns")


def check_deltas(run):
    """Scraped again and again, the values since the start only grow, each at a later time; ?seconds=N is what was added meanwhile."""
    def value(path):
        profile = decode("Profile", inflated(run.get("/debug/pprof/" + path)[1]))
        return profile["time_nanos"], sum(sample["value"][-1] for sample in profile["sample"])
    before, added, after = value("mutex"), value("mutex?seconds=2"), value("mutex")
    expect(before[0] < added[0] < after[0], "each scrape has a time of its own, in order")
    expect(0 < added[1] <= after[1] - before[1], "seconds=2 is a part of the increase", (before, added, after))


def truth():
    pushed = os.path.join(work, "pushed.ep")
    if os.path.exists(pushed):
        os.unlink(pushed)
    run = Program(EDGEPROF_ENDPOINT="file://" + pushed, EDGEPROF_LEVEL="high", EDGEPROF_INTERVAL="700")
    expect(run.ready, "the program runs")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        shorter = pool.submit(check_shares, run.url("/debug/pprof/profile?seconds=4"), "4 s")
        longer = pool.submit(check_shares, run.url("/debug/pprof/profile?seconds=6"), "6 s at the same time")
        shorter.result(), longer.result()
    out = pprof(run.url("/debug/pprof/goroutine"), "-traces")[0]
    count, functions = top(run.url("/debug/pprof/goroutine"))
    expect(count == THREADS and functions.get("burner") == 2 and functions.get("contender") == 2 and
           functions.get("sleeper") == 1, "goroutine: every thread once", (count, functions, out))
    for path in PATHS:
        status, body, headers = run.get("/debug/pprof/" + path)
        wrong = [one for one in check_pprof(body, time.time()) if one[0] != "duration"]
        expect(status == 200 and headers["Content-Type"] == "application/octet-stream" and not wrong,
               f"{path}: as the strictest of pprof's readers wants it", wrong or f"{len(body)} bytes")
        check_times(path, body)
    check_deltas(run)
    check_kinds_of_files(run)
    first = top(run.url("/debug/pprof/block?seconds=2"))
    expect(1.0 < first[1].get("sleeper", 0) < 3.5, "block of 2 s: one sleeper", first)
    delay, functions = top(run.url("/debug/pprof/mutex"))
    expect(set(functions) >= {"take_lock", "contender"}, "mutex: where it is waited", f"{delay:.2f} s")
    own = run.threads_cpu("edgeprof")
    said = run.stop()
    late = said["lock_delay_ns"] / 1e9
    expect(0.75 * late < delay <= 1.1 * late, "mutex since the start agrees with the stopwatch",
           f"{delay:.2f} s, {late:.2f} s when the program ended")
    check_pushed(said, pushed, own)


def check_kinds_of_files(run):
    """A saved profile says whether its delay is one of waits or of locks; the types do not."""
    for path, kind, other in (("block", "wait", "lock"), ("mutex", "lock", "wait")):
        name = os.path.join(work, path + ".pb.gz")
        with open(name, "wb") as file:
            file.write(run.get("/debug/pprof/" + path)[1])
        stacks = {each: subprocess.run([tool, "cat", "--folded", "--kind", each, name], capture_output=True, text=True).stdout
                  for each in (kind, other)}
        expect(stacks[kind] and not stacks[other], f"{path} in a file is the kind {kind}", {k: len(v) for k, v in stacks.items()})


def check_pushed(said, pushed, own):
    """Pulling has taken nothing away: what was pushed is what was measured, and that is what was used."""
    expect(said["stop"] == 0 and said["lost_ns"] == 0 and said["delivered"] == said["messages"] > 3, "all was pushed", said)
    export = os.path.join(work, "pushed.pb")
    subprocess.run([tool, "cat", "--kind", "cpu", "--pprof", export, pushed], check=True)
    total = top(export, "-sample_index=cpu")[0]
    measured, used = said["measured_ns"] / 1e9, said["process_ns"] / 1e9 - own
    expect(abs(total / measured - 1) < 0.01, "pushed is what was measured", f"{total:.2f} s of {measured:.2f} s")
    expect(abs(measured / used - 1) < 0.06, "measured is what was used", f"{measured:.2f} s of {used:.2f} s")


# ---- metrics ----

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r'\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*")*\}'


def parse_metrics(text):
    """{name and labels: value}, by the rules of the text format 0.0.4; stricter where a linter would be."""
    if not text.endswith("\n") or "\n\n" in text:
        fail("metrics: not lines")
    types, helps, values, family = {}, {}, {}, None
    for line in text.splitlines():
        if found := re.fullmatch(rf"# HELP ({NAME}) (.+)", line):
            family = found.group(1)
            if family in helps or not found.group(2).endswith("."):
                fail(f"metrics: {line}")
            helps[family] = found.group(2)
        elif found := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line):
            if found.group(1) != family or family in types:
                fail(f"metrics: {line}")
            types[family] = found.group(2)
        elif found := re.fullmatch(rf"({NAME})({LABELS})? (\d+(?:\.\d+)?)", line):
            name, labels, value = found.groups()
            if name != family or family not in types or (name, labels) in values:
                fail(f"metrics: out of place: {line}")
            if name.endswith("_total") != (types[name] == "counter") or not name.startswith("edgeprof_"):
                fail(f"metrics: a name does not go with its type: {line}")
            values[name, labels] = float(value)
        else:
            fail(f"metrics: {line!r}")
    if set(types) != {name for name, _ in values}:
        fail("metrics: families without a sample")
    return types, values


def metrics(run):
    status, body, headers = run.get("/metrics")
    expect((status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8"), "metrics are there")
    types, before = parse_metrics(body.decode())
    time.sleep(1.5)
    _, after = parse_metrics(run.get("/metrics")[1].decode())
    expect(set(before) == set(after) and len(after) > 60, "the same figures each time", len(after))
    for (name, labels), value in after.items():
        if types[name] == "counter" and value < before[name, labels]:
            fail(f"{name}{labels} went from {before[name, labels]} to {value}")
    cpu = ("edgeprof_cpu_seconds_total", None)
    expect(0.2 < after[cpu] - before[cpu] < 6, "CPU seconds grow", after[cpu])
    expect({f"edgeprof_spool_{name}" for name in ("messages", "bytes", "written_bytes_total", "error")} <= set(types), "the spool's figures are there")
    expect(after["edgeprof_lost_samples_total", '{reason="ring full"}'] == 0, "losses have reasons")


# ---- refusals ----

def refusals():
    run = Program(EDGEPROF_LEVEL="low", EDGEPROF_INTERVAL="500")
    check_shares(run.url("/debug/pprof/profile?seconds=5"), "pull alone, level low", period=1 / 19)
    status, body, headers = run.get("/debug/pprof/mutex")
    expect(status == 409 and body.count(b"\n") == 1 and b"level medium enables it" in body, "what is off says so", body)
    expect("level medium enables it" in pprof(run.url("/debug/pprof/mutex"), "-top")[1], "in go tool pprof as well")
    expect(run.get("/control/status")[0] == 403, "control wants a token that is not set")
    expect(run.get("/metrics", Host="evil.example")[0] == 403, "a foreign name is refused")
    metrics(run)
    run.stop()
    run = Program(EDGEPROF_LEVEL="low", EDGEPROF_PULL_TOKEN=TOKEN)
    expect(run.get("/debug/pprof/")[0] == 401, "no token, no page")
    expect("401" in pprof(run.url("/debug/pprof/goroutine"), "-top")[1], "nor for go tool pprof")
    status, body, _ = run.get("/control/status", Authorization="Bearer " + TOKEN)
    expect((status, json.loads(body)["level"]) == (200, "low"), "control with the token")
    count, _ = top(run.url("/debug/pprof/goroutine", user=f"any:{TOKEN}@"))
    expect(count == THREADS, "go tool pprof with the token as a password")
    status, body, _ = run.get("/debug/pprof/", Authorization="Bearer " + TOKEN)
    expect(status == 200 and body.count(b"<tr>") == 11, "the page with the token")
    run.stop()
    run = Program(EDGEPROF_LEVEL="low", EDGEPROF_PULL_TOKEN=TOKEN, everywhere=True, EDGEPROF_PULL_INSECURE="1")
    expect(run.get("/debug/pprof/", Authorization="Bearer " + TOKEN)[0] == 200, "all addresses, with consent")
    run.stop()
    for where, token in (("192.0.2.1:80", ""), ("0.0.0.0:0", TOKEN), ("0.0.0.0:4042", TOKEN), ("host:80", ""), ("127.0.0.1:1", "short")):
        run = Program(EDGEPROF_PULL=where, EDGEPROF_PULL_TOKEN=token)
        expect(not run.ready and run.said().count("\n") == 1 and "EDGEPROF_PULL" in run.said(), f"refused: {where!r} {token!r}",
               run.said().strip())


# ---- bad clients ----

def dial(port, window=0):
    s = socket.socket()
    if window:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    s.settimeout(60)
    s.connect(("127.0.0.1", port))
    return s


def rest(s):
    data = b""
    try:
        while part := s.recv(65536):
            data += part
    except OSError:
        pass
    s.close()
    return data


def loris(port):
    """A request a byte at a time, for as long as it is let."""
    s = dial(port)
    try:
        for byte in b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 1000:
            s.send(bytes([byte]))
            time.sleep(0.1)
    except OSError:
        return True
    finally:
        s.close()
    return False


def never_reads(port):
    s = dial(port, window=1024)
    s.sendall(b"GET /debug/pprof/mutex HTTP/1.1\r\n\r\n")
    time.sleep(6)
    s.close()
    return True


def gone_while_waiting(port):
    s = dial(port)
    s.sendall(b"GET /debug/pprof/profile?seconds=60 HTTP/1.1\r\n\r\n")
    time.sleep(0.3)
    s.close()
    return True


def too_much(request, wanted):
    def run(port):
        s = dial(port)
        try:
            s.sendall(request)
        except OSError:
            pass
        answer = rest(s)
        return answer == b"" or wanted in answer.split(b"\r\n")[0]
    return run


def says_nothing(port):
    return rest(dial(port)) == b""


LINES = b"GET /metrics HTTP/1.1\r\n" + b"X-Header: value\r\n" * 10000 + b"\r\n"
BAD = [loris, loris, never_reads, never_reads, gone_while_waiting, says_nothing, says_nothing, says_nothing,
       too_much(LINES, b"431"), too_much(b"GET /" + b"a" * 1000000 + b" HTTP/1.1\r\n\r\n", b"431"),
       too_much(bytes(range(256)) * 5 + b"\r\n\r\n", b"40"), too_much(b"\r\n\r\n" * 400, b"40")]


def profiled(run):
    """What it was answered, and after how long."""
    start = time.monotonic()
    status, body, headers = run.get("/debug/pprof/profile?seconds=1")
    return status, len(body), headers.get("Retry-After"), time.monotonic() - start


def bad():
    pushed = os.path.join(work, "bad.ep")
    if os.path.exists(pushed):
        os.unlink(pushed)
    run = Program(EDGEPROF_ENDPOINT="file://" + pushed, EDGEPROF_LEVEL="high", EDGEPROF_INTERVAL="700")
    for path in ("profile?seconds=1", "mutex", "goroutine", "block"):
        expect(run.get("/debug/pprof/" + path)[0] == 200, path)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = [f.result() for f in [pool.submit(profiled, run) for _ in range(20)]]
    good = [a for a in answers if a[0] == 200]
    expect(len(good) >= 3 and all(a[0] == 200 or (a[0] == 503 and a[2]) for a in answers), "20 profiles at once",
           f"{len(good)} had, others 503 and when to try again")
    before, fds = run.rss(), run.fds()
    ours, whole = run.threads_cpu("edgeprof"), run.threads_cpu("")
    stop = threading.Event()

    def again(client):
        while not stop.is_set():
            if not client(run.port):
                fail(f"{client}: not as it should be")
        return True

    with concurrent.futures.ThreadPoolExecutor(len(BAD)) as pool:
        running = [pool.submit(again, client) for client in BAD]
        end, answered = time.monotonic() + 12, 0
        while time.monotonic() < end:
            answered += run.get("/metrics")[0] == 200
        stop.set()
        for one in running:
            one.result()
    expect(answered >= 2, "good ones are answered in between", answered)
    ours, whole = run.threads_cpu("edgeprof") - ours, run.threads_cpu("") - whole
    expect(ours < 0.4 * whole, "the profiler's own share of CPU under all this", f"{100 * ours / whole:.1f} %")
    end = time.monotonic() + 30
    while run.fds() > fds and time.monotonic() < end:
        time.sleep(0.1)
    expect(run.fds() <= fds, "no descriptor is left over", f"{fds} -> {run.fds()}")
    expect(run.rss() <= before + 100, "memory is as before", f"{before} -> {run.rss()} KiB")
    expect(profiled(run)[0] == 200, "and a profile is to be had")
    own = run.threads_cpu("edgeprof")
    check_pushed(run.stop(), pushed, own)


truth()
refusals()
bad()
print("pull.py: the pull endpoint tells the truth and stays up")
