"""The first figures that a user sees are true: names, shares of stacks, run time of what was exported."""
import http.server
import threading
import time

import pytest

from generate import data, message, nodes, origin, profile, stats
from sample import contents

PATH = "/opt/app/app"  # no such file here, so names come from the slow server alone


@pytest.fixture
def slow(known):
    """A debuginfod server that answers when `release` is set."""
    release = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            release.wait(30)
            found = self.path.endswith("/debuginfo") and known.build_id in self.path
            body = contents(known.debug) if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    server.release, server.url = release, f"http://127.0.0.1:{server.server_port}"
    yield server
    release.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def reading(start_server, slow, known, folder, monkeypatch):
    """A server with the limits that users have, and one profile whose names the slow server has."""
    monkeypatch.setenv("XDG_CACHE_HOME", folder)
    server = start_server("--debuginfod", slow.url, config="[limits]\n")
    for tag in ("1", "2"):
        body = message(int(tag), 0, origin(tags=[("version", tag)]), [known.module(PATH)], nodes([0], [known.frame]), [profile({1: 100})])
        assert server.push(body) == 200
    return server


def names(answer):
    return [row["name"] for row in answer["top"]]


def test_an_answer_says_that_names_are_pending(reading, slow, known):
    status, answer = reading.get("/api/profile", service="svc")
    assert (status, answer["names_pending"]) == (200, 1)
    assert names(answer) == [f"app+{known.hot:#x}"], "an address instead"
    slow.release.set()
    for _ in range(100):
        answer = reading.get("/api/profile", service="svc")[1]
        if not answer["names_pending"]:
            break
        time.sleep(0.1)
    assert names(answer) == ["hot"]


def test_no_comparison_of_a_side_without_names(reading, slow):
    query = {"service": 'svc{version="2"}', "base_service": 'svc{version="1"}'}
    status, answer = reading.get("/api/diff", **query)
    assert (status, answer["names_pending"]) == (503, 2), answer
    slow.release.set()
    for _ in range(100):
        status, answer = reading.get("/api/diff", **query)
        if status == 200:
            break
        time.sleep(0.1)
    assert [row["name"] for row in answer["rows"]] == ["hot"]


@pytest.mark.parametrize("command", (("top",), ("export", "--folded"), ("diff", "--baseline", 'svc{version="1"}', "--threshold", "10%", "--function", "hot")))
def test_a_command_waits_for_names(reading, slow, cli, command):
    threading.Timer(1, slow.release.set).start()
    done = cli.run(*command, "--url", reading.url)
    assert done.returncode == 0, done.err
    assert "hot" in done.out and "app+0x" not in done.out


def test_an_exported_pprof_has_the_time_that_its_processes_ran(server, cli, folder):
    """Two processes that ran for 10 s each at the same time ran for 20 s; so a file compares as the server does."""
    for segment, (tag, pids) in enumerate((("1", 1), ("2", 2))):
        for pid in range(pids):
            body = message(10 * segment + pid + 1, 0, origin(tags=[("version", tag)], pid=100 * segment + pid), [], nodes([0], [1]),
                           [profile({1: 1000}, start=1_000_000_000_000 + segment * 10**11, duration=10_000_000_000)])
            assert server.push(body) == 200
    files = {}
    for tag in ("1", "2"):
        files[tag] = f"{folder}/{tag}.pb.gz"
        assert cli.run("export", "--url", server.url, "--service", f'svc{{version="{tag}"}}', "--pprof", files[tag]).returncode == 0
    here = cli.run("diff", files["1"], files["2"])
    there = cli.run("diff", "--url", server.url, "--service", 'svc{version="2"}', "--baseline", 'svc{version="1"}')
    growth = [next(line for line in done.out.splitlines() if line.startswith("total per second")) for done in (here, there)]
    assert growth[0] == growth[1]
    assert "total per second: +0.0 %" in growth[0], "twice the processes with twice the time"


def test_stacks_of_all_kinds_are_no_more_than_all(server):
    """`samples` counts CPU samples, exact, gap and cut stacks of all kinds."""
    body = message(1, 0, origin(), [], nodes([0], [1]), [profile({1: 100})], stats=stats(samples=100, exact=400, gap=50, cut=50))
    assert server.push(body) == 200
    row = server.get("/api/devices")[1]["devices"][0]
    assert [row[key] for key in ("samples", "exact", "gap", "cut")] == [100, 400, 50, 50]
