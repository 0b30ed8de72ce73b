#!/usr/bin/python3
"""Instructions and system calls that the preload library adds to calls that return at once, with waits on and off.

usage: steps.py LIBRARY STEPS
CPU samples are off: while a program is single-stepped, their handlers would be most of what is counted."""
import os
import subprocess
import sys

# A stepped call takes long enough to count as a wait, so the numbers include the choice of samples.
MOST = {"exception": 40, "wait,lock": 400}
library, steps = sys.argv[1:3]
wrong = 0
for kinds, most in MOST.items():
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    env.update(LD_PRELOAD=library, EDGEPROF_ENDPOINT="file:///dev/null", EDGEPROF_KINDS=kinds)
    done = subprocess.run([steps], env=env, capture_output=True, text=True, timeout=280, check=True)
    for name, instructions, system_calls in (line.split() for line in done.stdout.splitlines()):
        print(f"steps.py: {kinds}: {name} {instructions} instructions, {system_calls} system calls more")
        wrong += int(instructions) > most or int(system_calls) > 0
if wrong:
    sys.exit(f"steps.py: more than {MOST} instructions, or a system call")
