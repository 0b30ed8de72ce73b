#!/usr/bin/python3
"""ns that the hooks of malloc() and free() add to a call that is no sample, under the preload library with memory hooks.

usage: memory_hook.py PROGRAM LIBRARY"""
import os
import subprocess
import sys

ROUNDS = "40000"
GOAL = 5
program, library = sys.argv[1:3]
env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
env.update(LD_PRELOAD=library, EDGEPROF_ENDPOINT="file:///dev/null", EDGEPROF_EXIT_TIMEOUT="0")
done = subprocess.run([program, ROUNDS], env=env, capture_output=True, text=True, check=True).stdout
for name, ns in (line.split() for line in done.splitlines()):
    print(f"memory_hook.py: {name}: {ns} ns, goal {GOAL} ns")
    print(f"figure {name}_hook_ns {max(0.0, float(ns)):.2f} ns")
