#!/usr/bin/python3
"""Native memory of a C program that leaks, that forks, that has more blocks than can be followed, that exchanges blocks
between threads, and that has another allocator.

usage: memory_programs.py EDGEPROF PROGRAM WORK [MILLIONS ONE_IN]
With MILLIONS: only the leak, of 100 bytes in ONE_IN allocations, at the rate that users have."""
import ctypes.util
import functools
import math
import os
import re
import sys

from kit import absent, fail, output

DISTANCE = 512 * 1024
ALLOCATORS = ("jemalloc", "tcmalloc_minimal")
edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
tool = functools.partial(output, edgeprof)
os.makedirs(work, exist_ok=True)
db = os.path.join(work, "memory.db")


def run(*arguments, **variables):
    """The program's counters, {site: bytes in use}; the same as measured."""
    absent(db)
    out = tool("run", "--db", db, "--native-memory", "--", program, *arguments, **variables)
    truth = {site: int(count) for site, count in re.findall(r"^live (\w+) (\d+)$", out, re.M)}
    text = tool("export", "--db", db, "--kind", "live", "--folded")
    told = {}
    for path, value in (line.rsplit(" ", 1) for line in text.splitlines()):
        frames = path.split(";")
        while frames[-1] in ("[mmap]", "map"):
            frames.pop()
        told[frames[-1]] = told.get(frames[-1], 0) + int(value)
    return truth, told


def close(what, truth, told, distance=DISTANCE):
    for site, count in truth.items():
        off = (told.get(site, 0) - count) / (math.sqrt(count * distance) + 1)
        if abs(off) > 4:
            fail(f"{what}: {site}: {told.get(site, 0)} of {count} bytes, {off:.1f} standard errors")


def leak(millions, one_in, **variables):
    """Its name has the most bytes, and nothing else has a part that a person would look at."""
    truth, told = run("leak", millions, one_in, **variables)
    rest = sum(told.values()) - told.get("planted", 0)
    print(f"  leak of 100 bytes in {one_in} allocations: {told.get('planted', 0)} of {truth['planted']} bytes, others {rest}")
    if told.get("planted", 0) < truth["planted"] / 4 or rest > told["planted"] / 4:
        fail(f"the leak is not named: {told}")


if len(sys.argv) > 4:
    leak(*sys.argv[4:6])
    sys.exit(0)
leak("40", "1000", EDGEPROF_ALL_EVENTS="1")
parts = run("fork", EDGEPROF_ALL_EVENTS="1")
print(f"  fork: {parts[1]} of {parts[0]}")
close("fork", *parts)
for form in ("full", "threads"):
    for variables in ({"EDGEPROF_ALL_EVENTS": "1"}, {}):
        truth, told = run(form, **variables)
        print(f"  {form}: {told} of {truth}")
        # more than 4,096 places: the table is thinned, and what remains stands for at most 2 * 600,000 * 15,000 / 4,096
        close(form, truth, told, 8 * DISTANCE if form == "full" else 4 * DISTANCE)
        if form == "full" and abs(sum(told.values()) / sum(truth.values()) - 1) > 0.1:
            fail(f"full: {told} of {truth}")
ran = []
for allocator in ALLOCATORS:
    name = ctypes.util.find_library(allocator)
    if not name:
        print(f"  {allocator} is not installed")
        continue
    close(allocator, *run(LD_PRELOAD=name, EDGEPROF_ALL_EVENTS="1"))
    ran.append(allocator)
if not ran:
    print("SKIPPED: neither jemalloc nor tcmalloc is installed")
print(f"memory_programs.py: the leak is named; right in a forked child, of many blocks and threads, and with {' and '.join(ran)}")
