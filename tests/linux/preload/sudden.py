#!/usr/bin/python3
"""A process that ends without exit() has its CPU time until then in the profile of `edgeprof run`, by function: by the
system call exit_group(), SIGKILL from outside, the out-of-memory killer, a crash, exec; with threads, in a forked child, and a child that the C
library does not know leaves the profile alone. No file stays. The sum of a short process's profile is right.

usage: sudden.py EDGEPROF SUDDEN"""
import os
import re
import signal
import subprocess
import sys

edgeprof, program = sys.argv[1:3]
MS = "1000"
TRIES = 4  # where other programs keep the processors busy, some CPU time is in no sample, however a process ends


def shares(text):
    """Percent of each function, from the table."""
    rows = [line.split() for line in text.splitlines() if line.count("% ") == 2]
    return {row[-1]: float(row[0].rstrip("%")) for row in rows if row[0][0].isdigit()}


def run(how, threads, *more, level="high"):
    """The exit code of `edgeprof run`, what it printed, and the percent of CPU time in the two functions."""
    command = [edgeprof, "run", "--level", level, "--interval", "600000", "-n", "50", "--", program, how, MS, threads, *more]
    environment = {**os.environ, "WITNESS": "less" if how in ("child", "raw") else ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as process:
        if how == "wait":
            os.kill(int(process.stdout.readline()), signal.SIGKILL)
        text = process.communicate(timeout=120)[0]
    if how == "wait" and "was ended by signal 9" not in text:
        sys.exit(f"sudden.py: no line names the signal:\n{text}")
    share = shares(text)
    return process.returncode, text, share.get("hot_main", 0) + share.get("hot_thread", 0)


def check(how, threads, code, least, *more, level="high"):
    """At least so many percent, or what a process has on this machine now that ends by exit(), less 5."""
    best = 0
    for _ in range(TRIES):
        got, text, hot = run(how, threads, *more, level=level)
        if got != code:
            sys.exit(f"sudden.py: {how}, {threads} threads, level {level}: exit code {got}, right is {code}\n{text}")
        best = max(best, hot)
        if best >= least or best >= run("exit", threads, level=level)[2] - 5:
            return best
    sys.exit(f"sudden.py: {how}, {threads} threads, level {level}: {best:.1f} % in the two functions, right is at least {least} %\n"
             f"{text}")


def check_oom():
    """The kernel kills it for want of memory, in a control group of 48 MiB. "": this machine gives none."""
    group = next((path for path in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup") if os.path.exists(os.path.join(path, "cgroup.procs"))), "")
    own = os.path.join(group, f"sudden-{os.getpid()}")
    try:
        os.mkdir(own)
    except OSError:
        return ""
    try:
        limit = next(path for name in ("memory.limit_in_bytes", "memory.max") if os.path.exists(path := os.path.join(own, name)))
        with open(limit, "w") as file:
            file.write(str(48 << 20))
        done = subprocess.run([edgeprof, "run", "--level", "high", "--interval", "600000", "-n", "50", "--", "sh", "-c",
                               f'echo $$ >{own}/cgroup.procs; exec "{program}" grow {MS} 0'], capture_output=True, text=True, timeout=120)
    except (OSError, StopIteration):
        return ""
    finally:
        os.rmdir(own)
    hot = shares(done.stdout).get("hot_main", 0)
    if done.returncode != 137 or "was killed, and meanwhile the kernel has killed" not in done.stderr or hot < 80:
        sys.exit(f"sudden.py: killed for want of memory: {done.returncode}, hot_main has {hot} %\n{done.stdout}{done.stderr}")
    return f"; of one that the kernel killed for want of memory {hot:.1f} %"


def check_no_room():
    """One line where the memory cannot outlive the process: here for a limit of the size of files."""
    done = subprocess.run([edgeprof, "run", "--", "prlimit", "--fsize=16384", program, "exit", MS, "0"], capture_output=True, text=True, timeout=120)
    if done.returncode != 7 or len(re.findall("^edgeprof: if this process is killed, its last profile is lost", done.stderr, re.M)) != 1:
        sys.exit(f"sudden.py: no line says that the memory cannot outlive the process: {done.returncode} {done.stderr}")


def check_sum():
    """Between two periods of 53 ms the sum is what the program has used: at most 4 ms less or 1 % more, and 4 ms for edgeprof's start and end."""
    for ms in (80, 130, 2014):
        text = subprocess.run([edgeprof, "run", "--level", "low", "--kind", "cpu", "--", program, "exit", str(ms), "0"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120).stdout
        total = re.search(r" cpu: ([\d.]+)(m?s) in ", text)
        value = float(total[1]) * (1 if total[2] == "ms" else 1000) if total else 0
        if not ms - 8 <= value <= max(ms + 8, 1.01 * ms + 4) or "[short" in text:
            sys.exit(f"sudden.py: the profile of a process with {ms} ms of CPU time:\n{text}")


worst = min(check("group", "0", 7, 95), check("thread", "2", 7, 95), check("wait", "2", 137, 95), check("crash", "2", 139, 95),
            check("exec", "2", 0, 95, "/bin/true"))
check("group", "2", 7, 85, level="low")  # a period of 53 ms a thread may be open
check("child", "1", 7, 85)  # a forked child is profiled after 100 ms
check("raw", "1", 7, 85)  # the child itself is in no profile
done = subprocess.run([edgeprof, "run", "--", "sh", "-c", f'echo "$EDGEPROF_OUTLIVE"; exec "{program}" group {MS} 0'],
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
folder = done.stdout.split("\n")[0]
if not folder.startswith("/dev/shm/") or os.path.exists(folder) or "ended by" in done.stderr:
    sys.exit(f"sudden.py: the folder {folder!r} is left, or a line says that a signal ended the program: {done.stderr!r}")
check_sum()
check_no_room()
print(f"sudden.py: at least {worst:.1f} % of the CPU time of 5 processes without exit() by function{check_oom()}")
