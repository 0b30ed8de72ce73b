#!/usr/bin/python3
"""What profilers cost that a user may pick instead: CPU time of the same work with each, in turns, as a ratio to the work without.

usage: peers.py PRELOAD MEMORY WORK [ROUNDS]     the two preload libraries, a folder

Of each profiler at 97 samples a second: CPU time of all its processes and of the work. A figure is the median of the rounds' ratios, with
the quartiles as its interval. A profiler that is not installed is skipped with a line; LIBPROFILER is the path of gperftools' library, if
it is elsewhere than in /usr/lib."""
import glob
import os
import shutil
import statistics
import subprocess
import sys

preload, memory, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 9
os.makedirs(work, exist_ok=True)
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "LD_PRELOAD", "CPUPROFILE"))}
PYTHON = ["/usr/bin/python3", "-S", "-c"]
CPU = PYTHON + ["def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nf(31)"]
ALLOCATE = PYTHON + ["kept = []\nfor i in range(300000):\n    kept.append(bytearray(1000 + i % 7000))\n    if i > 1000: kept[i - 1000] = None"]
NOTHING = ["/bin/sh", "-c", "i=0; while [ $i -lt 40 ]; do /bin/true; i=$((i + 1)); done"]


def edgeprof(library, **more):
    env = {"LD_PRELOAD": library, "EDGEPROF_ENDPOINT": f"file://{work}/edgeprof.out", "EDGEPROF_SERVICE": "peers", **more}
    return lambda command: (command, env)


def libprofiler(command):
    library = glob.glob(os.environ.get("LIBPROFILER", "/usr/lib/*/libprofiler.so.0"))
    return library and (command, {"LD_PRELOAD": library[0], "CPUPROFILE": f"{work}/cpu", "CPUPROFILE_FREQUENCY": "97"})


def perf(command):
    return shutil.which("perf") and (["perf", "record", "-q", "-F", "97", "-e", "cpu-clock", "-g", "-o", f"{work}/perf", "--", *command], {})


def heaptrack(command):
    return shutil.which("heaptrack") and (["heaptrack", "-o", f"{work}/heap", *command], {})


LOADS = {
    "cpu": (CPU, {"edgeprof_low": edgeprof(preload, EDGEPROF_LEVEL="low"), "edgeprof_medium": edgeprof(preload, EDGEPROF_LEVEL="medium"),
                  "libprofiler": libprofiler, "perf": perf}),
    "allocations": (ALLOCATE, {"edgeprof_memory": edgeprof(memory, EDGEPROF_KINDS="cpu,alloc,live"), "heaptrack": heaptrack}),
    "processes": (NOTHING, {"edgeprof_medium": edgeprof(preload, EDGEPROF_LEVEL="medium"), "libprofiler": libprofiler, "perf": perf}),
}


def seconds(command, more):
    """CPU time of the command and of every process that it waits for."""
    done = subprocess.Popen(command, env={**CLEAN, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    err = done.stderr.read()
    _, status, used = os.wait4(done.pid, 0)
    done.returncode = status
    if status:
        sys.exit(f"peers.py: {command[0]}: status {status}: {err}")
    return used.ru_utime + used.ru_stime


for load, (command, peers) in LOADS.items():
    chosen = {name: peer(command) for name, peer in peers.items()}
    for name in [name for name, how in chosen.items() if not how]:
        print(f"peers.py: {name} is not installed", file=sys.stderr)
        del chosen[name]
    ratios = {name: [] for name in chosen}
    for _ in range(rounds):
        for name, how in chosen.items():  # the work without, before each: neighbours in time are compared
            plain = seconds(command, {})
            ratios[name].append(100 * (seconds(*how) / plain - 1))
    for name, values in ratios.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"figure peer_{load}_{name}_pct {middle:.2f} %")
        print(f"peers.py: {load}, {name}: {middle:+.1f} %, quartiles {low:+.1f} to {high:+.1f}, {rounds} rounds", file=sys.stderr)
