"""A running server keeps its store small: it merges old blocks and deletes expired ones."""
import os
import sqlite3
import time

import pytest

from generate import message, module, nodes, origin, profile
from harness import wait_until

pytestmark = pytest.mark.all

HOUR = 3600
SECOND = 1_000_000_000


def total(server):
    return server.total("svc", **{"from": "0"})


def rows(db, level):
    connection = sqlite3.connect(db, timeout=30)
    try:
        return connection.execute("SELECT count(*) FROM profile WHERE level = ?", (level,)).fetchone()[0]
    finally:
        connection.close()


def fill(server):
    """Six hours of a profile every five minutes, 70 ms each."""
    first = int(time.time()) - 9 * HOUR
    for i in range(72):
        profiles = [profile({1: 3, 2: 4}, start=i * 300 * SECOND, duration=10 * SECOND)]
        start = (origin("svc", ()), [module(4096, 4096, 0, b"\1" * 20, "/nowhere/app")], nodes([0, 1], [4100, 4200])) if i == 0 else ()
        assert server.push(message(1, i, *start, profiles=profiles, unix_minus_uptime=first * SECOND)) == 200, f"message {i}"


def test_merges_and_forgets(folder, start_server):
    db = os.path.join(folder, "keep.db")
    server = start_server(db=db)
    fill(server)
    sum_ = total(server)
    assert sum_ == 72 * 70_000_000
    assert server.stop() == 0
    server = start_server(db=db)
    assert wait_until(lambda: rows(db, 2) >= 5), "hours are merged"
    assert rows(db, 0) == 72, "what has just come stays for a while"
    assert total(server) == sum_, "and counts once"
    assert server.stop() == 0
    server = start_server(db=db, config="[keep]\nfine = 1s\nfive-minutes = 1s\nsize = 1G\n")
    assert wait_until(lambda: rows(db, 0) + rows(db, 1) < 30), "finer rows go"
    assert total(server) == sum_, "and nothing is lost"
    connection = sqlite3.connect(db, timeout=30)
    connection.execute("UPDATE bucket SET seen_ns = 0")  # as if all had come long ago
    connection.commit()
    connection.close()
    assert server.stop() == 0
    server = start_server("--keep", "1h", db=db)
    assert wait_until(lambda: total(server) == 0), "what is too old goes"


def test_limit_below_dictionary(folder, start_server):
    """A dictionary of more than the limit does not cost the newest profiles, and the server says so once."""
    db = os.path.join(folder, "limit.db")
    server = start_server(db=db)
    start = int(time.time()) - 30 * HOUR
    for i in range(28):
        count = 2000
        body = message(100 + i, 0, origin("svc", ()), [module(4096, 1 << 20, 0, b"\1" * 20, "/nowhere/app")],
                       nodes([0] * count, [4096 + 16 * (i * count + k) for k in range(count)]), last=True,
                       profiles=[profile(dict.fromkeys(range(1, count + 1), 1), start=SECOND, duration=10 * SECOND)],
                       unix_minus_uptime=(start + i * HOUR) * SECOND)
        assert server.push(body) == 200, f"message {i}"
    assert server.stop() == 0
    server = start_server("--max-size", "1M", db=db)
    assert wait_until(lambda: "--max-size: the database has" in server.stderr(), 120), server.stderr()
    sum_ = total(server)
    hours = sum_ // (2000 * 10_000_000)
    assert hours == 24, f"{hours} hours of profiles are left"
    answer = server.request("GET", "/metrics")[1].decode()
    deleted = {line.split('"')[1]: int(line.split()[-1]) for line in answer.splitlines() if line.startswith("edgeprof_deleted_total{")}
    assert deleted["big_hours"] == 28 - hours and deleted["passes"] >= 1 and deleted["nodes"] > 1000, deleted
    assert server.stderr().count("--max-size: the database has") == 1


@pytest.mark.parametrize("arguments", [("--keep", "14"), ("--keep", "1m"), ("--keep", "soon"), ("--max-size", "4"),
                                       ("--max-size", "0G"), ("--max-size", "G")])
def test_wrong_option(cli, folder, arguments):
    cli.fails(2, arguments[0], "serve", "--db", os.path.join(folder, "wrong.db"), *arguments)


@pytest.mark.parametrize("setting", ["for = 0", "size = 5", "fine = x", "else = 1"])
def test_wrong_setting(cli, folder, setting):
    config = os.path.join(folder, "wrong")
    with open(config, "w") as file:
        file.write(f"[keep]\n{setting}\n")
    cli.fails(1, ":2:", "serve", "--config", config)
