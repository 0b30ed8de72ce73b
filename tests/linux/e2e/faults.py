#!/usr/bin/python3
"""Everything that can happen on the way to the server, while services run: nobody notices, and nothing is unaccounted for.

usage: faults.py EDGEPROF SERVICE WORK [SEED]
SEED deals the faults out; without it, the clock's, which is printed.
Five profiled services, each behind a proxy of its own (fault_proxy.py) that plays its share of the faults, a sound answer
after each. Meanwhile one of them answers requests in slices, in turn with a service that is not profiled. Until every
fault was had; then all stop, with sound answers. Held:

memory     data segments as at the beginning, not one allocation, no more pages than the deliver thread's stack may touch
latency    of 50, 90 and 99 % of a slice's requests: the profiled slices' median is inside the spread of the others, by
           rank. So that this says something: a service that delivers in its own loop of requests is outside
accounting measured = in the database, what was lost as frames of its own: to the nanosecond, for each service"""
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "host"))
import fault_proxy
from harness import Server, clean_environment

SLICE_MS, PAIRS, PATIENCE = 40, 60, 240
GROWTH_KB = 64
PERCENTILES = ("50 %", "90 %", "99 %")
SPREAD, CLOCK = (0.05, 0.95), 0.01  # by rank; when nothing else runs all slices are the same, to the clock's steps


class Checks:
    """Counts what holds; says what does not and goes on."""

    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, condition, text):
        if condition:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {text}", flush=True)
        return condition

    def equal(self, value, wanted, text):
        return self(value == wanted, f"{text}: {value!r} instead of {wanted!r}")

    def done(self, name):
        print(f"{name}: {self.passed} passed, {self.failed} failed")
        raise SystemExit(1 if self.failed or not self.passed else 0)


edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
seed = int(sys.argv[4]) if len(sys.argv) > 4 else time.time_ns()
dice = random.Random(seed)
print(f"faults: seed {seed}", flush=True)
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
db = os.path.join(work, "faults.db")
check = Checks()


class Service:
    def __init__(self, mode, name, proxy):
        self.name, self.proxy = name, proxy
        self.process = subprocess.Popen([program, mode, proxy.url if proxy else "", name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=clean_environment())

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"faults: {self.name} has ended: {self.process.wait()}")
        return line

    def run(self):
        return [int(word) for word in self.ask(f"run {SLICE_MS}").split()[1:4]]

    def memory(self):
        return [int(word) for word in self.ask("memory").split()]

    def end(self):
        return json.loads(self.ask("end"))


def share_out(count):
    """Schedules: a slow fault each, the others dealt out, a sound answer after each but the first, which breaks the beginning."""
    quick = fault_proxy.FAILING + fault_proxy.LOSING + fault_proxy.HARMLESS
    dice.shuffle(quick)
    hands = [quick[i::count] + fault_proxy.SLOW[i::count] for i in range(count)]
    return [[fault for pair in zip(hand, ["none"] * len(hand)) for fault in pair] for hand in hands]


def measure(services, off, inline):
    """Slices of each, in turns, until all was played."""
    slices = {name: [] for name in ("on", "off", "inline")}
    turn, memory, patience = [("on", services[0]), ("off", off)], None, time.monotonic() + PATIENCE
    while not all(s.proxy.finished() for s in services) or len(slices["on"]) < PAIRS:
        if time.monotonic() > patience:
            sys.exit("faults: not all was played: " + ", ".join(f"{s.name}: {list(s.proxy.schedule)}" for s in services))
        dice.shuffle(turn)
        for name, service in turn:
            slices[name].append(service.run())
        if len(slices["on"]) % 10 == 0:
            slices["inline"].append(inline.run())
        if memory is None and len(services[0].proxy.played) >= 3:
            memory = services[0].memory()
    return slices, memory, services[0].memory()


def latency(slices):
    for at, percentile in enumerate(PERCENTILES):
        off = sorted(one[at] for one in slices["off"])
        low, high = (off[round(share * (len(off) - 1))] for share in SPREAD)
        on, inline = (statistics.median(one[at] for one in slices[name]) for name in ("on", "inline"))
        print(f"faults: latency, {percentile}: not profiled {low} to {high} ns in {len(off)} slices, profiled {on:.0f}, "
              f"delivering itself {inline:.0f}")
        check(low * (1 - CLOCK) <= on <= high * (1 + CLOCK), f"{percentile} of the requests are not as without the profiler")
        if percentile == "99 %":
            check(inline > high * (1 + CLOCK), "a service that delivers itself would not have been seen")


def stored(name):
    """What the database has of a service: all of it, and what is there as lost."""
    done = subprocess.run([edgeprof, "top", "--db", db, "--service", name, "-n", "100000", "--json"],
                          capture_output=True, text=True, check=True)
    profile = json.loads(done.stdout)
    return profile["total"], sum(row["self"] for row in profile["top"] if row["name"].startswith("[lost: "))


def account(service):
    said, (total, lost) = service.end(), stored(service.name)
    print(f"faults: {service.name}: {said}, stored {total} ns, {lost} ns of it as lost; "
          + " ".join(fault for fault in service.proxy.played if fault != "none"))
    check.equal(said["stop"], 0, f"{service.name} delivered all that was left")
    check.equal(total, said["measured_ns"], f"{service.name}: what is stored of what was measured")
    check.equal(lost, said["lost_ns"], f"{service.name}: what is stored as lost of what was lost")
    return said


server = Server(edgeprof, db)
services = [Service("on", f"service-{i}", fault_proxy.Proxy(server.port, schedule)) for i, schedule in enumerate(share_out(5))]
off = Service("off", "service-off", None)
inline = Service("inline", "service-inline", fault_proxy.Proxy(server.port, ["delay", "pieces", "chunked_trickle"] * 100))
try:
    slices, early, late = measure(services, off, inline)
    inline.proxy.schedule.clear()
    print(f"faults: memory: {early[0]} and {late[0]} kB of data, {early[1]} and {late[1]} kB in use, {late[2]} allocations")
    check.equal(late[0], early[0], "data segments in kB")
    check(late[1] <= early[1] + GROWTH_KB, f"{early[1]} kB were in use, {late[1]} kB are")
    check.equal(late[2], 0, "allocations since the start")
    latency(slices)
    said = [account(service) for service in [*services, inline]]
    played = {fault for service in services for fault in service.proxy.played}
    check.equal(sorted(set(fault_proxy.FAULTS) - played), [], "faults that were not played")
    check(sum(one["failures"] for one in said) >= 5, "the faults were noticed")  # what resets an idle connection is repaired
    check(sum(one["lost_ns"] for one in said) > 0, "what was refused is lost")
    check.equal(server.stop(), 0, "the server's exit code")
finally:
    for service in [*services, off, inline]:
        service.process.kill()
check.done("faults")
