#!/usr/bin/python3
"""The server goes away while the service runs: everything measured is in the database at the end, or counted as lost.

usage: server_gone.py EDGEPROF WORKER WORK
Twice: killed and started again with its database, and with an empty one. That one does not know the segment: the device
starts another, and its queue continues there. Nothing is lost either way."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

edgeprof, worker, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)


def serve(port, db):
    log = open(os.path.join(work, "serve.log"), "w+", encoding="utf-8")
    server = subprocess.Popen([edgeprof, "serve", "--listen", f"127.0.0.1:{port}", "--db", db], stdout=log, stderr=log)
    for _ in range(100):
        found = re.search(r"http://127\.0\.0\.1:(\d+)", open(log.name, encoding="utf-8").read())
        if found:
            return server, int(found.group(1))
        time.sleep(0.1)
    sys.exit("server_gone: the server did not start: " + open(log.name, encoding="utf-8").read())


def total_ns(db):
    done = subprocess.run([edgeprof, "top", "--db", db, "--service", "worker", "-n", "100000", "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["total"]


def run(name, forget):
    db = os.path.join(work, name + ".db")
    server, port = serve(0, db)
    device = subprocess.Popen([worker, f"http://127.0.0.1:{port}", "9"], stdout=subprocess.PIPE, text=True)
    time.sleep(3)
    server.kill()
    server.wait()
    before = total_ns(db)
    time.sleep(2)
    if forget:
        db = os.path.join(work, name + "-second.db")
    else:
        before = 0
    server, _ = serve(port, db)
    said = json.loads(device.communicate(timeout=60)[0])
    server.terminate()
    server.wait(20)
    kept = before + total_ns(db)
    share = kept / said["measured_ns"]
    print(f"server_gone: {name}: {said}, in the database {kept} ns, {100 * share:.2f} %")
    if said["stop"] != 0 or said["failures"] == 0:
        sys.exit(f"server_gone: {name}: the server's absence was not noticed, or stop failed")
    if kept != said["measured_ns"]:
        sys.exit(f"server_gone: {name}: {said['measured_ns']} ns were measured, {kept} ns are in the database")
    if said["lost_ns"]:
        sys.exit(f"server_gone: {name}: {said['lost_ns']} ns were lost")


run("restarted", False)
run("forgetful", True)
