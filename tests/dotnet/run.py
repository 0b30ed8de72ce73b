#!/usr/bin/python3
"""A NativeAOT service that was built without the package, under `edgeprof run`: the same hot functions, and `go tool
pprof -top` puts them in the same order.

usage: run.py EDGEPROF SERVICE WORK
The service's two heaviest burners take their CPU time in known parts (60 and 30), so their order and ratio are known."""
import os
import re
import signal
import subprocess
import sys
import time

SECONDS = 12
edgeprof, service, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
os.makedirs(work, exist_ok=True)
pprof, log_path = os.path.join(work, "run.pb.gz"), os.path.join(work, "run.log")


def fail(text):
    sys.exit(f"run.py: {text}\n{open(log_path, encoding='utf-8').read()[-2000:]}")


def child_of(parent):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True).stdout.split()
    return int(found[0]) if found else 0


def rows(text, share, name):
    """(flat %, function) of a table whose columns these are. pprof marks functions that it only saw inlined."""
    found = [line.removesuffix(" (inline)").split() for line in text.splitlines()]
    return [(float(row[share][:-1]), " ".join(row[name:])) for row in found
            if len(row) > name and re.fullmatch(r"[\d.]+%", row[share])]


env = dict(os.environ, ASPNETCORE_URLS="http://127.0.0.1:0", DOTNET_gcServer="0")
with open(log_path, "w", encoding="utf-8") as log:
    run = subprocess.Popen([edgeprof, "run", "--level", "high", "--pprof", pprof, "--", service], stdout=log, stderr=log,
                           env=env)
for _ in range(150):
    url = re.search(r"sensor gateway: (http://127\S*)", open(log_path, encoding="utf-8").read())
    if url or run.poll() is not None:
        break
    time.sleep(0.1)
if not url:
    run.kill()
    fail("the service did not start")
subprocess.run([service, "--load", url.group(1), "--seconds", str(SECONDS)], check=True, stdout=subprocess.DEVNULL)
os.kill(child_of(run.pid) or run.pid, signal.SIGTERM)
if run.wait(30) != 0:
    fail(f"edgeprof run ended with {run.returncode}")
ours = rows(open(log_path, encoding="utf-8").read(), 0, 4)
theirs = rows(subprocess.run(["go", "tool", "pprof", "-top", pprof], capture_output=True, text=True, check=True).stdout, 1, 5)
if [name for _, name in ours[:2]] != ["SensorGateway.Burn.HashRound", "SensorGateway.Burn.Multiply"]:
    fail("the hot functions are not the burners")
if not 1.5 < ours[0][0] / ours[1][0] < 2.7:
    fail(f"the burners' ratio is {ours[0][0] / ours[1][0]:.2f}, it should be 2")
# Functions with the same number of samples may stand in any order, and pprof drops generic arguments, which may merge
# functions: compare down to the first of either.
merged = {re.sub("<.*>", "", name) for _, name in ours if "<" in name}
for (our_share, our_name), (their_share, their_name), (next_share, _) in zip(ours, theirs, ours[1:]):
    if our_share - next_share < 0.02 or "<" in our_name or their_name in merged:
        break
    if our_name != their_name or abs(our_share - their_share) > 0.02 + 0.005 * our_share:
        fail(f"go tool pprof says {their_name} {their_share} %, we say {our_name} {our_share} %")
print(f"run.py: {ours[0][1]} {ours[0][0]} %, {ours[1][1]} {ours[1][0]} %, and go tool pprof agrees")
