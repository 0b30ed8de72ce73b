#!/usr/bin/python3
"""What a program under the preload library pushes to a server that keeps what a real Pyroscope keeps: one profile of each series and
time, and no stack without a named frame. A Python program of three threads runs at each level, against a receiver that answers at once
and against slow ones.

usage: pushed.py LIBRARY WORK SECONDS INTERVAL_MS LEVELS DELAYS     lists with commas; a delay in seconds"""
import collections
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
from proto import decode
from receiver import Receiver
import rules

library, work = (os.path.abspath(argument) for argument in sys.argv[1:3])
seconds, interval_ms = float(sys.argv[3]), int(sys.argv[4])
levels, delays = sys.argv[5].split(","), [float(delay) for delay in sys.argv[6].split(",")]
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "threads.py")
FAMILY_MOST = 1 + 1 / 4  # messages of a family an interval: one, and an interval may end early when the memory is used up
SEND_SECONDS = 10  # the device waits that long for its first answer, and twice as long each time that it is late
REPEATED_MOST = 2  # a receiver that answers after 30 s: 10 and 20 s were too short
failed = []


def want(condition, text):
    if not condition:
        failed.append(text)


class Kept:
    """What a Pyroscope has of the requests after it has compacted its blocks."""

    def __init__(self):
        self.seen, self.sent_ns, self.ns, self.messages = {}, 0, 0, collections.Counter()
        self.repeated = self.twice = self.empty = self.nameless = 0
        self.ends = []

    def take(self, request):
        for series in decode("PushRequest", request[1])["series"]:
            labels = {pair["name"].decode(): pair["value"] for pair in series["labels"]}
            profile = decode("Profile", rules.inflated(series["samples"][0]["raw_profile"]))
            self.add(labels, profile)

    def add(self, labels, profile):
        family, samples = labels["__name__"].decode(), profile.get("sample", [])
        key = (tuple(sorted(labels.items())), profile.get("time_nanos", 0))
        if self.seen.get(key) == profile:  # sent again, because the answer came too late
            self.repeated += 1
            return
        self.messages[family] += 1
        self.empty += not samples
        first = key not in self.seen
        self.twice += not first
        self.seen.setdefault(key, profile)
        self.ends.append(profile.get("time_nanos", 0) + profile.get("duration_nanos", 0))
        named = {row["id"]: bool(row.get("line")) for row in profile.get("location", [])}
        for sample in samples:
            visible = any(named[number] for number in sample["location_id"])
            self.nameless += not visible
            ns = sample["value"][-1] if family == "process_cpu" else 0
            self.sent_ns += ns
            self.ns += ns if first and visible else 0


def run(level, delay, names):
    what = f"{level}, answers after {delay:g} s, {'names' if names else 'no names'}"
    receiver = Receiver(decide=lambda *_: time.sleep(delay))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    env = dict(clean, LD_PRELOAD=library, PYROSCOPE_SERVER_ADDRESS=receiver.url, PYROSCOPE_APPLICATION_NAME="threads",
               EDGEPROF_LEVEL=level, EDGEPROF_INTERVAL=str(interval_ms), EDGEPROF_NAMES=str(int(names)), EDGEPROF_THREAD_LABELS="1",
               EDGEPROF_EXIT_TIMEOUT="600000")
    program = subprocess.Popen(["/usr/bin/python3", PROGRAM, str(seconds)], env=env, stderr=subprocess.PIPE, text=True)
    said = program.stderr.read()
    _, status, used = os.wait4(program.pid, 0)
    cpu_ns = (used.ru_utime + used.ru_stime) * 1e9
    receiver.close()
    late = delay >= SEND_SECONDS  # then two lines say that profiles do not arrive, and that they arrive
    quiet = all("no answer in time" in line or "arrive again" in line for line in said.splitlines()) if late else not said
    want(status == 0 and quiet and not receiver.wrong, f"{what}: status {status}, {said!r}, {receiver.wrong}")
    kept = Kept()
    wrong = collections.Counter()
    for request in receiver.requests:
        kept.take(request)
        for rule, text in rules.check_push(*request, time.time(), names):
            wrong[f"{rule}: {text}"] += 1
    intervals = seconds * 1000 / interval_ms + 2
    most = max(kept.messages.values(), default=0) / intervals
    size = sum(len(body) for _, body in receiver.requests)
    print(f"{what:46} {len(receiver.requests):4} messages {size / 1e3:8.1f} kB {size / seconds * 3600 / 1e6:7.1f} MB/h  CPU {cpu_ns / 1e9:6.2f} s"
          f" pushed {kept.sent_ns / 1e9:6.2f} kept {kept.ns / 1e9:6.2f}  {most:.2f} an interval and family; {kept.twice} of one time,"
          f" {kept.repeated} repeated, {kept.empty} empty, {kept.nameless} stacks without a name", flush=True)
    want(kept.ns == kept.sent_ns > 0, f"{what}: kept {kept.ns} ns of {kept.sent_ns}")
    want(0.97 * cpu_ns < kept.ns < 1.03 * cpu_ns, f"{what}: {kept.ns} ns of {cpu_ns:.0f} ns of CPU time")
    want(not kept.twice and not kept.empty and not kept.nameless, f"{what}: of one time, empty, without a name")
    want(kept.repeated <= (REPEATED_MOST if late else 0), f"{what}: {kept.repeated} messages were sent again")
    want(most <= FAMILY_MOST, f"{what}: {most:.2f} messages an interval and family: {dict(kept.messages)}")
    want(not wrong, f"{what}: {wrong.most_common(5)}")


def main():
    os.makedirs(work, exist_ok=True)
    for level in levels:
        for delay in delays:
            run(level, delay, names=True)
        run(level, delays[0], names=False)
    if failed:
        sys.exit("test-pushed: FAILED\n  " + "\n  ".join(failed))
    print("test-pushed: everything that was pushed is kept")


main()
