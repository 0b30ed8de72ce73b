"""The server keeps its store small: merges, forgets. Usage: keep_test.py EDGEPROF"""
import os
import sqlite3
import subprocess
import sys
import tempfile
import time

from generate import message, module, nodes, origin, profile
from harness import Checks, Server

PROGRAM = sys.argv[1]
check = Checks()
HOUR = 3600
SECOND = 1_000_000_000


def total(server):
    return server.get("/api/profile", service="svc", **{"from": "0"})[1]["total"]


def rows(db, level):
    connection = sqlite3.connect(db, timeout=30)
    try:
        return connection.execute("SELECT count(*) FROM profile WHERE level = ?", (level,)).fetchone()[0]
    finally:
        connection.close()


def wait_until(condition, text):
    """The keeper looks at once after the start, and then every ten seconds."""
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    check(condition(), text)


def fill(server):
    """Six hours of a profile every five minutes, 70 ms each."""
    first = int(time.time()) - 9 * HOUR
    for i in range(72):
        profiles = [profile({1: 3, 2: 4}, start=i * 300 * SECOND, duration=10 * SECOND)]
        start = (origin("svc", ()), [module(4096, 4096, 0, b"\1" * 20, "/nowhere/app")], nodes([0, 1], [4100, 4200])) if i == 0 else ()
        check.equal(server.push(message(1, i, *start, profiles=profiles, unix_minus_uptime=first * SECOND)), 200, f"message {i}")


def merges_and_forgets(folder):
    db = os.path.join(folder, "keep.db")
    server = Server(PROGRAM, db)
    fill(server)
    sum_ = total(server)
    check.equal(sum_, 72 * 70_000_000, "everything is there")
    check.equal(server.stop(), 0, "exit code")
    server = Server(PROGRAM, db)
    wait_until(lambda: rows(db, 2) >= 5, "hours are merged")
    check.equal(rows(db, 0), 72, "what has just come stays for a while")
    check.equal(total(server), sum_, "and counts once")
    check.equal(server.stop(), 0, "exit code")
    config = os.path.join(folder, "config")
    with open(config, "w") as file:
        file.write("[keep]\nfine = 1s\nfive-minutes = 1s\nsize = 1G\n")
    server = Server(PROGRAM, db, "--config", config)
    wait_until(lambda: rows(db, 0) + rows(db, 1) < 30, "finer rows go")
    check.equal(total(server), sum_, "and nothing is lost")
    connection = sqlite3.connect(db, timeout=30)
    connection.execute("UPDATE bucket SET seen_ns = 0")  # as if all had come long ago
    connection.commit()
    connection.close()
    check.equal(server.stop(), 0, "exit code")
    server = Server(PROGRAM, db, "--keep", "1h")
    wait_until(lambda: total(server) == 0, "what is too old goes")
    check.equal(server.stop(), 0, "exit code")


def wrong_settings(folder):
    for arguments in (("--keep", "14"), ("--keep", "1m"), ("--keep", "soon"), ("--max-size", "4"), ("--max-size", "0G"), ("--max-size", "G")):
        done = subprocess.run([PROGRAM, "serve", "--db", os.path.join(folder, "wrong.db"), *arguments], capture_output=True, text=True, timeout=60)
        check.equal(done.returncode, 2, f"{arguments}: exit code")
        check(arguments[0] in done.stderr and len(done.stderr.splitlines()) == 1, f"{arguments}: {done.stderr!r}")
    config = os.path.join(folder, "wrong")
    for line in ("for = 0", "size = 5", "fine = x", "else = 1"):
        with open(config, "w") as file:
            file.write(f"[keep]\n{line}\n")
        done = subprocess.run([PROGRAM, "serve", "--config", config], capture_output=True, text=True, timeout=60)
        check.equal(done.returncode, 1, f"{line}: exit code")
        check(":2:" in done.stderr and len(done.stderr.splitlines()) == 1, f"{line}: {done.stderr!r}")


with tempfile.TemporaryDirectory() as folder:
    merges_and_forgets(folder)
    wrong_settings(folder)
check.done("test-tools-keep")
