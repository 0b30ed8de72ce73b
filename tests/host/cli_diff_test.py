"""diff tells a regression from noise, and its exit status says which."""
import json
import os
import re

import pytest

from cli import command_lines, message_of
from generate import message, module, nodes, origin, profile
from harness import Server
from sample import SOURCE, marked

OK, FAILED, USAGE, NO_DATA, REGRESSION, NO_BASELINE, TOO_FEW = 0, 1, 2, 3, 4, 5, 6
UPTIME = 1_700_000_000_000_000_000
ONE, TWO = "[app]+0x68", "[app]+0xcc"


class Fleet:
    """A server with processes of one service, each with a version, samples of two functions, and a time."""

    def __init__(self, server, cli):
        self.server, self.db, self.cli, self.segment = server, server.db, cli, 0

    def add(self, version, one, two=0, seconds=1, start=1, device=None, kind=1, service="svc"):
        self.segment += 1
        tags = [("version", version)] + ([("device", device)] if device else [])
        body = message(self.segment, 0, origin(service, tags=tags, pid=self.segment, start=self.segment),
                       [module(4096, 65536, 0, b"\7" * 20, "[app]")], nodes([0, 1, 2], [4100, 4200, 4300]),
                       [profile({2: one, 3: two} if two else {2: one}, start=start * 10**9, duration=seconds * 10**9, kind=kind)])
        assert self.server.push(body) == 200

    def versions(self, before, after, *arguments):
        return self.cli.run("diff", "--db", self.db, "--service", f'svc{{version="{after}"}}', "--baseline", f'{{version="{before}"}}', *arguments)


@pytest.fixture
def fleet(server, cli):
    return Fleet(server, cli)


@pytest.fixture(scope="module")
def shared_fleet(edgeprof, cli, shared_folder):
    """shared_fleet(name): one that several tests read"""
    servers = []

    def start(name):
        servers.append(Server(edgeprof, os.path.join(shared_folder, name + ".db")))
        return Fleet(servers[-1], cli)

    yield start
    for server in servers:
        assert server.stop() == 0


def outcome(done):
    """(code, the one line)"""
    lines = [line for line in done.err.splitlines() if line.startswith("edgeprof: diff: ")]
    assert len(lines) == (done.returncode != 0), f"one line when the code is not 0: {done.returncode} {done.err}"
    return done.returncode, lines[0] if lines else ""


# ---- all together, per second that processes ran ----

@pytest.fixture(scope="module")
def totals(shared_fleet):
    fleet = shared_fleet("totals")
    for version, samples in (("base", 4000), ("same", 4050), ("less", 2000), ("more", 5200), ("bit", 4120), ("few", 12), ("few2", 13)):
        fleet.add(version, samples)
    return fleet


@pytest.mark.parametrize("before, after, threshold, code", [
    ("base", "same", "10%", OK), ("base", "more", "10%", REGRESSION), ("base", "more", "50%", OK), ("base", "less", "10%", OK),
    ("more", "base", "10%", OK), ("less", "base", "90", REGRESSION), ("few", "few2", "10%", TOO_FEW), ("base", "bit", "4%", TOO_FEW),
    ("few", "few2", "10000%", OK), ("none", "base", "10%", NO_BASELINE), ("base", "none", "10%", NO_DATA)])
def test_totals(totals, before, after, threshold, code):
    assert outcome(totals.versions(before, after, "--threshold", threshold))[0] == code


def test_totals_say_by_how_much(totals):
    assert "+30.0 %" in outcome(totals.versions("base", "more", "--threshold", "10%"))[1]


def test_totals_without_a_threshold(totals):
    assert totals.versions("base", "more").returncode == OK, "nothing is judged"
    assert totals.versions("none", "more").returncode == NO_BASELINE, "but that there is no baseline is said"


def test_more_processes(fleet):
    """More processes, or longer, or restarts, are no regression; more of each is."""
    fleet.add("one", 4000, seconds=10)
    for device in range(5):
        fleet.add("five", 4000, seconds=10, device=f"pi-{device}")
    fleet.add("long", 12000, seconds=30)
    fleet.add("restarted", 2000, seconds=5)
    fleet.add("restarted", 2000, seconds=5, start=6)
    for other in ("five", "long", "restarted"):
        for before, after in (("one", other), (other, "one")):
            assert outcome(fleet.versions(before, after, "--threshold", "10%")) == (OK, ""), f"{before} -> {after}"
    fleet.add("busy", 6000, seconds=10)
    assert outcome(fleet.versions("five", "busy", "--threshold", "10%"))[0] == REGRESSION, "one busier process"
    narrow = fleet.versions("five", "five", "--threshold", "10%", "--tag", "device=pi-1", "--json")
    assert json.loads(narrow.out)["seconds"] == [10, 10], "--tag is of both sides"
    url = ("--url", fleet.server.url, "--service", 'svc{version="busy"}', "--baseline", '{version="five"}', "--threshold", "10%", "--json")
    there, here = fleet.cli.run("diff", *url), fleet.versions("five", "busy", "--threshold", "10%", "--json")
    assert (there.returncode, json.loads(there.out)) == (REGRESSION, json.loads(here.out)), "a server says the same"


@pytest.mark.parametrize("arguments", [(), ("--function", ONE), ("--per-function",)])
def test_how_many_would_do(fleet, arguments):
    """The number in the line is the right one: with it the question is answered, with a little less it is not."""
    fleet.add("a", 40, 40)
    fleet.add("b", 40, 40)
    code, line = outcome(fleet.versions("a", "b", "--threshold", "10%", *arguments))
    number = int(re.search(r"there are 80 and 80 samples, about (\d+) per side are needed", line)[1])
    assert code == TOO_FEW
    half = number // 2 + 1
    for version, samples, wanted in (("enough", half, OK), ("less", int(half * 0.95), TOO_FEW)):
        for side in ("before", "after"):
            fleet.add(f"{version}-{side}", samples, samples)
        assert outcome(fleet.versions(f"{version}-before", f"{version}-after", "--threshold", "10%", *arguments))[0] == wanted, \
            f"{samples} of {number} samples of each"


# ---- shares: what one function has more the others have less ----

@pytest.fixture(scope="module")
def shares(shared_fleet):
    fleet = shared_fleet("functions")
    fleet.add("a", 10000, 90000)
    fleet.add("b", 14000, 126000)
    fleet.add("c", 14000, 86000)
    fleet.add("few", 3, 17)
    return fleet


@pytest.mark.parametrize("before, after, arguments, code", [
    ("a", "b", ["--per-function"], OK), ("a", "b", ["--function", ONE], OK), ("a", "c", ["--per-function"], REGRESSION),
    ("a", "c", ["--function", ONE], REGRESSION), ("a", "c", ["--function", TWO], OK),
    ("a", "c", ["--function", TWO, "--function", ONE], REGRESSION), ("c", "a", ["--function", ONE], OK),
    ("a", "few", ["--per-function"], TOO_FEW), ("a", "few", ["--function", ONE], TOO_FEW), ("none", "a", ["--per-function"], NO_BASELINE),
    ("a", "none", ["--function", ONE], NO_DATA), ("a", "c", ["--function", "missing"], FAILED)])
def test_shares(shares, before, after, arguments, code):
    assert outcome(shares.versions(before, after, "--threshold", "10%", *arguments))[0] == code


def test_shares_say_which_and_how(shares):
    line = outcome(shares.versions("a", "c", "--threshold", "10%", "--per-function"))[1]
    assert ONE in line and "10.00 % -> 14.00 %" in line


def test_shares_with_all_that_it_calls(shares):
    """The caller of both has all: its share cannot grow, that of what it calls counts for it."""
    assert shares.versions("a", "c", "--threshold", "10%", "--function", "[app]+0x4").returncode == OK


def test_shares_as_table(shares):
    rows = {line.split()[-1]: line.split() for line in shares.versions("a", "c").out.splitlines() if line.endswith((ONE, TWO))}
    assert rows[ONE] == ["10.00%", "14.00%", "+4.00", "10.00%", "14.00%", "more", ONE]
    assert rows[TWO][5] == "less"


def test_shares_as_json(shares):
    document = json.loads(shares.versions("a", "c", "--threshold", "10%", "--per-function", "--json").out)
    assert (document["verdict"], document["findings"][0]["function"], document["total"]) == ("regression", ONE, [10**12, 10**12])
    assert {row["name"]: row["means"] for row in document["functions"]} == {ONE: "more", TWO: "same", "[app]+0x4": "same"}, "at the threshold"
    assert len(json.loads(shares.versions("a", "c", "--json", "-n", "1").out)["functions"]) == 1


# ---- other sides ----

def test_ranges(fleet):
    """The same service at two times."""
    fleet.add("x", 4000, start=100)
    fleet.add("x", 6000, start=2000)

    def at(second):
        return str(UPTIME // 10**9 + second)

    def diff(*arguments):
        return outcome(fleet.cli.run("diff", "--db", fleet.db, *arguments, "--threshold", "10%"))
    early, late = ("--from", at(50), "--to", at(150)), ("--from", at(1950), "--to", at(2050))
    assert diff(*late, *[word.replace("--", "--baseline-") for word in early])[0] == REGRESSION, "later is more"
    assert diff(*early, "--baseline-from", at(1950)) == (OK, ""), "the other way round"
    assert diff(*late, "--baseline-to", at(10))[0] == NO_BASELINE, "before all"


def test_baseline_has_tags_of_its_own(fleet):
    """--tag applies to both sides, but for a key that --baseline names."""
    for device in ("x", "y"):
        fleet.add("a", 4000, device=device)
        fleet.add("b", 6000, device=device)
    for option in ("--tag", "--label"):
        done = fleet.cli.run("diff", "--db", fleet.db, "--service", "svc", option, "version=b", option, "device=x", "--baseline", '{version="a"}', "--threshold", "10%")
        assert outcome(done)[0] == REGRESSION, done.err
        assert re.findall(r"(\d+) samples", done.out)[:2] == ["4000", "6000"], "of the device alone"
        assert "version" in done.out.splitlines()[0] and "version" in done.out.splitlines()[1], "both sides say what they are of"


def test_files(fleet, cli, folder):
    for version, samples in (("a", 4000), ("b", 6000)):
        fleet.add(version, samples, 2 * samples)
        cli.run("export", "--db", fleet.db, "--service", f"svc{{version={version}}}", "-o", os.path.join(folder, version + ".pb.gz"))
    a, b = (os.path.join(folder, name) for name in ("a.pb.gz", "b.pb.gz"))

    def diff(*arguments):
        return outcome(cli.run("diff", "--threshold", "10%", *arguments))
    assert diff(a, b)[0] == REGRESSION
    assert diff(b, a) == (OK, ""), "the other way round"
    assert diff(a, b, "--per-function") == (OK, ""), "their shares are the same"
    assert diff(a, "--db", fleet.db, "--service", "svc{version=b}")[0] == REGRESSION, "a file is the baseline of a database"
    compact = os.path.join(folder, "c.edgeprof")
    with open(compact, "wb") as file:
        file.write(message_of(1, "svc", {2: 9000}))
    assert diff(a, compact, "--function", ONE)[0] == REGRESSION, "compact messages"
    assert cli.fails(NO_BASELINE, "no profile", "diff", "--kind", "gc", a, b).out == "", "a file without such profiles is no baseline"
    cli.fails(FAILED, "missing", "diff", os.path.join(folder, "missing"), b)


def test_lines(fleet, known):
    """The same share of a function, spent in other lines."""
    line, tags = marked("hot"), lambda version: [("version", version)]
    assert fleet.server.push(known.lines_of_hot(51, "svc", 5000, 5000, tags("a"))) == 200
    assert fleet.server.push(known.lines_of_hot(52, "svc", 2000, 8000, tags("b"))) == 200
    names = lambda done: [(row["name"], row["means"]) for row in json.loads(done.out)["functions"]]
    assert names(fleet.versions("a", "b", "--json")) == [("hot", "same")]
    hot, cold = f"hot {SOURCE}:{line}", f"hot {SOURCE}:{line - 1}"
    assert names(fleet.versions("a", "b", "--json", "--granularity", "function")) == [("hot", "same")]
    assert names(fleet.versions("a", "b", "--json", "--granularity", "line")) == [(hot, "more"), (cold, "less")]
    text = fleet.versions("a", "b", "--granularity", "line").out
    assert re.search(rf"50\.00% +80\.00% +\+30\.00 .* more +{re.escape(hot)}$", text, re.M), text
    judged = ("--threshold", "10%", "--granularity", "line", "--function")
    assert outcome(fleet.versions("a", "b", *judged, hot))[0] == REGRESSION, "a line can be judged"
    assert outcome(fleet.versions("a", "b", *judged, cold))[0] == OK


def test_levels(fleet):
    """What is there at a time is compared by process."""
    for version, each, count in (("a", 10000, 2), ("b", 10000, 4), ("c", 15000, 1)):
        for _ in range(count):
            fleet.add(version, each, kind=5)
    assert outcome(fleet.versions("a", "b", "--kind", "live", "--value", "value", "--threshold", "10%"))[0] in (OK, TOO_FEW), "more processes"
    document = json.loads(fleet.versions("a", "c", "--kind", "live", "--json").out)
    assert (document["processes"], round(document["growth"], 3)) == ([2, 1], 0.5)


def test_kinds(fleet):
    fleet.add("a", 100)
    fleet.add("b", 100, kind=3, service="locks")
    done = fleet.cli.run("diff", "--db", fleet.db, "--service", "locks", "--baseline", "svc")
    assert outcome(done)[0] == FAILED, "CPU time and contentions are no pair"
    assert outcome(fleet.versions("a", "a", "--kind", "lock"))[0] == NO_BASELINE, "of the kind that is asked for"


@command_lines(("no baseline given", "diff"), ("more than two", "diff", "a", "b", "c"), ("not both", "diff", "a", "--baseline", "x"),
               ("require --threshold", "diff", "a", "b", "--per-function"), ("require --threshold", "diff", "a", "b", "--function", "x"),
               ("cannot be combined", "diff", "a", "b", "--threshold", "1%", "--function", "x", "--per-function"),
               ("cannot be combined with two files", "diff", "a", "b", "--db", "x"), ("--threshold 0%", "diff", "--threshold", "0%"),
               ("--threshold x", "diff", "--threshold", "x"), ("--threshold 5x", "diff", "--threshold", "5x"),
               ("--threshold nan", "diff", "--threshold", "nan"), ("--baseline-from x", "diff", "--baseline-from", "x"),
               ("--baseline a{", "diff", "--db", "x.db", "--baseline", "a{"))
def test_wrong_usage(cli, folder, word, arguments):
    cli.fails(USAGE, word, *arguments, cwd=folder)
