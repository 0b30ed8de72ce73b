#!/usr/bin/python3
"""Bytes that programs write to files, by function and file, against their own counters and the kernel's.

usage: writes.py EDGEPROF PROGRAM WORK RUNS [LINKED...]
LINKED: the same program with the profiler and its write hooks linked in, which writes its profile to a file; a command
before its path runs it. Each is run once.
A sample stands for a stratum of 64 KiB, so the standard error of a site with B bytes is at most sqrt(B * 64 KiB), that of
independent draws. Each site must be within 4.5 (5 in a single run of many) standard errors, and its mean over all runs
within 3 of the mean (4.5 if there are few runs). All sites together must be within 1 % of what the kernel has counted as
written by a run without a profiler, and that is what the program says."""
import math
import os
import re
import subprocess
import sys

from kit import absent, fail, folded, output

DISTANCE, SYNC_DISTANCE = 64 * 1024, 10_000_000  # bytes, ns
SITES = 11
FILES = {"placed-#.log", "plain-#.log", "copy-#.log", "stream-#.log", "reused-#.log"}
edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
runs, linked = int(sys.argv[4]), sys.argv[5:]
db, data = os.path.join(work, "writes.db"), os.path.join(work, "data")
os.makedirs(data, exist_ok=True)
problems = []


def counters(out):
    """{site: bytes}, (syncs, ns), the kernel's bytes."""
    sites = {site: int(count) for site, count in re.findall(r"^write (\w+) (\d+)$", out, re.M)}
    sync, wchar = re.search(r"^sync synced (\d+) (\d+)$", out, re.M), re.search(r"^wchar (\d+)$", out, re.M)
    if len(sites) != SITES or not sync or not wchar:
        fail(f"the program did not come to its end\n{out}")
    return sites, (int(sync[1]), int(sync[2])), int(wchar[1])


def stacks(source, kind, *options):
    return folded(output(edgeprof, "export", "--kind", kind, "--folded", *options, *source, ok=(0, 3)))


def compare(what, source, truth, most):
    """Each site within `most` standard errors, and no other. Returns {site: bytes}."""
    sites, (syncs, ns), _ = truth
    told, own = dict.fromkeys(sites, 0), 0
    for frames, value in stacks(source, "write"):
        own += value if frames[-1] == "[edgeprof]" else 0
        if frames[-1] != "[edgeprof]" and frames[-1] not in told:
            problems.append(f"{what}: {frames}: no site writes there")
        elif frames[-1] != "[edgeprof]":
            told[frames[-1]] += value
    for site, count in sites.items():
        off = (told[site] - count) / math.sqrt(count * DISTANCE)
        if abs(off) > most:
            problems.append(f"{what}: {site}: {told[site]} of {count} bytes, {off:.1f} standard errors")
    total, all_bytes = sum(told.values()), sum(sites.values())
    if abs(total / all_bytes - 1) > 0.01:
        problems.append(f"{what}: {total} of {all_bytes} bytes")
    labels = {frame[5:] for frames, _ in stacks(source, "write", "--group-by", "file") for frame in frames if frame.startswith("file=")}
    if labels != {os.path.join(data, name)[-93:] for name in FILES}:
        problems.append(f"{what}: the labels are {sorted(labels)}")
    time = sum(value for frames, value in stacks(source, "sync") if frames[-1] == "synced")
    number = sum(value for frames, value in stacks(source, "sync", "--value", "count") if frames[-1] == "synced")
    # A sync stands for 10 ms of syncs, so the number of short ones is known less well than their time.
    if abs(time - ns) > ns / 10 + 4e7 or abs(number - syncs) > 4.5 * math.sqrt(2 * syncs * max(1, SYNC_DISTANCE * syncs / ns)):
        problems.append(f"{what}: {number} syncs of {time / 1e6:.0f} ms, the program had {syncs} of {ns / 1e6:.0f} ms")
    return told, own


alone = counters(output(program, data))
if abs(sum(alone[0].values()) / alone[2] - 1) > 0.001:
    fail(f"the program counts {sum(alone[0].values())} bytes, the kernel {alone[2]}")
sums, told_sums = dict.fromkeys(alone[0], 0), dict.fromkeys(alone[0], 0)
for i in range(runs):
    absent(db)
    out = output(edgeprof, "run", "--db", db, "--level", "high", "--kind", "write", "--", program, data, EDGEPROF_ALL_EVENTS="1")
    truth = counters(out)
    told, _ = compare(f"run {i}", ("--db", db), truth, 4.5 if runs < 10 else 5)
    for site, count in truth[0].items():
        sums[site] += count
        told_sums[site] += told[site]
for site, count in sums.items() if runs else ():
    off = (told_sums[site] - count) / math.sqrt(count * DISTANCE)
    print(f"  {site:14} {count / runs / 1e6:6.1f} MB, measured {told_sums[site] / runs / 1e6:6.1f} MB, {off:5.2f} standard errors")
    if abs(off) > (4.5 if runs < 10 else 3):
        problems.append(f"{site}: the mean of {runs} runs is off by {off:.1f} standard errors")
for command in linked:
    folder = os.path.join(work, "profiles")
    absent(folder)
    truth = counters(output(*command.split(), data, EDGEPROF_ENDPOINT=f"file://{folder}", EDGEPROF_KINDS="write,sync", EDGEPROF_INTERVAL="300", EDGEPROF_ALL_EVENTS="1"))
    told, own = compare(os.path.basename(command), (folder,), truth, 4.5)
    size = os.path.getsize(folder)
    print(f"  {os.path.basename(command)}: {sum(told.values()) / sum(truth[0].values()) - 1:+.2%}, edgeprof itself {own} bytes, its file has {size}")
    if not size / 2 < own <= size:  # the last profile cannot have itself
        problems.append(f"{command}: [edgeprof] has {own} bytes, its file {size}")
if problems:
    fail("\n".join(problems))
print(f"writes.py: {runs} runs and {len(linked)} programs with the hooks linked in")
