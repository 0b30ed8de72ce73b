#!/usr/bin/python3
"""CPU time that the preload library adds to Redis and nginx, per operation and level.

usage: servers.py redis|nginx LIBRARY WORK [ROUNDS]
Four servers run at once: without the library, and with it at each level. They take turns in rounds of the same load, so
a busy machine does not favour one of them. The figures compare CPU times per operation with the plain server's, with 95 %
intervals. CPU time is that of the process that serves, edgeprof's own threads included."""
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import time

LEVELS = ("plain", "low", "medium", "high")
GOALS = {"low": 0.3, "medium": 0.5, "high": 1.0}
OPERATIONS = 4000  # of redis-benchmark in one turn
SECONDS = 1  # of wrk in one turn
ROUNDS = {"redis": 150, "nginx": 30}
RESAMPLES = 500
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
        if level != "plain":
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
        if (library in mapped) != (level != "plain"):
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


def added_pct(rounds, level):
    return 100 * (undisturbed([turns[level] for turns in rounds]) / undisturbed([turns["plain"] for turns in rounds]) - 1)


def interval(rounds, level):
    """The 95 % interval, by drawing rounds again."""
    drawn = sorted(added_pct(random.choices(rounds, k=len(rounds)), level) for _ in range(RESAMPLES))
    return drawn[RESAMPLES // 40], drawn[-1 - RESAMPLES // 40]


def main():
    name, library, work = sys.argv[1], os.path.abspath(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
    count = int(sys.argv[4]) if len(sys.argv) > 4 else ROUNDS[name]
    servers = []
    try:
        for level in LEVELS:
            servers.append({"redis": Redis, "nginx": Nginx}[name](level, library, work))
            servers[-1].turn()
        rounds = [{server.level: server.turn() for server in random.sample(servers, len(servers))} for _ in range(count)]
    finally:
        for server in servers:
            server.end()
    for level, goal in GOALS.items():
        low, high = interval(rounds, level)
        print(f"servers.py: {name}, {level}: {low:.2f} to {high:.2f} %, goal {goal} %")
        print(f"figure overhead_{name}_{level}_pct {added_pct(rounds, level):.2f} %")


main()
