#!/usr/bin/python3
"""Waits inside of the C library's functions, by syscall(), and those that a jump or unwinding leaves, under `edgeprof run`,
against the program's stopwatch. A function's wait is a stratum of 10 ms off at most, and 10 %; one that nobody marks, the
pause between two looks. No idle wait is a wait.

usage: inside.py EDGEPROF PROGRAM WORK WAITS [SLACK_MS]"""
import functools
import os
import platform
import re
import sys

from kit import absent, fail, output

edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
least = int(sys.argv[4]) - (platform.machine() != "x86_64")
slack = float(sys.argv[5]) * 1e6 if len(sys.argv) > 5 else 1e7
tool = functools.partial(output, edgeprof, EDGEPROF_ALL_EVENTS="1")
db = absent(os.path.join(work, "inside.db"))


out = tool("run", "--level", "high", "--no-fork", "--skip", "sh", "--skip", "sleep", "--db", db, "--", program)
truth = {name: int(ns) for name, ns in re.findall(r"^wait (\w+) (\d+)$", out, re.M)}
if platform.machine() != "x86_64":
    for name in ("in_futex", "in_atomic"):
        truth.pop(name, None)  # syscall() is followed on x86-64 only
told = dict.fromkeys(truth, 0)
for line in tool("export", "--kind", "wait", "--folded", "--db", db).splitlines():
    path, value = line.rsplit(" ", 1)
    if ";idle;" in path:
        fail(line)
    for name in set(path.split(";")) & set(truth):
        told[name] += int(value)
wrong = [name for name, ns in truth.items() if abs(told[name] - ns) > slack + ns / 10]
for name, ns in truth.items():
    print(f"  {name:14} {told[name] / 1e6:5.0f} ms of {ns / 1e6:5.0f} ms")
if wrong or len(truth) < least:
    fail(f"{wrong}\n{out}")
