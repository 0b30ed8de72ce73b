#!/usr/bin/python3
"""What of a service's CPU time has exact stacks, by what it does and where: a row of docs/accuracy.md for each load of tests/dotnet/Programs/Loads.cs.

usage: loads.py EDGEPROF PROGRAM WORK SECONDS [--need]    RUNNER in the environment starts the program, such as on_machine.py

Stacks are in percent of all, as the library counts them; unsampled and accounted in percent of the CPU time that the process used, without edgeprof's own threads and without the start of the runtime, before the profiler's. --need: fails beyond the goals."""
import os
import re
import subprocess
import sys

edgeprof, program, work, seconds = (*(os.path.abspath(argument) for argument in sys.argv[1:4]), sys.argv[4])
RUNNER = os.environ.get("RUNNER", "").split()
WITHOUT = ("[unsampled]", "[thread exit]", "[lost")
os.makedirs(work, exist_ok=True)
wrong = []


def run(*arguments, **settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    env.update({"EDGEPROF_" + k: v for k, v in settings.items()})
    done = subprocess.run([*RUNNER, program, *arguments], env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"loads.py: {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def measured(load, seconds):
    """CPU time that the process used, stacks by quality, CPU time in the profile and without a stack."""
    profile = os.path.join(work, "loads.profile")
    if os.path.exists(profile):
        os.unlink(profile)
    said = run(load, seconds, ENDPOINT="file://" + profile, LEVEL="high")
    used, exact, gap, cut = map(int, re.search(r"used (\d+) exact (\d+) gap (\d+) cut (\d+)", said).groups())
    text = subprocess.run([edgeprof, "cat", "--folded", "--kind", "cpu", profile], capture_output=True, text=True, check=True).stdout
    times = [(path.split(";"), int(value)) for path, value in (line.rsplit(" ", 1) for line in text.splitlines())]
    without = sum(value for frames, value in times if any(frame.startswith(WITHOUT) for frame in frames))
    return used, (exact, gap, cut), sum(value for _, value in times), without


def row(load):
    used, counts, told, without = measured(load, seconds)
    stacks = max(1, sum(counts))
    exact, gap, cut = (100 * n / stacks for n in counts)
    accounted = 100 * (told - START[1]) / (used - START[0])
    print(f"| {load} | {stacks:,} | {exact:.2f} | {gap:.2f} | {cut:.2f} | {100 * without / used:.2f} | {accounted:.1f} |", flush=True)
    if exact + gap < 99.5 or not 99 <= accounted <= 101:
        wrong.append(load)


used_to_start, _, told_of_start, _ = measured("arithmetic", "0.5")
START = used_to_start, told_of_start
for name in run().splitlines():
    row(name)
if wrong and "--need" in sys.argv:
    sys.exit(f"loads.py: not 99.5 % exact or with a gap, or not 99 to 101 % accounted: {', '.join(wrong)}")
