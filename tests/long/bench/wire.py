#!/usr/bin/python3
"""What the sample service under load puts on the wire, whole requests with their heads, at the start and in steady state: at each level, compact and as
pprof for Pyroscope, with addresses and with names.

usage: wire.py PROGRAM WORK [LEVEL...]

wire_bytes_per_hour_LEVEL, _pprof, _pprof_named   over INTERVALS intervals after WARM, each of 10 s as by default
inflated_bytes_per_hour_LEVEL_pprof, _pprof_named   of the same profiles, without gzip: what Pyroscope's rate counts
segment_start_bytes_LEVEL, _pprof, _pprof_named   of the first interval: compact with its origin, modules and nodes, which later messages omit
stack_entry_bytes     of a compact CPU profile at the level high: what a stack that the segment knows takes, with its value
stack_entry_labels_bytes   what its labels add (this service's stacks have some), without the set of labels itself"""
import atexit
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "linux", "conformance"))
from proto import decode, fields
from receiver import Receiver
from rules import inflated

INTERVAL_S, WARM, INTERVALS = 10, 2, 5
program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
os.makedirs(work, exist_ok=True)
FORMATS = {"": {}, "_pprof": {"EDGEPROF_FORMAT": "pprof"}, "_pprof_named": {"EDGEPROF_FORMAT": "pprof", "EDGEPROF_NAMES": "1"}}


class Run:
    """The service, its load and who takes its profiles."""

    def __init__(self, level, name, settings):
        self.receiver, self.log = Receiver(), os.path.join(work, f"{level}{name}.log")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
        env = dict(clean, ASPNETCORE_URLS="http://127.0.0.1:0", EDGEPROF_ENDPOINT=self.receiver.url, EDGEPROF_LEVEL=level, **settings)
        with open(self.log, "w", encoding="utf-8") as log:
            self.service = subprocess.Popen([program], env=env, stdout=log, stderr=log)
        self.load = subprocess.Popen([program, "--load", self.url(), "--seconds", str(INTERVAL_S * (WARM + INTERVALS + 1))], env=clean,
                                     stdout=subprocess.DEVNULL)

    def url(self):
        for _ in range(300):
            found = re.search(r"http://127[^\s]*", open(self.log, encoding="utf-8").read())
            if found:
                return found.group(0)
            time.sleep(0.1)
        self.service.kill()
        sys.exit("wire.py: the service did not start, see " + self.log)

    def end(self):
        """The requests of INTERVALS intervals after WARM, by when they came: on a busy machine those of one do not come together."""
        self.load.wait()
        self.service.send_signal(signal.SIGTERM)
        self.service.wait(30)
        self.receiver.close()
        times = self.receiver.times or [0]
        first = times[0] + (WARM - 0.5) * INTERVAL_S
        warm = [request for at, request in zip(times, self.receiver.requests) if first <= at < first + INTERVALS * INTERVAL_S]
        self.start = [request for at, request in zip(times, self.receiver.requests) if at < times[0] + INTERVAL_S / 2]
        if self.receiver.wrong or not warm or times[-1] < first + INTERVALS * INTERVAL_S:
            sys.exit(f"wire.py: {self.log}: {len(warm)} requests in {times[-1] - times[0]:.0f} s, {self.receiver.wrong}")
        return warm


def wire_bytes(request):
    (line, headers), body = request
    return len(line) + 2 + sum(len(name) + len(value) + 4 for name, value in headers) + 2 + len(body)


def inflated_bytes(request):
    """Of the pprofs in a push, without the labels of their series."""
    return sum(len(inflated(sample["raw_profile"])) for series in decode("PushRequest", request[1])["series"] for sample in series["samples"])


def cpu_columns(body):
    """(stacks, bytes of their nodes and values, bytes of their labels) of the CPU profile of a compact message; its first field is the kind."""
    for number, wire, profile in fields(body):
        if number == 6 and wire == 2 and profile[:2] == b"\x08\x01":
            columns = {n: value for n, w, value in fields(profile) if w == 2}
            return sum(byte < 0x80 for byte in columns[7]), len(columns[7]) + len(columns[8]), len(columns.get(10, b""))
    return 0, 0, 0


def main():
    for level in sys.argv[3:] or ("low", "medium", "high"):
        runs = {name: Run(level, name, settings) for name, settings in FORMATS.items()}
        atexit.register(lambda runs=runs: [process.kill() for run in runs.values() for process in (run.service, run.load)])
        for name, run in runs.items():
            warm = run.end()
            print(f"figure wire_bytes_per_hour_{level}{name} {sum(map(wire_bytes, warm)) * 3600 / (INTERVALS * INTERVAL_S):.0f} bytes")
            if name:
                print(f"figure inflated_bytes_per_hour_{level}{name} {sum(map(inflated_bytes, warm)) * 3600 / (INTERVALS * INTERVAL_S):.0f} bytes")
            print(f"figure segment_start_bytes_{level}{name} {sum(map(wire_bytes, run.start))} bytes")
            if level == "high" and not name:
                stacks, bytes_, labels = map(sum, zip(*(cpu_columns(body) for _, body in warm)))
                print(f"figure stack_entry_bytes {bytes_ / stacks:.2f} bytes")
                print(f"figure stack_entry_labels_bytes {labels / stacks:.2f} bytes")
            sys.stdout.flush()


main()
