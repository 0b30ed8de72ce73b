"""edgeprof serve for the tests of the spool."""
import json
import re
import subprocess
import sys


def start(edgeprof, db, port=0):
    """The process, and the port it listens on."""
    server = subprocess.Popen([edgeprof, "serve", "--listen", f"127.0.0.1:{port}", "--db", db], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    found = re.search(r"http://127\.0\.0\.1:(\d+)", server.stdout.readline())
    if not found:
        sys.exit("the server did not start")
    return server, int(found[1])


def total(edgeprof, db, *options):
    """The CPU time of the devices in the database."""
    done = subprocess.run([edgeprof, "top", "--db", db, "--service", "graceful", *options, "-n", "100000", "--json"],
                          capture_output=True, text=True)
    if done.returncode not in (0, 3):  # 3: nothing
        sys.exit(done.stderr)
    return json.loads(done.stdout)["total"] if done.returncode == 0 else 0
