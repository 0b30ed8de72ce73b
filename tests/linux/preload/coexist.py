#!/usr/bin/python3
"""A program that takes for granted that it is alone ends as without edgeprof: the last thread, a constructor, namespaces.

usage: coexist.py EDGEPROF PRELOAD PROGRAM LINKED PLUGIN WORK"""
import os
import subprocess
import sys
import tempfile

EDGEPROF, PRELOAD, PROGRAM, LINKED, PLUGIN, WORK = (os.path.abspath(argument) for argument in sys.argv[1:7])
FILTERS = ["filter-prctl", "filter-seccomp", "filter-all-threads", "filter-trap", "filter-end-thread", "filter-second", "filter-thread", "strict-thread", "filter-worker", "strict-worker",
           "filter-exec", "filter-exec-unseen", "filter-fork", "filter-asked"]
ROWS = [("raw-exit",), ("file-size",), ("pthread-exit",), ("thrd-exit",), ("constructor", PLUGIN), ("unshare-work",), ("unshare-join",), *((row,) for row in FILTERS)]
STATIC_TLS = 64
PATIENCE = 300  # s; a program that hangs never ends


def status(command, **more):
    try:
        return subprocess.run(command, capture_output=True, timeout=PATIENCE, env={**os.environ, **more}).returncode
    except subprocess.TimeoutExpired:
        return "still there"


def two_profilers():
    """The program's own profiler and the preloaded one: one of them counts the CPU time, and a line says so."""
    done = subprocess.run([LINKED, "twice"], capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, "LD_PRELOAD": PRELOAD, "EDGEPROF_ENDPOINT": f"file://{WORK}/twice"})
    if done.returncode == 4 and done.stderr.count("contains edgeprof and counts its CPU time") == 1 and "cpu 0\n" in done.stdout:
        return 0
    print(f"coexist: two profilers: {done.returncode} {done.stdout}{done.stderr}", file=sys.stderr)
    return 1


def never_sent():
    """A transport that never returns: ep_stop() gives its thread up, and says so."""
    done = subprocess.run([LINKED, "never-sent"], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode == 4 and "a thread of edgeprof does not end" in done.stderr:
        return 0
    print(f"coexist: never sent: {done.returncode} {done.stdout}{done.stderr}", file=sys.stderr)
    return 1


def static_tls():
    """Static TLS of libraries comes from a small reserve of the process."""
    wrong = 0
    for path in (PRELOAD, LINKED, PRELOAD.replace("-preload", "-memory")):
        if not os.path.exists(path):
            continue
        shown = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
        sizes = [int(line.split()[5], 16) for line in shown.splitlines() if line.split()[:1] == ["TLS"]]
        if sum(sizes) > STATIC_TLS:
            wrong += 1
            print(f"coexist: {os.path.basename(path)} has {sum(sizes)} bytes of static TLS, more than {STATIC_TLS}", file=sys.stderr)
    return wrong


def main():
    os.makedirs(WORK, exist_ok=True)
    wrong = 0
    for row in ROWS:
        bare = status([PROGRAM, *row])
        if row[0].startswith("unshare") and bare != 4:
            print(f"coexist: {row[0]}: this machine has no user namespaces (status {bare})")
            continue
        seen = {"edgeprof run": status([EDGEPROF, "run", "--level", "high", "--", PROGRAM, *row]),
                "preloaded": status([PROGRAM, *row], LD_PRELOAD=PRELOAD, EDGEPROF_ENDPOINT=f"file://{WORK}/out")}
        if row[0] == "file-size":  # limited from the start on, with files of edgeprof's own
            with tempfile.TemporaryDirectory(dir="/dev/shm") as kept:
                seen["kept"] = status(["prlimit", "--fsize=0", PROGRAM, *row], LD_PRELOAD=PRELOAD, EDGEPROF_ENDPOINT="http://127.0.0.1:1",
                                      EDGEPROF_SPOOL=f"{WORK}/spool", EDGEPROF_OUTLIVE=kept)
        if row[0] == "filter-exec-unseen":  # no function of a library sets this filter: a profiler in this process would not see it
            seen = {"executed": status([PROGRAM, *row], COEXIST_PRELOAD=PRELOAD, EDGEPROF_ENDPOINT=f"file://{WORK}/out")}
        elif row[0] in FILTERS:
            seen["linked"] = status([LINKED, *row])
        for way, got in seen.items():
            if got == 3 and bare == 0 and way == "edgeprof run":
                continue  # it ended; its threads of thrd_create() had no profile, which is what run's status 3 says
            if got != bare:
                wrong += 1
                print(f"coexist: {row[0]}: {way}: {got}, without edgeprof {bare}", file=sys.stderr)
    wrong += two_profilers() + never_sent() + static_tls()
    if not wrong:
        print(f"coexist: {len(ROWS)} programs end as without edgeprof")
    sys.exit(1 if wrong else 0)


main()
