#!/usr/bin/python3
"""Devices are killed (SIGKILL) while the link is down, and again while their spool is delivered: at each request in turn, before the
receiver has it or before the device has the answer. What arrives is what the spool had, to the nanosecond: at edgeprof serve, and as
pprof, of which a receiver counts one profile of each series and time. When serve loses its database in the middle of a segment and answers 409, the new one gets the whole segment.

usage: killed.py EDGEPROF PROGRAM WORK [DEVICES]    PROGRAM: graceful; DEVICES that are killed while the link is down

What the spool has is the total of a copy that a device delivers undisturbed."""
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))
from proto import decode
from receiver import Receiver
import rules
import serve

edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
devices = int(sys.argv[4]) if len(sys.argv) > 4 else 4
AWAY = "phase=away"
SYNC_MS = "100"  # what a device measures is in its spool after that
DEADLINE = 60  # s, for a spool to become empty
dice = random.Random(1)


def path(name):
    return os.path.join(work, name)


def device(url, spool, tags, **env):
    return subprocess.Popen([program, url, SYNC_MS], stdout=subprocess.PIPE, text=True,
                            env=dict(os.environ, EDGEPROF_SPOOL=path(spool), EDGEPROF_TAGS=tags, **env))


class Serve:
    def __init__(self, db):
        self.db = path(db)
        self.process, self.port = serve.start(edgeprof, self.db)

    def forward(self, head, body):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        method, target, _ = head[0].split(" ")
        link.request(method, target, body, {name: value for name, value in head[1] if name.lower() != "host"})
        answer = link.getresponse()
        text = answer.read().decode()
        kept = [f"{name}: {value}" for name, value in answer.getheaders() if name.lower() not in ("content-length", "connection", "date")]
        return "\n".join([f"{answer.status} {answer.reason}", *kept]) + "\n\n" + text

    def end(self):
        """The time of the devices that were away."""
        self.process.terminate()
        self.process.wait(20)
        return serve.total(edgeprof, self.db, "--tag", AWAY)

    def profiles(self):
        """The profiles in its database, of all devices."""
        with contextlib.closing(sqlite3.connect(self.db)) as db:
            return set(db.execute("SELECT start_ns, end_ns, samples FROM profile"))


class Pprofs:
    """A receiver of pprof that knows a profile again when it comes twice."""

    def __init__(self):
        self.kept, self.repeated = {}, 0

    def forward(self, head, body):
        for series in decode("PushRequest", body)["series"]:
            labels = tuple(sorted((pair["name"], pair["value"]) for pair in series["labels"]))
            profile = decode("Profile", rules.inflated(series["samples"][0]["raw_profile"]))
            key = (labels, profile.get("time_nanos", 0))
            if key in self.kept and self.kept[key] != profile:
                sys.exit(f"killed: two profiles of {key}")
            self.repeated += key in self.kept
            self.kept[key] = profile
        return "200 OK\nContent-Type: application/json\n\n{}"

    def end(self):
        away = [profile for (labels, _), profile in self.kept.items() if (b"phase", b"away") in labels]
        cpu = [[profile["string_table"][row["type"]] for row in profile["sample_type"]].index(b"cpu") for profile in away]
        return sum(sample["value"][at] for profile, at in zip(away, cpu) for sample in profile.get("sample", []))


class Link:
    """Between devices and a receiver. At the nth request it kills the device, before the receiver has it or after, or has another
    receiver from there on."""

    def __init__(self, to, at=0, other=None):
        self.to, self.device, self.at, self.other, self.after, self.count, self.statuses = to, None, at, other, False, 0, {}
        self.receiver = Receiver(decide=self.decide)

    def decide(self, head, body):
        self.count += 1
        due = self.count == self.at
        if due and self.other:
            self.to.end()
            self.to = self.other()
        kill = due and not self.other
        while kill and not self.device:  # it is quicker than Popen() here
            time.sleep(0.001)
        answer = None if kill and not self.after else self.to.forward(head, body)
        if kill:
            self.device.kill()
            return "close"
        self.statuses[answer[:3]] = self.statuses.get(answer[:3], 0) + 1
        return answer


def undisturbed(spool):
    server = Serve(spool + ".db")
    drained(device(f"http://127.0.0.1:{server.port}", spool, "phase=back"))
    return server.end()


def drained(run):
    """The device ends when its spool is empty."""
    run.stdout.readline()  # ready: it has its handler
    run.send_signal(signal.SIGUSR1)
    said = json.loads(run.communicate(timeout=DEADLINE)[0].splitlines()[-1])
    if said["left"] or said["lost_ns"]:
        sys.exit(f"killed: the spool was not delivered: {said}")


def delivered_with_kills(to, spool, **env):
    link = Link(to)
    for turn in range(2 * devices):
        link.device, link.at, link.after, link.count = None, 1 + turn // 2, turn % 2 == 1, 0
        link.device = device(link.receiver.url, spool, "phase=back", **env)
        if link.device.wait(DEADLINE) != -signal.SIGKILL:
            sys.exit("killed: a device ended by itself")
    link.at = 0
    drained(device(link.receiver.url, spool, "phase=back", **env))
    return to.end()


def database_lost(spool):
    """All profiles that arrived, those that arrived in both databases, and the number of answers 409."""
    lost, new = Serve("lost.db"), Serve("new.db")
    link = Link(lost, 4, lambda: new)
    link.device = device(link.receiver.url, spool, "phase=back")
    drained(link.device)
    new.end()
    return lost.profiles() | new.profiles(), lost.profiles() & new.profiles(), link.statuses.get("409", 0)


def fill(seconds):
    run = device("http://127.0.0.1:9", "spool", AWAY)
    time.sleep(seconds)
    run.kill()
    run.wait()


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
fill(2.5)
for copy in ("one", "one-lost"):
    shutil.copytree(path("spool"), path(copy))
for _ in range(devices - 1):
    fill(0.5 + dice.random())
for copy in ("clean", "compact", "pprof"):
    shutil.copytree(path("spool"), path(copy))
undisturbed("one")
with contextlib.closing(sqlite3.connect(path("one.db"))) as db:
    one = set(db.execute("SELECT p.start_ns, p.end_ns, p.samples FROM profile p JOIN series s ON s.id = p.series"
                         " JOIN origin o ON o.id = s.origin WHERE o.tags LIKE '%phase=away%'"))
arrived, twice, conflicts = database_lost("one-lost")
truth, receiver = undisturbed("clean"), Pprofs()
compact = delivered_with_kills(Serve("compact.db"), "compact")
pprof = delivered_with_kills(receiver, "pprof", EDGEPROF_FORMAT="pprof")
print(f"killed: in the spool {truth} ns; compact {compact} ns; pprof {pprof} ns, {receiver.repeated} sent again after a lost answer; "
      f"a database lost after 3 messages: {len(one & arrived)} of {len(one)} profiles, {len(twice)} in both, {conflicts} answers 409")
if not truth or compact != truth or pprof != truth:
    sys.exit("killed: the totals differ")
if not one or one - arrived or not twice:
    sys.exit("killed: not each segment is whole in one of the databases")
if not conflicts or not receiver.repeated:
    sys.exit("killed: the database was not lost within a segment, or no answer was lost")
