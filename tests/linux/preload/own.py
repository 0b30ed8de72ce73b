#!/usr/bin/python3
"""What edgeprof's hooks cost in the program's threads appears as [edgeprof], not as the program's time, and is part of
the cost that the governor knows.

usage: own.py EDGEPROF PROGRAM WORK"""
import functools
import os
import re
import sys

from kit import absent, fail, folded, output

SECONDS = "6"
edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
tool = functools.partial(output, edgeprof, ok=(0, 3))
os.makedirs(work, exist_ok=True)
db = os.path.join(work, "own.db")


absent(db)
out = tool("run", "--level", "high", "--interval", "1000", "--db", db, "--", program, SECONDS)
added = float(re.search(r"^added (\S+)$", out, re.M).group(1))
stacks = folded(tool("export", "--db", db, "--kind", "cpu", "--folded"))
total = sum(value for _, value in stacks)
own = sum(value for frames, value in stacks if frames[-1] == "[edgeprof]")
share = 100 * own / total
print(f"own.py: [edgeprof] is {share:.2f} % of the CPU time, the program's stopwatch says {added:.2f} %")
print(f"figure hooks_shown_ratio {share / added:.2f} x")
named = {frame for frames, _ in stacks for frame in frames if re.match(r"_?ep_(?!preload_)", frame)}
if named:
    fail(f"edgeprof's own functions are in the profile: {named}")
if not any("make_calls" in frames and frames[-1] == "[edgeprof]" for frames, _ in stacks):
    fail("[edgeprof] is not below its caller")
if not any(re.fullmatch("_*poll", frame) and frames[-1] != "[edgeprof]" for frames, _ in stacks for frame in frames):
    fail("the program's own time in poll() is gone")  # the hook of a call that does not wait leaves no frame
if not 0.4 <= share / added <= 2.5:
    fail("[edgeprof] is not what the hooks cost")
