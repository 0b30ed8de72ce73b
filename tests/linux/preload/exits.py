#!/usr/bin/python3
"""How long short processes wait at their end for a server that does not answer, that a server may be slow when the user allows it, and
that a process that does nothing touches few pages.

usage: exits.py LIBRARY"""
import http.server
import os
import socket
import subprocess
import sys
import threading
import time

from kit import fail

library = os.path.abspath(sys.argv[1])
SHORT = ["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done"]


class Slow(http.server.BaseHTTPRequestHandler):
    answered = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(3)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        Slow.answered += 1

    def log_message(self, *_):
        pass


def run(port, **env):
    """Seconds that one short process takes, and what it printed."""
    began = time.monotonic()
    done = subprocess.run(SHORT, capture_output=True, text=True, timeout=120, env={
        **os.environ, "LD_PRELOAD": library, "EDGEPROF_LEVEL": "high", "EDGEPROF_ENDPOINT": f"http://127.0.0.1:{port}", **env})
    if done.returncode != 0:
        fail(f"{env}: {done}")
    return time.monotonic() - began, done.stderr


def faults(**env):
    """Page faults of a process that does nothing."""
    child = os.posix_spawn("/bin/true", ["true"], {**os.environ, **env})
    return os.wait4(child, 0)[2].ru_minflt


silent = socket.create_server(("127.0.0.1", 0), backlog=256)  # connections are made, nothing is read
port = silent.getsockname()[1]
plain = min(run(port, EDGEPROF_ENDPOINT="")[0] for _ in range(5))
short = sorted(run(port)[0] for _ in range(5))[2] - plain
never = sorted(run(port, EDGEPROF_EXIT_TIMEOUT="0")[0] for _ in range(5))[2] - plain
told, line = run(port, EDGEPROF_EXIT_TIMEOUT="4000")
if told < 3.5:  # with what the process takes by itself, which is long on a busy machine
    fail(f"a process allowed to wait 4 s took {told:.2f} s: the server was not silent")
if "profiles were not delivered" not in line:
    fail(f"no line about what was not delivered: {line!r}")
if short > told / 4:
    fail(f"a short process waits {short:.2f} s for a silent server, one allowed 4 s {told:.2f} s")
if never > told / 4:
    fail(f"EDGEPROF_EXIT_TIMEOUT=0 waits {never:.2f} s")

slow = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
threading.Thread(target=slow.serve_forever, daemon=True).start()
_, line = run(slow.server_address[1], EDGEPROF_EXIT_TIMEOUT="60000")
if line or not Slow.answered:
    fail(f"a server that answers after 3 s got {Slow.answered} messages of a process allowed to wait 60 s: {line!r}")
for wrong in ("2s", "-1", "600001", "1e3"):
    _, line = run(port, EDGEPROF_EXIT_TIMEOUT=wrong)
    if line != "edgeprof: not profiling: EDGEPROF_EXIT_TIMEOUT: must be a number of ms from 0 to 600000\n":
        fail(f"EDGEPROF_EXIT_TIMEOUT={wrong}: {line!r}")
more = min(faults(LD_PRELOAD=library, EDGEPROF_ENDPOINT=f"http://127.0.0.1:{port}") for _ in range(5)) - min(faults() for _ in range(5))
if more > 100:  # the profiler's memory alone has more than 200 pages
    fail(f"a process that does nothing touches {more} pages more")
print(f"exits.py: a process that does nothing touches {more} pages more")
print(f"exits.py: a short process waits {1000 * short:.0f} ms for a silent server, at 0 {1000 * never:.0f} ms, at 4 s {told:.2f} s")
