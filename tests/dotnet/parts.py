#!/usr/bin/python3
"""What each part of the .NET package adds to a program for another machine.

    parts.py --archive LIBRARY --rid RID --work SCRATCH [--docs PAGE]

Publishes a hello world without the package, with it, and with each part left out (EdgeProfTls=false ...), and prints
the bytes of file and static memory as the rows of docs/memory.md. --docs: fails if the page's rows differ by more than a
tolerance, or if a goal is missed."""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys

PROJECT = "tests/dotnet/Hello"
ALL = {"EdgeProfSpans": "true", "EdgeProfRoutes": "true", "EdgeProfMetrics": "true", "EdgeProfAwaited": "true",
       "EdgeProfSignals": "true"}
# The row's name and its properties. Rows of a part that is left out count from the row "everything".
TOTALS = [("as it comes", {}), ("everything", ALL),
          ("without https and pprof", {"EdgeProfTls": "false", "EdgeProfPprof": "false"}),
          ("least", {f"EdgeProf{part}": "false" for part in ("Tls", "Pprof", "Spool", "Endpoints", "Incidents")})]
LEFT_OUT = ["Tls", "Pprof", "Endpoints", "Spool", "Incidents", "Awaited", "Spans"]
# Most bytes by which a row may grow: file and static memory.
GOALS = {"as it comes": (700_000, 65_536), "without https and pprof": (360_000, 65_536)}


def publish(a, folder, properties):
    command = ["dotnet", "publish", "-nologo", "-v", "quiet", f"-p:ForRuntime={a.rid}", f"-p:EdgeProfBuild={folder}/",
               f"-p:EdgeProfNativeLibrary={os.path.abspath(a.archive)}"]
    command += ["-p:LinkerFlavor=lld"] if a.rid != "linux-x64" else []
    command += [f"-p:{name}={value}" for name, value in properties.items()] + [PROJECT]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"parts: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    program = pathlib.Path(folder, "Hello/bin/Release/net10.0", a.rid, "publish/Hello")
    sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    bss = int(re.search(r" \.bss +NOBITS +\w+ \w+ (\w+)", sections).group(1), 16)
    return program.stat().st_size, bss


def ends_well(a, folder):
    """A program that handles no signal by itself delivers its profile at SIGTERM, and the signal ends it. Returns the fault."""
    machine = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"] if a.rid == "linux-arm64" else []
    profile = pathlib.Path(folder, "at-end")
    profile.unlink(missing_ok=True)
    program = os.path.join(folder, "Hello/bin/Release/net10.0", a.rid, "publish/Hello")
    with subprocess.Popen(machine + [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env={"EDGEPROF_ENDPOINT": f"file://{profile}", "EDGEPROF_LEVEL": "high"}) as process:
        process.stdout.readline()
        process.terminate()
        status = process.wait(60)
    delivered = profile.exists() and profile.stat().st_size > 0
    return "" if delivered and status == -signal.SIGTERM else f"SIGTERM: status {status}, profile delivered: {delivered}"


def row(name, change):
    return f"| {name} | {change[0]:,} | {change[1]:,} |"


def rows(a):
    folder = os.path.abspath(a.work)
    plain = publish(a, folder + "/plain", {"EdgeProf": "false"})
    print(f"without the package: file {plain[0]:,}, static memory (.bss) {plain[1]:,}", flush=True)
    whole = None
    for name, properties in TOTALS:
        size = publish(a, folder + "/with", properties)
        whole = size if name == "everything" else whole
        yield name, (size[0] - plain[0], size[1] - plain[1])
    for part in LEFT_OUT:
        size = publish(a, folder + "/with", {**ALL, f"EdgeProf{part}": "false"})
        yield f"`EdgeProf{part}=false`", (size[0] - whole[0], size[1] - whole[1])


def differs(measured, written):
    return any(abs(m - w) > abs(w) / 10 + 8192 for m, w in zip(measured, written))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--archive", required=True)
    parser.add_argument("--rid", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--docs")
    a = parser.parse_args()
    page = pathlib.Path(a.docs).read_text(encoding="utf-8") if a.docs else ""
    faults = []
    for name, change in rows(a):
        print(row(name, change), flush=True)
        written = re.search(r"^\| " + re.escape(name) + r" \| (-?[\d,]+) \| (-?[\d,]+) \|$", page, re.M)
        if name == "as it comes":
            faults += filter(None, [ends_well(a, os.path.abspath(a.work) + "/with")])
        if a.docs and not written:
            faults.append(f"{a.docs} has no row {name}")
        elif a.docs and differs(change, [int(number.replace(",", "")) for number in written.groups()]):
            faults.append(f"{a.docs}: {written.group(0)} is now {row(name, change)}")
        if a.docs and any(m > most for m, most in zip(change, GOALS.get(name, change))):
            faults.append(f"{name}: at most {GOALS[name]}, not {change}")
    for fault in faults:
        print("parts: " + fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
