#!/usr/bin/python3
"""Async parents (EDGEPROF_AWAITED=1) of a real program: captures against what waits in truth, and the stacks of a profile.

usage: async.py [--runtime-async] EDGEPROF PROGRAM WORK CAPTURES [LEAST RUNNER...]

The program (tests/dotnet/Async) makes CAPTURES captures by signals, and others as the hooks of allocations and waits do, in
methods whose parents it knows, while another thread collects and moves objects. None may be wrong; a parent that had not begun
to wait is missing. LEAST is the share of captures
of each scene that must be right, by default 0.5; --runtime-async: the program's methods were compiled so; RUNNER starts the program, such as QEMU, where threads are slow to wait. Prints
`figure NAME VALUE UNIT` lines."""
import os
import re
import subprocess
import sys

machine = "" if "--runtime-async" in sys.argv else "(async)"  # of names
sys.argv = [argument for argument in sys.argv if argument != "--runtime-async"]
edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
captures = sys.argv[4:6]
runner = sys.argv[6:]
os.makedirs(work, exist_ok=True)
wrong = []
# tests/dotnet/Async/Profiles.cs
HANDS = 40 * 2
EVENTS = HANDS * 5
PARENTS = ["Async.Profiles.Boss" + machine, "Async.Profiles.Helper" + machine, "[awaited by]"]
HAND, ALONE = "Async.Profiles.Hand" + machine, "Async.Profiles.Alone(async)"


def run(*arguments, **settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    env.update({"EDGEPROF_" + k: v for k, v in settings.items()})
    env["DOTNET_GCgen0size"] = "10000000"  # 256 MiB: collections are those that the program asks for (Truth.Still)
    out = subprocess.run([*runner, program, *arguments], env=env, capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"async.py: {program} ended with {out.returncode}\n{out.stdout}{out.stderr}")
    return out.stdout


def stacks(profile, kind, symbols=os.path.dirname(program)):
    """[(frames, number of events)], root first."""
    out = subprocess.run([edgeprof, "cat", "--folded", "--kind", kind, "--value", "value" if kind in ("cpu", "exception") else "count",
                          "--symbols", symbols, profile], capture_output=True, text=True, check=True).stdout
    return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in out.splitlines()]


def check(profile, kind, parents, least, most):
    """Hand's events have its parents, and nothing else has any. Collections hijack a return address now and then, and such a stack
    ends there. CPU time is in nanoseconds, and least is a share."""
    found = without = lost = 0
    for frames, count in stacks(profile, kind):
        lost += count if frames[0].startswith("[lost") else 0
        at = frames.index("[awaited by]") + 1 if "[awaited by]" in frames else 0
        ours = HAND in frames and (kind != "alloc" or frames[-1] == "System.Byte[]")
        found += count if ours and frames[:at] == parents else 0
        without += count if ours and frames[:at] != parents else 0
        if at and (ALONE in frames or (HAND in frames and frames[:at] != parents)):
            wrong.append(f"{kind}: {count} events with other parents: {';'.join(frames)}")
    print(f"async.py: {kind}: {found} with {len(parents)} frames of parents, {without} without, of {most or 'CPU time'}")
    exact = kind in ("alloc", "exception") # a wait may be recorded in parts
    if most and (not 0.95 * most <= found + without + lost or found < least or (exact and found > most)):
        wrong.append(f"{kind}: {found} events and {lost} lost, not {most}")
    if not most and not found >= least * (found + without) > 0:
        wrong.append(f"{kind}: {found} ns with parents, {without} without")


def profile_of(name, **settings):
    path = os.path.join(work, name)
    if os.path.exists(path):
        os.unlink(path)
    run("profile", path, **settings)
    return path


truth = run(*captures)
print(truth, end="")
for way, *counts in re.findall(r"all of (\w+): right (\d+) wrong (\d+) missing (\d+)", truth):
    for figure, value in zip(("right", "wrong", "missing"), counts):
        print(f"figure async_{way.lower()}_{figure} {value} captures")
capture = re.search(r"a capture takes (\d+) ns", truth)[1]
print(f"figure async_capture_ns {capture} ns")
with_parents = profile_of("awaited.profile", AWAITED="1", LEVEL="high")
without = profile_of("plain.profile", LEVEL="high")
for kind, least, most in (("alloc", EVENTS / 2, EVENTS), ("exception", EVENTS / 2, EVENTS), ("lock", HANDS / 2, HANDS),
                          ("wait", HANDS, 2 * HANDS), ("cpu", 0.05, 0)):
    check(with_parents, kind, PARENTS, least, most)
    check(without, kind, [], least, most)
names = profile_of("names.pprof", AWAITED="1", LEVEL="high", FORMAT="pprof", NAMES="1")
shown = {";".join(frames[:3]) for frames, _ in stacks(names, "alloc", "/") if "[awaited by]" in frames}
print(f"async.py: pprof with names from the device: {sorted(shown)}")
if ";".join(PARENTS) not in shown: # a name that is not there in time is in the next message
    wrong.append(f"pprof has the parents {shown}")
for text in wrong:
    print(f"async.py: {text}", file=sys.stderr)
sys.exit(bool(wrong))
