#!/usr/bin/python3
"""ns that the hooks of malloc() and free() add to a call that is no sample, under the preload library with memory hooks, and
where they are linked in.

usage: memory_hook.py PROGRAM LIBRARY LINKED"""
import os
import subprocess
import sys

ROUNDS = "40000"
GOAL = 5
program, library, linked = sys.argv[1:4]


def measure(path, name, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    env.update(EDGEPROF_ENDPOINT="file:///dev/null", EDGEPROF_EXIT_TIMEOUT="0", **more)
    done = subprocess.run([path, ROUNDS], env=env, capture_output=True, text=True, check=True).stdout
    for call, ns in (line.split() for line in done.splitlines()):
        print(f"memory_hook.py: {name.format(call)}: {ns} ns, goal {GOAL} ns")
        print(f"figure {name.format(call)}_ns {max(0.0, float(ns)):.2f} ns")


measure(program, "{}_hook", LD_PRELOAD=library)
measure(linked, "{}_hook_linked", EDGEPROF_KINDS="cpu,alloc,live")
