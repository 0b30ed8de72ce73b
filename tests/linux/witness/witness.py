#!/usr/bin/python3
"""Judges a run of `edgeprof run` by what the kernel says of the program that ran: the CPU time of its profile is the program's own, to 1 %, a
period and some ticks, and what lines say of it is true. edgeprof's own threads, 1 % more at most, are the kernel's sum only.

usage: witness.py NOTES WORDS    called by witness.c
WORDS, from the variable WITNESS: "less": processes end that are in no profile by themselves, "more": processes that nobody waits for;
a number: of processes, or threads of one that ends at once, each with a period that has no sample yet (default 1)"""
import os
import re
import subprocess
import sys

TICK = 1e9 / 250
PERIOD = {"low": 1e9 / 19, "medium": 1e9 / 97, "high": 1e9 / 251}
UNIT = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}
TAKES = ("--service", "--level", "--kind", "--value", "--interval", "--flame", "--pprof", "--listen", "--hosts", "--db", "--url", "--token-file",
         "--ca", "--only", "--skip", "--preload", "--symbols", "--debuginfod", "-n")
# Lines about something else than the program that ran, and of tests that are about them.
OTHERS = r"symbols: |server: |run: serving at|run: database |database |run: \S+: (?!sent|was)|run: no command|run: --|[a-z]+ --|http"
edgeprof = os.path.join(os.path.dirname(os.path.abspath(__file__)), "edgeprof-real")


def read(path):
    with open(path, "rb") as file:
        file.seek(0)
        fields = [field.decode(errors="replace").partition(" ") for field in file.read().split(b"\0") if field]
    return lambda name: [value for key, _, value in fields if key == name]


def options_of(arguments):
    options, rest = {}, list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        name, equals, value = rest.pop(0).partition("=")
        options[name] = value if equals else rest.pop(0) if name in TAKES and rest else ""
    return options, rest[1:] if rest[:1] == ["--"] else rest


def ns(text):
    number, unit = re.fullmatch(r"([\d.]+) ?([a-z]+)", text).groups()
    return float(number) * UNIT[unit]


def profile(db, service, start, kind):
    """{frames: value} of the run."""
    done = subprocess.run([edgeprof, "export", "--db", db, "--service", service, "--from", start, "--kind", kind, "--folded"], capture_output=True, text=True,
                          timeout=120)
    return {path: int(value) for path, _, value in (line.rpartition(" ") for line in done.stdout.splitlines())}


def wrong_sum(stacks, used, period, words):
    short = sum(value for path, value in stacks.items() if path == "[short processes]")
    told = sum(stacks.values()) - short
    each = sum(int(word) for word in words if word.isdigit()) or 1
    slack = used / 100 + each * (period + 4 * TICK)
    if told < used - used / 100 - slack and "less" not in words or told > used + slack and "more" not in words:
        yield f"the profile has {told / 1e6:.1f} ms of CPU time and {short / 1e6:.1f} ms [short processes], the program has used {used / 1e6:.1f} ms"
    if short and abs(told + short - used) > slack:
        yield f"with {short / 1e6:.1f} ms [short processes] the profile has {(told + short) / 1e6:.1f} ms, the program has used {used / 1e6:.1f} ms"


def false(line, stacks, look, used, status, period, words):
    """Why the line is false, or None."""
    signal = status & 0x7f
    if found := re.match(r"run: .* sent no (\S+) profile; it used (\S+) of CPU time(, and a signal ended it)?", line):
        if abs(ns(found[2]) - used) > used / 50 + 1e5:
            return f"it has used {used / 1e6:.1f} ms"
        if bool(found[3]) != bool(signal):
            return f"its status was {status}"
        if look(found[1]):
            return "the database has one"
        return f"a program that uses {used / 1e6:.1f} ms has a profile" if found[1] == "cpu" and used > 4 * period + 0.1e9 and "less" not in words else None
    if found := re.match(r"run: .* was ended by signal (\d+) ", line):
        return None if signal == int(found[1]) else f"its status was {status}"
    if re.match(r"run: .* was killed, and meanwhile the kernel has killed", line):
        return None if signal == 9 else f"its status was {status}"
    if found := re.match(r"\d+ threads? (?:was|were) not sampled(?:.*?, (\d+) % of the CPU time)?", line):
        rest = sum(value for path, value in stacks.items() if re.search(r"\[(thread exit|unsampled)\]", path))
        least = float(found[1] or 0) / 100 * sum(stacks.values())
        return None if rest >= 0.9 * least - period else f"{rest / 1e6:.1f} ms have no stack"
    return None if re.match(OTHERS, line) else "the witness does not know it"


def main():
    notes, words = read(sys.argv[1]), sys.argv[2].split()
    options, command = options_of(notes("argument"))
    if not notes("used") or not command:
        return []  # no program ran
    used, status = int(notes("used")[0]), int(notes("status")[0])
    db = options.get("--db") or (notes("db") or [""])[0]
    service = options.get("--service") or os.path.basename(command[0])
    period = PERIOD[options.get("--level") or "medium"]
    look = lambda kind: profile(db, service, notes("from")[0], kind) if db else {}
    stacks = look("cpu")
    lines = [line.strip().removeprefix("edgeprof: ") for line in notes("line")]
    if {"--only", "--skip", "--no-fork"} & options.keys() or {"EDGEPROF_ONLY", "EDGEPROF_SKIP", "EDGEPROF_FORK"} & os.environ.keys():
        words.append("less")
    found = list(wrong_sum(stacks, used, period, words)) if stacks else []
    for line in lines:
        if why := false(line, stacks, look, used, status, period, words):
            found.append(f"the line is false: {why}: {line}")
    return found


problems = main()
for problem in problems:
    print(f"witness.py: {problem}", file=sys.stderr)
sys.exit(1 if problems else 0)
