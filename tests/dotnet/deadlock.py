#!/usr/bin/python3
"""What Programs/Waits.cs left behind, read with the host tool: the two threads that wait for each other's lock are there
with both stacks by name, as locks and in the dump of all threads.

usage: deadlock.py EDGEPROF PROFILES SYMBOLS"""
import subprocess
import sys

BOTH = {"Programs.WaitsProgram.TakesOneThenOther", "Programs.WaitsProgram.TakesOtherThenOne"}
edgeprof, profiles, symbols = sys.argv[1:4]


def stacks(kind):
    """[(frames root first, value)]"""
    text = subprocess.run([edgeprof, "cat", "--folded", "--kind", kind, "--symbols", symbols, profiles], check=True,
                          capture_output=True, text=True).stdout
    return [(path.split(";"), int(value)) for path, value in (line.rsplit(" ", 1) for line in text.splitlines())]


def fail(text):
    sys.exit(f"deadlock.py: {text}")


locks = stacks("lock")
for method in BOTH:
    held = sum(value for frames, value in locks if method in frames and frames[-1] == "[lock]")
    if held < 1e9:
        fail(f"{method} waited {held / 1e6:.0f} ms for a lock\n" + "\n".join(";".join(f) for f, _ in locks))
threads = stacks("thread")
for method in BOTH:
    if sum(value for frames, value in threads if method in frames and frames[-1] == "[lock]") != 1:
        fail(f"{method} is not in the dump once\n" + "\n".join(";".join(f) for f, _ in threads))
main = sum(value for frames, value in threads if "Programs.WaitsProgram.Deadlock" in frames)
total = sum(value for _, value in threads)
if main != 1:
    fail("the main thread is not in the dump\n" + "\n".join(";".join(f) for f, _ in threads))
print(f"deadlock.py: both methods by name, as locks and among {total} threads")
