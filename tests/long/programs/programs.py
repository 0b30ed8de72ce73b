#!/usr/bin/python3
"""Real programs under `edgeprof run --level high`: each must end, say and decide as it does without.

usage: programs.py [--jobs N] TOOLS [ROW...]        TOOLS: a folder with edgeprof, edgeprof-real, libedgeprof-preload.so, stopwatch, work, linked

Prints a table, and below it what differs. Columns: CPU time that processes account for, of what getrusage says of the program and of
all its children that it waited for; and the share of that with whole stacks. A test of CPython's that differs is run again, and counts
as a difference when it does so three times; so is a row that says "again". Exit codes: 0 no difference, 1 differences, 2 wrong usage."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import kit
import rows_programs
import rows_python
import rows_runtimes
import rows_servers

DEFAULT = {**rows_python.ROWS, **rows_servers.ROWS, **rows_programs.ROWS, **rows_runtimes.ROWS}
ROWS = {**DEFAULT, **rows_python.MORE}
ROUNDS = 2  # more, of tests that differ
LEAST = 90  # % of the CPU time that a profile accounts for, where the row says nothing else
GRACE = 60  # s; the job itself gives up before
BUSY = 4  # times the seconds of a row: other jobs may have the processors
MOST_AGAIN = 40  # tests that are run again; when more differ it is no chance


# ---- one run of one row, in a process of its own ----

def job(name, profiled, tools, work, only):
    def late(*_):
        raise kit.Timeout()
    row = ROWS[name]
    run = kit.Run(name, profiled, tools, work, getattr(row, "witness", "less"))
    kit.adopt()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(BUSY * row.seconds)
    try:
        result = row(run, only) if only else row(run)
    except kit.Timeout:
        result = {"exit status": "timeout", "summary": f"not at its end after {BUSY * row.seconds} s", "tests": rows_python.outcomes(run.work / "results")}
    except kit.Differs as why:
        err = pathlib.Path(work, "output.err")
        last = err.read_text(errors="replace").strip().splitlines()[-4:] if err.exists() else []
        result = {"exit status": "failed", "summary": str(why), "why": " / ".join([str(why), *last])}
    signal.alarm(0)
    result["left behind"] = kit.end_all() > 0
    result["remarks"], result["witness"] = run.remarks, run.wrong
    total, whole = run.figures() if profiled else (0, 0)
    result["figures"] = {"used": run.cpu_ns(), "told": total, "whole": whole}
    pathlib.Path(work, "result.json").write_text(json.dumps(result))


def start_job(name, profiled, tools, scratch, only=()):
    work = tempfile.mkdtemp(prefix=f"{name}-", dir=scratch)
    os.chmod(work, 0o755)
    process = subprocess.Popen([sys.executable, __file__, "--job", name, "with" if profiled else "without", tools, work, *only],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, err = process.communicate(timeout=BUSY * ROWS[name].seconds + GRACE)
    except subprocess.TimeoutExpired:
        kit.end_all(process.pid)
        process.kill()
        _, err = process.communicate()
    path = pathlib.Path(work, "result.json")
    result = json.loads(path.read_text()) if path.exists() else {"exit status": "failed", "summary": err.strip()[-200:], "figures": {}}
    shutil.rmtree(work, ignore_errors=True)
    return result


# ---- comparing ----

NO_RESULT = ("figures", "summary", "tests", "remarks", "witness")


def differing_tests(without, with_):
    one, other = without.get("tests", {}), with_.get("tests", {})
    return {test: (one.get(test, "missing"), other.get(test, "missing")) for test in sorted({*one, *other}) if one.get(test) != other.get(test)}


def differences(without, with_):
    found = []
    # What did not come to its end has no results to compare.
    keys = without.keys() | with_.keys() if "failed" not in (without["exit status"], with_["exit status"]) else {"exit status", "why"}
    for key in sorted(keys - {*NO_RESULT}):
        if without.get(key) != with_.get(key):
            found.append(f"{key}: {shown(key, without.get(key))} -> {shown(key, with_.get(key))}")
    tests = differing_tests(without, with_)
    never = [test for test, (_, other) in tests.items() if other == "missing"]
    for test in never[1:]:
        del tests[test]
    found += [f"{test}: {one} -> {other}" for test, (one, other) in tests.items()]
    if never[1:]:
        found.append(f"and {len(never) - 1} more tests are missing")
    for result, words in ((without, "without"), (with_, "with")):
        if result["exit status"] == "timeout":
            found.append(f"not at its end in time, {words}")
    return found


def shown(key, value):
    if key == "exit status" and isinstance(value, int) and value > 128:
        return f"{value} ({signal.strsignal(value - 128)})"
    text = " ".join((value if isinstance(value, str) else json.dumps(value)).split())
    return text if len(text) < 300 else f"{text[:140]} ... {text[-140:]}"


def profile_differences(row, with_):
    told, used, whole = (with_["figures"].get(name, 0) for name in ("told", "used", "whole"))
    least, least_whole = getattr(row, "least", LEAST), getattr(row, "whole", 0)
    if told == 0 and least:
        return ["edgeprof has no profile: " + " / ".join(with_.get("remarks", []))]
    found = with_.get("witness", [])
    found += [f"edgeprof accounts for {percent(told, used)} of the CPU time, less than {least} %"] if 100 * told < least * used else []
    if 100 * whole < least_whole * told:
        found.append(f"{percent(whole, told)} of the CPU time has whole stacks, less than {least_whole} %")
    return found


def by_chance(again, without, with_):
    """Tests that do not differ each time are taken out of both. Their names, with what edgeprof's run said of them first."""
    first = differing_tests(without, with_)
    steady = differing_tests(without, with_)
    unsteady = set()
    for _ in range(ROUNDS):
        names = sorted(name for name in steady if name.startswith("test."))
        if not names or len(names) > MOST_AGAIN:
            break
        one, other = again(False, names), again(True, names)
        still = differing_tests(one, other)
        for test in names:
            if test not in still and one["tests"].get(test) is not None:
                unsteady.add(test)
                steady.pop(test)
    for test in unsteady:
        without["tests"].pop(test, None)
        with_["tests"].pop(test, None)
    if unsteady and not steady and with_["exit status"] == 1:
        with_["exit status"] = without["exit status"] = 0
    return [f"{test}: {' -> '.join(first[test])}" for test in sorted(unsteady)]


def row_of(name, jobs, tools, scratch):
    run = lambda profiled, only=(): jobs.submit(start_job, name, profiled, tools, scratch, only)
    one, other = run(False), run(True)
    without, with_ = one.result(), other.result()
    unsteady = by_chance(lambda profiled, only: run(profiled, only).result(), without, with_) if "tests" in without and "tests" in with_ else []
    compared = lambda: differences(without, with_) + profile_differences(ROWS[name], with_)
    found = compared()
    for _ in range(getattr(ROWS[name], "again", 0)):
        if found:
            unsteady += found
            with_ = run(True).result()
            found = compared()
    return {"name": name, "without": without, "with": with_, "differences": found, "unsteady": [] if found else unsteady}


# ---- the table ----

def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def print_table(rows):
    print(f"{'program':33} | {'without':44} | {'with':44} | {'differences':18} | {'CPU accounted':13} | whole stacks")
    for row in rows:
        figures = row["with"]["figures"]
        verdict = (str(len(row["differences"])) if row["differences"] else "none") + (f" ({len(row['unsteady'])} by chance)" if row["unsteady"] else "")
        print(f"{row['name']:33} | {row['without']['summary'][:44]:44} | {row['with']['summary'][:44]:44} | {verdict:18} |"
              f" {percent(figures.get('told', 0), figures.get('used', 0)):>13} | {percent(figures.get('whole', 0), figures.get('told', 0)):>12}")
    for row in rows:
        for line in row["differences"][:40]:
            print(f"{row['name']}: {line}")
        if len(row["differences"]) > 40:
            print(f"{row['name']}: and {len(row['differences']) - 40} more")
        for line in row["unsteady"]:
            print(f"{row['name']}: by chance, {line}")


def main():
    if sys.argv[1:2] == ["--job"]:
        job(sys.argv[2], sys.argv[3] == "with", sys.argv[4], sys.argv[5], sys.argv[6:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5, help="runs at the same time; most of them sleep")
    parser.add_argument("tools")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    arguments = parser.parse_args()
    wrong = [name for name in arguments.rows if name not in ROWS]
    if wrong:
        parser.error(f"there is no row {wrong[0]}; rows: {', '.join(ROWS)}")
    start = time.monotonic()
    # Other users run from here, too: a tree may be where they cannot read.
    with tempfile.TemporaryDirectory(prefix="edgeprof-programs-") as scratch:
        os.chmod(scratch, 0o755)
        tools = os.path.join(scratch, "tools")
        os.mkdir(tools, 0o755)
        for name in ("edgeprof", "edgeprof-real", "libedgeprof-preload.so", "stopwatch", "work", "linked"):
            shutil.copy(os.path.join(arguments.tools, name), tools)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as jobs, concurrent.futures.ThreadPoolExecutor(len(ROWS)) as waiting:
            rows = []
            for done in [waiting.submit(row_of, name, jobs, tools, scratch) for name in arguments.rows or DEFAULT]:
                rows.append(done.result())
                print(f"{rows[-1]['name']}: {len(rows[-1]['differences']) or 'no'} differences", file=sys.stderr, flush=True)
    print_table(rows)
    bad = [row["name"] for row in rows if row["differences"]]
    print(f"test-programs: {len(rows)} programs in {time.monotonic() - start:.0f} s, {len(bad)} differ: {', '.join(bad) or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
