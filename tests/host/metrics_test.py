#!/usr/bin/env python3
"""/metrics: its figures are those of what was pushed, they never fall, and promtool has nothing to say against them or the example rules.

    metrics_test.py PROGRAM RULES"""
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import generate
from harness import Checks, Server

program, rules = sys.argv[1], pathlib.Path(sys.argv[2])
check = Checks()
work = tempfile.TemporaryDirectory()
folder = pathlib.Path(work.name)
db = folder / "m.db"
SECOND = 10**9
segment = 0


def start(*arguments):
    return Server(program, str(db), *arguments)


def push(server, profiles, losses=(), age=5, **origin):
    """profiles: [(kind, value, count)]; the segment is one of its own."""
    global segment
    segment += 1
    rows = [generate.profile([(1, 0, count, value)], kind=kind, quantum=1, start=SECOND, duration=SECOND) for kind, value, count in profiles]
    body = generate.message(segment, 0, origin=generate.origin(**origin), modules=[generate.module(4096, 4096, 0, b"\1" * 20, "/bin/x")],
                            nodes=generate.nodes([0], [4100]), profiles=rows, stats=generate.stats(losses=losses) if losses else None,
                            unix_minus_uptime=int((time.time() - age) * SECOND))
    check.equal(server.push(body), 200, "a push")


SAMPLE = re.compile(r'([a-z_:]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? ([0-9.]+)')


def metrics(server):
    """{(name, label values ...): number}"""
    status, body = server.request("GET", "/metrics")
    check.equal(status, 200, "an answer")
    check(server.headers["Content-Type"].startswith("text/plain; version=0.0.4"), "of Prometheus' type")
    found, family = {}, None
    for line in body.decode().splitlines():
        if line.startswith("# TYPE "):
            family = line.split()[2]
        if line.startswith("#"):
            continue
        sample = SAMPLE.fullmatch(line)
        if not check(sample and sample[1] == family, f"a sample of {family}: {line!r}"):
            continue
        labels = [value.replace(r"\n", "\n").replace(r"\"", '"').replace("\\\\", "\\") for value in re.findall(r'="((?:[^"\\]|\\.)*)"', sample[2] or "")]
        key = (sample[1], *labels)
        check(key not in found, f"{key} is there once")
        found[key] = float(sample[3])
    return found, body


def stored(found):
    """What comes from the store, without what depends on the time."""
    return {key: number for key, number in found.items() if re.match("edgeprof_(cpu|alloc|lock|wait|exc|gc|prof|lost|last)|pyro", key[0])}


def figures(server):
    before = time.time()
    push(server, [(1, 3 * SECOND, 0), (2, 4 * SECOND, 5), (3, 2 * SECOND, 6), (4, 5000, 7), (6, 8, 0), (7, SECOND // 2, 9)],
         losses=[(0, 10, 3 * SECOND), (15, 2, 0)], host="pi-1", tags=[("version", "1.0")])
    push(server, [(1, SECOND // 8, 0)], host="pi-1", tags=[("version", "1.0")])
    push(server, [(1, SECOND, 0)], host="h", tags=[("version", "2.0"), ("device", "named")])
    push(server, [(1, SECOND, 0)], host='a"b\\c', service='s"\\x', tags=[("version", "1\n2")])
    found, body = metrics(server)
    one = ("svc", "1.0", "pi-1")
    wanted = {"edgeprof_cpu_seconds_total": 3.125, "pyroscope_profiles_cpu_total": 3.125, "edgeprof_wait_seconds_total": 4,
              "edgeprof_lock_delay_seconds_total": 2, "edgeprof_lock_contentions_total": 6, "edgeprof_allocated_bytes_total": 5000,
              "edgeprof_allocated_objects_total": 7, "edgeprof_exceptions_total": 8, "edgeprof_gc_pause_seconds_total": 0.5,
              "edgeprof_gc_pauses_total": 9, "edgeprof_profiles_total": 7}
    for name, number in wanted.items():
        check.equal(found.get((name, *one)), number, name)
    check.equal(found.get(("edgeprof_lost_samples_total", *one, "ring full")), 10, "losses by reason")
    check.equal(found.get(("edgeprof_lost_seconds_total", *one, "ring full")), 3, "and the time they stood for")
    check.equal(found.get(("edgeprof_lost_samples_total", *one, "spool full")), 2, "another reason")
    check.equal(found.get(("edgeprof_cpu_seconds_total", "svc", "2.0", "named")), 1, "the tag device comes before the host")
    check.equal(found.get(("edgeprof_cpu_seconds_total", 's"\\x', "1?2", 'a"b\\c')), 1, "labels are escaped")
    check(before - 10 < found[("edgeprof_last_seen_timestamp_seconds", *one)] < time.time(), "last seen")
    check.equal(found[("edgeprof_accepted_total",)], 4, "messages")
    check(found[("edgeprof_database_bytes",)] > 4096 and found[("process_cpu_seconds_total",)] > 0 and found[("process_open_fds",)] > 2, "the server's own")
    check(abs(found[("process_start_time_seconds",)] - time.time()) < 120, f"its start: {found[('process_start_time_seconds',)]}")
    check.equal(found[("edgeprof_relay_waiting", "up", "parca")], 9, "profiles wait for a receiver that is not there")
    server.push(b"nonsense")
    check.equal(metrics(server)[0][("edgeprof_refused_total", "malformed")], 1, "what was refused")
    return body


def never_fall(server):
    """Not by a restart, a kill, or by what retention deletes."""
    before = stored(metrics(server)[0])
    server.stop()
    server = start()
    check.equal(stored(metrics(server)[0]), before, "a restart changes nothing")
    push(server, [(1, SECOND, 0)], losses=[(0, 12, 3 * SECOND)], host="pi-1", tags=[("version", "1.0")])  # the same process goes on
    push(server, [(1, SECOND, 0)], losses=[(0, 4, SECOND)], host="pi-1", pid=99, tags=[("version", "1.0")])  # and another one begins
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    with sqlite3.connect(db) as file:
        for table in ("profile", "stacks", "series", "bucket"):
            file.execute(f"DELETE FROM {table}")
    file.close()
    server = start()
    after = stored(metrics(server)[0])
    one = ("svc", "1.0", "pi-1")
    check.equal(after[("edgeprof_cpu_seconds_total", *one)], 5.125, "CPU time goes on where it was")
    check.equal(after[("edgeprof_lost_samples_total", *one, "ring full")], 16, "a process' losses are totals: their growth counts")
    check(all(after.get(key, -1) >= number for key, number in before.items()), "nothing has fallen")
    return server


def bounded(server):
    server.stop()
    with sqlite3.connect(db) as file:
        file.execute("INSERT INTO metric VALUES ('filler of old', '', '', 'cpu', 1, 0, 1, 1)")
    file.close()
    server = start()
    push(server, [(1, SECOND, 0)], service="new", host="pi-1")
    check(("edgeprof_cpu_seconds_total", "filler of old", "", "") in metrics(server)[0], "nothing goes while there is room")
    server.stop()
    with sqlite3.connect(db) as file:
        now = int(time.time() * SECOND)
        file.executemany("INSERT INTO metric VALUES (?, '', '', 'cpu', 1, 0, 1, ?)", [(f"filler {i}", now) for i in range(4096)])
    file.close()
    server = start()
    known = metrics(server)[0][("edgeprof_cpu_seconds_total", "svc", "1.0", "pi-1")]
    push(server, [(1, SECOND, 0), (4, 10, 1)], service="one too many")
    push(server, [(1, SECOND, 0)], service="and another")
    push(server, [(1, SECOND, 0)], host="pi-1", tags=[("version", "1.0")])
    found = metrics(server)[0]
    check.equal(found.get(("edgeprof_cpu_seconds_total", "_other", "", "")), 2, "what there is no room for is counted together")
    check.equal(found.get(("edgeprof_allocated_bytes_total", "_other", "", "")), 10, "of every kind")
    check.equal(found[("edgeprof_cpu_seconds_total", "svc", "1.0", "pi-1")], known + 1, "what was known before has its place")
    server.stop()
    with sqlite3.connect(db) as file:
        file.execute("UPDATE metric SET last_ns = ? WHERE service LIKE 'filler%'", (now - 31 * 86400 * SECOND,))
    file.close()
    server = start()
    push(server, [(1, SECOND, 0)], service="now there is room")
    after = stored(metrics(server)[0])
    check.equal(after.get(("edgeprof_cpu_seconds_total", "now there is room", "", "host")), 1, "what was not seen for a month makes room")
    check(not any("filler" in key[1] for key in after), "and is gone")
    check.equal({key: number for key, number in after.items() if key[1] in ("svc", "_other")},
                {key: number for key, number in stored(found).items() if key[1] in ("svc", "_other")}, "the others stay as they are")
    return server


def promtool(body):
    if not check(subprocess.run(["which", "promtool"], capture_output=True).returncode == 0, "promtool is there: tools/build/setup.sh apt test"):
        return
    done = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True)
    check(done.returncode == 0 and not done.stderr, f"promtool check metrics: {done.stderr.decode()}")
    for what in (["check", "rules", rules / "edgeprof.rules.yml"], ["test", "rules", rules / "edgeprof.test.yml"]):
        done = subprocess.run(["promtool", *what], capture_output=True, text=True)
        check(done.returncode == 0, f"promtool {what[0]} rules: {done.stdout} {done.stderr}")
    names = set(re.findall(r"\bedgeprof_[a-z_]+_(?:total|seconds|failing)\b", (rules / "edgeprof.rules.yml").read_text()))
    served = set(re.findall(r"^# TYPE (\S+)", body.decode(), re.M))
    check(names and names <= served, f"the rules ask for what is served: {names - served}")


(folder / "relay.conf").write_text("[relay up]\nto = parca\nurl = http://127.0.0.1:1\n")
first = start("--config", str(folder / "relay.conf"))
answer = figures(first)
last = bounded(never_fall(first))
check.equal(last.stop(), 0, "the server ends")
promtool(answer)
check.done("metrics")
