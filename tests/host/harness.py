"""A server under test, and requests to it. Standard library only."""
import atexit
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.parse


def wait_until(condition, seconds=60):
    """What the condition gives as soon as it is true, or at the end. The time is only a bound for what never gets there."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


class Server:
    """edgeprof serve on a free port, with its standard error kept."""

    def __init__(self, program, db, *arguments, prefix=()):
        self.errors = tempfile.TemporaryFile(mode="w+")
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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
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
        code = self.process.wait(60)
        self.process.stdout.close()
        errors = self.stderr()
        for word in ("Sanitizer", "runtime error"):
            if word in errors:
                raise AssertionError(errors)
        return code


class Checks:
    """Counts what holds; says what does not and goes on."""

    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, condition, text):
        if condition:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {text}", flush=True)
        return condition

    def equal(self, value, wanted, text):
        return self(value == wanted, f"{text}: {value!r} instead of {wanted!r}")

    def done(self, name):
        print(f"{name}: {self.passed} passed, {self.failed} failed")
        raise SystemExit(1 if self.failed or not self.passed else 0)


def clean_environment(**extra):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF_", "PYROSCOPE_", "DEBUGINFOD_"))}
    return {**environment, **extra}
