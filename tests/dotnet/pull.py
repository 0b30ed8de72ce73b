#!/usr/bin/python3
"""The pull endpoint of the sample service under load, read by `go tool pprof`.

usage: pull.py SERVICE WORK
alone      EDGEPROF_PULL is enough to start the profiler
memory     allocs of 5 s are what /metrics says was allocated meanwhile; heap has what is in use, by type's address
threads    goroutine has every thread that the kernel has, but the profiler's own
mutex and so on are there; a port that is taken, or a token that is too short, is one line and no start"""
import os
import re
import subprocess
import sys
import time
import urllib.request

sys.dont_write_bytecode = True
import gateway  # noqa: E402

service, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
os.makedirs(work, exist_ok=True)
log_path = os.path.join(work, "service.log")


def fail(text):
    sys.exit(f"pull.py: {text}")


def expect(good, what, got=""):
    if not good:
        fail(f"{what}: {got}")
    print(f"ok   {what} {got}")


def start(pull, **more):
    return gateway.start(service, log_path, EDGEPROF_PULL=pull, **more)


def metric(port, name):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M).group(1))


def raw(port, path):
    """Sample types, and the sum of each; the frames of all samples' locations."""
    env = {**os.environ, "PPROF_TMPDIR": work, "HOME": work}
    run = subprocess.run(["go", "tool", "pprof", "-symbolize=none", "-raw", f"http://127.0.0.1:{port}/debug/pprof/{path}"],
                         env=env, capture_output=True, text=True, timeout=90)
    types = re.search(r"^Samples:\n(.*)$", run.stdout, re.M)
    if run.returncode or not types:
        fail(f"{path}: {run.stdout[:500]}{run.stderr}")
    names = [t.removesuffix("[dflt]") for t in types.group(1).split()]
    rows = re.findall(r"^\s+((?:\d+\s+)+\d+|\d+): ([\d ]+)", run.stdout.split("Locations")[0], re.M)
    sums = [sum(column) for column in zip(*([int(v) for v in row[0].split()] for row in rows))]
    return dict(zip(names, sums)) if rows else dict.fromkeys(names, 0)


def truth(port, pid):
    key = "edgeprof_alloc_bytes_total"
    before = metric(port, key)
    allocs = raw(port, "allocs?seconds=5")["alloc_space/bytes"]
    during = metric(port, key) - before
    # The metric is of the intervals that have ended, one of which may lie on either side.
    expect(during > 1e6 and 0.6 < allocs / during < 1.6, "allocs of 5 s", f"{allocs / 1e6:.1f} MB, metrics {during / 1e6:.1f} MB")
    since = raw(port, "allocs")["alloc_space/bytes"]
    expect(since > allocs and since >= 0.9 * metric(port, key), "allocs since the start", f"{since / 1e6:.1f} MB")
    heap = raw(port, "heap")
    expect(heap["inuse_space/bytes"] > 100000 and heap["inuse_objects/count"] > 0, "heap", heap)
    threads = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        threads += not open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8").read().startswith("edgeprof")
    dump = raw(port, "goroutine")["goroutine/count"]
    expect(abs(dump - threads) <= 2, "goroutine: every thread", f"{dump} of {threads}")
    cpu = raw(port, "profile?seconds=3")
    expect(cpu["samples/count"] > 20 and cpu["cpu/nanoseconds"] > 1e8, "profile of 3 s", cpu)
    for path in ("mutex", "block", "exception", "gc", "gc_heap"):
        print(f"     {path}: {raw(port, path)}")


def main():
    port = gateway.free_port()
    process, url = start(str(port), EDGEPROF_LEVEL="high", EDGEPROF_INTERVAL="500")
    load = subprocess.Popen([service, "--load", url, "--seconds", "60"], stdout=subprocess.DEVNULL,
                            env=gateway.environment())
    time.sleep(2)
    truth(port, process.pid)
    for where, token in ((str(port), ""), ("127.0.0.1:1234", "short"), ("0.0.0.0:1234", ""), ("0.0.0.0:1234", "0123456789abcdef"), ("nonsense", "")):
        other, _ = start(where, EDGEPROF_PULL_TOKEN=token)
        said = re.findall(r"edgeprof: .*", open(log_path, encoding="utf-8").read())
        expect(len(said) == 1 and "EDGEPROF_PULL" in said[0], f"{where!r} {token!r} is one line", "".join(said))
        other.terminate()
        other.wait(30)
    load.terminate()
    load.wait()
    process.terminate()
    process.wait(30)


main()
