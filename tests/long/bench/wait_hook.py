#!/usr/bin/python3
"""ns that a hook adds to a call that could wait but returns at once: the worst of four calls, at level high and low.

usage: wait_hook.py PROGRAM LIBRARY"""
import os
import subprocess
import sys

ROUNDS = "4000"
program, library = sys.argv[1:3]
for figure, level in (("wait_hook_ns", "high"), ("wait_hook_off_ns", "low")):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    env.update(LD_PRELOAD=library, EDGEPROF_ENDPOINT="file:///dev/null", EDGEPROF_LEVEL=level)
    done = subprocess.run([program, ROUNDS], env=env, capture_output=True, text=True, check=True).stdout
    print(f"wait_hook.py: {level}: " + ", ".join(f"{line} ns" for line in done.splitlines()))
    print(f"figure {figure} {max(0.0, *(float(line.split()[1]) for line in done.splitlines())):.1f} ns")
