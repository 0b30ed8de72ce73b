"""`edgeprof diff`: what it says, and that its exit codes are right: a regression, none, no baseline, too few samples.
Usage: cli_diff_test.py EDGEPROF_WITH_SANITIZERS"""
import json
import os
import re
import sys
import tempfile

from cli import Cli, message_of
from generate import message, module, nodes, origin, profile
from harness import Checks, Server

PROGRAM = os.path.abspath(sys.argv[1])
check = Checks()
cli = Cli(PROGRAM, check)
OK, FAILED, USAGE, NO_DATA, REGRESSION, NO_BASELINE, TOO_FEW = 0, 1, 2, 3, 4, 5, 6
UPTIME = 1_700_000_000_000_000_000
ONE, TWO = "[app]+0x68", "[app]+0xcc"


class Fleet:
    """A server with processes of one service, each with a version, samples of two functions, and a time."""

    def __init__(self, folder, name):
        self.db = os.path.join(folder, name)
        self.server, self.segment = Server(PROGRAM, self.db), 0

    def add(self, version, one, two=0, seconds=1, start=1, device=None, kind=1, service="svc"):
        self.segment += 1
        tags = [("version", version)] + ([("device", device)] if device else [])
        body = message(self.segment, 0, origin(service, tags=tags, pid=self.segment, start=self.segment),
                       [module(4096, 65536, 0, b"\7" * 20, "[app]")], nodes([0, 1, 2], [4100, 4200, 4300]),
                       [profile({2: one, 3: two} if two else {2: one}, start=start * 10**9, duration=seconds * 10**9, kind=kind)])
        check.equal(self.server.push(body), 200, "taken")

    def versions(self, before, after, *arguments, **options):
        return cli.run("diff", "--db", self.db, "--service", f'svc{{version="{after}"}}', "--baseline", f'{{version="{before}"}}', *arguments, **options)


def outcome(done):
    """(code, the one line)"""
    lines = [line for line in done.err.splitlines() if line.startswith("edgeprof: diff: ")]
    check(len(lines) == (done.returncode != 0), f"one line when the code is not 0: {done.returncode} {done.err}")
    return done.returncode, lines[0] if lines else ""


def totals(folder):
    """All together, per second that processes ran."""
    fleet = Fleet(folder, "totals.db")
    for version, samples in (("base", 4000), ("same", 4050), ("less", 2000), ("more", 5200), ("bit", 4120), ("few", 12), ("few2", 13)):
        fleet.add(version, samples)
    for before, after, threshold, code in (("base", "same", "10%", OK), ("base", "more", "10%", REGRESSION), ("base", "more", "50%", OK),
                                           ("base", "less", "10%", OK), ("more", "base", "10%", OK), ("less", "base", "90", REGRESSION),
                                           ("few", "few2", "10%", TOO_FEW), ("base", "bit", "4%", TOO_FEW), ("few", "few2", "10000%", OK),
                                           ("none", "base", "10%", NO_BASELINE), ("base", "none", "10%", NO_DATA)):
        got, line = outcome(fleet.versions(before, after, "--threshold", threshold))
        check.equal(got, code, f"{before} -> {after}, {threshold}: {line}")
    check("+30.0 %" in outcome(fleet.versions("base", "more", "--threshold", "10%"))[1], "the line says by how much")
    check.equal(fleet.versions("base", "more").returncode, OK, "without a threshold nothing is judged")
    check.equal(fleet.versions("none", "more").returncode, NO_BASELINE, "but that there is no baseline is said")
    stop(fleet)


def processes(folder):
    """More processes, or longer, or restarts, are no regression; more of each is."""
    fleet = Fleet(folder, "processes.db")
    fleet.add("one", 4000, seconds=10)
    for device in range(5):
        fleet.add("five", 4000, seconds=10, device=f"pi-{device}")
    fleet.add("long", 12000, seconds=30)
    fleet.add("restarted", 2000, seconds=5)
    fleet.add("restarted", 2000, seconds=5, start=6)
    for other in ("five", "long", "restarted"):
        for before, after in (("one", other), (other, "one")):
            check.equal(outcome(fleet.versions(before, after, "--threshold", "10%")), (OK, ""), f"{before} -> {after}")
    fleet.add("busy", 6000, seconds=10)
    check.equal(outcome(fleet.versions("five", "busy", "--threshold", "10%"))[0], REGRESSION, "one busier process")
    narrow = fleet.versions("five", "five", "--threshold", "10%", "--tag", "device=pi-1", "--json")
    check.equal(json.loads(narrow.out)["seconds"], [10, 10], "--tag is of both sides")
    url = ("--url", fleet.server.url, "--service", 'svc{version="busy"}', "--baseline", '{version="five"}', "--threshold", "10%", "--json")
    there, here = cli.run("diff", *url), fleet.versions("five", "busy", "--threshold", "10%", "--json")
    check.equal((there.returncode, json.loads(there.out)), (REGRESSION, json.loads(here.out)), "a server says the same")
    stop(fleet)


def how_many_would_do(folder):
    """The number in the line is the right one: with it the question is answered, with a little less it is not."""
    fleet = Fleet(folder, "needed.db")
    fleet.add("a", 40, 40)
    fleet.add("b", 40, 40)
    for name, arguments in (("total", []), ("function", ["--function", ONE]), ("each", ["--per-function"])):
        code, line = outcome(fleet.versions("a", "b", "--threshold", "10%", *arguments))
        number = int(re.search(r"there are 80 and 80 samples, about (\d+) on either side would do", line)[1])
        check.equal(code, TOO_FEW, f"{name}: {line}")
        half = number // 2 + 1
        for version, samples, wanted in ((f"enough-{name}", half, OK), (f"less-{name}", int(half * 0.95), TOO_FEW)):
            for side in ("before", "after"):
                fleet.add(f"{version}-{side}", samples, samples)
            got = outcome(fleet.versions(f"{version}-before", f"{version}-after", "--threshold", "10%", *arguments))
            check.equal(got[0], wanted, f"{name} with {samples} of {number} samples of each: {got[1]}")
    stop(fleet)


def functions(folder):
    """Shares: what one has more the others have less."""
    fleet = Fleet(folder, "functions.db")
    fleet.add("a", 10000, 90000)
    fleet.add("b", 14000, 126000)
    fleet.add("c", 14000, 86000)
    fleet.add("few", 3, 17)
    for before, after, arguments, code in (
            ("a", "b", ["--per-function"], OK), ("a", "b", ["--function", ONE], OK), ("a", "c", ["--per-function"], REGRESSION),
            ("a", "c", ["--function", ONE], REGRESSION), ("a", "c", ["--function", TWO], OK), ("a", "c", ["--function", TWO, "--function", ONE], REGRESSION),
            ("c", "a", ["--function", ONE], OK), ("a", "few", ["--per-function"], TOO_FEW), ("a", "few", ["--function", ONE], TOO_FEW),
            ("none", "a", ["--per-function"], NO_BASELINE), ("a", "none", ["--function", ONE], NO_DATA), ("a", "c", ["--function", "missing"], FAILED)):
        got, line = outcome(fleet.versions(before, after, "--threshold", "10%", *arguments))
        check.equal(got, code, f"{before} -> {after} {arguments}: {line}")
    line = outcome(fleet.versions("a", "c", "--threshold", "10%", "--per-function"))[1]
    check(ONE in line and "10.00 % -> 14.00 %" in line, f"which one, and how: {line}")
    # the caller of both has all: its share cannot grow, that of what it calls counts for it
    check.equal(fleet.versions("a", "c", "--threshold", "10%", "--function", "[app]+0x4").returncode, OK, "with all that it calls")
    table = fleet.versions("a", "c").out.splitlines()
    row = next(line.split() for line in table if line.endswith(ONE))
    check.equal(row, ["10.00%", "14.00%", "+4.00%", "10.00%", "14.00%", "more", ONE], "the table")
    check.equal(next(line.split()[5] for line in table if line.endswith(TWO)), "less", "and what has less")
    document = json.loads(fleet.versions("a", "c", "--threshold", "10%", "--per-function", "--json").out)
    check.equal((document["verdict"], document["findings"][0]["function"], document["total"]), ("regression", ONE, [10**12, 10**12]), "as JSON")
    check.equal({row["name"]: row["means"] for row in document["functions"]}, {ONE: "more", TWO: "same", "[app]+0x4": "same"}, "rows, at the threshold")
    check.equal(len(json.loads(fleet.versions("a", "c", "--json", "-n", "1").out)["functions"]), 1, "-n")
    stop(fleet)


def ranges(folder):
    """The same service at two times."""
    fleet = Fleet(folder, "ranges.db")
    fleet.add("x", 4000, start=100)
    fleet.add("x", 6000, start=2000)

    def at(second):
        return str(UPTIME // 10**9 + second)
    early, late = ("--from", at(50), "--to", at(150)), ("--from", at(1950), "--to", at(2050))
    before = [word.replace("--", "--baseline-") for word in early]
    check.equal(outcome(cli.run("diff", "--db", fleet.db, *late, *before, "--threshold", "10%"))[0], REGRESSION, "later is more")
    check.equal(outcome(cli.run("diff", "--db", fleet.db, *early, "--baseline-from", at(1950), "--threshold", "10%")), (OK, ""), "the other way round")
    check.equal(outcome(cli.run("diff", "--db", fleet.db, *late, "--baseline-to", at(10), "--threshold", "10%"))[0], NO_BASELINE, "before all")
    stop(fleet)


def files(folder):
    fleet = Fleet(folder, "files.db")
    for version, samples in (("a", 4000), ("b", 6000)):
        fleet.add(version, samples, 2 * samples)
        cli.run("export", "--db", fleet.db, "--service", f"svc{{version={version}}}", "-o", os.path.join(folder, version + ".pb.gz"))
    a, b = (os.path.join(folder, name) for name in ("a.pb.gz", "b.pb.gz"))
    check.equal(outcome(cli.run("diff", a, b, "--threshold", "10%"))[0], REGRESSION, "two files")
    check.equal(outcome(cli.run("diff", "--threshold", "10%", b, a)), (OK, ""), "the other way round")
    check.equal(outcome(cli.run("diff", a, b, "--threshold", "10%", "--per-function")), (OK, ""), "their shares are the same")
    check.equal(outcome(cli.run("diff", a, "--db", fleet.db, "--service", "svc{version=b}", "--threshold", "10%"))[0], REGRESSION, "a file is the baseline of a database")
    compact = os.path.join(folder, "c.edgeprof")
    with open(compact, "wb") as file:
        file.write(message_of(1, "svc", {2: 9000}))
    check.equal(outcome(cli.run("diff", a, compact, "--threshold", "10%", "--function", ONE))[0], REGRESSION, "compact messages")
    check.equal(cli.fails(NO_BASELINE, "no profile", "diff", "--kind", "gc", a, b).out, "", "a file without such profiles is no baseline")
    cli.fails(FAILED, "missing", "diff", os.path.join(folder, "missing"), b)
    stop(fleet)


def levels(folder):
    """What is there at a time is compared by process."""
    fleet = Fleet(folder, "levels.db")
    for version, each, count in (("a", 10000, 2), ("b", 10000, 4), ("c", 15000, 1)):
        for _ in range(count):
            fleet.add(version, each, kind=5)
    check.equal(outcome(fleet.versions("a", "b", "--kind", "live", "--value", "value", "--threshold", "10%"))[0] in (OK, TOO_FEW), True, "more processes")
    document = json.loads(fleet.versions("a", "c", "--kind", "live", "--json").out)
    check.equal((document["processes"], round(document["growth"], 3)), ([2, 1], 0.5), "by process")
    stop(fleet)


def kinds(folder):
    fleet = Fleet(folder, "kinds.db")
    fleet.add("a", 100)
    fleet.add("b", 100, kind=3, service="locks")
    done = cli.run("diff", "--db", fleet.db, "--service", "locks", "--baseline", "svc")
    check.equal(outcome(done)[0], FAILED, "CPU time and contentions are no pair")
    check.equal(outcome(fleet.versions("a", "a", "--kind", "lock"))[0], NO_BASELINE, "of the kind that is asked for")
    stop(fleet)


def wrong_usage(folder):
    for word, *arguments in (("with what", "diff"), ("more than two", "diff", "a", "b", "c"), ("not both", "diff", "a", "--baseline", "x"),
                             ("want --threshold", "diff", "a", "b", "--per-function"), ("want --threshold", "diff", "a", "b", "--function", "x"),
                             ("exclude", "diff", "a", "b", "--threshold", "1%", "--function", "x", "--per-function"), ("two files are all", "diff", "a", "b", "--db", "x"),
                             ("--threshold 0%", "diff", "--threshold", "0%"), ("--threshold x", "diff", "--threshold", "x"), ("--threshold 5x", "diff", "--threshold", "5x"),
                             ("--threshold nan", "diff", "--threshold", "nan"), ("--baseline-from x", "diff", "--baseline-from", "x"),
                             ("--baseline a{", "diff", "--db", "x.db", "--baseline", "a{")):
        cli.fails(USAGE, word, *arguments, cwd=folder)


def stop(fleet):
    check.equal(fleet.server.stop(), 0, "server")


with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder_:
    wrong_usage(folder_)
    for part in (totals, processes, how_many_would_do, functions, ranges, files, levels, kinds):
        part(folder_)
check.done("test-tools-diff")
