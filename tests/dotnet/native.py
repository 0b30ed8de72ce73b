#!/usr/bin/python3
"""Native memory of a .NET program (tests/dotnet/Programs/Native.cs), beside its objects: bytes in use of each site against the program's
own counters.

usage: native.py EDGEPROF PROGRAM WITHOUT LIBRARY WORK
WITHOUT: the same program without EdgeProfNativeMemory, which has only the objects."""
import math
import os
import subprocess
import sys

DISTANCE = 512 * 1024
NATIVE = ("TakeNative", "TakeGlobal", "TakeLibrary")
SITES = (*NATIVE, "Churn", "MakeManaged")
edgeprof, program, without, library, work = (os.path.abspath(argument) for argument in sys.argv[1:6])
os.makedirs(work, exist_ok=True)
profile = os.path.join(work, "profile")


def fail(text):
    sys.exit(f"native.py: {text}")


def run(path, kinds="cpu,alloc,live"):
    """{site: bytes in use} as the program counted, and as measured: {(site, is native): bytes}."""
    if os.path.exists(profile):
        os.remove(profile)
    env = {**os.environ, "EDGEPROF_ENDPOINT": f"file://{profile}", "EDGEPROF_KINDS": kinds, "EDGEPROF_ALL_EVENTS": "1"}
    done = subprocess.run([path, library], env=env, capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        fail(f"{path}: {done.returncode} {done.stdout}{done.stderr}")
    truth = {site: int(count) for _, site, count in (line.split() for line in done.stdout.splitlines())}
    told = {}
    text = subprocess.run([edgeprof, "cat", "--folded", "--kind", "live", "--symbols", os.path.dirname(path), profile],
                          capture_output=True, text=True, check=False).stdout
    for path, value in (line.rsplit(" ", 1) for line in text.splitlines()):
        frames = path.split(";")
        site = next((name for name in (frame.rsplit(".", 1)[-1] for frame in reversed(frames)) if name in SITES), "other")
        key = site, frames[-1] == "[native]"
        told[key] = told.get(key, 0) + int(value)
    return truth, told


truth, told = run(program)
for site, count in truth.items():
    is_native = site in NATIVE
    off = (told.get((site, is_native), 0) - count) / (math.sqrt(count * DISTANCE) + 1)
    print(f"  {site:12} {count / 1e6:6.1f} MB, measured {told.get((site, is_native), 0) / 1e6:6.1f} MB, {off:5.2f} standard errors")
    if abs(off) > 4 or (site, not is_native) in told:
        fail(f"{site}: {told}")
if told.get(("Churn", True), 0) > 4 * DISTANCE:
    fail(f"what is freed is in use: {told}")
truth, told = run(without)
if any(is_native for _, is_native in told) or not told.get(("MakeManaged", False)):
    fail(f"without EdgeProfNativeMemory: {told}")
truth, told = run(program, "cpu")
if told:
    fail(f"the kinds are off: {told}")
print("native.py: the memory of NativeMemory, of Marshal and of a native library is right by site")
