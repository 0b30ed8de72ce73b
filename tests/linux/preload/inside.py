#!/usr/bin/python3
"""Waits inside of the C library's functions, by syscall(), and one that a jump leaves, under `edgeprof run`, against the program's
stopwatch. A function's wait is a stratum of 10 ms off at most, and 10 %.

usage: inside.py EDGEPROF PROGRAM WORK"""
import os
import platform
import re
import subprocess
import sys

edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
os.makedirs(work, exist_ok=True)
db = os.path.join(work, "inside.db")
for ending in ("", "-wal", "-shm"):
    if os.path.exists(db + ending):
        os.remove(db + ending)


def tool(*arguments):
    done = subprocess.run([edgeprof, *arguments], capture_output=True, text=True, timeout=120, env={**os.environ, "EDGEPROF_ALL_EVENTS": "1"})
    if done.returncode:
        sys.exit(f"inside.py: {arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


out = tool("run", "--level", "high", "--no-fork", "--skip", "sh", "--skip", "sleep", "--db", db, "--", program)
truth = {name: int(ns) for name, ns in re.findall(r"^wait (\w+) (\d+)$", out, re.M)}
if platform.machine() != "x86_64":
    truth.pop("in_futex")  # syscall() is followed on x86-64 only
told = dict.fromkeys(truth, 0)
for line in tool("export", "--kind", "wait", "--folded", "--db", db).splitlines():
    path, value = line.rsplit(" ", 1)
    for name in set(path.split(";")) & set(truth):
        told[name] += int(value)
wrong = [name for name, ns in truth.items() if abs(told[name] - ns) > 1e7 + ns / 10]
for name, ns in truth.items():
    print(f"  {name:14} {told[name] / 1e6:5.0f} ms of {ns / 1e6:5.0f} ms")
if wrong or len(truth) < 12:
    sys.exit(f"inside.py: {wrong}\n{out}")
