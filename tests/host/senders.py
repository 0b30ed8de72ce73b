"""Senders of every kind, many at a time, that remember what they were told; and whether a database has it.

Each message has a stack of its own and a value that says which one it is, so what is there can be told apart however
profiles are merged: missing, whole, or counted twice. Standard library only."""
import http.client
import random
import threading
import time

from generate import message, module, nodes, origin, profile, push_request
from harness import wait_until
from pprof import encode


def wait_for(condition):
    """A test that cannot go on says so."""
    assert wait_until(condition, pause=0.001), "waited in vain for what the senders were to bring about"


class Sender(threading.Thread):
    """Sends message after message to a port until the connection fails or `enough` is set."""
    MESSAGES = 400  # of a service; the answer about functions has at most 2000

    def __init__(self, name, state):
        super().__init__()
        self.state, self.enough, self.port = state, threading.Event(), None
        self.name = name

    def post(self, connection, path, body, headers):
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            while not self.enough.is_set() and self.state.next < self.MESSAGES:
                index = self.state.next
                path, body, headers = self.state.request(index)
                self.state.begin(index)
                status = self.post(connection, path, body, headers)
                self.state.answered(index, status)
                if status == 503:
                    time.sleep(0.01)
        except (OSError, http.client.HTTPException):
            pass  # the server is gone: what became of the message nobody knows
        finally:
            connection.close()


class Stream:
    """What one sender has sent to one service: index -> "sent", "kept" (it was told so), "refused"."""

    def __init__(self, service):
        self.service, self.next, self.fate, self.odd, self.put_off = service, 0, {}, [], 0

    def begin(self, index):
        self.fate[index] = "sent"

    def answered(self, index, status):
        if status == 200:
            self.fate[index] = "kept"
            self.next = index + 1
        elif status == 503:  # again
            self.put_off += 1
        else:
            self.fate[index] = "refused"
            self.odd.append((index, status))
            self.next = index + 1

    def wrong(self, values):
        """values: what the database has of each index. A list of what is not as it was told."""
        found = [f"{self.service}: message {index}: {self.fate.get(index, 'never sent')}, but has {value} instead of {index + 1}"
                 for index, value in values.items() if value != index + 1 or self.fate.get(index) in (None, "refused")]
        found += [f"{self.service}: message {index} was acknowledged and is not there"
                  for index, fate in self.fate.items() if fate == "kept" and index not in values]
        return found + [f"{self.service}: message {index}: {status}" for index, status in self.odd]


class Compact(Stream):
    """A device: what it has no answer to it sends again; each message adds to the dictionary."""

    def __init__(self, service):
        super().__init__(service)
        self.segment = random.getrandbits(62) | 1

    def request(self, index):
        first = index == 0
        body = message(self.segment, index, origin(self.service) if first else None, [module(4096, 1 << 20, 0, b"\1" * 20, "/nowhere/app")] if first else [],
                       nodes([0], [4096 + index]), [profile({index + 1: index + 1}, quantum=1)], last=index + 1 == Sender.MESSAGES)
        return "/edgeprof/v1/push", body, {}

    @staticmethod
    def index_of(name):
        return int(name.split("+")[1], 16)


class Pprof(Stream):
    """A client whose profiles have no number: what it has no answer to is not sent again."""

    def body(self, index):
        return encode([("cpu", "nanoseconds")], [((f"F{index}",), [index + 1], {})], start_ns=(1_700_000_000 + index) * 10**9, duration_ns=10**9)

    def begin(self, index):
        super().begin(index)
        self.next = index + 1

    def answered(self, index, status):
        super().answered(index, status)
        if status == 503:
            self.fate[index] = "refused"

    @staticmethod
    def index_of(name):
        return int(name[1:])


class Ingest(Pprof):
    def request(self, index):
        return f"/ingest?name={self.service}&format=pprof", self.body(index), {}


class Push(Pprof):
    def request(self, index):
        body = push_request([[("__name__", "process_cpu"), ("service_name", self.service)]], self.body(index))
        return "/push.v1.PusherService/Push", body, {"Content-Type": "application/proto"}


class Fleet:
    """Streams of all kinds; run() sends from each until what() returns."""

    def __init__(self, each=2):
        self.streams = []
        self.each = each
        self.made = 0

    def fill(self):
        for kind in (Compact, Ingest, Push):
            alive = [s for s in self.streams if isinstance(s, kind) and s.next < Sender.MESSAGES]
            for _ in range(self.each - len(alive)):
                self.made += 1
                self.streams.append(kind(f"{kind.__name__.lower()}-{self.made}"))

    def run(self, port, what):
        self.fill()
        senders = [Sender(s.service, s) for s in self.streams if s.next < Sender.MESSAGES]
        for sender in senders:
            sender.port = port
            sender.start()
        try:
            what()
        finally:
            for sender in senders:
                sender.enough.set()
        for sender in senders:
            sender.join()

    def acknowledged(self):
        return sum(fate == "kept" for s in self.streams for fate in s.fate.values())

    def put_off(self):
        return sum(s.put_off for s in self.streams)

    def wrong(self, server, settled=False):
        """What the server's database has that it should not have, or has not. settled: devices have sent everything again."""
        services = {row["service"] for row in server.get("/api/services")[1]["services"]}
        found = []
        for stream in self.streams:
            values = {}
            if stream.service in services:
                answer = server.get("/api/profile", service=stream.service)[1]
                values = {stream.index_of(row["name"]): row["self"] for row in answer["top"]}
                if answer["total"] != sum(values.values()):
                    found.append(f"{stream.service}: the total is {answer['total']}, its parts are {sum(values.values())}")
            found += stream.wrong(values)
            if settled and isinstance(stream, Compact) and "sent" in stream.fate.values():
                found.append(f"{stream.service}: a message was never acknowledged")
        return found
