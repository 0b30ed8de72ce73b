#!/usr/bin/python3
"""The time in which threads of real programs did not run, against the profile's waits with idle waits on: each nanosecond
once, whoever waits how. The truth is the kernel's: the life of each thread less its CPU time. What it waits in the run
queue belongs to a wait if a call that waited was on its way, which the kernel does not tell.

usage: explained.py TOOLS WORK [ROW...]"""
import os
import pathlib
import shutil
import subprocess
import sys
import time

LEAST, MOST = 0.85, 1.1  # before the first look and after the last one nothing is seen: some 0.5 s of each thread
LOOK = 0.02

THREADS = """
import queue, subprocess, threading, time
jobs = queue.Queue()
def work():
    while jobs.get() is not None:
        sum(range(20000)); time.sleep(0.002)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
end = time.monotonic() + 6
while time.monotonic() < end:
    jobs.put(1); time.sleep(0.005)
subprocess.run(["sleep", "1"])
for _ in threads: jobs.put(None)
for thread in threads: thread.join()
"""
REDIS = """
import socket, subprocess, time
with socket.socket() as free: free.bind(("127.0.0.1", 0)); port = str(free.getsockname()[1])
load = subprocess.Popen(["sh", "-c", "sleep 1; redis-benchmark -q -p %s -n 60000 -t set,get; sleep 3; redis-cli -p %s shutdown nosave" % (port, port)])
import os; os.execv("/usr/bin/redis-server", ["redis-server", "--port", port, "--save", "", "--appendonly", "no"])
"""


def rows(tools, work):
    go = work / "goroutines"
    return {
        "python, 8 threads": ["/usr/bin/python3", "-c", THREADS],
        "system calls by assembler": [tools / "asleep"],
        "Go, 8 goroutines": [go] if built_go(go) else None,
        "ripgrep": [shutil.which("rg"), "-uu", "-j4", "profil[e]", "/usr/lib"] if shutil.which("rg") else None,
        "Redis with jemalloc": ["/usr/bin/python3", "-c", REDIS] if shutil.which("redis-server") else None,
    }


def built_go(program):
    """Linked by gcc, so that it has a dynamic section."""
    source = pathlib.Path(__file__).with_name("goroutines.go")
    environment = {**os.environ, "GO111MODULE": "off", "GOFLAGS": "", "GOCACHE": str(program.parent / "cache")}
    return bool(shutil.which("go")) and subprocess.run(["go", "build", "-ldflags=-linkmode=external", "-o", program, source], env=environment,
                                                       check=False).returncode == 0


def program_of(run):
    """The process that `edgeprof run` has started and that is no edgeprof any more."""
    while run.poll() is None:
        for task in pathlib.Path(f"/proc/{run.pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                try:
                    if "edgeprof" not in os.path.basename(os.readlink(f"/proc/{child}/exe")):
                        return child
                except OSError:
                    pass
        time.sleep(LOOK / 10)
    sys.exit(f"explained.py: {run.args}: no program")


def off_cpu(run):
    """Seconds in which its threads slept, seconds in the run queue, and their number. edgeprof's own are left out."""
    program, threads = program_of(run), {}
    while run.poll() is None:
        now = time.monotonic()
        try:
            for task in pathlib.Path(f"/proc/{program}/task").iterdir():
                ran, ready = (int(word) / 1e9 for word in (task / "schedstat").read_text().split()[:2])
                if not (task / "comm").read_text().startswith("edgeprof"):
                    threads.setdefault(task.name, [(now - ran - ready, ready), None])[1] = (now - ran - ready, ready)
        except OSError:
            pass
        time.sleep(LOOK)
    asleep, ready = (sum(last[i] - first[i] for first, last in threads.values()) for i in range(2))
    return asleep, ready, len(threads)


def look(name, command, edgeprof, db):
    for end in ("", "-wal", "-shm"):
        pathlib.Path(f"{db}{end}").unlink(missing_ok=True)
    environment = {**os.environ, "EDGEPROF_IDLE_WAITS": "1", "EDGEPROF_ALL_EVENTS": "1"}
    with subprocess.Popen([edgeprof, "run", "--level", "high", "--no-fork", "--skip", "sh,sleep,redis-benchmark,redis-cli,dash", "--service", "row", "--db", db, "--", *command], env=environment,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        asleep, ready, threads = off_cpu(run)
    told = cut = waiting = 0
    out = subprocess.run([edgeprof, "export", "--db", db, "--service", "row", "--kind", "wait", "--folded"], stdout=subprocess.PIPE, text=True, check=False).stdout
    for line in out.splitlines():
        path, value = line.rsplit(" ", 1)
        told += int(value) / 1e9
        cut += int(value) / 1e9 if "[stack cut]" in path else 0
        waiting += int(value) / 1e9 if "runtime.schedule;" in path else 0
    print(f"  {name:26} {threads:3} threads: {asleep:6.2f} s asleep, {ready:5.2f} s ready to run; {told:6.2f} s of waits, {told / asleep:6.1%} of the sleep, "
          f"{cut / told if told else 0:6.1%} cut", flush=True)
    named = "Go" not in name or waiting > told / 5  # the callers of Go's futex() and epoll_pwait() are known
    return named and LEAST * asleep <= told <= MOST * (asleep + ready)


def main():
    tools, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    wrong = []
    for name, command in rows(tools, work).items():
        if command and (len(sys.argv) < 4 or name in sys.argv[3:]):
            wrong += [] if look(name, command, tools / "edgeprof-real", work / "explained.db") else [name]
    if wrong:
        sys.exit(f"explained.py: {', '.join(wrong)}: less than {LEAST:.0%} or more than {MOST:.0%}")


main()
