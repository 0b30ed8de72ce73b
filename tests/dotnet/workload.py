#!/usr/bin/python3
"""Sockets with timeouts, sleeps and files do the same whether nobody profiles or at any level, and nothing hangs.

usage: workload.py WORKLOAD COUNTER WORK
All runs are under way at once. COUNTER counts calls that return EINTR: no more under the profiler than without it."""
import os
import re
import subprocess
import sys

LEVELS = ("off", "low", "medium", "high")
# A timed wait of .NET may end one tick of the kernel's coarse clock early, without edgeprof as well. A call that a signal
# ended is counted by COUNTER, each one.
EARLY_MOST = 10  # of 60; one a run is usual on a busy machine, whatever the level
workload, counter, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
os.makedirs(work, exist_ok=True)


def start(level):
    counts = os.path.join(work, level + ".counts")
    if os.path.exists(counts):
        os.remove(counts)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    env.update(LD_PRELOAD=counter, COUNT_EINTR=counts)
    if level != "off":
        env.update(EDGEPROF_ENDPOINT="file:///dev/null", EDGEPROF_LEVEL=level, EDGEPROF_INTERVAL="1000")
    return subprocess.Popen([workload], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(level, process):
    try:
        out, err = process.communicate(timeout=150)
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit(f"workload.py: level {level}: does not end: {process.communicate()[0]}")
    if process.returncode != 0:
        sys.exit(f"workload.py: level {level}: status {process.returncode}: {out}{err[-1000:]}")
    counts = re.findall(r"eintr \S+ (\d+) of (\d+)", open(os.path.join(work, level + ".counts"), encoding="utf-8").read())
    samples = int(re.search(r"samples (\d+)", err).group(1))
    if (samples > 0) != (level != "off") or not sum(int(calls) for _, calls in counts):
        sys.exit(f"workload.py: level {level}: {samples} samples, {len(counts)} counted functions")
    early = [int(count) for count in re.findall(r"(\d+) early", out)]
    if not early or max(early) > EARLY_MOST:
        sys.exit(f"workload.py: level {level}: {early} waits ended early:\n{out}")
    return re.sub(r"\d+ early", "in time", out), sum(int(interrupted) for interrupted, _ in counts), samples


running = {level: start(level) for level in LEVELS}
result = {level: finish(level, process) for level, process in running.items()}
for level, (out, interrupted, samples) in result.items():
    if out != result["off"][0]:
        sys.exit(f"workload.py: level {level} has other results than without the profiler:\n{out}instead of\n{result['off'][0]}")
    if interrupted > result["off"][1]:
        sys.exit(f"workload.py: level {level}: {interrupted} calls returned EINTR, {result['off'][1]} without the profiler")
    print(f"workload.py: level {level}: the same results, {interrupted} calls interrupted, {samples} samples")
