#!/usr/bin/python3
"""CPU time that the preload library adds to Redis, nginx and PostgreSQL, per operation and level.

usage: servers.py redis|redis_memory|nginx|pgbench|pgbench_connect LIBRARY WORK [SETS]
A set is five servers that run at once: two without the library, and one with it at each level. They take turns in rounds
of the same load, so a busy machine does not favour one of them. Two processes of one program differ by more than what is
looked for, by where their memory lies. So SETS sets are started one after the other, each gives one difference from its
first server, and the figure is their median, with a 95 % interval (Hettmansperger and Sheather, of the sign test's order
statistics). The row "again" is the second server without the library: it says what the experiment shows of nothing. CPU
time is that of the process that serves, edgeprof's own threads included. PostgreSQL's is that of the first process and all
that have ended; pgbench_connect has a process for each transaction."""
import glob
import math
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROWS = ("plain", "again", "low", "medium", "high")
GOALS = {"again": 0, "low": 0.3, "medium": 0.5, "high": 1.0}
OPERATIONS = 4000  # of redis-benchmark in one turn
SECONDS = 1  # of wrk in one turn
ROUNDS = {"redis": 40, "redis_memory": 40, "nginx": 6, "pgbench": 8, "pgbench_connect": 8}
SETS = 10
EDGEPROF_LEVELS = ROWS[2:]
CONFIG = """worker_processes 1; pid {work}/pid; error_log {work}/error.log; daemon off; {user}
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {work}/body; proxy_temp_path {work}/proxy; fastcgi_temp_path {work}/fastcgi;
uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
server {{ listen 127.0.0.1:{port}; root {work}; location /hello {{ return 200 "hello\\n"; }} }} }}
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def cpu_ns(pid):
    """CPU time of a process: Linux' MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Server:
    def __init__(self, level, library, work):
        self.level, self.work, self.port = level, work / level, free_port()
        self.work.mkdir(parents=True, exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
        if level in EDGEPROF_LEVELS:
            env.update(LD_PRELOAD=library, EDGEPROF_ENDPOINT=f"file://{self.work}/profile", EDGEPROF_LEVEL=level)
        with open(self.work / "output", "wb") as output:
            self.process = subprocess.Popen(self.command(), env=env, stdout=output, stderr=output)
        for _ in range(200):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.05)
        else:
            self.process.kill()
            sys.exit(f"servers.py: {level}: {(self.work / 'output').read_text()}")
        mapped = pathlib.Path(f"/proc/{self.worker()}/maps").read_text()
        if (library in mapped) != (level in EDGEPROF_LEVELS):
            self.process.kill()
            sys.exit(f"servers.py: {level}: the library is not where it belongs")

    def worker(self):
        return self.process.pid

    def turn(self):
        """CPU ns per operation."""
        before = cpu_ns(self.worker())
        operations = self.load()
        return (cpu_ns(self.worker()) - before) / operations

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


class Redis(Server):
    def command(self):
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                "--dir", str(self.work)]

    def load(self):
        subprocess.run(["redis-benchmark", "-p", str(self.port), "-q", "-c", "8", "-n", str(OPERATIONS), "-t", "get"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return OPERATIONS


class RedisMemory(Redis):
    """With the library that has memory hooks: new values, each of which is allocated and replaces one that is freed."""

    def load(self):
        subprocess.run(["redis-benchmark", "-p", str(self.port), "-q", "-c", "8", "-n", str(OPERATIONS), "-t", "set", "-r", "10000", "-d", "200"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return OPERATIONS


class Postgres(Server):
    """As a user of its own, since it refuses to be root, in a folder that this user may enter."""
    OPTIONS = ()

    def __init__(self, level, library, work):
        self.tools = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.be = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"] if os.getuid() == 0 else []
        self.folder = pathlib.Path(tempfile.mkdtemp())
        if self.be:
            shutil.chown(self.folder, "postgres")
        subprocess.run([*self.be, f"{self.tools}/initdb", "-D", self.folder / "data", "-A", "trust", "-U", "bench", "--no-sync"], check=True,
                       stdout=subprocess.DEVNULL)
        super().__init__(level, shutil.copy(library, self.folder), self.folder)
        while self.pgbench("-i", "-q", "-s", "1").returncode != 0:
            time.sleep(0.1)
        self.idle = self.settled()

    def command(self):
        if self.be:
            shutil.chown(self.work, "postgres")
        settings = ("fsync=off", "jit=off", "autovacuum=off", f"port={self.port}", f"unix_socket_directories={self.folder}")
        return [*self.be, f"{self.tools}/postgres", "-D", self.folder / "data", *(f"--{setting}" for setting in settings)]

    def pgbench(self, *options):
        return subprocess.run([f"{self.tools}/pgbench", "-h", "127.0.0.1", "-p", str(self.port), "-U", "bench", *options, "postgres"],
                              capture_output=True, text=True)

    def settled(self):
        """The number of child processes, once it stays as it is."""
        count = len(children(self.process.pid))
        while True:
            time.sleep(0.2)
            before, count = count, len(children(self.process.pid))
            if count == before:
                return count

    def used_ns(self):
        """Of the first process and of those that have ended."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, stat[11:15])) * 10**9 // os.sysconf("SC_CLK_TCK")

    def turn(self):
        before = self.used_ns()
        operations = self.load()
        while len(children(self.process.pid)) > self.idle:
            time.sleep(0.02)
        return (self.used_ns() - before) / operations

    def load(self):
        done = self.pgbench("-S", "-n", "-c", "2", "-T", str(2 * SECONDS), *self.OPTIONS)
        return int(re.search(r"transactions actually processed: (\d+)", done.stdout).group(1))

    def end(self):
        self.process.send_signal(signal.SIGINT)  # it does not wait for clients
        self.process.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)


class PostgresConnect(Postgres):
    OPTIONS = ("-C",)


class Nginx(Server):
    def command(self):
        user = "user root;" if os.getuid() == 0 else ""
        (self.work / "nginx.conf").write_text(CONFIG.format(work=self.work, port=self.port, user=user))
        return ["/usr/sbin/nginx", "-c", str(self.work / "nginx.conf"), "-p", str(self.work)]

    def worker(self):
        return children(self.process.pid)[0]

    def load(self):
        done = subprocess.run(["wrk", "-t1", "-c8", f"-d{SECONDS}s", f"http://127.0.0.1:{self.port}/hello"],
                              check=True, capture_output=True, text=True).stdout
        return int(re.search(r"(\d+) requests in", done).group(1))


def undisturbed(values):
    """The mean of the lower half: other programs on the machine only add to CPU times, by emptying caches."""
    values = sorted(values)
    return statistics.mean(values[:max(1, len(values) // 2)])


def interval(values):
    """The order statistics between which the median lies with at least 95 %."""
    values, count = sorted(values), len(values)
    out = max((k for k in range(count // 2) if sum(math.comb(count, i) for i in range(k + 1)) / 2**count <= 0.025), default=0)
    return values[out], values[count - 1 - out]


def added_pct(make, library, work, count):
    """One set: by level, what it takes more than the first server, in %."""
    servers = []
    try:
        for level in ROWS:
            servers.append(make(level, library, work))
            servers[-1].turn()
        rounds = [{server.level: server.turn() for server in random.sample(servers, len(servers))} for _ in range(count)]
    finally:
        for server in servers:
            server.end()
    plain = undisturbed([turns["plain"] for turns in rounds])
    return {level: 100 * (undisturbed([turns[level] for turns in rounds]) / plain - 1) for level in GOALS}


SERVERS = {"redis": Redis, "redis_memory": RedisMemory, "nginx": Nginx, "pgbench": Postgres, "pgbench_connect": PostgresConnect}


def main():
    name, library, work = sys.argv[1], os.path.abspath(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
    sets = [added_pct(SERVERS[name], library, work, ROUNDS[name])
            for _ in range(int(sys.argv[4]) if len(sys.argv) > 4 else SETS)]
    for level, goal in GOALS.items():
        values = [one[level] for one in sets]
        low, high = interval(values)
        print(f"servers.py: {name}, {level}: {low:.2f} to {high:.2f} %, goal {goal} %, of {len(values)} sets")
        print(f"figure overhead_{name}_{level}_pct {statistics.median(values):.2f} %")


main()
