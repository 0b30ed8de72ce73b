"""The sample service for tests that ask a running one: in surroundings that say nothing of profiling but what the test
says, and not before it answers. Not here: load, which is the service's own (--load URL)."""
import os
import re
import socket
import subprocess
import sys
import time


def environment(**settings):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    return {**clean, **settings}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(service, log_path, **settings):
    """The process, and where it listens."""
    env = environment(ASPNETCORE_URLS="http://127.0.0.1:0", **settings)
    with open(log_path, "w", encoding="utf-8") as log:
        process = subprocess.Popen([service], env=env, stdout=log, stderr=log)
    for _ in range(200):
        found = re.search(r"sensor gateway: (http://127\S*)", open(log_path, encoding="utf-8").read())
        if found:
            return process, found.group(1)
        time.sleep(0.1)
    process.kill()
    return sys.exit("the service did not start, see " + log_path)
