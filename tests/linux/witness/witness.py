#!/usr/bin/python3
"""edgeprof as tests call it. Behind `edgeprof run` it judges by what the kernel says of the program that ran: the CPU time of its profile is
the program's own, to 1 % and 30 ms; what is not by function is little; and each line of edgeprof and of its library is true. What it finds
wrong it writes to standard error, and ends with 98. The variable WITNESS has words about the program:

less       processes end before they have a profile
more       processes live on that nobody waits for
a number   of processes and threads, each of which may end within a period (default 1)

usage: edgeprof ...; beside it are edgeprof-real and the preload library"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

REAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "edgeprof-real")
WRONG = 98
SLACK = 30e6  # the kernel shows two sums in units of 10 ms, and edgeprof reads the memory of killed processes
PERIOD = {"low": 1e9 / 19, "medium": 1e9 / 97, "high": 1e9 / 251}
TICKS = 8e6
UNIT = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}
TAKES = ("--service", "--level", "--kind", "--value", "--interval", "--flame", "--pprof", "--listen", "--hosts", "--db", "--url", "--token-file",
         "--ca", "--only", "--skip", "--preload", "--symbols", "--debuginfod", "-n")
EXCLUDES = {"--only", "--skip", "--no-fork", "--url", "EDGEPROF_ONLY", "EDGEPROF_SKIP", "EDGEPROF_FORK"}
# Lines about something else than what the kernel knows of the program.
OTHERS = (r"symbols: |server: |run: serving at|run: database |database |run: \S+:? (?!sent |was )|run: no command|run: --|[a-z]+ --|http|"
          r"if this process is killed|not profiling: |no (process context|contexts|crash records|incidents|\w+ endpoint)|profiles were not delivered|not stopped: |"
          r"(nothing is|a thread is not|\w+ (threads|processes) are not) profiled from here on|\S+ contains edgeprof")


def options_of(arguments):
    options, rest = {}, list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        name, equals, value = rest.pop(0).partition("=")
        options[name] = value if equals else rest.pop(0) if name in TAKES and rest else ""
    return options, rest[1:] if rest[:1] == ["--"] else rest


def run(arguments):
    """Its lines, its exit code, and ns of CPU time of what it ran."""
    process = subprocess.Popen([REAL, "run", *arguments], stderr=subprocess.PIPE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda got, _: os.kill(process.pid, got))
    lines = []

    def pass_on():
        for line in process.stderr:
            lines.append(line.decode(errors="replace"))
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()

    reader = threading.Thread(target=pass_on, daemon=True)
    reader.start()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with open(f"/proc/{process.pid}/stat") as file:
        used = sum(map(int, file.read().rpartition(")")[2].split()[13:15])) / os.sysconf("SC_CLK_TCK") * 1e9
    code = process.wait()
    reader.join(1)  # the program may have left others behind that hold it open
    return [line.strip().removeprefix("edgeprof: ") for line in lines if line.startswith("edgeprof: ")], code, used


def profile(db, service, start, kind):
    """{frames: value} of the run."""
    text = subprocess.run([REAL, "export", "--db", db, "--service", service, "--from", start, "--kind", kind, "--folded"], capture_output=True, text=True).stdout
    return {path: int(value) for path, _, value in (line.rpartition(" ") for line in text.splitlines())}


def wrong_sum(stacks, used, period, words):
    total, short = sum(stacks.values()), stacks.get("[short processes]", 0)
    each = sum(int(word) for word in words if word.isdigit()) or 1
    if total < 0.99 * used - SLACK or total > 1.01 * used + SLACK and "more" not in words:
        yield f"the profile has {total / 1e6:.1f} ms of CPU time, the program has used {used / 1e6:.0f} ms"
    if short > used / 100 + SLACK + each * (period + TICKS) and "less" not in words:
        yield f"{short / 1e6:.1f} of {used / 1e6:.0f} ms of CPU time are [short processes]"


def false(line, stacks, look, used, code):
    """Why the line is false, or None."""
    signalled = code - 128 if code > 128 else 0
    if found := re.match(r"run: .* sent no (\S+) profile; it used ([\d.]+)([a-z]+) of CPU time(?:, some of it in processes[^,;]*)?(, and a signal ended it)?", line):
        if abs(float(found[2]) * UNIT[found[3]] - used) > used / 50 + SLACK:
            return f"it has used {used / 1e6:.0f} ms"
        if found[4] and not signalled:
            return f"its exit code was {code}"
        return "the database has one" if look(found[1]) else None
    if found := re.match(r"run: .* was ended by signal (\d+) ", line):
        return None if signalled == int(found[1]) else f"its exit code was {code}"
    if re.match(r"run: .* was killed, and meanwhile the kernel has killed", line):
        return None if signalled == 9 else f"its exit code was {code}"
    if found := re.match(r"\d+ threads? (?:was|were) not sampled(?:.*?, (\d+) % of the CPU time)?", line):
        rest = sum(value for path, value in stacks.items() if re.search(r"\[(thread exit|unsampled)\]", path))
        return None if rest >= 0.9 * float(found[1] or 0) / 100 * sum(stacks.values()) - SLACK else f"{rest / 1e6:.1f} ms have no stack"
    return None if re.match(OTHERS, line) else "the witness does not know it"


def judge(options, command, db, start, outcome):
    lines, code, used = outcome
    words = os.environ.get("WITNESS", "").split()
    words += ["less" for line in lines if "profiled from here on: " in line]
    service = options.get("--service") or os.path.basename(command[0])
    look = lambda kind: profile(db, service, start, kind) if os.path.exists(db) else {}
    stacks = look("cpu")
    found = [] if not stacks or EXCLUDES & (options.keys() | os.environ.keys()) else list(wrong_sum(stacks, used, PERIOD[options.get("--level") or "medium"], words))
    for line in lines:
        if why := false(line, stacks, look, used, code):
            found.append(f"the line is false: {why}: {line}")
    return found


def main():
    if sys.argv[1:2] != ["run"]:
        os.execv(REAL, [REAL, *sys.argv[1:]])
    options, command = options_of(sys.argv[2:])
    with tempfile.TemporaryDirectory() as folder:
        db = options.get("--db") or os.path.join(folder, "edgeprof.db")
        own = [] if {"--db", "--url"} & options.keys() or not command else ["--db", db]
        start = str(int(time.time()))
        outcome = run(own + sys.argv[2:])
        for problem in (found := judge(options, command, db, start, outcome) if command else []):
            print(f"witness.py: {problem}", file=sys.stderr)
    return WRONG if found else outcome[1]


sys.exit(main())
