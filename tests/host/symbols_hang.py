"""The slowest answers of a server that loads a symbol file of 500 MB while its debuginfod server takes connections and never
answers: those of all addresses of the API that read, asked by four clients until the names are there. Prints figures.
Usage: symbols_hang.py EDGEPROF [MB]"""
import collections
import os
import pathlib
import re
import socket
import sys
import tempfile
import threading
import time
import urllib.parse

import large_symbols
from generate import message, module, nodes, origin, profile
from harness import Server

MOST_SECONDS = 300
LARGE, OTHER = bytes(range(20)), b"\xee" * 20


def hang():
    """Its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    taken = []

    def take():
        while True:
            taken.append(listener.accept())
    threading.Thread(target=take, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}", taken


def push(server, count):
    """Stacks through 2,000 functions of the large file, and some in a module that only a debuginfod server could have."""
    frames = [4096 + (i * (count // 2000)) * large_symbols.STEP + 8 for i in range(2000)] + [(1 << 31) + 4096 + i * 16 for i in range(50)]
    mapped = [module(4096, count * large_symbols.STEP, large_symbols.BASE, LARGE, "/opt/large"), module((1 << 31) + 4096, 1 << 20, 0, OTHER, "/opt/other")]
    for service in ("both", "again"):
        body = message(5, 0, origin(service), mapped, nodes([0] * len(frames), frames), [profile({i + 1: 1 + i for i in range(len(frames))})],
                       unix_minus_uptime=time.time_ns() - 60 * 10**9)
        assert server.push(body) == 200


QUERY = urllib.parse.urlencode({"service": "both", "from": "0"})
PATHS = ["/api/services", f"/api/profile?{QUERY}", f"/api/stats?{QUERY}", f"/api/pprof?{QUERY}", f"/api/callers?{QUERY}&function=x", f"/api/devices?{QUERY}", f"/api/timeline?{QUERY}",
         f"/api/crashes?{QUERY}", f"/api/leaks?{QUERY}", f"/api/diff?{QUERY}&base_service=again&base_from=0", "/api/profile?service=again&from=0", "/api/symbols",
         "/api/refused", "/api/relays", "/api/targets"]


class Clients:
    def __init__(self, server):
        self.server, self.longest, self.answers, self.ending = server, collections.defaultdict(float), collections.Counter(), False
        self.threads = [threading.Thread(target=self.ask, args=(i,)) for i in range(4)]
        for thread in self.threads:
            thread.start()

    def ask(self, first):
        while not self.ending:
            for path in PATHS[first:] + PATHS[:first]:
                begin = time.monotonic()
                status, _ = self.server.request("GET", path)
                path = path.partition("?")[0]
                self.longest[path] = max(self.longest[path], time.monotonic() - begin)
                self.answers[path, status] += 1
                time.sleep(0.02)

    def end(self):
        self.ending = True
        for thread in self.threads:
            thread.join()


def processes(process):
    """It and all that it started."""
    found = [process]
    for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split():
        found += processes(int(child))
    return found


def memory_mib(process):
    """Of these: what is theirs alone, without pages of files."""
    total = 0
    for one in processes(process):
        try:
            total += int(re.search(r"RssAnon:\s+(\d+) kB", pathlib.Path(f"/proc/{one}/status").read_text())[1])
        except OSError:
            pass
    return total // 1024


def named(server):
    status, answer = server.get("/api/profile", service="both", **{"from": "0"})
    return status == 200 and not any("large+0x" in row["name"] for row in answer["top"])


def main():
    size = int(sys.argv[2] if len(sys.argv) > 2 else 500) * 1_000_000
    with tempfile.TemporaryDirectory(prefix="edgeprof-bench-") as folder:
        os.mkdir(f"{folder}/symbols")
        count = large_symbols.write(f"{folder}/symbols/large.debug", LARGE, size)
        url, taken = hang()
        config = pathlib.Path(folder, "edgeprof.conf")
        config.write_text("[limits]\nloopback = no\n")  # the limits as they are by default, symbols-time too
        os.mkdir(f"{folder}/store")
        server = Server(os.path.abspath(sys.argv[1]), f"{folder}/hang.db", "--config", str(config), "--symbols", f"{folder}/symbols", "--symbols-store", f"{folder}/store",
                        "--debuginfod", url, prefix=("env", f"EDGEPROF_CACHE={folder}/cache"))
        push(server, count)
        begin, clients, peak, load = time.monotonic(), Clients(server), 0, None
        while time.monotonic() - begin < MOST_SECONDS and not load:
            peak = max(peak, memory_mib(server.process.pid))
            load = time.monotonic() - begin if named(server) else None
            time.sleep(0.05)
        time.sleep(1)  # with all names, and the other server still silent
        clients.end()
        assert load, f"no names: {server.stderr()}"
        assert taken, "the debuginfod server was asked"
        assert {status for _, status in clients.answers} == {200}, clients.answers
        server.stop()
        for path, longest in sorted(clients.longest.items(), key=lambda item: -item[1]):
            answers = {status: number for (own, status), number in clients.answers.items() if own == path}
            print(f"{path}: {longest * 1000:.0f} ms at most; answers by status: {answers}", file=sys.stderr)
        print(f"{os.path.getsize(f'{folder}/symbols/large.debug') / 1e6:.0f} MB, {count} functions; names after {load:.1f} s; {sum(clients.answers.values())} answers", file=sys.stderr)
    print(f"figure api_slowest_beside_large_symbols_ms {max(clients.longest.values()) * 1000:.0f} ms")
    print(f"figure symbols_500mb_load_s {load:.1f} s")
    print(f"figure symbols_500mb_memory_mib {peak} MiB")


main()
