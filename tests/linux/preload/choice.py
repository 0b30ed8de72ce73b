#!/usr/bin/python3
"""`edgeprof run --only` and `--skip`: which of the processes that a program starts are profiled. One that is not has no thread, no
handler and no timer of edgeprof's.

usage: choice.py EDGEPROF PROGRAM WORK"""
import os
import re
import shutil
import subprocess
import sys

from kit import fail

edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
NAMES = ("web-front", "web-back", "store")


def profiled(options, env, command):
    """Names of the processes that are profiled; the others must be as without edgeprof."""
    done = subprocess.run([edgeprof, "run", *options, "--", *command], capture_output=True, text=True, env={**os.environ, **env})
    lines = re.findall(r"^(\S+) threads (\d+) handler (\d) timers (\d+)$", done.stdout, re.M)
    if len(lines) != len(NAMES):
        fail(f"{options} {env}: {done}")
    chosen = set()
    for name, *counts in lines:
        threads, handler, timers = map(int, counts)
        if (threads, handler, timers) != (2, 0, 0):
            chosen.add(name)
            if threads < 4 or not handler or not timers:
                fail(f"{name} is profiled by halves: {counts}")
    if bool(chosen) != ("cpu:" in done.stdout) or (done.returncode == 0) != bool(chosen):
        fail(f"{options} {env}: {chosen} are profiled: {done}")
    return chosen


shutil.rmtree(work, ignore_errors=True)
os.makedirs(os.path.join(work, "real"))
for name in NAMES:
    shutil.copy(program, os.path.join(work, name))
everything = ["sh", "-c", "; ".join(os.path.join(work, name) for name in NAMES)]
for options, env, wanted in (
        ((), {}, set(NAMES)),
        (("--only", "store"), {}, {"store"}),
        (("--only", "web-*"), {}, {"web-front", "web-back"}),
        (("--only", "*-b*k,nothing"), {}, {"web-back"}),
        (("--only", "web-front", "--only", " store "), {}, {"web-front", "store"}),
        (("--only", "web"), {}, set()),
        (("--only", "*"), {}, set(NAMES)),
        (("--skip", "web-*"), {}, {"store"}),
        (("--skip", "*"), {}, set()),
        (("--only", "web-*", "--skip", "*front"), {}, {"web-back"}),
        (("--only", "/usr/bin/store"), {}, {"store"}),
        ((), {"EDGEPROF_ONLY": "store"}, {"store"}),
        ((), {"EDGEPROF_ONLY": "", "EDGEPROF_SKIP": "store,,"}, {"web-front", "web-back"}),
        (("--only", "web-back"), {"EDGEPROF_ONLY": "store", "EDGEPROF_SKIP": "web-front"}, {"web-back"}),
        (("--skip", "sh"), {"EDGEPROF_SKIP": "store"}, set(NAMES))):
    found = profiled(options, env, everything)
    if found != wanted:
        fail(f"{options} {env}: {found} are profiled instead of {wanted}")
    print(f"  {' '.join(options)} {' '.join(map('='.join, env.items()))}: {', '.join(sorted(found)) or 'none'}")

# A file under another name has two.
os.rename(os.path.join(work, "store"), os.path.join(work, "real", "store-1.2"))
os.symlink("real/store-1.2", os.path.join(work, "store"))
for only, wanted in (("store", {"store"}), ("store-1.2", {"store"}), ("store-1", set())):
    if profiled(("--only", only), {}, everything) != wanted:
        fail(f"--only {only}, of a link")
for wrong in (("--only", ""), ("--skip",)):
    done = subprocess.run([edgeprof, "run", *wrong], capture_output=True, text=True)
    if done.returncode != 2 or len(done.stderr.splitlines()) != 1:
        fail(f"{wrong}: {done}")
print("choice.py: who is chosen is profiled, and nobody else")
