"""verdict finds what a new version uses more on a fleet and takes devices instead of samples as the unit."""
import json
import random
import re
import shutil
import subprocess
import time

import pytest

from generate import message, module, nodes, origin, profile
from harness import REPOSITORY

pytestmark = pytest.mark.all

OK, FAILED, USAGE, NO_DATA, REGRESSION, NO_BASELINE, NOT_YET = 0, 1, 2, 3, 4, 5, 6
SECOND = 10**9
ONE, TWO, THREE = "[app]+0x68", "[app]+0xcc", "[app]+0x130"


class Fleet:
    """Devices that each run for `seconds`; a stack main -> one, two, three with samples of 10 ms."""

    def __init__(self, server, now=None):
        self.server, self.segment, self.rng, self.now = server, 0, random.Random(1), now or 1_700_000_000

    def add(self, version, device, shares, samples=2000, seconds=600, start=0, service="svc", arch="arm64", tags=(), spread=0.05, kind=1, periods=1):
        """shares: of one, two, three; each varies from device to device by `spread`. periods: that each sample stands for."""
        self.segment += 1
        counts = {node: max(1, round(samples * share * self.rng.lognormvariate(0, spread))) for node, share in zip((2, 3, 4), shares)}
        tags = [("version", version), ("device", device), *tags] if version else [("device", device), *tags]
        body = message(self.segment, 0, origin(service, tags=sorted(tags), pid=self.segment, start=self.segment, arch=arch),
                       [module(4096, 65536, 0, b"\7" * 20, "[app]")], nodes([0, 1, 2, 3], [4100, 4200, 4300, 4400]),
                       [profile(counts, start=start * SECOND + 1, duration=seconds * SECOND, kind=kind, samples=sum(counts.values()) // periods)],
                       unix_minus_uptime=self.now * SECOND)
        assert self.server.push(body) == 200

    def release(self, version, count, shares, start, first=0, **more):
        for i in range(first, first + count):
            self.add(version, f"d{i}", shares, start=start, **more)


BEFORE, AFTER = (0.50, 0.30, 0.20), (0.50, 0.30, 0.26)  # 6 % more of the service's CPU time, in three


@pytest.fixture
def fleet(server):
    return Fleet(server)


def row(answer, name, figure="self"):
    return next(row for row in answer["rows"] if (row["name"], row["figure"]) == (name, figure))


def ask(cli, fleet, *arguments, code=OK):
    done = cli.run("verdict", "--db", fleet.server.db, "--json", *arguments)
    assert done.returncode == code, done.err
    return json.loads(done.out)


def test_samples_of_several_periods(cli, start_server, folder):
    """A sample that stands for ten periods is one: the figure says so, and what can be found is less."""
    found = []
    for periods in (1, 10):
        fleet = Fleet(start_server(db=f"{folder}/{periods}.db"))
        for version, start in (("1.2", 0), ("1.3", 1000)):
            fleet.release(version, 6, BEFORE, start, samples=1000, periods=periods)
        done = cli.run("verdict", "--db", fleet.server.db, "--json")
        answer = json.loads(done.out)
        told = [json.loads(cli.run("top", "--json", "--db", fleet.server.db, "--tag", f"version={side['version']}").out)["samples"] for side in answer["sides"]]
        assert [side["samples"] for side in answer["sides"]] == told, "as every other command says"
        found.append((round(sum(side["samples"] for side in answer["sides"]) / 12_000, 2), answer["devices_needed"]))
    assert 0.95 < found[0][0] < 1.05 and found[1][0] == pytest.approx(found[0][0] / 10, rel=0.1), found
    assert found[1][1] > found[0][1], found


def test_regression(cli, fleet):
    fleet.release("1.2", 12, BEFORE, 0)
    fleet.release("1.3", 12, AFTER, 1000, first=6)
    answer = ask(cli, fleet, code=REGRESSION)
    assert (answer["service"], answer["version"], answer["baseline"], answer["verdict"]) == ("svc", "1.3", "1.2", "regression")
    found = row(answer, THREE)
    assert found["means"] == "more" and found["by"] in ("share", "both"), found
    assert found["share"]["low"] < 0.26 / 1.06 - 0.2 < found["share"]["high"] and found["share"]["p"] < 0.05
    assert found["load"]["low"] < 0.06 < found["load"]["high"], "load is in parts of the baseline's"
    assert row(answer, ONE)["means"] != "more" and row(answer, TWO)["means"] != "more"
    assert answer["cohorts"] == [{"name": "arm64", "devices": [12, 12], "both": 6, "compared": True}]
    assert [(side["version"], side["devices"], side["seconds"]) for side in answer["sides"]] == [("1.2", 12, 7200), ("1.3", 12, 7200)]
    done = cli.run("verdict", "--db", fleet.server.db)
    assert done.returncode == REGRESSION and re.search(rf"verdict: regression: .*{re.escape(THREE)}", done.err), done.err
    assert re.search(r"^svc 1\.3: regression$", done.out, re.M) and "(the service in all)" in done.out


def test_equal(cli, fleet):
    fleet.release("1.2", 12, BEFORE, 0)
    fleet.release("1.3", 12, BEFORE, 1000)
    answer = ask(cli, fleet, "--threshold", "10%")
    assert answer["verdict"] == "ok" and answer["devices_needed"] == 0 and answer["detectable"] < 0.1
    assert answer["cohorts"][0]["both"] == 12
    assert {found["means"] for found in answer["rows"] if found["figure"] == "self"} == {"same"}


def test_not_yet(cli, fleet):
    """Few devices decide nothing, however many samples they sent, and the line says what is missing."""
    fleet.release("1.2", 2, BEFORE, 0, samples=200000)
    fleet.release("1.3", 2, AFTER, 1000, samples=200000)
    assert ask(cli, fleet, code=NOT_YET)["devices_needed"] == 3
    fleet.release("1.2", 2, BEFORE, 0, first=2, spread=0.5)
    fleet.release("1.3", 2, BEFORE, 1000, first=2, spread=0.5)
    answer = ask(cli, fleet, code=NOT_YET)
    assert answer["devices_needed"] > 4 and answer["unsure"] > 0
    done = cli.run("verdict", "--db", fleet.server.db)
    assert re.search(rf"verdict: not yet: .*there are 4 and 4 devices, about {answer['devices_needed']:.0f} per version", done.err), done.err


def test_more_load(cli, fleet):
    """Twice the load in every function: the service in all, by load, and no function by its share."""
    fleet.release("1.2", 8, BEFORE, 0)
    fleet.release("1.3", 8, BEFORE, 1000, seconds=300)
    answer = ask(cli, fleet, code=REGRESSION)
    assert answer["all"]["means"] == "more" and answer["all"]["by"] == "load" and 0.8 < answer["all"]["load"]["change"] < 1.2
    assert [found["name"] for found in answer["rows"] if found["by"] in ("share", "both")] == []


def test_few_devices_with_both(cli, fleet):
    """Also in cohorts that are too small to compare."""
    for version, start in (("1.2", 0), ("1.3", 1000)):
        fleet.release(version, 2, BEFORE, start)
    fleet.release("1.3", 3, BEFORE, 1000, first=2, arch="armv7")
    cohorts = {one["name"]: one for one in ask(cli, fleet, code=NOT_YET)["cohorts"]}
    assert (cohorts["arm64"]["both"], cohorts["arm64"]["compared"], cohorts["armv7"]["both"]) == (2, False, 0)


def test_which_versions(cli, fleet):
    assert ask(cli, fleet, code=NO_DATA)["verdict"] == "no data"
    fleet.release("", 3, BEFORE, 0)
    assert ask(cli, fleet, code=NO_DATA)["version"] == ""
    fleet.release("10", 4, BEFORE, 1000)
    assert ask(cli, fleet, code=NO_BASELINE)["version"] == "10"
    fleet.release("9", 4, BEFORE, 2000)  # seen later, whatever its name
    fleet.release("10", 4, BEFORE, 3000)  # rolled back: 10 is no new version
    answer = ask(cli, fleet, "--threshold", "50")
    assert (answer["version"], answer["baseline"]) == ("9", "10")
    assert answer["sides"][0]["seconds"] == 4 * 1200
    answer = ask(cli, fleet, "--threshold", "50", "--version", "10", "--baseline", "9")
    assert (answer["version"], answer["baseline"]) == ("10", "9")
    assert ask(cli, fleet, "--version", "10", code=NO_BASELINE)["baseline"] == ""
    assert ask(cli, fleet, "--baseline", "8", code=NO_BASELINE)["baseline"] == "8"
    assert ask(cli, fleet, "--version", "8", code=NO_DATA)["verdict"] == "no data"
    assert cli.fails(NO_DATA, "has version 8", "verdict", "--db", fleet.server.db, "--service", "svc", "--version", "8").out == "", "nothing else"
    fleet.release("9", 1, BEFORE, 0, service="other")
    cli.fails(FAILED, "several services", "verdict", "--db", fleet.server.db)


def test_a_version_that_was_there_before_is_not_new(cli, fleet):
    """Of versions that ran when the time begins, none is new: an old version on a few devices is no regression of the new one."""
    later, now = 100_000, fleet.now
    fleet.release("1.2", 12, AFTER, 0)
    fleet.release("1.3", 6, BEFORE, 1000)
    fleet.release("1.3", 6, BEFORE, later)
    fleet.release("1.2", 6, AFTER, later + 5, first=6)
    fleet.release("1.3", 6, BEFORE, later + 9000)
    last = ("--from", str(now + later - 100))
    answer = ask(cli, fleet, *last, code=NO_BASELINE)
    assert (answer["version"], answer["baseline"]) == ("1.3", "")
    answer = ask(cli, fleet, *last, "--baseline", "1.2", "--threshold", "50")
    assert (answer["version"], answer["baseline"], answer["verdict"]) == ("1.3", "1.2", "ok")
    assert ask(cli, fleet, "--threshold", "50")["version"] == "1.3"
    fleet.release("1.4", 6, AFTER, later + 6000)
    answer = ask(cli, fleet, *last, code=REGRESSION)
    assert (answer["version"], answer["baseline"]) == ("1.4", "1.3"), "the baseline is the newer one of those"


def test_cohorts(cli, fleet):
    """A board that does other work is compared with its like; one that only the new version has is left out."""
    fleet.release("1.2", 6, BEFORE, 0, tags=[("board", "a")])
    fleet.release("1.3", 3, BEFORE, 1000, tags=[("board", "a")])
    fleet.release("1.2", 3, (0.2, 0.2, 0.6), 0, first=20, tags=[("board", "b")])
    fleet.release("1.3", 6, (0.2, 0.2, 0.6), 1000, first=20, tags=[("board", "b")])
    fleet.release("1.3", 4, (0.1, 0.1, 0.8), 1000, first=40, arch="riscv64")
    answer = ask(cli, fleet, "--threshold", "90")
    assert {cohort["name"]: (cohort["devices"], cohort["compared"]) for cohort in answer["cohorts"]} == {
        "arm64 board=a": ([6, 3], True), "arm64 board=b": ([3, 6], True), "riscv64": ([0, 4], False)}
    assert abs(row(answer, THREE)["share"]["change"]) < 0.05
    only = ask(cli, fleet, "--threshold", "90", "--tag", "board=a")
    assert [cohort["name"] for cohort in only["cohorts"]] == ["arm64 board=a"]


def test_restarts_and_workers(cli, fleet):
    """A device's time counts once for processes that ran at the same time, and goes on after a restart."""
    for version, begin in (("1", 0), ("2", 5000)):
        for device in ("a", "b", "c"):
            fleet.add(version, device, BEFORE, start=begin)
            fleet.add(version, device, BEFORE, start=begin + 300)  # another worker, half of its time
            fleet.add(version, device, BEFORE, start=begin + 2000)  # after a restart
    answer = ask(cli, fleet, "--threshold", "99")
    assert [(side["devices"], side["seconds"]) for side in answer["sides"]] == [(3, 3 * 1500)] * 2


def test_wrong_usage(cli, fleet):
    for arguments, word in ((("--threshold", "0"), "invalid value"), (("--threshold", "101%"), "at most 100"), (("--version", ""), "invalid value"),
                            (("--per-function",), "unknown option"), (("x",), "unexpected argument")):
        cli.fails(USAGE, word, "verdict", "--db", fleet.server.db, *arguments)
    cli.fails(FAILED, "does not exist", "verdict", "--db", fleet.server.db + ".none")


def test_level_kinds_are_refused(cli, fleet):
    fleet.release("1", 3, BEFORE, 0, kind=5)
    fleet.release("2", 3, BEFORE, 1000, kind=5)
    cli.fails(FAILED, "is a level", "verdict", "--db", fleet.server.db, "--kind", "live")


def test_server_answers_the_same(cli, fleet):
    fleet.release("1.2", 5, BEFORE, 0)
    fleet.release("1.3", 5, AFTER, 1000)
    local = ask(cli, fleet, "--threshold", "2%", "--version", "1.3", code=REGRESSION)
    done = cli.run("verdict", "--url", fleet.server.url, "--json", "--threshold", "2%", "--version", "1.3", "--service", "svc")
    assert done.returncode == REGRESSION and json.loads(done.out) == local
    status, body = fleet.server.request("GET", "/api/verdict?service=svc&threshold=2")
    assert status == 200 and json.loads(body) == local
    for wrong in ("threshold=x", "threshold=0", "threshold=101", "service={", "from=x"):
        assert fleet.server.request("GET", f"/api/verdict?{wrong}")[0] == 400, wrong


def verdict_metrics(server):
    body = server.request("GET", "/metrics")[1].decode()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in body.splitlines() if line.startswith("edgeprof_verdict")}


def test_metrics(folder, start_server):
    server = start_server(config="[serve]\nverdict-every = 1s\n")
    fleet = Fleet(server, int(time.time()) - 7200)
    fleet.release("1.2", 6, BEFORE, 0)
    assert verdict_metrics(server) == {}, "one version is no comparison"
    fleet.release("1.3", 6, AFTER, 1000)
    for _ in range(100):
        found = verdict_metrics(server)
        if any("1.3" in key and "regression" in key for key in found):
            break
        time.sleep(0.2)
    labels = 'service="svc",version="1.3",baseline="1.2"'
    assert found.get(f'edgeprof_verdict{{{labels},verdict="regression"}}') == 1, found
    increases = [key for key in found if key.startswith("edgeprof_verdict_increase_ratio") and 'function="[app]+0x130",figure="self"' in key]
    assert len(increases) == 1 and 0.02 < found[increases[0]] < 0.1, found
    assert f"edgeprof_verdict_devices_needed{{{labels}}}" in found and f"edgeprof_verdict_detectable_ratio{{{labels}}}" in found
    assert "edgeprof_verdict_increase_ratio" in (REPOSITORY / "tools/prometheus/edgeprof.rules.yml").read_text()
    promtool = shutil.which("promtool")
    assert promtool, "promtool is not there: tools/build/setup.sh apt test"
    done = subprocess.run([promtool, "check", "metrics"], input=server.request("GET", "/metrics")[1], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert server.stop() == 0
    server = start_server(config="[serve]\nverdict-every = 0\n")
    time.sleep(1.5)
    assert verdict_metrics(server) == {}, "0 switches comparisons off"
