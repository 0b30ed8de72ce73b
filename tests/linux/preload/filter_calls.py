#!/usr/bin/python3
"""The list of system calls in port/linux/filter_calls.c has every call that edgeprof makes in a program, with all features on: strace sees
no other, apart from those that the program makes without edgeprof.

usage: filter_calls.py PRELOAD PROGRAM WORK"""
import os
import re
import shutil
import subprocess
import sys

PRELOAD, PROGRAM, WORK = (os.path.abspath(argument) for argument in sys.argv[1:4])
LIST = os.path.join(os.path.dirname(__file__), "../../../port/linux/filter_calls.c")
ENDS = {"exit_group", "execve"}
FEATURES = {"EDGEPROF_LEVEL": "high", "EDGEPROF_INTERVAL": "200", "EDGEPROF_OTEL_CONTEXT": "publish,read",
            "EDGEPROF_PULL": "39471", "EDGEPROF_CONTROL": f"{WORK}/control", "EDGEPROF_CRASH": f"{WORK}/crash", "EDGEPROF_INCIDENT": "1"}


def calls_of(environment, row):
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK + "/spool")
    os.makedirs(WORK + "/crash")
    given = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]  # for the program, not for strace
    subprocess.run(["strace", "-f", "-q", "-o", f"{WORK}/trace", *given, PROGRAM, row], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=300, check=False)
    with open(f"{WORK}/trace", encoding="utf-8", errors="replace") as file:
        return set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", file.read(), re.M))


def main():
    with open(LIST, encoding="utf-8") as file:
        listed = set(re.findall(r"\bCALL(?:_WITH)?\((\w+)|\.name = \"(\w+)\"", file.read()))
    listed = {a or b for a, b in listed}
    made, bare = set(), set()
    for row in ("filter-asked", "unshare-work"):
        bare |= calls_of({}, row)
        for sink in ({"EDGEPROF_ENDPOINT": "http://127.0.0.1:9", "EDGEPROF_SPOOL": f"{WORK}/spool"}, {"EDGEPROF_ENDPOINT": f"file://{WORK}/out"},
                     {"EDGEPROF_ENDPOINT": "http://localhost:9"}):
            made |= calls_of({"LD_PRELOAD": PRELOAD, **FEATURES, **sink}, row)
    missing = sorted(made - bare - listed - ENDS)
    if missing or "timer_create" not in made:
        print(f"filter_calls: edgeprof makes calls that the list lacks: {' '.join(missing)}", file=sys.stderr)
        sys.exit(1)
    print(f"filter_calls: {len(made - bare)} system calls that the program makes only with edgeprof, all listed")


main()
