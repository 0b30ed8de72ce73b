#!/usr/bin/python3
"""Waits of a program that was built without edgeprof, under `edgeprof run`: totals by class against its own stopwatches,
stacks with its functions' names, nothing at a level that does not measure waits.

usage: waits.py EDGEPROF PROGRAM WORK"""
import functools
import os
import re
import sys

from kit import absent, fail, folded, output

MOST = 5  # %
TRIES = 1  # what is off are strata of 10 ms of each thread: a loaded machine changes little
edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
tool = functools.partial(output, edgeprof, EDGEPROF_ALL_EVENTS="1")
os.makedirs(work, exist_ok=True)
db = os.path.join(work, "waits.db")


def measure(level):
    """The program's stopwatches, {class: ns}."""
    absent(db)
    out = tool("run", "--level", level, "--interval", "500", "--db", db, "--", program, work, ok=(0, 3))
    found = {name: int(ns) for name, ns in re.findall(r"^truth (\w+) (\d+)$", out, re.M)}
    if len(found) != 5:
        fail(f"the program did not come to its end\n{out}")
    return found


def stacks(kind, *options):
    text = tool("export", "--db", db, "--kind", kind, "--folded", *options, ok=(0, 3))
    return folded(text)


def worst_of(truth):
    told = {name: sum(value for frames, value in stacks("wait") if frames[-1] == f"[{name}]") for name in truth}
    off = {name: 100 * abs(told[name] - truth[name]) / truth[name] for name in truth}
    for name in truth:
        print(f"  {name:8} {told[name] / 1e6:8.0f} ms of {truth[name] / 1e6:8.0f} ms, off by {off[name]:.2f} %")
    return max(off.values())


best = 100.0
for _ in range(TRIES):
    best = min(best, worst_of(measure("high")))
    if best <= MOST:
        break
print(f"figure preload_wait_error_pct {best:.2f} %")
if best > MOST:
    fail(f"a class is off by {best:.1f} %")
for function, call, leaf in (("locks_main", "pthread_mutex_lock", "[lock]"), ("file_main", "flock", "[disk]"),
                             ("round_trips", "read", "[network]"), ("round_trips", "poll", "[network]"),
                             ("others", "waitpid", "[wait]"), ("locks_main", "nanosleep", "[sleep]")):
    if not any(function in frames and call in frames and frames[-1] == leaf for frames, _ in stacks("wait")):
        fail(f"no stack {function};...;{call};{leaf}\n" + "\n".join(";".join(frames) for frames, _ in stacks("wait")))
if any(frames[0] == "[stack cut]" for frames, _ in stacks("wait")):
    fail("a stack is cut\n" + "\n".join(";".join(frames) for frames, _ in stacks("wait")))
if any("own_main" in frames for frames, _ in stacks("wait")):
    fail("edgeprof's own threads wait")
if any("free_locks" in frames for frames, _ in stacks("lock")):
    fail("locks that nobody holds are waits")
contentions = sum(value for _, value in stacks("lock", "--value", "count"))
if contentions < 100 or sum(value for _, value in stacks("lock")) == 0:
    fail(f"{contentions} contentions")
measure("low")
if stacks("wait") or stacks("lock"):
    fail("level low measures waits")
print(f"waits.py: five classes within {best:.2f} % of the program's stopwatches, {contentions} contentions")
