#!/usr/bin/python3
"""Native memory of Redis and of CPython: bytes in use of each function that allocates, against a preload library in front of
edgeprof's that counts exactly (exact.c).

usage: memory_exact.py EDGEPROF LIBRARY EXACT WORK [SEEDS]
Of SEEDS runs, each with other data, a site must be within 5 standard errors in each (4.5 if there are few), and its mean within 3 of
the mean's (4.5 if there are few: of forty sites one in ten runs has one beyond 3). A sample stands for 512 KiB, so the standard error of B
bytes is at most sqrt(B * 512 KiB)."""
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

from kit import fail

DISTANCE = 512 * 1024
LEAST = 2_000_000  # bytes of a site that is compared
FEW = 2
edgeprof, library, exact, work = (os.path.abspath(argument) for argument in sys.argv[1:5])
seeds = int(sys.argv[5]) if len(sys.argv) > 5 else FEW
os.makedirs(work, exist_ok=True)
profile, counted = os.path.join(work, "profile"), os.path.join(work, "counted")
SCRIPT = """
import os, random, sys
random.seed(int(sys.argv[1]))
kept, cache = [], {}
for i in range(100000):
    kept.append(bytes(random.randrange(40, 3000)))
    cache[f"key{random.randrange(50000)}"] = [i] * random.randrange(1, 60)
    if random.random() < 0.4:
        kept[random.randrange(len(kept))] = None
os._exit(0)  # else all of it is freed
"""


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("EDGEPROF")}
    return {**env, "EXACT": counted, "LD_PRELOAD": f"{exact} {library}", "EDGEPROF_ENDPOINT": f"file://{profile}", "EDGEPROF_ALL_EVENTS": "1", **more}


def python(seed, **more):
    subprocess.run(["/usr/bin/python3", "-c", SCRIPT, str(seed)], env=environment(**more), check=True)


def python_malloc(seed):
    python(seed, PYTHONMALLOC="malloc")


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def load(port, dice):
    """Values that come, are replaced, grow and go."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        for _ in range(60):
            batch = []
            for _ in range(1000):
                key, value = b"%d" % dice.randrange(30000), dice.randbytes(dice.randrange(20, 1500))
                batch.append(dice.choice((command(b"SET", b"s" + key, value), command(b"LPUSH", b"l" + key[:3], value), command(b"APPEND", b"s" + key, value[:200]),
                                          command(b"HSET", b"h" + key[:3], value[:16], value), command(b"DEL", b"s" + key, b"l" + key[:3]))))
            client.sendall(b"".join(batch))
            answers = 0
            while answers < len(batch):
                answers += client.recv(1 << 20).count(b"\r\n")


def redis(seed):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", work],
                              env=environment(), stdout=subprocess.DEVNULL)
    for _ in range(200):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    load(port, random.Random(seed))
    time.sleep(0.3)
    server.send_signal(signal.SIGTERM)
    if server.wait(20) != 0:
        fail(f"redis-server: {server.returncode}")


def site_counts():
    """{site: bytes in use} as counted."""
    found = {}
    with open(counted, encoding="utf-8") as file:
        for site, value in (line.removeprefix("live ").rsplit(" ", 1) for line in file):
            found[site] = found.get(site, 0) + int(value)
    return found


def site_name(frame, truth):
    """A function without a name is shown by an address in it: that of the last one which begins before."""
    module, _, address = frame.rpartition("+0x")
    if not re.fullmatch("[0-9a-f]+", address):
        return frame
    starts = [int(site.rpartition("+0x")[2], 16) for site in truth if "+0x" in site]
    start = max((start for start in starts if start <= int(address, 16)), default=0)
    return next((site for site in truth if site.endswith(f"+0x{start:x}")), frame)


def measured(truth):
    """The same as measured: the leaf is the counting library's function, and its caller is the site."""
    done = subprocess.run([edgeprof, "cat", "--folded", "--kind", "live", profile], capture_output=True, text=True)
    told = {}
    for path, value in (line.rsplit(" ", 1) for line in done.stdout.splitlines()):
        frames = path.split(";")
        if frames[-1] != "[mmap]" and len(frames) > 1:
            site = site_name(frames[-2], truth)
            told[site] = told.get(site, 0) + int(value)
    return told


def compare(program):
    sums, told_sums, worst = {}, {}, 0.0
    for seed in range(seeds):
        for path in (profile, counted):
            if os.path.exists(path):
                os.remove(path)
        program(seed)
        truth = site_counts()
        told = measured(truth)
        for site, count in truth.items():
            sums[site], told_sums[site] = sums.get(site, 0) + count, told_sums.get(site, 0) + told.get(site, 0)
            off = (told.get(site, 0) - count) / math.sqrt(count * DISTANCE) if count > LEAST else 0
            worst = max(worst, abs(off))
            if abs(off) > (5 if seeds > FEW else 4.5):
                fail(f"{program.__name__}, seed {seed}: {site}: {told.get(site, 0)} of {count} bytes, {off:.1f} standard errors")
        more = {site: value for site, value in told.items() if value > 4 * DISTANCE and site not in truth}
        if more:
            fail(f"{program.__name__}: functions that allocated nothing: {more}")
    for site, count in sorted(sums.items(), key=lambda item: -item[1]):
        if count < LEAST * seeds:
            break
        off = (told_sums[site] - count) / math.sqrt(count * DISTANCE)
        print(f"  {program.__name__:13} {site:24} {count / seeds / 1e6:7.2f} MB, measured {told_sums[site] / seeds / 1e6:7.2f} MB, {off:5.2f} standard errors")
        if abs(off) > (3 if seeds > FEW else 4.5):
            fail(f"{program.__name__}: {site}: the mean of {seeds} runs is {off:.1f} standard errors off")
    print(f"  {program.__name__}: {seeds} runs, each site within {worst:.2f} standard errors")


for one in (redis, python, python_malloc):
    compare(one)
print("memory_exact.py: bytes in use by function are right in Redis and in CPython")
