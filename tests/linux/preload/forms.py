#!/usr/bin/python3
"""Memory in use by the way that it was taken, or freed, under `edgeprof run --native-memory`, against the program's own counts.

usage: forms.py EDGEPROF WORK SITES PROGRAM [ARGUMENTS...]"""
import functools
import math
import os
import re
import sys

from kit import absent, fail, output

edgeprof, work = (os.path.abspath(argument) for argument in sys.argv[1:3])
tool = functools.partial(output, edgeprof, EDGEPROF_ALL_EVENTS="1")
sites, command = int(sys.argv[3]), sys.argv[4:]
DISTANCE = 512 * 1024
db = absent(os.path.join(work, "forms.db"))


truth = {site: int(size) for site, size in re.findall(r"^live (\w+) (\d+)$", tool("run", "--native-memory", "--db", db, "--", *command), re.M)}
told = dict.fromkeys(truth, 0)
for line in tool("export", "--kind", "live", "--folded", "--db", db).splitlines():
    path, value = line.rsplit(" ", 1)
    site = next((frame for frame in reversed(path.split(";")) if frame in truth), None)
    if site:
        told[site] += int(value)
wrong = False
for site, size in truth.items():
    off = (told[site] - size) / math.sqrt(max(size, 2 * DISTANCE) * DISTANCE)
    wrong |= abs(off) > 4
    print(f"  {site:17} {size / 1e6:6.1f} MB, measured {told[site] / 1e6:6.1f} MB, {off:5.2f} standard errors")
if wrong or len(truth) != sites:
    fail("more than 4 standard errors, or a site is missing")
