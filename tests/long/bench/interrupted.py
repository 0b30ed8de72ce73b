#!/usr/bin/python3
"""System calls that return EINTR, per million of the profiler's signals, beyond those of an unprofiled run.

usage: interrupted.py COUNTER BLOCKING WORKLOAD WORK
COUNTER is count_eintr.c, preloaded between the program and libc. BLOCKING (blocking.c) and WORKLOAD (a NativeAOT program with
sockets, sleeps and files: tests/dotnet/Workload) run without the profiler and at the level high, TIMES times each."""
import os
import re
import subprocess
import sys

TIMES = 3
counter, blocking, workload, work = (os.path.abspath(argument) for argument in sys.argv[1:5])
os.makedirs(work, exist_ok=True)


def run(command, profiled):
    """EINTRs, calls and samples of one run."""
    path = os.path.join(work, "counts")
    if os.path.exists(path):
        os.remove(path)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    env.update(LD_PRELOAD=counter, COUNT_EINTR=path)
    if profiled:
        env.update(EDGEPROF_ENDPOINT="file:///dev/null", EDGEPROF_LEVEL="high")
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    if done.returncode != 0:
        sys.exit(f"interrupted.py: {command[0]}: {done.stdout}{done.stderr}")
    found = re.findall(r"eintr (\S+) (\d+) of (\d+)", open(path, encoding="utf-8").read())
    interrupted = {name: int(count) for name, count, _ in found if int(count)}
    if interrupted:
        print(f"interrupted.py: {os.path.basename(command[0])}, profiled {profiled}: {interrupted}", file=sys.stderr)
    samples = int(re.search(r"samples (\d+)", done.stderr).group(1))
    return sum(interrupted.values()), sum(int(calls) for _, _, calls in found), samples


beyond = signals = 0
for program in (blocking, workload):
    for profiled in (False, True):
        command = [program, "file:///dev/null"] if profiled and program == blocking else [program]
        got = [run(command, profiled) for _ in range(TIMES)]
        interrupted, calls, samples = map(sum, zip(*got))
        print(f"interrupted.py: {os.path.basename(program)}, profiled {profiled}: {interrupted} of {calls} calls, "
              f"{samples} samples", file=sys.stderr)
        if calls == 0 or (samples > 0) != profiled:
            sys.exit("interrupted.py: nothing was counted")
        beyond += interrupted if profiled else -interrupted
        signals += samples
print(f"figure eintr_per_million_signals {1e6 * max(0, beyond) / signals:.0f} count")
if beyond > 0:
    sys.exit(f"interrupted.py: {beyond} calls more than without the profiler were interrupted by {signals} signals")
