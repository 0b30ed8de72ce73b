#!/usr/bin/python3
"""PostgreSQL under pgbench, with lasting connections and with one for each transaction (-C), which is a process each: the
profile has the CPU time of all its processes, as a shell's `times` tells it; nothing is left behind. Without PostgreSQL this tests
nothing and says so.

usage: postgres.py EDGEPROF"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

edgeprof = os.path.abspath(sys.argv[1])
tools = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
SECONDS = "4"
if not tools:
    sys.exit("postgres.py: skipped: there is no PostgreSQL (Debian: postgresql)")
# The server refuses to be root, and its user may not enter the tree's folder.
be = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
work = subprocess.run([*be, "mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip()
for file in (edgeprof, os.path.join(os.path.dirname(edgeprof), "libedgeprof-preload.so")):
    shutil.copy(file, work)
data, db, at = f"{work}/data", f"{work}/profiles.db", ["-h", work, "-U", "bench"]
failed = []


def check(good, text):
    if not good:
        failed.append(text)
        print(f"postgres.py: {text}", file=sys.stderr)


def tool(name, *arguments, **more):
    return subprocess.run([*be, f"{tools[-1]}/{name}", *arguments], cwd=work, capture_output=True, text=True, timeout=120, **more)


def held(pid):
    """Descriptors, and mappings that other processes share."""
    with open(f"/proc/{pid}/maps") as maps:
        return len(os.listdir(f"/proc/{pid}/fd")), len(re.findall(r"^\S+ ...s ", maps.read(), re.M))


def left_behind():
    return set(glob.glob("/dev/shm/*edgeprof*") + glob.glob("/tmp/edgeprof-*"))


def seconds(text, pattern):
    found = re.search(pattern, text, re.M)
    return float(found.group(1)) / {"ms": 1000, "us": 1e6, "µs": 1e6, "s": 1}[found.group(2)] if found else 0


def serve(form, options):
    before = left_behind()
    settings = ("listen_addresses=", f"unix_socket_directories={work}", "fsync=off", "jit=off", "max_connections=30")
    shell = ["sh", "-c", '"$@"; code=$?; times; exit $code', "sh"]
    server = [f"{tools[-1]}/postgres", "-D", data, *(f"--{setting}" for setting in settings)]
    run = subprocess.Popen([*be, f"{work}/edgeprof", "run", "-n", "5", "--db", db, "--", *shell, *server], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(200):
        if tool("pg_isready", *at, "-d", "postgres").returncode == 0:
            break
        time.sleep(0.1)
    if form == "pgbench":
        tool("pgbench", *at, "-i", "-q", "-s", "2", "postgres", check=True)
    tool("pgbench", *at, "-C", "-c", "2", "-t", "5", "postgres", check=True)
    time.sleep(0.3)  # for the last backends
    with open(f"{data}/postmaster.pid") as file:
        server = int(file.readline())
    holds = held(server)
    load = tool("pgbench", *at, *options, "-c", "4", "-j", "2", "-T", SECONDS, "postgres")
    time.sleep(0.3)
    now = held(server)  # the profiler's connection may have come
    check(now[0] - holds[0] in (0, 1) and now[1] == holds[1], f"{form}: descriptors and shared mappings {holds} became {now}")
    print(f"postgres.py: {form}: descriptors and shared mappings of the first process: {holds}, after the load {now}")
    os.kill(server, signal.SIGINT)  # fast shutdown
    out, complaints = run.communicate(timeout=60)
    used = sum(60 * float(minutes) + float(rest) for minutes, rest in re.findall(r"(\d+)m([\d.]+)s\b", out)[:4])
    total = seconds(out, r"cpu: ([\d.]+?)([mu]?s) in")
    short = seconds(out, r"^ *([\d.]+)([mu]?s)  short processes$")
    transactions = re.search(r"transactions actually processed: (\d+)", load.stdout)
    print(f"postgres.py: {form}: kernel {used:.2f} s, profile {total:.2f} s, {short:.2f} s of it in short processes; "
          f"{transactions and transactions.group(1)} transactions")
    print(f"figure forked_{form}_accounted {total / used:.4f} x")
    check(0.98 <= total / used <= 1.02, f"{form}: accounted {total / used:.4f}\n{out}")
    if form == "pgbench":  # else most processes end before their profilers start
        check(total - short >= 0.2 * used, f"{form}: only {total - short:.2f} s are profiled\n{out}")
    check(load.returncode == 0 and transactions and int(transactions.group(1)) > 0, f"{form}: {load.stderr}")
    check(run.returncode == 0, f"{form}: ended with {run.returncode}: {complaints}")
    check(left_behind() <= before, f"{form}: left {left_behind() - before}")
    return short / used


try:
    tool("initdb", "-D", data, "-A", "trust", "-U", "bench", "--no-sync", check=True)
    lasting = serve("pgbench", [])
    connecting = serve("pgbench_connect", ["-C"])
    check(0 < lasting < connecting, f"short processes have {lasting:.3f} of the CPU time, and {connecting:.3f} with -C")
finally:
    shutil.rmtree(work, ignore_errors=True)
if failed:
    sys.exit(f"postgres.py: {len(failed)} failures")
