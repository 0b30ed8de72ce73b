#!/usr/bin/python3
"""What a profile says of allocations, exceptions, collections and the heap's sizes against what the program (tests/dotnet/Programs/Heap.cs) counted.

usage: heap.py EDGEPROF PROGRAM WORK [SECONDS]           RUNNER in the environment starts the program, such as on_machine.py

Bytes by site may be off by three standard errors. Of n samples of a site among N each stands for one period, and the
error of n is at most that of a draw of N; large objects are told exactly. One site in some hundred is beyond that by
chance, so a run with one is made once more. Prints `figure NAME VALUE UNIT` lines.

With SECONDS the program soaks so long instead: every kind at once, a tiny allocation budget, collections all the time,
threads that come and go. It must end in time with nothing damaged, and its stacks must be right."""
import math
import os
import re
import subprocess
import sys

PERIOD = 512 * 1024
# In %: strata leave the total's error at one period a thread, pauses are clocked twice, sizes are the collector's own.
TOTAL_OFF, PAUSES_OFF, USED_OFF = 0.1, 1, 0.3
# How a site's objects are met: those that share a stratum compete with each other.
SHARED = ("MakeSmall", "MakeWide", "MakeNode", "MakeBytes", "MakeText")
TYPES = {"MakeSmall": "Small", "MakeWide": "Wide", "MakeNode": "Node", "MakeBytes": "System.Byte[]", "MakeText": "System.String",
         "MakeMedium": "System.Byte[]", "MakeLarge": "System.Byte[]", "MakeRaw": "System.Byte[]", "MakePinned": "System.Byte[]",
         "MakeFinal": "Final", "ThrowOdd": "OddException", "ThrowEven": "EvenException",
         "ThrowFault": "System.NullReferenceException"}
ROOTS = ("_start", "__GI___clone3", "__clone3", "clone3", "start_thread", "clone")
# What calls a site; the compiler may have put Make() into Run().
CALLERS = {"Make": ("Worker.Run", "Worker.Make"), "Throw": ("Truth.Throw",)}
RUNNER = os.environ.get("RUNNER", "").split()
edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
os.makedirs(work, exist_ok=True)
profile = os.path.join(work, "heap.profile")
wrong = []


def figure(name, value, unit):
    print(f"figure {name} {value:.3f} {unit}")


def run(what="truth", **environment):
    """{kind: {site: (count, value)}} as the program counted."""
    if os.path.exists(profile):
        os.unlink(profile)
    out = subprocess.run([*RUNNER, program, what, profile], env=dict(os.environ, **environment), capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"heap.py: {program} {what} ended with {out.returncode}\n{out.stdout}{out.stderr}")
    truth = {}
    for line in out.stdout.splitlines():
        if line.startswith("figure"):
            print(line)
            continue
        _, kind, site, count, value = line.split()
        truth.setdefault(kind, {})[site] = (int(count), int(value))
    return truth


def stacks(kind, value):
    """[(frames, number)], root first."""
    out = subprocess.run([edgeprof, "cat", "--folded", "--kind", kind, "--value", value, "--symbols",
                          os.path.dirname(program), profile], capture_output=True, text=True, check=True).stdout
    lines = out.replace("Programs.", "").splitlines()  # the assembly's name
    return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in lines]


def site_of(frames):
    """The innermost frame that is a site, by its method's name."""
    for frame in reversed(frames):
        method = frame.rsplit(".", 1)[-1]
        if method in TYPES:
            return method
    return None


def check_caller(kind, frames, site):
    at = max(i for i, frame in enumerate(frames) if frame.endswith("." + site))
    if not at or frames[at - 1] not in CALLERS["Make" if site.startswith("Make") else "Throw"]:
        wrong.append(f"{kind}: {site} is not called there: {';'.join(frames)}")


def by_site(kind, value="value"):
    """{site: sum}; what is not rooted, or of another type than the site makes, is wrong."""
    sums = {}
    for frames, number in stacks(kind, value):
        site = site_of(frames)
        bare = RUNNER and re.match(r"libc\.so\.6\+0x", frames[0])  # that machine's C library has no names of its own functions
        if frames[0] not in ROOTS and not bare and not frames[0].startswith("[lost"):
            wrong.append(f"{kind}: a stack that does not end in a root: {';'.join(frames)}")
        # Exceptions allocate on their way: that is theirs, not the site's.
        if site and (frames[-1] == TYPES[site] or not site.startswith("Throw")):
            if kind != "gc" and frames[-1] != TYPES[site]:
                wrong.append(f"{kind}: {frames[-1]} is not what {site} makes")
            check_caller(kind, frames, site)
            sums[site] = sums.get(site, 0) + number
    sums["total"] = sum(number for _, number in stacks(kind, value))
    if not sums["total"]:
        wrong.append(f"{kind}: nothing was told")
    return sums


def allocations(truth):
    """Sites that are off by more than they may."""
    told, beyond = by_site("alloc"), []
    figure("alloc_bytes_error_pct", 100 * abs(told["total"] / truth["total"][1] - 1), "%")
    if abs(told["total"] / truth["total"][1] - 1) > TOTAL_OFF / 100:
        wrong.append(f"allocated bytes are off by more than {TOTAL_OFF} %")
    shared = sum(truth[site][1] for site in SHARED)
    for site, (_, bytes_made) in truth.items():
        if site == "total":
            continue
        rivals = shared if site in SHARED else sum(v for s, (_, v) in truth.items() if s != "total") - shared
        share = bytes_made / rivals
        error = PERIOD * math.sqrt(rivals / PERIOD * share * (1 - share)) + 1
        off = (told.get(site, 0) - bytes_made) / error
        print(f"  {site}: {bytes_made / 1e6:.1f} MB, told {told.get(site, 0) / 1e6:.1f}, off by {off:+.2f} standard errors")
        if abs(off) > 3:
            beyond.append(site)
    return beyond


def exceptions(truth):
    told = by_site("exception")
    for site, (count, _) in truth.items():
        if told.get(site) != count:
            wrong.append(f"{count} exceptions of {site} are told as {told.get(site, 0)}")
    figure("exception_count_errors", sum(abs(told.get(site, 0) - count) for site, (count, _) in truth.items()), "exceptions")


def collections(truth):
    """By how many % the pauses are off."""
    sums = {"count": {}, "value": {}}
    for value, into in sums.items():
        for frames, number in stacks("gc", value):
            into[frames[-1]] = into.get(frames[-1], 0) + number
    for generation in ("gen0", "gen1", "gen2"):
        if sums["count"].get(f"[gc {generation}]", 0) != truth[generation][0]:
            wrong.append(f"{truth[generation][0]} collections of {generation} are told as {sums['count']}")
    if sum(sums["count"].values()) != truth["total"][0]:
        wrong.append(f"{truth['total'][0]} collections are told as {sums['count']}")
    figure("gc_count_errors", abs(sum(sums["count"].values()) - truth["total"][0]), "collections")
    off = 100 * abs(sum(sums["value"].values()) / truth["total"][1] - 1)
    figure("gc_pause_error_pct", off, "%")
    return off


def sizes():
    """Each part of the heap after the last collection, and their sum without what is not used, as the collector says."""
    truth, told = run("sizes")["heap"], {";".join(frames): number for frames, number in stacks("heap", "value")}
    used, committed = truth.pop("used")[1], truth.pop("committed")[1]
    expected = {"[gc unused]": committed - sum(size for _, size in truth.values())}
    for part, (fragmented, size) in truth.items():
        expected[f"[gc {part}]"] = size - fragmented
        expected[f"[gc {part}];[gc fragmentation]"] = fragmented
    error = 0
    for part in sorted(set(told) | set(expected)):
        off = abs(told.get(part, 0) - expected.get(part, 0))
        error = max(error, 100 * off / committed)
        if off:
            wrong.append(f"heap: {part} has {expected.get(part, 0)} bytes and is told as {told.get(part, 0)}")
    figure("gc_heap_error_pct", error, "%")
    in_use = sum(number for part, number in told.items() if not part.endswith(("[gc fragmentation]", "[gc unused]")))
    figure("gc_heap_used_error_pct", 100 * abs(in_use / used - 1), "%")
    if abs(in_use / used - 1) > USED_OFF / 100:
        wrong.append(f"heap: {used} bytes are used, {in_use} are told")
    for part in ("gen2", "loh", "poh"):
        if not told.get(f"[gc {part}]"):
            wrong.append(f"heap: nothing is told of {part}")


def soak(seconds):
    """Everything at once for so long; a program that has not ended a minute later hangs."""
    if os.path.exists(profile):
        os.unlink(profile)
    env = dict(os.environ, DOTNET_GCgen0size="10000")  # hexadecimal, without 0x
    try:
        done = subprocess.run([program, "soak", str(seconds), profile], env=env, capture_output=True, text=True,
                              timeout=seconds + 60)
    except subprocess.TimeoutExpired:
        sys.exit("heap.py: the program hangs")
    print(done.stdout + done.stderr, end="")
    if done.returncode:
        sys.exit(f"heap.py: the program ended with {done.returncode}")
    for kind in ("alloc", "live", "exception", "gc", "lock", "wait"):
        by_site(kind)
    if not stacks("heap", "value"):
        wrong.append("heap: nothing was told")
    thrown = int(re.search(r"(\d+) exceptions", done.stdout).group(1))
    told = by_site("exception")["total"]
    if not 0.8 * thrown < told <= thrown: # switched off for a while now and then
        wrong.append(f"{thrown} exceptions are told as {told}")
    cut = int(re.search(r"(\d+) cut", done.stdout).group(1))
    whole = sum(int(n) for n in re.search(r"(\d+) exact, (\d+) with", done.stdout).groups())
    figure("soak_cut_stacks_pct", 100 * cut / (cut + whole), "%")
    if cut > 0.02 * whole:
        wrong.append(f"{cut} stacks of {cut + whole} are cut")
    figure("soak_wrong_stacks", len(set(wrong)), "stacks")


def limited():
    """With the limits per second: sums are right to within two strata of each stream, which may be 64 times longer."""
    counted = run("limited", DOTNET_gcConcurrent="0")
    for kind, strata in ("alloc", 4 * 2 * 64 * PERIOD), ("exception", 2 * 1024):
        told, true = by_site(kind)["total"], sum(v for site, (_, v) in counted[kind].items() if site != "total")
        figure(f"limited_{kind}_error_pct", 100 * abs(told / true - 1), "%")
        if abs(told - true) > strata + true / 100: # the runtime allocates too
            wrong.append(f"{true} of {kind} are told as {told} with limits")


def truth():
    counted = run(DOTNET_gcConcurrent="0")
    beyond, off = allocations(counted["alloc"]), collections(counted["gc"])
    if beyond or off > PAUSES_OFF:  # a loaded machine may take the processor between the runtime's clock and ours
        print(f"  once more: {', '.join(beyond)} pauses {off:.2f} %")
        counted = run(DOTNET_gcConcurrent="0")
        for site in set(beyond) & set(allocations(counted["alloc"])):
            wrong.append(f"bytes of {site} are off by more than 3 standard errors, twice")
        if min(off, collections(counted["gc"])) > PAUSES_OFF:
            wrong.append(f"pauses are off by more than {PAUSES_OFF} %, twice")
    exceptions(counted["exception"])
    sizes()


if len(sys.argv) > 4:
    soak(int(sys.argv[4]))
else:
    truth()
    limited()
for text in sorted(set(wrong))[:10]:
    print(f"heap.py: {text}", file=sys.stderr)
sys.exit(bool(wrong))
