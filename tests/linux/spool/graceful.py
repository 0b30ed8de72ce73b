#!/usr/bin/python3
"""A device is told to end while the server is away, and starts again when it is back: everything arrives, once.

usage: graceful.py EDGEPROF PROGRAM WORK"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import serve

edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
db = os.path.join(work, "graceful.db")


def device(port, seconds):
    run = subprocess.Popen([program, f"http://127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True,
                           env=dict(os.environ, EDGEPROF_SPOOL=os.path.join(work, "spool")))
    run.stdout.readline()
    time.sleep(seconds)
    run.send_signal(signal.SIGTERM)
    said = json.loads(run.communicate(timeout=60)[0])
    print(f"graceful: {said}")
    if said["stop"] != 0 or said["lost_ns"] or said["ms"] > 2500:
        sys.exit("graceful: not all of it was delivered or spooled within the deadline")
    return said


server, port = serve.start(edgeprof, db)
server.kill()
server.wait()
away = [device(port, 2), device(port, 1)]
if not all(said["spooled"] and said["left"] and said["failures"] for said in away):
    sys.exit("graceful: the server's absence was not noticed")
server, _ = serve.start(edgeprof, db, port)
back = device(port, 3)
server.terminate()
server.wait(20)
if back["left"] or back["replayed"] < away[0]["spooled"] + away[1]["spooled"]:
    sys.exit("graceful: the spool was not emptied")
kept, measured = serve.total(edgeprof, db), sum(said["measured_ns"] for said in (*away, back))
print(f"graceful: measured {measured} ns, in the database {kept} ns")
if kept != measured:
    sys.exit("graceful: the totals differ")
