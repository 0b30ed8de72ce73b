#!/usr/bin/python3
"""Figures of the sample service under load: what a sample costs there and what an event costs the collect thread, how often
the rule cache hits, how large a profile is.

usage: service.py PROGRAM WORK
PROGRAM is the sample service linked with measure_capture.o. It runs for SECONDS under its own load driver and writes its
profiles to a file; the first ones, which tell the dictionary, are reported apart."""
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

SECONDS, INTERVAL_MS, WARM = 40, 5000, 3

program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
os.makedirs(work, exist_ok=True)
profile, figures = os.path.join(work, "service.ep"), os.path.join(work, "figures")
for path in (profile, figures):
    if os.path.exists(path):
        os.remove(path)


def start():
    env = dict(os.environ, ASPNETCORE_URLS="http://127.0.0.1:0", EDGEPROF_ENDPOINT="file://" + profile,
               EDGEPROF_LEVEL="medium", EDGEPROF_INTERVAL=str(INTERVAL_MS), EDGEPROF_MEASURE=figures)
    log = open(os.path.join(work, "service.log"), "w+", encoding="utf-8")
    service = subprocess.Popen([program], env=env, stdout=log, stderr=log)
    for _ in range(100):
        found = re.search(r"http://127[^\s]*", open(log.name, encoding="utf-8").read())
        if found:
            return service, found.group(0)
        time.sleep(0.1)
    service.kill()
    sys.exit("service.py: the service did not start, see " + log.name)


def sizes():
    data, at, found = open(profile, "rb").read(), 0, []
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        body = subprocess.run(["protoc", "--decode=edgeprof.v1.Message", "-I", "core/proto", "compact.proto"],
                              input=data[at + 4:at + 4 + size], capture_output=True, check=True).stdout.decode()
        stacks = len(re.findall(r"^  value: ", body, re.M))
        nodes = len(re.findall(r"^  back: ", body, re.M))
        found.append((size, stacks, nodes))
        at += 4 + size
    return found


service, url = start()
subprocess.run([program, "--load", url, "--seconds", str(SECONDS)], check=True, stdout=subprocess.DEVNULL,
               env={k: v for k, v in os.environ.items() if not k.startswith("EDGEPROF")})
service.send_signal(signal.SIGTERM)
service.wait(20)
messages = sizes()
if len(messages) < WARM + 3:
    sys.exit(f"service.py: only {len(messages)} profiles")
warm = messages[WARM:-1]
print(open(figures, encoding="utf-8").read(), end="")
print("figure profile_bytes %.0f bytes" % (sum(m[0] for m in warm) / len(warm)))
print("figure segment_start_bytes %d bytes" % messages[0][0])
print("note " + json.dumps({"bytes, stacks, new nodes of each profile": messages}))
