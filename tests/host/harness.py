"""A server under test, and requests to it; what stands around it. Standard library only."""
import atexit
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import urllib.parse

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def wait_until(condition, seconds=300, pause=0.05):
    """What the condition gives as soon as it is true, or at the end. The time is only a bound for what never gets there."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(pause)
    return found


def configuration(db, text):
    """The path of a new file with this text, beside a database."""
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(db), prefix="serve-", suffix=".conf", delete=False) as file:
        file.write(text)
    return file.name


class Server:
    """edgeprof serve on a free port, with its standard error kept. config: the text of its configuration."""

    def __init__(self, program, db, *arguments, prefix=(), config=None):
        self.db, self.errors = db, tempfile.TemporaryFile(mode="w+")
        if config is not None:
            arguments = (*arguments, "--config", configuration(db, config))
        if "--config" not in arguments:
            arguments = (*arguments, "--config", REPOSITORY / "tests/host/patient.conf")
        self.process = subprocess.Popen([*prefix, program, "serve", "--listen", "127.0.0.1:0", "--db", db, *arguments],
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True)
        atexit.register(self.process.kill)  # a test that fails leaves nothing behind
        line = self.process.stdout.readline()
        found = re.fullmatch(r"edgeprof: (https?://127\.0\.0\.1:(\d+))\n", line)
        if not found:
            self.process.wait()
            raise RuntimeError(f"the server did not start: {line!r} {self.stderr()!r}")
        self.url, self.port = found[1], int(found[2])

    def request(self, method, path, body=None, headers=None):
        """(status, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, body, headers or {}, encode_chunked="Transfer-Encoding" in (headers or {}))
            answer = connection.getresponse()
            self.headers = answer.headers
            return answer.status, answer.read()
        finally:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """A server that still runs is stopped, and has to end with 0."""
        if self.process.returncode is None:
            code = self.stop()
            assert kind or code == 0, f"the server ended with {code}: {self.stderr()}"

    def push(self, body):
        return self.request("POST", "/edgeprof/v1/push", body)[0]

    def get(self, path, **query):
        status, body = self.request("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""))
        return status, json.loads(body)

    def total(self, service, **query):
        """Sum of a service's profiles; None: the server does not answer with 200."""
        status, answer = self.get("/api/profile", service=service, **query)
        return answer["total"] if status == 200 else None

    def stderr(self):
        """So far. The program writes at the offset that this file has, so it is not moved."""
        return os.pread(self.errors.fileno(), os.fstat(self.errors.fileno()).st_size, 0).decode()

    def stop(self, number=signal.SIGTERM):
        """Exit code. A sanitizer's report is a failure even when nobody looks at the code."""
        self.process.send_signal(number)
        code = self.process.wait(300)
        self.process.stdout.close()
        errors = self.stderr()
        for word in ("Sanitizer", "runtime error"):
            if word in errors:
                raise AssertionError(errors)
        return code


def clean_environment(**extra):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF_", "PYROSCOPE_", "DEBUGINFOD_"))}
    return {**environment, **extra}


class FakeServer(http.server.ThreadingHTTPServer):
    """A server of the test's own on a free port, with this handler of requests."""

    def __init__(self, handler, context=None):
        super().__init__(("127.0.0.1", 0), handler)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


@contextlib.contextmanager
def deaf_port():
    """A port where nobody listens, and nobody else can begin to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def free_port():
    """For a program that cannot choose one itself: below those that the kernel gives to connections. It may be gone before the
    program has it."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        end = int(file.read().split()[0])
    while True:
        port = random.randrange(max(1024, end // 2), end)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def database(path, **options):
    """A database while a test looks into it or changes it."""
    connection = sqlite3.connect(path, **{"timeout": 300, **options})
    try:
        with connection:
            yield connection
    finally:
        connection.close()
