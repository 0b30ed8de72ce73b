"""/metrics counts what was pushed and never falls, and promtool accepts metrics and rules."""
import itertools
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

import generate
from harness import REPOSITORY, Server, database

SECOND = 10**9
ONE = ("svc", "1.0", "pi-1")
RULES = REPOSITORY / "tools/prometheus"
SAMPLE = re.compile(r'([a-z_:]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? ([0-9.]+)')
VALUE = re.compile(r'="((?:[^"\\]|\\.)*)"')
segments = itertools.count(1)


def push(server, profiles, losses=(), age=5, **origin):
    """profiles: [(kind, value, count)]; the segment is one of its own."""
    rows = [generate.profile([(1, 0, count, value)], kind=kind, quantum=1, start=SECOND, duration=SECOND) for kind, value, count in profiles]
    body = generate.message(next(segments), 0, origin=generate.origin(**origin), modules=[generate.module(4096, 4096, 0, b"\1" * 20, "/bin/x")],
                            nodes=generate.nodes([0], [4100]), profiles=rows, stats=generate.stats(losses=losses) if losses else None,
                            unix_minus_uptime=int((time.time() - age) * SECOND))
    assert server.push(body) == 200


def push_all(server):
    push(server, [(1, 3 * SECOND, 0), (2, 4 * SECOND, 5), (3, 2 * SECOND, 6), (4, 5000, 7), (6, 8, 0), (7, SECOND // 2, 9)],
         losses=[(0, 10, 3 * SECOND), (15, 2, 0)], host="pi-1", tags=[("version", "1.0")])
    push(server, [(1, SECOND // 8, 0)], host="pi-1", tags=[("version", "1.0")])
    push(server, [(1, SECOND, 0)], host="h", tags=[("version", "2.0"), ("device", "named")])
    push(server, [(1, SECOND, 0)], host='a"b\\c', service='s"\\x', tags=[("version", "1\n2")])


def unescaped(value):
    return value.replace(r"\n", "\n").replace(r"\"", '"').replace("\\\\", "\\")


def parsed(body):
    """{(name, label values ...): number}"""
    found, family = {}, None
    for line in body.decode().splitlines():
        if line.startswith("# TYPE "):
            family = line.split()[2]
        if line.startswith("#"):
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample and sample[1] == family, f"a sample of {family}: {line!r}"
        key = (sample[1], *[unescaped(value) if "\\" in value else value for value in VALUE.findall(sample[2] or "")])
        assert key not in found, "once"
        found[key] = float(sample[3])
    return found


def metrics(server):
    status, body = server.request("GET", "/metrics")
    assert status == 200
    assert server.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return parsed(body)


def stored(found):
    """What comes from the store, without what depends on the time."""
    return {key: number for key, number in found.items() if re.match("edgeprof_(cpu|alloc|lock|wait|exc|gc|prof|lost|last)|pyro", key[0])}


@pytest.fixture
def server(start_server):
    """With everything pushed."""
    server = start_server()
    push_all(server)
    return server


@pytest.fixture(scope="module")
def filled(edgeprof, shared_folder):
    """The same, with a receiver that is not there."""
    with Server(edgeprof, os.path.join(shared_folder, "m.db"), config="[relay up]\nto = parca\nurl = http://127.0.0.1:1\n") as server:
        server.since = time.time()
        push_all(server)
        yield server


def test_figures(filled):
    found = metrics(filled)
    wanted = {"edgeprof_cpu_seconds_total": 3.125, "pyroscope_profiles_cpu_total": 3.125, "edgeprof_wait_seconds_total": 4,
              "edgeprof_lock_delay_seconds_total": 2, "edgeprof_lock_contentions_total": 6, "edgeprof_allocated_bytes_total": 5000,
              "edgeprof_allocated_objects_total": 7, "edgeprof_exceptions_total": 8, "edgeprof_gc_pause_seconds_total": 0.5,
              "edgeprof_gc_pauses_total": 9, "edgeprof_profiles_total": 7}
    assert {name: found.get((name, *ONE)) for name in wanted} == wanted
    assert found.get(("edgeprof_lost_samples_total", *ONE, "ring full")) == 10, "losses by reason"
    assert found.get(("edgeprof_lost_seconds_total", *ONE, "ring full")) == 3, "and the time they stood for"
    assert found.get(("edgeprof_lost_samples_total", *ONE, "spool full")) == 2, "another reason"
    assert found.get(("edgeprof_cpu_seconds_total", "svc", "2.0", "named")) == 1, "the tag device comes before the host"
    assert found.get(("edgeprof_cpu_seconds_total", 's"\\x', "1?2", 'a"b\\c')) == 1, "labels are escaped"
    assert filled.since - 10 < found[("edgeprof_last_seen_timestamp_seconds", *ONE)] < time.time()


def test_servers_own_figures(filled):
    found = metrics(filled)
    assert found[("edgeprof_accepted_total",)] == 4
    assert found[("edgeprof_database_bytes",)] > 4096 and found[("process_cpu_seconds_total",)] > 0 and found[("process_open_fds",)] > 2
    assert abs(found[("process_start_time_seconds",)] - time.time()) < 120
    assert found[("edgeprof_relay_waiting", "up", "parca")] == 9, "profiles wait for a receiver that is not there"
    filled.push(b"nonsense")
    assert metrics(filled)[("edgeprof_refused_total", "malformed")] == 1


def test_never_fall(server, start_server):
    """Not by a restart, a kill, or by what retention deletes."""
    before = stored(metrics(server))
    assert server.stop() == 0
    server = start_server()
    assert stored(metrics(server)) == before, "a restart changes nothing"
    push(server, [(1, SECOND, 0)], losses=[(0, 12, 3 * SECOND)], host="pi-1", tags=[("version", "1.0")])  # the same process goes on
    push(server, [(1, SECOND, 0)], losses=[(0, 4, SECOND)], host="pi-1", pid=99, tags=[("version", "1.0")])  # and another one begins
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with database(server.db) as connection:
        for table in ("profile", "stacks", "series", "bucket"):
            connection.execute(f"DELETE FROM {table}")
    after = stored(metrics(start_server()))
    assert after[("edgeprof_cpu_seconds_total", *ONE)] == 5.125, "CPU time goes on where it was"
    assert after[("edgeprof_lost_samples_total", *ONE, "ring full")] == 16, "a process' losses are totals: their growth counts"
    assert {key: number for key, number in before.items() if after.get(key, -1) < number} == {}


FILL = "INSERT INTO metric (service, version, device, kind, value, count, profiles, last_ns) VALUES"


def test_bounded(server, start_server):
    assert server.stop() == 0
    with database(server.db) as connection:
        connection.execute(f"{FILL} ('filler of old', '', '', 'cpu', 1, 0, 1, 1)")
    server = start_server()
    push(server, [(1, SECOND, 0)], service="new", host="pi-1")
    assert ("edgeprof_cpu_seconds_total", "filler of old", "", "") in metrics(server), "nothing goes while there is room"
    assert server.stop() == 0
    now = int(time.time() * SECOND)
    with database(server.db) as connection:
        connection.executemany(f"{FILL} (?, '', '', 'cpu', 1, 0, 1, ?)", [(f"filler {i}", now) for i in range(4096)])
    server = start_server()
    known = metrics(server)[("edgeprof_cpu_seconds_total", *ONE)]
    push(server, [(1, SECOND, 0), (4, 10, 1)], service="one too many")
    push(server, [(1, SECOND, 0)], service="and another")
    push(server, [(1, SECOND, 0)], host="pi-1", tags=[("version", "1.0")])
    found = metrics(server)
    assert server.stderr().count("/metrics: 4096 sets of service, version, device and metric-labels") == 1, server.stderr()
    assert found.get(("edgeprof_cpu_seconds_total", "_other", "", "")) == 2, "what there is no room for is counted together"
    assert found.get(("edgeprof_allocated_bytes_total", "_other", "", "")) == 10, "of every kind"
    assert found[("edgeprof_cpu_seconds_total", *ONE)] == known + 1, "what was known before has its place"
    assert server.stop() == 0
    with database(server.db) as connection:
        connection.execute("UPDATE metric SET last_ns = ? WHERE service LIKE 'filler%'", (now - 31 * 86400 * SECOND,))
    server = start_server()
    push(server, [(1, SECOND, 0)], service="now there is room")
    after = stored(metrics(server))
    assert after.get(("edgeprof_cpu_seconds_total", "now there is room", "", "host")) == 1, "what was not seen for a month makes room"
    assert [key for key in after if "filler" in key[1]] == [], "and is gone"

    def others(figures):
        return {key: number for key, number in figures.items() if key[1] in ("svc", "_other")}
    assert others(after) == others(stored(found)), "the others stay as they are"


def test_labels(folder, start_server):
    """Tags of metric-labels distinguish the counters; a tag that a process does not have is no label."""
    server = start_server(config="[serve]\nmetric-labels = env, deployment.zone\n")
    for env, zone in (("prod", "a"), ("prod", "a"), ("test", "a"), ("prod", None)):
        tags = [("env", env), ("other", "x"), *([("deployment.zone", zone)] if zone else [])]
        push(server, [(1, SECOND, 0)], losses=[(0, 1, SECOND)], host="pi", tags=tags)
    push(server, [(1, SECOND, 0)], host="pi")
    body = server.request("GET", "/metrics")[1].decode()
    parsed(body.encode())
    for name in ("edgeprof_cpu_seconds_total", "edgeprof_profiles_total"):
        lines = sorted(line for line in body.splitlines() if line.startswith(name + "{"))
        numbers = [float(line.rsplit(" ", 1)[1]) for line in lines]
        labels = [re.sub(r'.*device="pi",?(.*)\}.*', r"\1", line) for line in lines]
        assert dict(zip(labels, numbers)) == {"": 1, 'env="prod"': 1, 'deployment_zone="a",env="prod"': 2, 'deployment_zone="a",env="test"': 1}, lines
    assert 'deployment_zone="a",env="test"} 1' in next(line for line in body.splitlines() if line.startswith("edgeprof_lost_samples_total{") and "test" in line)
    assert server.stop() == 0
    again = start_server()
    assert stored(parsed(again.request("GET", "/metrics")[1])) == stored(parsed(body.encode())), "without the setting the counters stay"


def test_wrong_labels(cli, folder):
    for labels, word in (("service", "already"), ("a.b, a-b", "one label"), ("__x", "already"), (",".join("abcdefghi"), "at most 8"), ("x" * 64, "too long")):
        config = os.path.join(folder, "wrong.conf")
        with open(config, "w") as file:
            file.write(f"[serve]\nmetric-labels = {labels}\n")
        cli.fails(1, word, "serve", "--listen", "127.0.0.1:0", "--db", os.path.join(folder, "wrong.db"), "--config", config)


# ---- Prometheus ----

@pytest.fixture
def promtool():
    path = shutil.which("promtool")
    assert path, "promtool is not there: tools/build/setup.sh apt test"
    return path


def test_promtool_takes_metrics(promtool, filled):
    done = subprocess.run([promtool, "check", "metrics"], input=filled.request("GET", "/metrics")[1], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("what, name", [("check", "edgeprof.rules.yml"), ("test", "edgeprof.test.yml")])
def test_promtool_takes_rules(promtool, what, name):
    done = subprocess.run([promtool, what, "rules", RULES / name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_ask_for_what_is_served(filled):
    names = set(re.findall(r"\bedgeprof_[a-z_]+_(?:total|seconds|failing)\b", (RULES / "edgeprof.rules.yml").read_text()))
    served = set(re.findall(r"^# TYPE (\S+)", filled.request("GET", "/metrics")[1].decode(), re.M))
    assert names and names - served == set()
