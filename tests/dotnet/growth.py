#!/usr/bin/python3
"""What the .NET package adds to a published program.

    growth.py --package NUPKG --work SCRATCH --program NAME WITH WITHOUT... [--most] [--rss]

Fails when an archive in the package has debug information, lacks the symbols or unwind tables that stacks need, or is larger
than its limit. Prints by how many bytes each program grows. --most: fails above the limits. --rss: also resident memory."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request
import zipfile

import gateway

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ROUNDS = 5
REQUESTS = 100
ARCHIVE_MOST = 2_400_000
LOCAL_LEAST = 300  # static functions
# A little above what the sample service grows by, of which most is code for https, pprof and names.
MOST = {"file": 760_000, "text": 740_000, "data": 20_000, "bss": 120_000, "tls": 64}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def archives(package, work):
    """Faults of the archives in the package."""
    faults = []
    with zipfile.ZipFile(package) as nupkg:
        names = [name for name in nupkg.namelist() if name.endswith("libedgeprof.a")]
        for name in names:
            path = nupkg.extract(name, work)
            sections = set(re.findall(r"^ +\[ *\d+\] (\.\S+)", output("readelf", "-SW", path), re.M))
            symbols = output("readelf", "-sW", path)
            print(f"{name}: {os.path.getsize(path):,} bytes, {len(sections)} names of sections")
            faults += [f"{name} has {section}" for section in sorted(sections) if section.startswith((".debug", ".zdebug", ".comment"))]
            faults += [f"{name} has no symbol {symbol}" for symbol in ("ep_dotnet_start", "__wrap_RhpGcAlloc")
                       if f" {symbol}\n" not in symbols]
            if len(re.findall(r" FUNC +LOCAL ", symbols)) < LOCAL_LEAST:
                faults.append(f"{name} has not the names of static functions")
            if not any(section.startswith((".eh_frame", ".ARM.exidx")) for section in sections):
                faults.append(f"{name} has no unwind tables")
            if os.path.getsize(path) > ARCHIVE_MOST:
                faults.append(f"{name} has more than {ARCHIVE_MOST:,} bytes")
    return faults if names else ["the package has no archive"]


def sizes(program):
    sections = {}
    for line in output("size", "-A", "-d", program).splitlines():
        words = line.split()
        if len(words) == 3 and words[0].startswith((".", "_")):
            sections[words[0]] = int(words[1])
    text, data, bss = (int(word) for word in output("size", program).splitlines()[1].split()[:3])
    tls = sections.get(".tdata", 0) + sections.get(".tbss", 0)
    return {"file": os.path.getsize(program), "text": text, "data": data, "bss": bss - sections.get(".tbss", 0), "tls": tls}


def resident(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def hello_rss(program, settings):
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=gateway.environment(**settings)) as process:
        process.stdout.readline()
        time.sleep(0.5)
        kib = resident(process.pid)
        process.stdin.close()
    return kib


def sample_rss(program, settings, work):
    process, url = gateway.start(program, os.path.join(work, "service.log"), DOTNET_GCgen0size="200000", DOTNET_gcConcurrent="0",
                                 **settings)
    try:
        for _ in range(REQUESTS):
            OPENER.open(url + "/burn", timeout=30).read()
        time.sleep(1)
        return resident(process.pid)
    finally:
        process.terminate()
        process.wait()


def rss(name, program, plain, work):
    """The least of some rounds in turns: a busy machine and the collector only ever add."""
    profile = os.path.join(os.path.abspath(work), "profile")
    ways = {"plain": (plain, {}), "linked": (program, {}),
            "profiled": (program, {"EDGEPROF_ENDPOINT": "file://" + profile})}
    seen = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, (path, settings) in ways.items():
            pathlib.Path(profile).unlink(missing_ok=True)
            seen[way].append(hello_rss(path, settings) if name == "hello" else sample_rss(path, settings, work))
    least = {way: min(values) for way, values in seen.items()}
    print(f"figure {name}_rss_plain_kib {least['plain']} KiB")
    for way in ("linked", "profiled"):
        print(f"figure {name}_rss_{way}_growth_kib {least[way] - least['plain']} KiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--program", nargs=3, action="append", default=[])
    parser.add_argument("--most", action="store_true")
    parser.add_argument("--rss", action="store_true")
    a = parser.parse_args()
    os.makedirs(a.work, exist_ok=True)
    faults = archives(a.package, a.work)
    print(f"figure package_bytes {os.path.getsize(a.package)} bytes")
    for name, program, plain in a.program:
        with_it, without = sizes(program), sizes(plain)
        for part, most in MOST.items():
            grown = with_it[part] - without[part]
            print(f"figure {name}_{part}_growth_bytes {grown} bytes")
            if a.most and grown > most:
                faults.append(f"{name}: {part} grows by {grown:,} bytes, at most {most:,}")
        if a.rss:
            rss(name, program, plain, a.work)
    for fault in faults:
        print("growth: " + fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
