#!/usr/bin/python3
"""Memory that a C program allocates, under `edgeprof run --native-memory`: bytes in use and bytes allocated of each of its
sites against its own counters.

usage: memory.py EDGEPROF PROGRAM WORK [RUNS] [LINKED...]
LINKED: the same program with the profiler and its memory hooks linked in, each run once.
A sample stands for a stratum of 512 KiB, so the standard error of a site with B bytes in few blocks is at most
sqrt(B * 512 KiB), that of independent draws. A run with another seed is another process. Each site must be within 4.5 (5
in a single run of many) standard errors, and its mean over all runs within 3 of the mean (4.5 if there are few runs: by
chance one of many sites is beyond 3)."""
import functools
import math
import os
import re
import subprocess
import sys

from kit import absent, fail, folded, output

DISTANCE = 512 * 1024
RUNS = 2
MAPPED = ("mapped", "cut", "remapped")
edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
tool = functools.partial(output, edgeprof, EDGEPROF_ALL_EVENTS="1")
runs = int(sys.argv[4]) if len(sys.argv) > 4 else RUNS
linked = [os.path.abspath(path) for path in sys.argv[5:]]
os.makedirs(work, exist_ok=True)
db = os.path.join(work, "memory.db")
problems = []


def clear():
    absent(db)


def run(*options):
    """The program's counters, {(kind, site): bytes}."""
    clear()
    return counters(tool("run", "--db", db, *options, "--", program))


def run_linked(path):
    """Its counters. `run` cannot profile a static program, so it sends to a server."""
    clear()
    server = subprocess.Popen([edgeprof, "serve", "--listen", "127.0.0.1:0", "--db", db], stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://[0-9.:]+", server.stdout.readline())[0]
        env = {**os.environ, "EDGEPROF_ENDPOINT": url, "EDGEPROF_KINDS": "cpu,alloc,live", "EDGEPROF_ALL_EVENTS": "1"}
        done = subprocess.run([path], capture_output=True, text=True, env=env)
    finally:
        server.terminate()
        server.wait(20)
    if done.returncode != 0 or done.stderr:
        fail(f"{path}: {done.returncode} {done.stderr}")
    return counters(done.stdout)


def counters(out):
    found = {(kind, site): int(count) for kind, site, count in re.findall(r"^(live|alloc) (\w+) (\d+)$", out, re.M)}
    if len(found) != 20:
        fail(f"the program did not come to its end\n{out}")
    return found


def stacks(kind):
    text = tool("export", "--kind", kind, "--folded", "--db", db, ok=(0, 3))
    return folded(text)


def measured():
    """{(kind, site): bytes}: the leaf of a stack is the function that called the allocator. That of a mapping is [mmap]."""
    found = {}
    for kind in ("live", "alloc"):
        for frames, value in stacks(kind):
            is_mapping = frames[-1] == "[mmap]"
            while frames[-1] in ("[mmap]", "map"):
                frames.pop()
            if is_mapping != (frames[-1] in MAPPED):
                fail(f"{frames}: {'no ' * is_mapping}mapping")
            found[kind, frames[-1]] = found.get((kind, frames[-1]), 0) + value
    return found


def bound(truth, count):
    return math.sqrt(truth * DISTANCE / count) + 1


def compare(what, truth, told, most):
    """Each site within `most` standard errors, and no other site. Returns the largest distance."""
    worst = 0.0
    others = sorted({key for key in told if key not in truth})
    if any(told[key] > 4 * DISTANCE for key in others):
        fail(f"{what}: sites that are not the program's: {[(key, told[key]) for key in others]}")
    for key, count in truth.items():
        off = (told.get(key, 0) - count) / bound(count, 1)
        worst = max(worst, abs(off))
        if abs(off) > most:
            problems.append(f"{what}: {key}: {told.get(key, 0)} of {count} bytes, {off:.1f} standard errors")
    # run_sites() has one block of its own, which is counted exactly.
    total, exact = (sum(value for key, value in one.items() if key[0] == "alloc" and key[1] != "run_sites") for one in (told, truth))
    if abs(total - exact) > 2 * (2 * DISTANCE + 65536):  # in each thread two strata, and what it allocated before the start
        problems.append(f"{what}: {total} of {exact} bytes allocated in all")
    return worst


sums, told_sums, worst = {}, {}, 0.0
for i in range(runs):
    truth = run("--native-memory", *(("--level", "low") if i % 2 else ()))
    told = measured()
    worst = max(worst, compare(f"run {i}", truth, told, 4.5 if runs <= RUNS else 5))
    for key, count in truth.items():
        sums[key] = sums.get(key, 0) + count
        told_sums[key] = told_sums.get(key, 0) + told.get(key, 0)
for key, count in sums.items():
    off = (told_sums[key] - count) / runs / bound(count / runs, runs)
    print(f"  {key[0]:5} {key[1]:8} {count / runs / 1e6:7.1f} MB, measured {told_sums[key] / runs / 1e6:7.1f} MB, {off:5.2f} standard errors")
    if abs(off) > (4.5 if runs <= RUNS else 3):
        problems.append(f"{key}: the mean of {runs} runs is off by {off:.1f} standard errors")
for path in linked:
    forked = subprocess.run([path, "fork"], capture_output=True, text=True, env={**os.environ, "EDGEPROF_ENDPOINT": f"file://{work}/fork", "EDGEPROF_KINDS": "alloc,live"})
    if forked.returncode != 0 or forked.stderr or forked.stdout.count("live by_") != 2:
        problems.append(f"{path} fork: {forked.returncode} {forked.stdout}{forked.stderr}")
    truth = run_linked(path)
    distance = compare(os.path.basename(path), truth, measured(), 4)
    print(f"  {os.path.basename(path)}: each site within {distance:.2f} standard errors")
if problems:
    fail("\n".join(problems))
run()
if stacks("live") or stacks("alloc"):
    fail("without --native-memory allocations are measured")
print(f"memory.py: {runs} runs, each site within {worst:.2f} standard errors of the program's counters")
