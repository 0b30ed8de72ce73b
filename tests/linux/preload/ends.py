#!/usr/bin/python3
"""A profiled process ends with its last thread, not with edgeprof's, at every level and number of threads; a program that
ends by _exit() still has its profile.

usage: ends.py EDGEPROF MAIN_EXITS"""
import subprocess
import sys

edgeprof, program = sys.argv[1:3]
LOOP = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"


def run(level, *command):
    done = subprocess.run([edgeprof, "run", "--level", level, "--", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60)
    return done.returncode, done.stdout


for level in ("low", "high"):
    for threads in ("0", "1", "9"):
        status, text = run(level, program, threads)
        if f"at exit: all {threads}" not in text or status not in (0, 3):
            sys.exit(f"ends.py: level {level}, {threads} threads: status {status}\n{text}")
for _ in range(6):
    status, text = run("high", "sh", "-c", LOOP)
    if status or "cpu:" not in text:
        sys.exit(f"ends.py: the shell ends by _exit() and its profile is lost\n{text}")
print("ends.py: 6 programs ended with their last thread")
