"""leaks finds what of the live heap grows over simulated days by its place and nothing else."""
import json
import random
import re
import time

import pytest

from generate import message, module, nodes, origin, profile
from harness import REPOSITORY

pytestmark = pytest.mark.all

OK, FAILED, USAGE, NO_DATA, LEAK = 0, 1, 2, 3, 4
MB = 1 << 20
PLANTED = "System.Byte[] at Shop.Cache.Add"
CHURN = [(f"System.{kind}", f"Shop.{place}.Run") for kind in ("String", "Object[]", "Char[]", "Int32[]", "Byte[]")
         for place in ("Orders", "Prices", "Stock", "Mail")]


class Days:
    """Live heaps, an hour at a time, until now."""

    def __init__(self, server, hours, seed=1):
        self.server, self.hours, self.rng = server, hours, random.Random(seed)
        self.begin = int(time.time()) // 3600 * 3600 - hours * 3600

    def push(self, hour, process, stacks, service="svc"):
        start = self.begin + hour * 3600 + 60
        text = "".join(f"main;{';'.join(stack)} {int(value)}\n" for stack, value in stacks.items())
        path = f"/ingest?name={service}.inuse_space%7Bhost=h,process={process}%7D&format=groups&from={start}&until={start + 10}"
        status, body = self.server.request("POST", path, text.encode())
        assert status == 200, body

    def churn(self, level=200 * MB):
        """Comes and goes: each place by a quarter around its level, and all by a tenth with the time of day."""
        return {(place, kind): level / len(CHURN) * self.rng.lognormvariate(0, 0.25) for kind, place in CHURN}

    def run(self, process, first, last, leak=0.0, **more):
        """leak: bytes an hour, from the start of the process."""
        warm = 0
        for hour in range(first, last):
            warm = min(1, warm + 0.5)
            stacks = {stack: warm * value for stack, value in self.churn().items()}
            if leak:
                stacks[("Shop.Cache.Add", "System.Byte[]")] = 5 * MB + leak * (hour - first) * self.rng.lognormvariate(0, 0.05)
            self.push(hour, process, stacks, **more)


@pytest.fixture
def days(server):
    return Days(server, 72)


def ask(cli, days, *arguments, code=OK):
    done = cli.run("leaks", "--db", days.server.db, "--json", *arguments)
    assert done.returncode == code, done.err
    return json.loads(done.out)


def test_planted_leak(cli, days):
    """1 MB an hour beside 200 MB that come and go, with a restart after a day and a half."""
    days.run("one", 0, 72, leak=MB)
    days.run("two", 0, 36, leak=MB)
    days.run("three", 36, 72, leak=MB)
    answer = ask(cli, days, "--last", "7d", code=LEAK)
    assert (answer["processes"], answer["hours"], answer["grows"], answer["count"]) == (3, 71, 1, len(CHURN) + 1)
    leak = answer["sites"][0]
    assert leak["site"] == PLANTED and leak["grows"] and leak["processes"] == 3 and leak["p"] < 0.001
    assert abs(leak["bytes_per_hour"] / MB - 1) < 0.05 and leak["low"] < leak["bytes_per_hour"] < leak["high"]
    assert leak["low"] < MB < leak["high"] and leak["high"] - leak["low"] < 0.1 * MB
    assert 110 * MB < leak["bytes"] < 125 * MB, "of the two that run; the process that ended has nothing any more"
    assert [site["site"] for site in answer["sites"] if site["grows"]] == [PLANTED]
    done = cli.run("leaks", "--db", days.server.db)
    assert done.returncode == LEAK and re.search(rf"^ *\+\S+[KM]iB .* leak +{re.escape(PLANTED)}$", done.out, re.M), done.out
    status, body = days.server.request("GET", "/api/leaks?service=svc&from=now-7d")
    assert status == 200 and json.loads(body) == answer
    remote = cli.run("leaks", "--url", days.server.url, "--service", "svc", "--json", "--last", "7d")
    assert remote.returncode == LEAK and json.loads(remote.out) == answer


@pytest.mark.parametrize("seed", range(3))
def test_no_leak(cli, server, seed):
    days = Days(server, 48, seed=100 + seed)
    days.run("one", 0, 48)
    days.run("two", 0, 20)
    days.run("three", 20, 48)
    answer = ask(cli, days)
    assert answer["grows"] == 0 and answer["count"] == len(CHURN)
    assert " leak " not in cli.run("leaks", "--db", days.server.db).out


def test_restarts_hide_no_leak_and_make_none(cli, days):
    """A saw of restarts every ten hours: the slope within each process counts. A service that uses more after each restart does not leak."""
    for begin in range(0, 70, 10):
        days.run(f"saw{begin}", begin, begin + 10, leak=MB)
        level = (200 + 2 * begin) * MB
        for hour in range(begin, begin + 10):
            days.push(hour, f"step{begin}", days.churn(level), service="step")
    answer = ask(cli, days, "--service", "svc", code=LEAK)
    assert [site["site"] for site in answer["sites"] if site["grows"]] == [PLANTED]
    assert 0.8 * MB < answer["sites"][0]["bytes_per_hour"] < 1.2 * MB
    assert ask(cli, days, "--service", "step")["grows"] == 0


def test_native_memory(cli, server):
    """Memory of a native library in a .NET program: the place says who called it."""
    days = Days(server, 24)
    for hour in range(24):
        stacks = {("Shop.Image.Load", "Skia.SKBitmap.Allocate", "[native]"): (5 + hour) * MB, ("Shop.Image.Load", "[mmap]"): 20 * MB,
                  ("Shop.Cache.Add", "Skia.SKBitmap.Allocate", "[native]"): 20 * MB}
        days.push(hour, "one", stacks)
    sites = ask(cli, days, code=LEAK)["sites"]
    assert [site["site"] for site in sites if site["grows"]] == ["[native] Skia.SKBitmap.Allocate at Shop.Image.Load"]
    assert sorted(site["site"] for site in sites)[0].startswith("[mmap] Shop.Image.Load")


def test_objects(cli, server):
    """Of a device: 10 objects of 100 bytes more each hour, in a segment of 24 messages, and another one."""
    begin = int(time.time()) // 3600 * 3600 - 24 * 3600
    for hour in range(24):
        for process in (1, 2):
            objects = 50 * process + 10 * hour + hour % 3
            first = {} if hour else {"origin": origin("svc", pid=process, start=process), "modules": [module(4096, 65536, 0, b"\7" * 20, "[app]")],
                                     "nodes": nodes([0, 1], [4100, 4200])}
            body = message(process, hour, profiles=[profile([(2, 0, objects, 100 * objects)], quantum=1, start=(hour * 3600 + 60) * 10**9, kind=5)],
                           unix_minus_uptime=begin * 10**9, **first)
            assert server.push(body) == 200
    done = cli.run("leaks", "--db", server.db, "--json", "--tag", "host=host")
    sites = json.loads(done.out)["sites"]
    assert [site["processes"] for site in sites] == [2]
    assert done.returncode == LEAK and 9.5 < sites[0]["objects_low"] <= 10 <= sites[0]["objects_high"] < 10.5, sites
    assert abs(sites[0]["bytes_per_hour"] - 100 * sites[0]["objects_per_hour"]) < 1, sites


def test_young_process(cli, server):
    """Its first hour is no part of the growth, which nothing is said about; but what it has in use is in use."""
    days = Days(server, 2)
    days.push(1, "new", {("Shop.Cache.Add", "System.Byte[]"): 40 * MB})
    site = ask(cli, days)["sites"][0]
    assert [site["site"], site["bytes"], site["bytes_per_hour"], site["low"], site["objects_per_hour"]] == [PLANTED, 40 * MB, None, None, None]
    shown = cli.run("leaks", "--db", server.db).out.splitlines()[-1].split()
    assert shown[:4] == ["?", "?..?", "?", "40.00MiB"], shown


def test_metrics(folder, start_server):
    server = start_server(config="[serve]\nverdict-every = 1s\n")
    days = Days(server, 24)
    days.run("one", 0, 24, leak=MB)
    for _ in range(100):
        lines = [line for line in server.request("GET", "/metrics")[1].decode().splitlines() if line.startswith("edgeprof_leak")]
        if lines and abs(float(lines[-1].rsplit(" ", 1)[1]) / MB - 1) < 0.1:
            break
        time.sleep(0.2)
    assert len(lines) == 1 and lines[0].startswith(f'edgeprof_leak_bytes_per_hour{{service="svc",site="{PLANTED}"}} '), lines
    assert "edgeprof_leak_bytes_per_hour" in (REPOSITORY / "tools/prometheus/edgeprof.rules.yml").read_text()


def test_usage(cli, days):
    cli.fails(NO_DATA, "no process has a live heap", "leaks", "--db", days.server.db)
    days.run("one", 0, 3, leak=MB)
    assert ask(cli, days)["sites"][0]["p"] == 1, "three hours say nothing"
    days.run("one", 0, 1, service="other")
    cli.fails(FAILED, "several services", "leaks", "--db", days.server.db)
    cli.fails(USAGE, "unknown option", "leaks", "--kind", "cpu")
    assert days.server.request("GET", "/api/leaks?from=x")[0] == 400
