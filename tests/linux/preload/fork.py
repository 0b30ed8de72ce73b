#!/usr/bin/python3
"""Processes that are forked without exec are profiled: all their CPU time, under the right functions and the tag pid;
short-lived ones cost next to nothing, and their CPU time is [short processes]; ends are as without edgeprof.

usage: fork.py EDGEPROF WORKERS WORK"""
import os
import re
import subprocess
import sys

from kit import absent, fail

edgeprof, workers, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
os.makedirs(work, exist_ok=True)
db = os.path.join(work, "fork.db")
failed = []
# 5: four workers and their parent.
WITNESS = {form: "less" for form in ("short", "short_exec", "short_kill", "short_busy", "signal", "crowd")} | {"double": "more less", "threads": "17"}


def check(good, text):
    if not good:
        failed.append(text)
        print(f"fork.py: {text}", file=sys.stderr)


def tool(*arguments, **more):
    return subprocess.run([edgeprof, *arguments], capture_output=True, text=True, timeout=120, **more)


def run(form, *options):
    absent(db)
    done = tool("run", "--db", db, *options, "--", workers, form, env={**os.environ, "WITNESS": WITNESS.get(form, "5")})
    used = {int(pid): int(ns) for pid, ns in re.findall(r"^worker (\d+) (\d+)$", done.stdout, re.M)}
    return done, used, [int(status) for status in re.findall(r"^status (\d+)$", done.stdout, re.M)]


def stacks(*options):
    """(functions, ns) of each stack."""
    lines = tool("export", "--db", db, "--kind", "cpu", "--folded", *options).stdout.splitlines()
    return [(path.split(";"), int(value)) for path, value in (line.rsplit(" ", 1) for line in lines)]


def split(profile):
    """(ns of stacks, ns that no process reported)"""
    short = sum(ns for frames, ns in profile if frames == ["[short processes]"])
    return sum(ns for _, ns in profile) - short, short


def below(profile, name):
    return sum(ns for frames, ns in profile if any(frame.startswith(name) for frame in frames))


ENDS = [0, 0, 3 << 8, 3 << 8]


def check_form(form, expected=ENDS, threaded=False, low=0.98):
    done, used, ends = run(form)
    whole, profiled = sum(used.values()), split(stacks())[0]
    ratio = profiled / whole
    print(f"fork.py: {form}: {len(used)} processes, {100 * ratio:.1f} % of their CPU time")
    print(f"figure forked_{form}_accounted {ratio:.4f} x")
    check(done.returncode == 0, f"{form}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    check(ends == expected, f"{form}: the workers' ends are {ends}, not {expected}")
    check(low <= ratio <= 1.02, f"{form}: accounted {ratio:.4f}")
    for pid, ns in used.items():
        if ns < 100e6:  # the process that only forks
            continue
        own = stacks("--tag", f"pid={pid}")
        share = sum(value for _, value in own) / ns
        three, one = below(own, "burn_three"), below(own, "burn_one")
        check(low - 0.02 <= share <= 1.04, f"{form}: process {pid}: accounted {share:.4f}")
        check(0.6 <= three / max(1, three + one) <= 0.9, f"{form}: process {pid}: {three} to {one} is not 3 to 1")
        root = "work_thread" if threaded else "worker"
        early = below(own, "[thread exit]")  # before the profiler ran, which takes longer on a busy machine
        wrong = sum(value for frames, value in own if not frames[0].startswith("[")) - below(own, root)
        check(early <= 0.4 * ns, f"{form}: process {pid}: {early / 1e9:.3f} s before its profiler started")
        check(wrong <= 0.05 * ns, f"{form}: process {pid}: {wrong / 1e9:.3f} s of stacks not below {root}")
        check(f"pid {pid}\n" in done.stdout, f"{form}: run does not show process {pid}")


def check_short(form):
    """Children that end before they are profiled, each after 1 or 50 ms of CPU time."""
    done, _, _ = run(form)
    used = re.search(r"^used (\d+)$", done.stdout, re.M)
    profiled, short = split(stacks())
    ratio, least = (profiled + short) / int(used.group(1)), 0.3e9
    print(f"fork.py: {form}: {profiled / 1e9:.3f} s profiled, {short / 1e9:.3f} s in short processes, {100 * ratio:.1f} % of all")
    print(f"figure {form}_processes_accounted {ratio:.4f} x")
    check(done.returncode == 0, f"{form}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    check(short >= least, f"{form}: short processes {short}")
    check("  pid " not in done.stdout, f"{form}: a short process started its profiler\n{done.stdout}")
    check(" short processes\n" in done.stdout, f"{form}: run does not show the short processes\n{done.stdout}")


check_short("short")
check_short("short_exec")
check_short("short_kill")
check_short("short_busy")
done, _, _ = run("short", "--no-fork")
check(split(stacks())[1] == 0, "--no-fork: there are [short processes]")

check_form("ends")
check_form("thread")
check_form("threads", threaded=True)
check_form("double")
done, used, _ = run("namespace")
hot = below(stacks(), "worker") / sum(used.values())
check(hot >= 0.8, f"namespace: {hot:.3f} of the worker's CPU time is by function\n{done.stdout}{done.stderr}")
check_form("signal", [9] * 4, low=0.3)  # a killed process loses its last interval, of 1 s of 1.6 s

done, used, ends = run("ends", "--no-fork")
check(sum(ns for _, ns in stacks()) < 0.1 * sum(used.values()) and ends == ENDS, "--no-fork: workers are profiled")

spool = dict(os.environ, EDGEPROF_SPOOL=os.path.join(work, "spool"))
done = tool("run", "--", workers, "lock", env=spool)
check("lock 1 0\nlater 0\n" in done.stdout, f"a child keeps the lock of its parent's spool: {done.stdout}{done.stderr}")

done, used, _ = run("crowd")
with_ns = int(re.search(r"^crowd (\d+)$", done.stdout, re.M).group(1))
left = re.search(r"^left (\d+) (\d+)$", done.stdout, re.M)
# One more at most: the first interval may end meanwhile, and its connection stays open.
check(left and 0 <= int(left.group(2)) - int(left.group(1)) <= 1, f"crowd: descriptors of the parent before and after: {left and left.groups()}")
check(re.search(r"^extra 0 [01]$", done.stdout, re.M), f"crowd: a child has threads or descriptors: {done.stdout}")
plain = subprocess.run([workers, "crowd"], capture_output=True, text=True).stdout
plain_ns = int(re.search(r"^crowd (\d+)$", plain, re.M).group(1))
print(f"fork.py: 300 children of 1 ms take {with_ns / 1e6:.0f} ms, {plain_ns / 1e6:.0f} ms without edgeprof")
if failed:
    fail(f"{len(failed)} failures")
