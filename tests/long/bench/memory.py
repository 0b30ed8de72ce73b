#!/usr/bin/python3
"""Measures what edgeprof adds to a program's memory, by feature. docs/memory.md explains the figures.

usage: memory.py ARCHIVE SERVICE PLAIN WORK
ARCHIVE is the package's libedgeprof.a. SERVICE and PLAIN are the sample service with and without the package.
Both services run in turns under the same load, so a busy machine does not favour one of them."""
import os
import re
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "dotnet"))
import gateway  # pylint: disable=wrong-import-position

ROUNDS = int(os.environ.get("MEMORY_ROUNDS", "8"))
REQUESTS = 300
# The two threads of the profiler have stacks of this size; no other thread of the service has.
OWN_STACK_KIB = 256
HEAP_BYTES = 4 << 30
# Archive members whose static memory belongs to one feature. What no feature claims is the base.
FEATURES = {
    "names": ("names.o",),
    "control": ("control.o",),
    "headers": ("http.o",),
    "dotnet_glue": ("glue.o",),
    "dotnet_live": ("live_handles.o",),
}


def figure(name, value, unit):
    print(f"figure {name} {value} {unit}")


def bss_figures(archive):
    sizes = subprocess.run(["size", archive], capture_output=True, text=True, check=True).stdout
    members = {}
    for line in sizes.splitlines()[1:]:
        words = line.split()
        members[words[5]] = members.get(words[5], 0) + int(words[2])  # some have one name
    claimed = set()
    for feature, files in FEATURES.items():
        figure(f"bss_{feature}_bytes", sum(members[name] for name in files), "bytes")
        claimed.update(files)
    figure("bss_base_bytes", sum(size for name, size in members.items() if name not in claimed), "bytes")
    figure("bss_archive_bytes", sum(members.values()), "bytes")


def binary_figures(service, plain):
    def loaded(path):
        words = subprocess.run(["size", path], capture_output=True, text=True, check=True).stdout.splitlines()[1].split()
        return [int(word) for word in words[:3]]

    grown = os.path.getsize(service) - os.path.getsize(plain)
    figure("binary_growth_bytes", grown, "bytes")
    for name, with_it, without in zip(("text", "data", "bss"), loaded(service), loaded(plain)):
        figure(f"binary_{name}_growth_bytes", with_it - without, "bytes")


def resident_kib(pid):
    """Resident memory outside of the collector's heap, and the touched part of the profiler's stacks."""
    areas = []
    for line in open(f"/proc/{pid}/smaps", encoding="utf-8"):
        if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line):
            areas.append([int(head[1], 16), int(head[2], 16), head[3], 0])
        elif line.startswith("Rss:"):
            areas[-1][3] = int(line.split()[1])
    # The heap is reserved in one piece, of which the last and largest part has no pages yet.
    end = max((area for area in areas if area[2].startswith("---")), key=lambda area: area[1] - area[0])[1]
    outside = sum(rss for start, _, _, rss in areas if not end - HEAP_BYTES <= start < end)
    return outside, sum(rss for start, stop, _, rss in areas if stop - start == OWN_STACK_KIB << 10)


def rss_kib(program, work, **settings):
    # A small, fixed generation 0: the collector's own choice varies by more than what is measured.
    process, url = gateway.start(program, os.path.join(work, "service.log"), DOTNET_GCgen0size="200000",
                                 DOTNET_gcConcurrent="0", DOTNET_GCRegionRange=f"{HEAP_BYTES:x}", **settings)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        for _ in range(REQUESTS):
            opener.open(url + "/burn", timeout=30).read()
        time.sleep(1)
        return resident_kib(process.pid)
    finally:
        process.terminate()
        process.wait()


def main():
    archive, service, plain, work = sys.argv[1:]
    os.makedirs(work, exist_ok=True)
    bss_figures(archive)
    binary_figures(service, plain)
    profile = os.path.join(work, "profile")
    ways = {
        "plain": (plain, {}),
        "linked": (service, {}),
        "low": (service, {"EDGEPROF_ENDPOINT": "file://" + profile, "EDGEPROF_LEVEL": "low"}),
        "high": (service, {"EDGEPROF_ENDPOINT": "file://" + profile, "EDGEPROF_LEVEL": "high"}),
    }
    seen = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (program, settings) in ways.items():
            if os.path.exists(profile):
                os.remove(profile)
            seen[name].append(rss_kib(program, work, **settings))
    # The least of all rounds: what the runtime has not freed yet only ever adds.
    least = {name: min(rss for rss, _ in values) for name, values in seen.items()}
    figure("rss_plain_kib", least["plain"], "KiB")
    figure("rss_linked_delta_kib", least["linked"] - least["plain"], "KiB")
    figure("rss_delta_kib", least["low"] - least["plain"], "KiB")
    figure("rss_high_delta_kib", least["high"] - least["plain"], "KiB")
    figure("stacks_touched_kib", max(stacks for _, stacks in seen["high"]), "KiB")


main()
