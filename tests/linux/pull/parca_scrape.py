#!/usr/bin/python3
"""What Parca shows of the pull endpoint after minutes of scrapes. Parca adds up profiles that have a duration and shows the last one of
the others, so each value since the start must be there once, as of now.

usage: parca_scrape.py PROGRAM SECONDS     scrapes every five seconds"""
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
sys.dont_write_bytecode = True
from proto import decode  # noqa: E402
from rules import inflated  # noqa: E402

program, seconds = os.path.abspath(sys.argv[1]), int(sys.argv[2])
EVERY = 5
PATHS = ("mutex", "block", "goroutine", "allocs")


class Shown:
    """One profile type as Parca keeps it."""

    def __init__(self):
        self.times, self.deltas, self.last = [], 0, 0

    def scrape(self, profile):
        value = sum(sample["value"][-1] for sample in profile.get("sample", []))
        self.times.append(profile["time_nanos"])
        if profile.get("duration_nanos", 0):
            self.deltas += value
        else:
            self.last = value


def fetched(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/debug/pprof/{path}", timeout=60) as answer:
        return decode("Profile", inflated(answer.read()))


def scraped(port):
    shown, off = {path: Shown() for path in PATHS}, 0
    for turn in range(max(seconds // EVERY, 2)):
        time.sleep(EVERY if turn else 1)
        for path in PATHS:
            profile = fetched(port, path)
            shown[path].scrape(profile)
            off = max(off, abs(time.time() - profile["time_nanos"] / 1e9))
    return shown, off


def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    with subprocess.Popen([program, str(seconds + 600)], env={**env, "EDGEPROF_PULL": str(port), "EDGEPROF_LEVEL": "high"},
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        shown, off = scraped(port)
        told = json.loads(process.communicate(timeout=60)[0].strip().splitlines()[-1])
    wrong = []
    for path, type_ in shown.items():
        print(f"{path}: {len(type_.times)} scrapes, shown {type_.last}, added up {type_.deltas}")
        if type_.deltas or len(set(type_.times)) < len(type_.times) or type_.times != sorted(type_.times):
            wrong.append(f"{path}: {type_.deltas} added up, {len(set(type_.times))} times of {len(type_.times)}")
    waited = told["lock_delay_ns"]
    print(f"mutex: {shown['mutex'].last / 1e9:.2f} s shown, {waited / 1e9:.2f} s by the program's stopwatch; times off by {off:.2f} s at most")
    if not 0.75 * waited < shown["mutex"].last <= 1.1 * waited:
        wrong.append("mutex is not what was waited")
    if shown["goroutine"].last != 6:
        wrong.append(f"{shown['goroutine'].last} threads")
    if wrong:
        sys.exit("parca_scrape.py: " + "; ".join(wrong))


main()
