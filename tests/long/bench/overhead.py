#!/usr/bin/python3
"""What profiling costs the sample service, at each level, in percent of the CPU time that the service uses.

usage: overhead.py PROGRAM EDGEPROF WORK
PROGRAM is the sample service linked with measure_overhead.o, EDGEPROF the host tool, which takes the profiles. Each level's
limit is the governor's budget as well (EDGEPROF_BUDGET).

overhead_LEVEL_timed_pct   direct accounting under load, after WARM seconds: time in the handler and in hooks, what the
                           kernel takes for each signal, and CPU time of the profiler's two threads. Reading the clock
                           around a hook takes longer than a hook that has nothing to do: of the hooks of waits and
                           allocations counts what a call takes beyond that at the level low, where they are off and are a
                           load and a branch
overhead_LEVEL_paired_pct  CPU time of the very same work with and without the profiler, runs interleaved: mean of the
                           rounds' differences, _lo and _hi the ends of its 95 % interval. Without tags and spans: what a
                           service says of its work, and the spans that it records for it, is its own choice

Ends with 1 when a level is over its limit, and says so when the interval does not include what was accounted."""
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time

LEVELS = {"low": 0.05, "medium": 0.15, "high": 0.3}
WARM, SECONDS = 12, 30
ROUNDS, REQUESTS, BURSTS = int(os.environ.get("OVERHEAD_ROUNDS", "12")), 1600, 64  # no pairs unless ROUNDS is in T_95
T_95 = {4: 3.182, 8: 2.365, 12: 2.201, 16: 2.131, 24: 2.069, 32: 2.040}  # Student's, by number of rounds

program, edgeprof, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
os.makedirs(work, exist_ok=True)
off_ns = {}  # a hook's call at the first level, low
measured = os.path.join(work, "measured")


def await_url(process, path, pattern):
    for _ in range(150):
        found = re.search(pattern, open(path, encoding="utf-8").read())
        if found or process.poll() is not None:
            break
        time.sleep(0.1)
    if not found:
        process.kill()
        sys.exit(f"overhead.py: {process.args[0]} did not start, see {path}")
    return found.group(1)


def spawn(name, command, env, pattern):
    path = os.path.join(work, name + ".log")
    with open(path, "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    return process, await_url(process, path, pattern)


def clean_environment(**more):
    return dict({k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}, **more)


def service(level, **more):
    env = clean_environment(ASPNETCORE_URLS="http://127.0.0.1:0", **more)
    if level != "off":
        env.update(EDGEPROF_ENDPOINT=server_url, EDGEPROF_LEVEL=level, EDGEPROF_BUDGET=f"{1e4 * LEVELS[level]:.0f}")
    return spawn("service", [program], env, r"sensor gateway: (http://127\S*)")


def load(url, *more):
    subprocess.run([program, "--load", url, *map(str, more)], check=True, stdout=subprocess.DEVNULL,
                   env=clean_environment())


def end(process):
    """CPU time of the whole process, in seconds."""
    process.send_signal(signal.SIGTERM)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"overhead.py: the service ended with {process.returncode}, see {work}/service.log")
    return usage.ru_utime + usage.ru_stime


def accounted(level):
    running, url = service(level, EDGEPROF_MEASURE=measured)
    load(url, "--seconds", WARM)
    running.send_signal(signal.SIGUSR2)
    load(url, "--seconds", SECONDS)
    running.send_signal(signal.SIGUSR2)
    time.sleep(0.2)
    end(running)
    got = {name: int(value) for name, value in map(str.split, open(measured, encoding="utf-8"))}
    ns = got["clock_ns"] / got["tsc"]
    kind, work = (got[name + "_cycles"] * ns / max(1, got[name + "_calls"]) for name in ("kind", "work"))
    off_ns.setdefault("kind", kind)
    bare = max(0, got["probe_cycles"] - got["check_cycles"]) * ns
    parts = {
        "handler": got["handler_ns"],
        "signals": got["signals"] * bare,
        "hooks": got["kind_calls"] * max(0, kind - off_ns["kind"]),
        "tags": got["work_calls"] * work,
        "collect": got["collect_ns"],
        "deliver": got["deliver_ns"],
    }
    if got["signals"] == 0 or got["probes"] < 20 or got["collect_ns"] == 0:
        sys.exit(f"overhead.py: nothing was measured: {got}")
    cpu = got["process_ns"]
    share = {name: 100 * value / cpu for name, value in parts.items()}
    event = got["event_cycles"] * ns / max(1, got["events"])
    print(f"overhead.py: {level}: {cpu / 1e9:.1f} s of CPU time; "
          + ", ".join(f"{name} {value:.4f} %" for name, value in share.items())
          + f"; {got['signals']} signals of {bare:.0f} + {got['handler_ns'] / got['signals']:.0f} ns, "
          f"{got['kind_calls']} calls of hooks of {kind:.0f} ns, {got['work_calls']} changes of work of {work:.0f} ns, "
          f"{got['events']} events of {event:.0f} ns", file=sys.stderr)
    return sum(share.values())


def same_work(level):
    running, url = service(level, SENSOR_BURN_BURSTS=str(BURSTS), SENSOR_LABELS="0")
    load(url, "--seconds", 120, "--requests", REQUESTS)
    return end(running)


def paired():
    """By level: differences to the run without the profiler of the same round, in percent."""
    names, differences = ["off", *LEVELS], {level: [] for level in LEVELS}
    if ROUNDS in T_95:
        same_work("off")  # files are in memory after it
    for turn in range(ROUNDS):
        order = names[turn % 4:] + names[:turn % 4]
        cpu = {level: same_work(level) for level in (order if turn % 2 else reversed(order))}
        print("overhead.py: " + ", ".join(f"{level} {cpu[level]:.3f} s" for level in names), file=sys.stderr)
        for level in LEVELS:
            differences[level].append(100 * (cpu[level] / cpu["off"] - 1))
    return differences


server, server_url = spawn("server", [edgeprof, "serve", "--listen", "127.0.0.1:0", "--db", os.path.join(work, "db")],
                           clean_environment(), r"(http://127\.0\.0\.1:\d+)")
over = []
try:
    direct = {level: accounted(level) for level in LEVELS}
    difference = paired()
finally:
    server.terminate()
    server.wait(20)
for level, limit in LEVELS.items():
    print(f"figure overhead_{level}_timed_pct {direct[level]:.4f} %")
    if direct[level] > limit:
        over.append(f"{level} is {direct[level]:.3f} %, the limit {limit} %")
    if ROUNDS not in T_95:
        continue
    mean = statistics.mean(difference[level])
    half = T_95[ROUNDS] * statistics.stdev(difference[level]) / math.sqrt(ROUNDS)
    print(f"figure overhead_{level}_paired_pct {mean:.3f} %")
    print(f"figure overhead_{level}_paired_lo {mean - half:.3f} %")
    print(f"figure overhead_{level}_paired_hi {mean + half:.3f} %")
    if not mean - half <= direct[level] <= mean + half:
        print(f"overhead.py: {level}: the interval does not include what was accounted", file=sys.stderr)
if over:
    sys.exit("overhead.py: " + "; ".join(over))
