"""A fleet of devices in simulated time, and a server whose clock it sets (fleet_clock.c).

Versions roll out one after the other; each has a build id, functions and labels of its own. Some devices update late or
never, some have wrong clocks, some go away for good. Each message is one CPU profile of one hour. What was acknowledged
is added up here, hour by hour, without the server's code."""
import collections
import hashlib
import mmap
import os
import re
import select
import socket
import struct
import time

from generate import context, data, fixed64, message, module, nodes, number, origin, tag_set, varint
from harness import Server, database, wait_until

SECOND, MINUTE, HOUR, DAY = 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9
START = 1_700_006_400 * SECOND  # a whole hour
QUANTUM = 10_000_000
BINS = 40


class Clock:
    """struct simulated of fleet_clock.c."""
    FORM = struct.Struct(f"<qQQQQQ{BINS}Qq")

    def __init__(self, folder):
        self.path = os.path.join(folder, "clock")
        with open(self.path, "wb") as file:
            file.write(bytes(self.FORM.size))
        with open(self.path, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), self.FORM.size)
        self.turn, self.ahead, self.passed = 0, 0, 0

    def set(self, now_ns, passed=None):
        """Begins a turn of the keeper at this time, which then goes on at the pace of real time. passed: what has really passed since the
        last time, if it is something else than what the clock says."""
        before, self.ahead = self.ahead, now_ns - time.time_ns()
        self.passed += max(0, self.ahead - before) if passed is None else passed
        self.shared[0:8] = struct.pack("<q", self.ahead)
        self.shared[-8:] = struct.pack("<q", self.passed)
        self.next_turn()

    def next_turn(self):
        self.turn += 1
        self.shared[8:16] = struct.pack("<Q", self.turn)

    def rested(self):
        return struct.unpack_from("<Q", self.shared, 16)[0] == self.turn

    def steps(self):
        """(number, ns in all, longest ns, steps of 2^i to 2^(i+1) us) of the keeper so far"""
        values = self.FORM.unpack(self.shared[:])
        return values[3], values[4], values[5], values[6:-1]


class Version:
    """A program: what its first message says, and profiles of it."""
    SHARED_NODES, OPERATIONS, VARIANTS = 40, 4, 16

    def __init__(self, index, size, rng):
        self.name = f"1.{index}"
        build = hashlib.sha1(self.name.encode()).digest()
        self.modules = [module(4096, 1 << 20, 0, build, "/opt/gateway/gateway"), module(1 << 24, 1 << 20, 0, b"\7" * 20, "/lib/libc.so.6")]
        shift = 16 * index
        frames = [(1 << 24) + 64 * i for i in range(self.SHARED_NODES)] + [4096 + 64 * i + shift for i in range(size - self.SHARED_NODES)]
        # `back` is the distance to the parent; 0 is the root
        back = [1 if i % 20 else 0 for i in range(self.SHARED_NODES)] + [min(i + 1, rng.randrange(1, 8)) for i in range(self.SHARED_NODES, size)]
        self.nodes = nodes(back, frames)
        self.tag_sets = [tag_set(i + 1, operation=f"v{index}-{i}") for i in range(self.OPERATIONS)]
        self.labels = [context(i + 1) for i in range(self.OPERATIONS)]
        self.profiles = [self.columns(size, rng) for _ in range(self.VARIANTS)]

    def columns(self, size, rng):
        """(sum of quanta, the columns of a profile without its times)"""
        chosen = sorted(rng.sample(range(1, size + 1), size // 4))
        values = [rng.randrange(1, 40) for _ in chosen]
        column = b"".join(varint(node - before) for before, node in zip([0, *chosen], chosen))
        return sum(values), (number(4, QUANTUM) + number(5, QUANTUM) + number(6, sum(values)) + data(7, column) +
                             data(8, b"".join(map(varint, values))) + data(10, bytes(rng.randrange(self.OPERATIONS + 1) for _ in chosen)))


class Device:
    def __init__(self, index, service, clock_error, delay, leaves):
        self.index, self.service, self.clock_error, self.delay, self.leaves = index, service, clock_error, delay, leaves
        self.version, self.segment, self.sequence, self.boot = None, 0, 0, START - DAY

    def booted(self):
        """When it started by its own clock. Without a battery that begins in 1970 with each start."""
        return SECOND if self.clock_error is None else self.boot + self.clock_error


class Connections:
    """Sends requests over many connections at once, one at a time on each, and gives each one's answer."""

    def __init__(self, port, count):
        self.port, self.count = port, count

    def send(self, bodies):
        """Statuses, in the order of the bodies."""
        statuses, waiting, poll, at = [0] * len(bodies), {}, select.epoll(), 0
        for _ in range(min(self.count, len(bodies))):
            connection = socket.create_connection(("127.0.0.1", self.port), 60)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poll.register(connection, select.EPOLLIN)
            waiting[connection.fileno()] = [connection, at]
            connection.sendall(bodies[at])
            at += 1
        while waiting:
            for fd, _ in poll.poll(60):
                connection, index = waiting[fd]
                answer = connection.recv(65536)
                statuses[index] = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else -1
                if at < len(bodies) and statuses[index] != -1 and b"Connection: close" not in answer:
                    waiting[fd][1] = at
                    connection.sendall(bodies[at])
                    at += 1
                else:
                    poll.unregister(connection)
                    connection.close()
                    del waiting[fd]
        poll.close()
        return statuses


def request(body):
    return b"POST /edgeprof/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body


class Fleet:
    """devices, versions: numbers; days: in which the versions roll out; every: hours between two profiles of a device; size: nodes
    of a version."""

    def __init__(self, rng, devices, versions, days, every=1, size=240):
        self.rng, self.days, self.every, self.size = rng, days, every, size
        self.versions = [Version(i, size, rng) for i in range(versions)]
        self.release = [START + i * days * DAY // versions for i in range(versions)]
        self.devices = [self.make_device(i, days) for i in range(devices)]
        self.sums = collections.Counter()  # (service, hour's start): nanoseconds
        self.odd = set()  # those with profiles of devices whose clock is wrong
        self.statuses, self.refused, self.sent = collections.Counter(), 0, 0
        self.segments = 0

    def make_device(self, index, days):
        rng, kind = self.rng, index % 50
        errors = {1: -3 * HOUR, 2: 5 * MINUTE, 3: -2 * DAY - 7 * MINUTE, 4: None, 5: 2 * HOUR}
        delay = rng.random() * 0.5 * DAY if kind % 10 else rng.random() * days / 5 * DAY
        delay = 2 * days * DAY if kind == 20 else delay  # it keeps its first version
        leaves = START + rng.random() * days * DAY if kind == 30 else float("inf")
        return Device(index, "camera" if index % 5 == 0 else "gateway", errors.get(kind, 0), int(delay), leaves)

    def version_of(self, device, at):
        due = [i for i, released in enumerate(self.release) if released + (device.delay if i else 0) <= at]
        return due[-1]

    def first_message(self, device, version):
        """What begins a segment. A segment that a restart cuts off is never ended by the device."""
        self.segments += 1
        device.segment, device.sequence, device.version = self.segments, 0, version
        program, name = self.versions[version], f"dev-{device.index:04}"
        return dict(origin=origin(device.service, [("device", name), ("version", program.name)], name, f"boot-{self.segments}", 7, "gateway", "aarch64"),
                    modules=program.modules, nodes_=program.nodes, tag_sets=program.tag_sets)

    def profile_of(self, device, at):
        """(request, what it is worth, its hour): the hour that ends at `at`."""
        version = self.version_of(device, at)
        first = {}
        if version != device.version or self.rng.random() < 0.001:
            first = self.first_message(device, version)
            device.boot = at - HOUR
        total, columns = self.rng.choice(self.versions[version].profiles)
        up = at - HOUR + 1 + self.rng.randrange(50 * MINUTE) - device.boot
        start = device.booted() + up
        body = number(1, 1) + fixed64(2, up) + number(3, 9 * MINUTE) + columns
        sequence, device.sequence = device.sequence, device.sequence + 1
        ends = self.version_of(device, at + self.every * HOUR) != version and self.rng.random() < 0.8
        made = message(device.segment, sequence, first.get("origin"), first.get("modules", ()), first.get("nodes_"), [body], unix_minus_uptime=device.booted(),
                       tag_sets=first.get("tag_sets", ()), contexts=self.versions[version].labels, last=ends)
        return request(made), total * QUANTUM, start - start % HOUR, start + 9 * MINUTE

    def hour(self, connections, at):
        """All messages of the hour that ends at `at`. Those from too far in the future must be refused, all others accepted."""
        there = [d for d in self.devices if at < d.leaves and (at // HOUR + d.index) % self.every == 0]
        made = [(device, *self.profile_of(device, at)) for device in there]
        statuses = connections.send([body for _, body, *_ in made])
        wrong = []
        for (device, _, worth, hour, end), status in zip(made, statuses):
            early = end > at + 10 * MINUTE
            self.statuses[status] += 1
            self.sent += 1
            self.refused += early and status == 400
            if status != (400 if early else 200):
                wrong.append((device.index, device.version, status))
            if status == 200:
                self.sums[device.service, hour] += worth
                if device.clock_error != 0:
                    self.odd.add((device.service, hour))
            if status != 200 and device.sequence == 1:
                device.version = None  # the server does not know the segment
        return wrong


class Site:
    """The server of a fleet: its simulated clock, and what its database and its process take."""

    def __init__(self, program, library, folder, *arguments, now=START):
        self.clock = Clock(folder)
        self.clock.set(now)
        self.db = os.path.join(folder, "fleet.db")
        self.server = Server(program, self.db, *arguments, prefix=["env", f"LD_PRELOAD={library}", f"SIMULATED_CLOCK={self.clock.path}"])
        self.connections = Connections(self.server.port, 100)

    def settle(self):
        """The keeper has done all that is due, also of what came while it had nothing to do."""
        self.clock.next_turn()
        assert wait_until(self.clock.rested, 600), f"the keeper does not get through: {self.server.stderr()[-2000:]}"

    def files(self):
        """(bytes of the database, of its log)"""
        return tuple(os.path.getsize(path) if os.path.exists(path) else 0 for path in (self.db, self.db + "-wal"))

    def used(self):
        with database(self.db) as connection:
            pages, free, size = (connection.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "freelist_count", "page_size"))
        return (pages - free) * size, pages * size

    def rows(self):
        with database(self.db) as connection:
            return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                    for table in ("node", "frame", "module", "origin", "labels", "series", "segment", "profile", "bucket", "metric")}

    def live_versions(self):
        """Versions of stored profiles, and of segments that may go on."""
        with database(self.db) as connection:
            tags = connection.execute("SELECT DISTINCT o.tags FROM origin o WHERE EXISTS (SELECT 1 FROM series s WHERE s.origin = o.id) OR"
                                      " EXISTS (SELECT 1 FROM segment g WHERE g.origin = o.id AND NOT g.ended)").fetchall()
        return {re.search(r"version=(.*)", text)[1] for text, in tags}

    def builds(self):
        with database(self.db) as connection:
            return {build for build, in connection.execute("SELECT build_id FROM module")}

    def memory(self):
        """(MiB of memory now, at most so far)"""
        with open(f"/proc/{self.server.process.pid}/status") as file:
            text = file.read()
        return tuple(int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) / 1024 for name in ("VmRSS", "VmHWM"))

    def hour(self, service, start):
        """What the server says of this hour."""
        return self.server.total(service, **{"from": str(start // SECOND), "to": str((start + HOUR) // SECOND)}) or 0
