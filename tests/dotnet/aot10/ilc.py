#!/usr/bin/env python3
"""The quality of CPU stacks in ILC, .NET's ahead-of-time compiler: a NativeAOT program as Microsoft published it.

    ilc.py --edgeprof TOOL --ilc PROGRAM --rsp FILE --folder SCRATCH --name NAME

Compiles what FILE, of a publish, says, under `edgeprof run --level high`. Prints the shares of CPU time, and fails when
more than 1 % has a gap, 0.2 % is cut, 0.1 % truncated, or the profile's total differs from the CPU time that the system counted.
"""
import argparse
import pathlib
import re
import subprocess
import sys

KINDS = {"[gap]": "gap", "[stack cut]": "cut", "[truncated]": "truncated", "[thread exit]": "thread exit", "[deeper frames]": "deeper"}
BOUNDS = {"gap": 1, "cut": 0.2, "truncated": 0.1}
TIMED = '"$@"; status=$?; times >"$0"; exit $status'  # the shell's `times`: its own, then its children's


def seconds(text):
    """Of `times`: user and system time of children, its second line."""
    return sum(60 * int(minutes) + float(rest) for minutes, rest in re.findall(r"(\d+)m([\d.]+)s", text.splitlines()[1]))


def main():
    parser = argparse.ArgumentParser()
    for option in ("edgeprof", "ilc", "rsp", "folder", "name"):
        parser.add_argument("--" + option, required=True)
    a = parser.parse_args()
    folder = pathlib.Path(a.folder).resolve()
    database, times, rsp = (folder / (a.name + ending) for ending in (".db", ".times", ".rsp"))
    database.unlink(missing_ok=True)
    source = pathlib.Path(a.rsp).read_text()
    rsp.write_text(re.sub(r"^-o:.*$", f"-o:{folder / a.name}.o", source, flags=re.M))
    subprocess.run([a.edgeprof, "run", "--level", "high", "--service", a.name, "--only", "ilc", "--db", database, "--",
                    "sh", "-c", TIMED, times, a.ilc, f"@{rsp}"], check=True, stdout=subprocess.DEVNULL)
    folded = subprocess.run([a.edgeprof, "export", "--db", database, "--service", a.name, "--kind", "cpu", "--folded"],
                            check=True, capture_output=True, text=True).stdout
    total, shares = 0, dict.fromkeys(["exact", *KINDS.values()], 0)
    for line in folded.splitlines():
        path, _, value = line.rpartition(" ")
        kind = next((KINDS[frame] for frame in path.split(";") if frame in KINDS), "exact")
        shares[kind] += int(value)
        total += int(value)
    shares = {kind: 100 * value / total for kind, value in shares.items()}
    accounted = total / seconds(times.read_text()) / 1e7
    print(f"{a.name}: {total / 1e9:.2f} s of CPU time, {accounted:.1f} % accounted; " +
          ", ".join(f"{kind} {share:.2f} %" for kind, share in shares.items()))
    bad = [kind for kind, most in BOUNDS.items() if shares[kind] > most]
    if not 99 <= accounted <= 101:
        bad.append("accounted")
    return f"{a.name}: out of bounds: {', '.join(bad)}" if bad else 0


if __name__ == "__main__":
    sys.exit(main())
