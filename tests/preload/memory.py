#!/usr/bin/python3
"""Memory that a C program allocates, under `edgeprof run --native-memory`: bytes in use and bytes allocated of each of its
sites against its own counters.

usage: memory.py EDGEPROF PROGRAM WORK [RUNS]
A sample stands for a stratum of 512 KiB, so the standard error of a site with B bytes in few blocks is at most
sqrt(B * 512 KiB), that of independent draws. A run with another seed is another process. Each site must be within 3 (5
in a single run of many) standard errors, and its mean over all runs within 3 of the mean."""
import math
import os
import re
import subprocess
import sys

DISTANCE = 512 * 1024
RUNS = 2
edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
runs = int(sys.argv[4]) if len(sys.argv) > 4 else RUNS
os.makedirs(work, exist_ok=True)
db = os.path.join(work, "memory.db")
problems = []


def fail(text):
    sys.exit(f"memory.py: {text}")


def tool(*arguments, ok=(0,)):
    done = subprocess.run([edgeprof, *arguments], capture_output=True, text=True, env={**os.environ, "EDGEPROF_ALL_EVENTS": "1"})
    if done.returncode not in ok:
        fail(f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def run(*options):
    """The program's counters, {(kind, site): bytes}."""
    for ending in ("", "-wal", "-shm"):
        if os.path.exists(db + ending):
            os.remove(db + ending)
    out = tool("run", "--db", db, *options, "--", program)
    found = {(kind, site): int(count) for kind, site, count in re.findall(r"^(live|alloc) (\w+) (\d+)$", out, re.M)}
    if len(found) != 14:
        fail(f"the program did not come to its end\n{out}")
    return found


def stacks(kind):
    text = tool("export", "--db", db, "--kind", kind, "--folded", ok=(0, 3))
    return [(path.split(";"), int(value)) for path, value in (line.rsplit(" ", 1) for line in text.splitlines())]


def measured():
    """{(kind, site): bytes}: the leaf of a stack is the function that called the allocator."""
    found = {}
    for kind in ("live", "alloc"):
        for frames, value in stacks(kind):
            found[kind, frames[-1]] = found.get((kind, frames[-1]), 0) + value
    return found


def bound(truth, count):
    return math.sqrt(truth * DISTANCE / count) + 1


sums, told_sums, worst = {}, {}, 0.0
for i in range(runs):
    truth = run("--native-memory", *(("--level", "low") if i % 2 else ()))
    told = measured()
    others = sorted({key for key in told if key not in truth})
    if any(told[key] > 4 * DISTANCE for key in others):
        fail(f"sites that are not the program's: {[(key, told[key]) for key in others]}")
    for key, count in truth.items():
        off = (told.get(key, 0) - count) / bound(count, 1)
        worst = max(worst, abs(off))
        if abs(off) > (3 if runs <= RUNS else 5):
            problems.append(f"run {i}: {key}: {told.get(key, 0)} of {count} bytes, {off:.1f} standard errors")
        sums[key] = sums.get(key, 0) + count
        told_sums[key] = told_sums.get(key, 0) + told.get(key, 0)
    total, exact = (sum(value for key, value in one.items() if key[0] == "alloc") for one in (told, truth))
    if abs(total - exact) > 2 * (2 * DISTANCE + 65536):  # in each thread two strata, and what it allocated before the start
        problems.append(f"run {i}: {total} of {exact} bytes allocated in all")
for key, count in sums.items():
    off = (told_sums[key] - count) / runs / bound(count / runs, runs)
    print(f"  {key[0]:5} {key[1]:8} {count / runs / 1e6:7.1f} MB, measured {told_sums[key] / runs / 1e6:7.1f} MB, {off:5.2f} standard errors")
    if abs(off) > 3:
        problems.append(f"{key}: the mean of {runs} runs is off by {off:.1f} standard errors")
if problems:
    fail("\n".join(problems))
run()
if stacks("live") or stacks("alloc"):
    fail("without --native-memory allocations are measured")
print(f"memory.py: {runs} runs, each site within {worst:.2f} standard errors of the program's counters")
